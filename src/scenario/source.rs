//! Where the text of a scenario comes from: a file, or what was shipped.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use super::chart::Base;
use super::finding::Findings;
use super::lint::Known;
use super::near::suggest;
use super::read::{Scenario, read};
use super::shipped::{Shipped, shipped};

/// The largest file that is read, in bytes. A scenario has some thousand.
const LARGEST: u64 = 1 << 20;

/// The text of a scenario, not yet read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What findings call it.
    pub name: String,
    /// The text.
    pub text: Cow<'static, str>,
    base: Base,
}

/// There is no text.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It is neither a file nor shipped.
    #[error("`{argument}` is neither a file nor the name of a shipped scenario")]
    NotFound {
        /// What was asked for.
        argument: String,
    },
    /// The file cannot be read.
    #[error("{path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no scenario.
    #[error("{path} has {bytes} bytes, and a scenario at most {LARGEST}", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
}

impl SourceError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { argument } => {
                let names: Vec<&str> = shipped().iter().map(|shipped| shipped.name).collect();
                Some(suggest(argument, &names, "shipped scenarios"))
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::InvalidData => {
                Some("write it as UTF-8".to_owned())
            }
            Self::Io { .. } => None,
            Self::TooLarge { .. } => Some("name the file of a scenario".to_owned()),
        }
    }
}

impl Source {
    /// The file at a path, or else the shipped scenario of this name.
    ///
    /// # Errors
    ///
    /// [`SourceError`] when there is neither, or the file cannot be read.
    pub fn open(argument: &str) -> Result<Self, SourceError> {
        let path = Path::new(argument);
        let failed = |source| SourceError::Io {
            path: path.to_owned(),
            source,
        };
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let shipped = shipped().iter().find(|shipped| shipped.name == argument);
                return shipped
                    .map(Self::from)
                    .ok_or_else(|| SourceError::NotFound {
                        argument: argument.to_owned(),
                    });
            }
            Err(error) => return Err(failed(error)),
        };
        if metadata.len() > LARGEST {
            return Err(SourceError::TooLarge {
                path: path.to_owned(),
                bytes: metadata.len(),
            });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok(Self {
            name: argument.to_owned(),
            text: text.into(),
            base: Base::Folder(folder.to_owned()),
        })
    }

    /// Reads the scenario.
    ///
    /// # Errors
    ///
    /// As [`read`].
    pub fn read(&self, known: &Known<'_>) -> Result<Scenario, Findings> {
        read(&self.name, &self.text, &self.base, known)
    }
}

impl From<&Shipped> for Source {
    fn from(shipped: &Shipped) -> Self {
        Self {
            name: shipped.name.to_owned(),
            text: Cow::Borrowed(shipped.text),
            base: Base::Shipped,
        }
    }
}
