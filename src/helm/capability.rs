//! What differs between the majors of Helm, as a table (`prior-art.md` 1.4).

use std::fmt;

/// A major version of Helm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Major {
    /// Helm 3.
    Three,
    /// Helm 4.
    Four,
}

impl Major {
    /// The major of a version as Helm tells it. Helms that were built by hand tell odd ones, such as
    /// `v4.3+unreleased`, so only the first number is looked at.
    pub(super) fn of_version(version: &str) -> Option<Result<Self, u64>> {
        let digits = version.strip_prefix('v')?.split('.').next()?;
        let number: u64 = digits.parse().ok()?;
        Some(match number {
            3 => Ok(Self::Three),
            4 => Ok(Self::Four),
            other => Err(other),
        })
    }

    /// 3 or 4.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Three => 3,
            Self::Four => 4,
        }
    }

    /// What this major can do, and how it is told to.
    #[must_use]
    pub fn capabilities(self) -> &'static Capabilities {
        match self {
            Self::Three => &HELM_3,
            Self::Four => &HELM_4,
        }
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Helm {}", self.number())
    }
}

/// What one major can do. A flag that the other major has is an error there (`unknown flag`), so none
/// is given on a chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The major.
    pub major: Major,
    /// Waits until objects are ready, or gone. In Helm 4 a strategy, whose default waits for hooks only.
    pub wait: &'static str,
    /// Rolls a failed install or upgrade back.
    pub roll_back_on_failure: &'static str,
    /// Whether it applies on the server's side, with field managers and conflicts (`--server-side`,
    /// `--force-conflicts`).
    pub server_side_apply: bool,
}

const HELM_3: Capabilities = Capabilities {
    major: Major::Three,
    wait: "--wait",
    roll_back_on_failure: "--atomic",
    server_side_apply: false,
};

const HELM_4: Capabilities = Capabilities {
    major: Major::Four,
    wait: "--wait=watcher",
    roll_back_on_failure: "--rollback-on-failure",
    server_side_apply: true,
};

/// Something was asked of a Helm that cannot do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{major} does not know {flag}")]
pub struct Unsupported {
    /// The major.
    pub major: Major,
    /// The flag that would have said it.
    pub flag: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn majors_are_told_from_odd_versions_too() {
        assert_eq!(Major::of_version("v3.22.0"), Some(Ok(Major::Three)));
        assert_eq!(Major::of_version("v4.3+unreleased"), Some(Ok(Major::Four)));
        assert_eq!(Major::of_version("v4"), Some(Ok(Major::Four)));
        assert_eq!(Major::of_version("v2.17.0"), Some(Err(2)));
        assert_eq!(Major::of_version("v40.1.0"), Some(Err(40)));
        for not_a_version in ["", "4.3.1", "vanilla", "Client: v2.17.0"] {
            assert_eq!(Major::of_version(not_a_version), None, "{not_a_version}");
        }
    }
}
