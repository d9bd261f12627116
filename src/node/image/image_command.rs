//! `IMAGE=COMMAND`, by which a user says what stands behind an image.

use std::str::FromStr;

use super::command::{CommandError, CommandTemplate};
use super::reference::{Reference, ReferenceError};

/// What a user gives for an image: `IMAGE=COMMAND`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageCommand {
    /// The image. One without tag and digest stands for all of its repository's.
    pub image: Reference,
    /// What runs for it.
    pub command: CommandTemplate,
}

/// Text that is not `IMAGE=COMMAND`.
#[derive(Debug, thiserror::Error)]
pub enum ImageCommandError {
    /// There is no `=`.
    #[error("`{0}` is not IMAGE=COMMAND")]
    NoCommand(String),
    /// What stands before the `=` is not an image.
    #[error(transparent)]
    Image(#[from] ReferenceError),
    /// What stands after the `=` cannot be run.
    #[error("cannot run a command for the image {image}")]
    Command {
        /// The image.
        image: String,
        /// Why.
        source: CommandError,
    },
}

impl ImageCommandError {
    /// The one thing to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoCommand(_) => Some(
                "write the image, `=` and the command, for example \
                 `example.com/app:v1=/usr/bin/app --port {port:8080}`"
                    .to_owned(),
            ),
            Self::Image(error) => error.hint(),
            Self::Command { source, .. } => source.hint(),
        }
    }
}

impl FromStr for ImageCommand {
    type Err = ImageCommandError;

    /// Splits at the first `=`, which no image reference can hold.
    fn from_str(text: &str) -> Result<Self, ImageCommandError> {
        let (image, command) = text
            .split_once('=')
            .ok_or_else(|| ImageCommandError::NoCommand(text.to_owned()))?;
        let image: Reference = image.trim().parse()?;
        let command = CommandTemplate::parse(command);
        let command = command.map_err(|source| ImageCommandError::Command {
            image: image.to_string(),
            source,
        })?;
        Ok(Self { image, command })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_and_its_command_are_split_at_the_first_equals_sign() {
        let parsed: ImageCommand = "localhost:5000/app:v1=/bin/sh -c A=b"
            .parse()
            .expect("both");
        assert_eq!(parsed.image.to_string(), "localhost:5000/app:v1");
        assert_eq!(
            parsed.command,
            CommandTemplate::parse("/bin/sh -c A=b").expect("a command")
        );
        for (text, words) in [
            ("app", "`app` is not IMAGE=COMMAND"),
            ("=x", "the image reference \"\" has no name"),
            (
                "app=",
                "cannot run a command for the image docker.io/library/app",
            ),
        ] {
            let error = text.parse::<ImageCommand>().expect_err(text);
            assert_eq!(error.to_string(), words);
            assert!(error.hint().is_some());
        }
    }
}
