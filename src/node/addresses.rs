//! Addresses of pods: each gets one of its own out of 198.18.0.0/15, which is set aside for tests of
//! network devices (RFC 2544) and leads nowhere.
//!
//! They are for the API server's eyes only; the processes of pods listen on the loopback address. That
//! one is refused in EndpointSlices, and the controller manager complains about it in Warnings.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

/// 198.18.0.0.
const FIRST: u32 = 0xc612_0000;
/// 198.19.255.255.
const LAST: u32 = 0xc613_ffff;

/// The addresses of one node's pods. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses(Arc<Mutex<Given>>);

#[derive(Debug, Default)]
struct Given {
    used: BTreeSet<u32>,
    last: u32,
}

/// An address, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Address {
    number: u32,
    pool: Addresses,
}

impl Addresses {
    /// An address that no other pod has, and that had been left alone for as long as possible.
    /// [`None`] when a hundred and thirty thousand pods have one each.
    pub(super) fn give(&self) -> Option<Address> {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = given.last.max(FIRST);
        for _ in FIRST..LAST {
            number = if number >= LAST { FIRST } else { number } + 1;
            // Some programs take 0 and 255 at the end for a network and a broadcast.
            if matches!(number & 0xff, 0 | 0xff) || !given.used.insert(number) {
                continue;
            }
            given.last = number;
            let pool = self.clone();
            return Some(Address { number, pool });
        }
        None
    }
}

impl Address {
    /// The address itself.
    pub(super) fn ip(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.number)
    }
}

impl Drop for Address {
    fn drop(&mut self) {
        let mut given = self.pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.used.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinct_and_not_reused_at_once() {
        let pool = Addresses::default();
        let all: Vec<Address> = (0..300).map(|_| pool.give().expect("one")).collect();
        let ips: BTreeSet<Ipv4Addr> = all.iter().map(Address::ip).collect();
        assert_eq!(ips.len(), 300);
        assert_eq!(all[0].ip(), Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(all[254].ip(), Ipv4Addr::new(198, 18, 1, 1));
        drop(all);
        let next = pool.give().expect("one");
        assert!(!ips.contains(&next.ip()));
    }

    #[test]
    fn the_end_of_the_network_is_followed_by_its_beginning() {
        let pool = Addresses::default();
        pool.0.lock().expect("not poisoned").last = LAST - 1;
        let ip = pool.give().expect("one").ip();
        assert_eq!(ip, Ipv4Addr::new(198, 18, 0, 1));
    }
}
