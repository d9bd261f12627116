//! Which hosts answer, and how long to wait for one.
//!
//! A machine without a network must not wait long for each host in turn: the first answer of a host
//! has a short deadline, and after one host was unreachable while none has answered, a shorter one.
//! A host that was unreachable is not asked again.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::source::Timeouts;

/// What one call of `ensure` has learnt of hosts.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    unreachable: HashMap<String, String>,
    answered: HashSet<String>,
}

impl Hosts {
    /// How long to wait for the head of an answer, connecting included.
    pub(super) fn patience(&self, host: &str, timeouts: &Timeouts) -> Duration {
        if self.answered.contains(host) {
            timeouts.connect + timeouts.stall
        } else if self.answered.is_empty() && !self.unreachable.is_empty() {
            timeouts.answer / 3
        } else {
            timeouts.answer
        }
    }

    /// Why the host was unreachable, if it was.
    pub(super) fn unreachable(&self, host: &str) -> Option<&str> {
        self.unreachable.get(host).map(String::as_str)
    }

    pub(super) fn failed(&mut self, host: String, why: String) {
        self.unreachable.insert(host, why);
    }

    pub(super) fn answered(&mut self, host: String) {
        self.answered.insert(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_network_waits_seconds_in_all() {
        let timeouts = Timeouts::default();
        let mut hosts = Hosts::default();
        let mut waited = Duration::ZERO;
        for host in ["github.com", "dl.k8s.io", "get.helm.sh"] {
            waited += hosts.patience(host, &timeouts);
            hosts.failed(host.to_owned(), String::new());
        }
        assert_eq!(waited, Duration::from_secs(5));
        // Whoever has answered may take its time, and shows that there is a network.
        hosts.answered("dl.k8s.io".to_owned());
        assert!(hosts.patience("dl.k8s.io", &timeouts) > timeouts.stall);
        assert_eq!(hosts.patience("mirror.example", &timeouts), timeouts.answer);
    }
}
