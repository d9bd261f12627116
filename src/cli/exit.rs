//! Exit codes, which scripts rely on, and the one place where an error becomes one.

use std::error::Error;
use std::process::ExitCode;

use crate::cluster::client::ClusterError;
use crate::error_chain::chain;
use crate::node::NodeError;
use crate::plane::PlaneError;
use crate::plane::binaries::{BinaryError, Source};
use crate::plane::registry::RegistryError;
use crate::record::FolderError;
use crate::run::RunError;

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

impl Exit {
    /// All of them; the first that applies is the one that counts.
    const BY_WEIGHT: [Self; 7] = [
        Self::Interrupted,
        Self::CouldNotRun,
        Self::Input,
        Self::Fail,
        Self::Invalid,
        Self::NotProven,
        Self::Pass,
    ];

    /// The one of this number; what nobody knows is that something could not be run.
    pub(crate) fn of(code: u8) -> Self {
        let known = Self::BY_WEIGHT.into_iter().find(|exit| *exit as u8 == code);
        known.unwrap_or(Self::CouldNotRun)
    }

    /// What several of them come to.
    pub(crate) fn heaviest(exits: &[Self]) -> Self {
        let heaviest = Self::BY_WEIGHT
            .into_iter()
            .find(|exit| exits.contains(exit));
        heaviest.unwrap_or(Self::Pass)
    }
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

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let hint = error.hint();
        Self::new(Exit::of(error.exit()), &error, hint)
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        let exit = match &error {
            FolderError::NotARun { .. } | FolderError::Newer { .. } | FolderError::Name { .. } => {
                Exit::Input
            }
            _ => Exit::CouldNotRun,
        };
        let hint = error.hint();
        Self::new(exit, &error, hint)
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let exit = match &error {
            ClusterError::Proxy { .. } => Exit::CouldNotRun,
            _ => Exit::Input,
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
    fn several_come_to_the_one_that_matters_most() {
        let heaviest = |codes: &[u8]| {
            let exits: Vec<Exit> = codes.iter().copied().map(Exit::of).collect();
            Exit::heaviest(&exits) as u8
        };
        assert_eq!(heaviest(&[]), 0);
        assert_eq!(heaviest(&[0, 3, 1, 0]), 1);
        assert_eq!(heaviest(&[1, 4, 2]), 4);
        assert_eq!(heaviest(&[4, 130]), 130);
        // A number that nobody knows is no success.
        assert_eq!(heaviest(&[77]), 4);
    }

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
