//! An error and what caused it, in words.

use std::error::Error;
use std::io;
use std::iter;

/// A chain of errors longer than this is a circle.
const LONGEST: usize = 32;

/// The error and what caused it, from the outside in.
///
/// An [`io::Error`] made from another error passes over it to that error's own cause, so it is
/// unwrapped by hand.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |error| cause(*error)).take(LONGEST)
}

fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

/// The whole story, from the outside in. A cause that the text before it already contains is left
/// out.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = String::new();
    for cause in causes(error) {
        let cause = cause.to_string();
        if words.contains(&cause) {
            continue;
        }
        if !words.is_empty() {
            words.push_str(": ");
        }
        words.push_str(&cause);
    }
    words
}

/// The cause that the operating system, TLS or a parser gave; the layers above only say where it was
/// noticed.
#[must_use]
pub fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open x: {0}")]
    struct Outer(#[source] io::Error);

    #[test]
    fn a_cause_is_told_once() {
        let error = Outer(io::Error::other("no luck"));
        assert_eq!(chain(&error), "cannot open x: no luck");
    }

    #[test]
    fn the_innermost_cause_is_found_inside_io_errors() {
        let inner = Outer(io::Error::from_raw_os_error(2));
        let error = io::Error::other(io::Error::other(inner));
        assert_eq!(innermost(&error), "No such file or directory (os error 2)");
    }
}
