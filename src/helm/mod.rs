//! Helm 3 and 4 as programs, their release records, and the charts they install.
//!
//! A [`Helm`] is one program whose major version is known; what differs between the majors is a table
//! ([`Capabilities`]). Each of its runs ends, is judged by its exit code and its words ([`failure`]) and
//! leaves a transcript. [`records`] reads what Helm stored in a cluster, from Secrets that somebody
//! else fetched. A [`Chart`] is a copy of the very files that are installed, every time; [`diff()`] tells
//! what differs between two of them.
//!
//! The room knows no client of a cluster. YAML is read the way Helm reads it, and values are taken from
//! Helm itself.

mod args;
mod capability;
mod chart;
pub mod diff;
pub mod embedded;
mod error;
pub mod failure;
mod objects;
mod oci;
mod process;
mod program;
pub mod records;
mod transcript;
mod yaml;

pub use self::args::MoveOptions;
pub use self::capability::{Capabilities, Major, Unsupported};
pub use self::chart::{Chart, ChartError, DefinitionError, TreeError};
pub use self::diff::{ChartDiff, DefinitionDiff, definitions as diff_definitions, objects as diff};
pub use self::error::HelmError;
pub use self::objects::identity;
pub use self::oci::{OciError, OciTrouble};
pub use self::program::{Helm, HelmSettings, ReleaseRef, Rendered};
pub use self::yaml::YamlError;
