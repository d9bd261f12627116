//! The model of watches at rest (`qualification.md` STS-06, `design.md` 7).
//!
//! An informer's watch ends after a time that is drawn anew for each one, uniformly and in whole
//! seconds, and the next begins with a GET. So the GETs of a window are reconnects, and how many there
//! may be depends on how many informers there are, on how long the window is, and on how long before it
//! the process began: all watches begin together, and only drift apart over an hour.
//!
//! The distribution is computed, not simulated: in steps of a second, by convolution.

use std::ops::{Range, RangeInclusive};

/// After this many seconds a process's start is forgotten, and all phases are alike.
const FORGOTTEN: u64 = 20_000;
/// How much of the distribution lies below the band, and as much above it: together 1 %.
const TAIL: f64 = 0.005;
/// What is less probable than this is a rounding error.
const NEVER: f64 = 1e-12;

/// How many reconnects there are in a window, as a distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconnects {
    /// The probability of each count, from 0.
    probability: Vec<f64>,
    possible: RangeInclusive<u64>,
}

impl Reconnects {
    /// Of this many informers, in a window of this length that begins this long after the start of the
    /// process, all in seconds; `timeout` is how long a watch lasts.
    #[must_use]
    pub fn new(informers: u64, phase: u64, window: u64, timeout: &Range<u64>) -> Self {
        let one = of_one(phase.min(FORGOTTEN), window, timeout);
        let mut probability = vec![1.0];
        for _ in 0..informers {
            probability = sum_of_both(&probability, &one);
        }
        let certain = |found: Option<usize>| found.unwrap_or_default() as u64;
        let least = certain(one.iter().position(|chance| *chance > NEVER));
        let most = certain(one.iter().rposition(|chance| *chance > NEVER));
        Self {
            probability,
            possible: informers * least..=informers * most,
        }
    }

    /// The counts that can be at all.
    #[must_use]
    pub fn possible(&self) -> RangeInclusive<u64> {
        self.possible.clone()
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let counts = self.probability.iter().enumerate();
        counts.map(|(count, chance)| count as f64 * chance).sum()
    }

    /// The counts that are not in the half per cent at either end.
    #[must_use]
    pub fn band(&self) -> RangeInclusive<u64> {
        let mut below = 0.0;
        let mut low = None;
        let mut high = 0;
        for (count, chance) in (0..).zip(&self.probability) {
            below += chance;
            if low.is_none() && below > TAIL {
                low = Some(count);
            }
            high = count;
            if 1.0 - below <= TAIL {
                break;
            }
        }
        low.unwrap_or_default()..=high
    }

    /// How probable it is that this many further GETs bring the count above `limit`.
    #[must_use]
    pub fn power(&self, further: u64, limit: u64) -> f64 {
        let counts = (0u64..).zip(&self.probability);
        counts
            .filter(|(count, _)| count + further > limit)
            .map(|(_, chance)| chance)
            .sum()
    }
}

/// The distribution for one informer.
fn of_one(phase: u64, window: u64, timeout: &Range<u64>) -> Vec<f64> {
    let renewals = renewals(phase, timeout);
    let (phase, window) = (phase as usize, window as usize);
    // When the first reconnect of the window comes: a watch that began at some second of the phase and
    // lasts beyond it.
    let begun = Cumulative::of(&renewals);
    let mut next: Vec<f64> = (0..=window)
        .map(|second| match second {
            0 => 0.0,
            _ => begun.ended_at(phase + second, timeout),
        })
        .collect();
    let mut at_least = vec![1.0];
    loop {
        let chance: f64 = next.iter().sum();
        if chance <= NEVER {
            break;
        }
        at_least.push(chance);
        let before = Cumulative::of(&next);
        next = (0..=window)
            .map(|second| before.ended_at(second, timeout))
            .collect();
    }
    at_least.push(0.0);
    let pairs = at_least.windows(2);
    pairs.map(|pair| pair[0] - pair[1]).collect()
}

/// The probability that a watch begins in each second from the start of the process on.
fn renewals(phase: u64, timeout: &Range<u64>) -> Vec<f64> {
    let mut begun = Cumulative::of(&[1.0]);
    let mut renewals = vec![1.0];
    for second in 1..=phase as usize {
        let chance = begun.ended_at(second, timeout);
        renewals.push(chance);
        begun.push(chance);
    }
    renewals
}

/// Sums of probabilities up to each second.
struct Cumulative(Vec<f64>);

