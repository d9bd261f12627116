//! Free TCP ports on the loopback address.
//!
//! Asking the kernel for "any free port" gives one out of the ephemeral range, where an outgoing
//! connection of any program can take it between the question and the use. So ports come from below
//! that range, at random, because two planes may start at the same moment. Nothing can reserve a port
//! for a child process: a component may still find it taken, and its owner then asks for another one.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The lowest port that is given out; below it lie the registered ports of well-known services.
const LOWEST: u16 = 20_000;
/// The highest port when the ephemeral range is unknown or leaves no room: Linux's default begins
/// right above.
const HIGHEST: u16 = 32_767;
/// Fewer ports than this between [`LOWEST`] and the ephemeral range are not worth drawing from.
const ENOUGH: u16 = 1_000;
/// Draws before giving up. Even with nine of ten ports taken, all of them fail less than once in 10^23 times.
const TRIES: u32 = 512;

/// No free port was found.
#[derive(Debug, thiserror::Error)]
#[error("found no free port on 127.0.0.1 between {low} and {high} in {tries} tries")]
pub struct PortError {
    low: u16,
    high: u16,
    tries: u32,
}

impl PortError {
    /// The one thing to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(format!(
            "stop what listens on 127.0.0.1 between {} and {} (`ss -ltn` lists it)",
            self.low, self.high
        ))
    }
}

/// Gives out ports, each to one holder at a time within this process.
#[derive(Debug)]
pub struct PortPicker {
    range: RangeInclusive<u16>,
    suggested: Mutex<VecDeque<u16>>,
}

impl Default for PortPicker {
    fn default() -> Self {
        Self::new()
    }
}

impl PortPicker {
    /// A picker that stays below this machine's ephemeral range.
    #[must_use]
    pub fn new() -> Self {
        let setting = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        Self {
            range: below_ephemeral(setting.ok().as_deref()),
            suggested: Mutex::default(),
        }
    }

    /// Proposes ports that are handed out first, in this order and without a look at whether they
    /// are free. It lets a test see what happens when a port is taken after all.
    pub fn suggest(&self, ports: impl IntoIterator<Item = u16>) {
        lock(&self.suggested).extend(ports);
    }

    /// A port that was free a moment ago and that nobody in this process holds. One that somebody
    /// held before comes only when no other is found, the one that rests longest first.
    ///
    /// # Errors
    ///
    /// [`PortError`] when a bounded number of draws found none.
    pub fn next(&self) -> Result<u16, PortError> {
        if let Some(port) = lock(&self.suggested).pop_front() {
            lock(given()).drawn.insert(port);
            return Ok(port);
        }
        let (low, high) = (*self.range.start(), *self.range.end());
        for _ in 0..TRIES {
            let port = draw(low, high);
            // Marked before the test, so that two threads never test, and then give out, one port.
            if lock(given()).drawn.insert(port) {
                if is_free(port) {
                    return Ok(port);
                }
                lock(given()).drawn.remove(&port);
            }
        }
        let mut given = lock(given());
        let mut rested = given.resting.iter();
        let found = rested.position(|port| self.range.contains(port) && is_free(*port));
        if let Some(port) = found.and_then(|place| given.resting.remove(place)) {
            return Ok(port);
        }
        Err(PortError {
            low,
            high,
            tries: TRIES,
        })
    }
}

/// Takes back ports that nobody needs any more.
pub(crate) fn release(ports: impl IntoIterator<Item = u16>) {
    lock(given()).resting.extend(ports);
}

/// Whether a server could listen on this port of 127.0.0.1 at this moment.
///
/// The test binds the very address that the server will use: a port that is free on all addresses
/// together says nothing about this one.
#[must_use]
pub fn is_free(port: u16) -> bool {
    port != 0 && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// The ports of this process.
#[derive(Debug, Default)]
struct Given {
    /// All that were ever given out.
    drawn: HashSet<u16>,
    /// Those of them that nobody holds any more, in the order of their return.
    resting: VecDeque<u16>,
}

fn given() -> &'static Mutex<Given> {
    static GIVEN: OnceLock<Mutex<Given>> = OnceLock::new();
    GIVEN.get_or_init(Mutex::default)
}

