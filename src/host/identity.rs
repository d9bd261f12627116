//! Who a process is: its number *and* its start time, so that a recycled number is never mistaken
//! for the process that was recorded.

use std::fs;

use serde::{Deserialize, Serialize};

/// Identifies one process on one boot of one machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The process number.
    pub pid: u32,
    /// Clock ticks between the machine's boot and the process's start (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
    /// The machine's boot, since both numbers above repeat after a restart.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// The identity of a running process; `None` when there is none, or it is a zombie.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Self::read(pid)
            .filter(|(state, _)| !matches!(state, 'Z' | 'X'))
            .map(|(_, identity)| identity)
    }

    /// The identity of a child that this process has not waited for yet. It may already be a zombie:
    /// until it is waited for, its number cannot be reused.
    #[must_use]
    pub fn of_unreaped_child(pid: u32) -> Option<Self> {
        Self::read(pid).map(|(_, identity)| identity)
    }

    fn read(pid: u32) -> Option<(char, Self)> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_ticks) = parse_stat(&stat)?;
        Some((
            state,
            Self {
                pid,
                start_ticks,
                boot_id: boot_id(),
            },
        ))
    }

    /// The identity of this very process.
    #[must_use]
    pub fn current() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// Whether exactly this process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }
}

/// State letter and start time. The command name (field 2) may itself hold spaces and parentheses,
/// so that fields are counted from the last closing one.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let after = stat.rsplit_once(')')?.1;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // `state` is field 3; the start time is field 22, hence 18 fields lie between them.
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0";
        assert_eq!(parse_stat(stat), Some(('S', 4242)));
    }

    #[test]
    fn another_start_time_is_another_process() {
        let me = ProcessIdentity::current().expect("this process runs");
        assert!(me.is_alive());
        let recycled = ProcessIdentity {
            start_ticks: me.start_ticks + 1,
            ..me
        };
        assert!(!recycled.is_alive());
    }
}