impl Cumulative {
    fn of(chances: &[f64]) -> Self {
        let mut sums = Self(vec![0.0]);
        for chance in chances {
            sums.push(*chance);
        }
        sums
    }

    fn push(&mut self, chance: f64) {
        let last = self.0.last().copied().unwrap_or_default();
        self.0.push(last + chance);
    }

    /// The probability that a watch which began at one of the seconds ends at this one.
    fn ended_at(&self, second: usize, timeout: &Range<u64>) -> f64 {
        let (shortest, limit) = (timeout.start as usize, timeout.end as usize);
        let known = self.0.len() - 1;
        let from = (second + 1).saturating_sub(limit).min(known);
        let to = (second + 1).saturating_sub(shortest).min(known);
        if to <= from {
            return 0.0;
        }
        (self.0[to] - self.0[from]) / (limit - shortest) as f64
    }
}

fn sum_of_both(one: &[f64], other: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; one.len() + other.len() - 1];
    for (index, chance) in one.iter().enumerate() {
        for (offset, also) in other.iter().enumerate() {
            sum[index + offset] += chance * also;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Range<u64> = 300..600;
    /// Late enough for any phase.
    const LATE: u64 = 20_000;

    fn nine(phase: u64, window: u64) -> Reconnects {
        Reconnects::new(9, phase, window, &TIMEOUT)
    }

    /// How often an extra list per minute shows.
    fn power(phase: u64, window: u64) -> f64 {
        let model = nine(phase, window);
        model.power(window / 60, *model.band().end())
    }

    #[track_caller]
    fn near(found: f64, wanted: f64, tolerance: f64) {
        assert!(
            (found - wanted).abs() <= tolerance,
            "{found} is not {wanted}"
        );
    }

    #[test]
    fn the_documented_window_has_the_documented_band() {
        let early = nine(30, 935);
        near(early.mean(), 15.3, 0.05);
        assert_eq!(early.band(), 12..=18);
        assert_eq!(early.possible(), 9..=27);
        let late = nine(LATE, 935);
        near(late.mean(), 18.7, 0.05);
        assert_eq!(late.band(), 15..=22);
    }

    #[test]
    fn the_band_depends_on_the_phase() {
        // The band of a window 30 s after the start, used 100 s after it.
        let model = nine(100, 935);
        let inside: f64 = model.probability[12..=18].iter().sum();
        near(1.0 - inside, 0.037, 0.005);
        assert_eq!(model.band(), 13..=19);
    }

    #[test]
    fn short_windows_prove_nothing() {
        near(power(LATE, 60), 0.02, 0.01);
        near(power(LATE, 120), 0.07, 0.01);
        near(power(LATE, 300), 0.87, 0.02);
        near(power(LATE, 600), 1.0, 0.005);
        near(power(LATE, 935), 1.0, 0.005);
        near(power(100, 935), 1.0, 0.005);
    }

    #[test]
    fn nothing_reconnects_before_the_first_timeout() {
        let model = nine(100, 199);
        assert_eq!(model.possible(), 0..=0);
        assert_eq!(model.band(), 0..=0);
        near(model.power(1, 0), 1.0, 1e-9);
    }

    #[test]
    fn it_is_a_distribution() {
        for (phase, window) in [(0, 1), (30, 935), (299, 301), (1_000, 60), (LATE, 7_200)] {
            let model = nine(phase, window);
            near(model.probability.iter().sum(), 1.0, 1e-9);
            let (low, high) = model.band().into_inner();
            assert!(low <= high && high <= *model.possible().end());
        }
        near(nine(LATE, 4_500).mean(), 9.0 * 4_500.0 / 449.5, 0.1);
        assert_eq!(Reconnects::new(0, 30, 935, &TIMEOUT).band(), 0..=0);
    }

    #[test]
    fn a_simulation_agrees() {
        const RUNS: u64 = 4_000;
        let mut state = 7u64;
        // SplitMix64.
        let mut draw = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = state;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            300 + (mixed ^ (mixed >> 31)) % 300
        };
        let (phase, window) = (100, 935);
        let mut counts = vec![0u64; 40];
        for _ in 0..RUNS {
            let mut count = 0;
            for _ in 0..9 {
                let mut time = draw();
                while time <= phase + window {
                    count += usize::from(time > phase);
                    time += draw();
                }
            }
            counts[count] += 1;
        }
        let model = nine(phase, window);
        for (count, chance) in model.probability.iter().enumerate().take(counts.len()) {
            near(counts[count] as f64 / RUNS as f64, *chance, 0.03);
        }
    }
}