/// Sets and queues of numbers stay sound when a thread panics while it holds them.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port between both ends. [`RandomState`] is seeded by the operating system and differs at each
/// call, which is all the randomness that spreading ports needs.
fn draw(low: u16, high: u16) -> u16 {
    let span = u64::from(high.saturating_sub(low)) + 1;
    let offset = RandomState::new().build_hasher().finish() % span;
    low.saturating_add(u16::try_from(offset).unwrap_or(0))
}

/// The ports to draw from, given the kernel's setting (`LOW HIGH`).
fn below_ephemeral(setting: Option<&str>) -> RangeInclusive<u16> {
    let lower_end = setting
        .and_then(|text| text.split_ascii_whitespace().next())
        .and_then(|low| low.parse::<u16>().ok());
    match lower_end {
        Some(low) if low > LOWEST.saturating_add(ENOUGH) => LOWEST..=low - 1,
        // The whole machine was given to outgoing connections, or its setting cannot be read. What is
        // left is the retry of whoever finds a port taken.
        _ => LOWEST..=HIGHEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_below_the_ephemeral_range() {
        assert_eq!(below_ephemeral(Some("32768\t60999\n")), 20_000..=32_767);
        assert_eq!(below_ephemeral(Some("49152 65535")), 20_000..=49_151);
        assert_eq!(below_ephemeral(Some("1024 65535")), 20_000..=32_767);
        assert_eq!(below_ephemeral(Some("unreadable")), 20_000..=32_767);
        assert_eq!(below_ephemeral(None), 20_000..=32_767);
    }

    #[test]
    fn never_gives_a_port_twice_even_across_pickers() {
        let (one, two) = (PortPicker::new(), PortPicker::new());
        let mut seen = HashSet::new();
        for _ in 0..100 {
            for picker in [&one, &two] {
                let port = picker.next().expect("a free port");
                assert!(picker.range.contains(&port));
                assert!(seen.insert(port), "{port} was given twice");
            }
        }
    }

    #[test]
    fn a_taken_port_is_not_free_and_is_not_given() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let port = held.local_addr().expect("its address").port();
        assert!(!is_free(port));
        let picker = PortPicker {
            range: port..=port,
            suggested: Mutex::default(),
        };
        let error = picker.next().expect_err("its only port is taken");
        assert!(error.to_string().contains(&port.to_string()));
    }

    #[test]
    fn ports_come_back_oldest_first_when_all_others_are_held() {
        // Registered ports, which no other test draws.
        let range = 19_990..=19_991;
        let picker = PortPicker {
            range: range.clone(),
            suggested: Mutex::default(),
        };
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 19_990)).expect("a free port");
        assert_eq!(picker.next().expect("the free one"), 19_991);
        picker.next().expect_err("one is taken and one is held");
        drop(held);
        assert_eq!(picker.next().expect("busy once, not for ever"), 19_990);
        release([19_991, 19_990]);
        let again = [picker.next(), picker.next()].map(|port| port.expect("a port"));
        assert_eq!(again, [19_991, 19_990]);
        picker.next().expect_err("both are held");
        release(range);
    }

    #[test]
    fn suggestions_come_first_and_untested() {
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
        let port = held.local_addr().expect("its address").port();
        let picker = PortPicker::new();
        picker.suggest([port]);
        assert_eq!(picker.next().expect("the suggestion"), port);
        assert_ne!(picker.next().expect("a free port"), port);
    }

    #[test]
    fn both_ends_of_the_range_are_drawn() {
        let drawn: HashSet<u16> = (0..200).map(|_| draw(7, 8)).collect();
        assert_eq!(drawn, HashSet::from([7, 8]));
    }
}
