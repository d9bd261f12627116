//! Exit codes, which scripts rely on, and the one place where an error becomes one.

use std::error::Error;
use std::process::ExitCode;

use crate::error_chain::chain;
use crate::node::NodeError;
use crate::plane::PlaneError;
use crate::plane::binaries::{BinaryError, Source};
use crate::plane::registry::RegistryError;

/// The exit codes of every verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done; all gates passed.
    Pass = 0,
    /// At least one gate failed.
    Fail = 1,
    /// The input is at fault: usage, scenario, chart, file.
    Input = 2,
    /// The measurement is not sound; no verdict is given.
    Invalid = 3,
    /// Could not run: cluster, helm, plane or disk refused.
    CouldNotRun = 4,
    /// A comparison proved nothing, or the runs cannot be compared.
    NotProven = 5,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error on its way to a person: its text, what to do, and the exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// The whole chain of causes, one sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    /// An error with its causes.
    #[must_use]
    pub fn new(exit: Exit, error: &(dyn Error + 'static), hint: Option<String>) -> Self {
        Self {
            exit,
            message: chain(error),
            hint,
        }
    }

    /// The input is at fault.
    #[must_use]
    pub fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            exit: Exit::Input,
            message: message.into(),
            hint: Some(hint.into()),
        }
    }
}

impl From<PlaneError> for Failure {
    fn from(error: PlaneError) -> Self {
        let exit = match &error {
            PlaneError::Interrupted => Exit::Interrupted,
            PlaneError::Registry(RegistryError::BadName(_) | RegistryError::NotFound(_)) => {
                Exit::Input
            }
            // What the user named is not what was asked for; nothing else was tried.
            PlaneError::Binary(
                BinaryError::MissingInDir { .. }
                | BinaryError::Unusable {
                    from: Source::Explicit,
                    ..
                }
                | BinaryError::Mirror { .. }
                | BinaryError::KubernetesTooOld { .. },
            ) => Exit::Input,
            _ => Exit::CouldNotRun,
        };
        let hint = error.hint();
        Self::new(exit, &error, hint)
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        let hint = error.hint();
        Self::new(Exit::CouldNotRun, &error, hint)
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        PlaneError::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_the_documented_ones() {
        let codes = [
            Exit::Pass,
            Exit::Fail,
            Exit::Input,
            Exit::Invalid,
            Exit::CouldNotRun,
            Exit::NotProven,
            Exit::Interrupted,
        ];
        assert_eq!(codes.map(|exit| exit as u8), [0, 1, 2, 3, 4, 5, 130]);
    }
}
