//! Faults that a pod asks for by annotation, so that a scenario can have a bad node, image or
//! program without one.
//!
//! An annotation that cannot be read is ignored, and told by a Warning on the pod.

use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::SignedDuration;

use super::container::COMPLETES_AFTER;

/// Begins the name of every fault, and of [`COMPLETES_AFTER`], which is none.
pub(super) const PREFIX: &str = "node.aibom-qual.dev/";
/// No fault is meant to last longer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The faults of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Faults {
    /// `never-ready: "true"`: its containers never count as ready.
    pub(super) never_ready: bool,
    /// `slow-start: 20s`: its images take this long to be pulled.
    pub(super) slow_start: Option<Duration>,
    /// `crash-after: 5s`: its containers are killed this long after each start.
    pub(super) crash_after: Option<Duration>,
    /// `image-pull: fail`: its images cannot be pulled.
    pub(super) image_pull_fails: bool,
    /// `silence: 90s`: once its first container runs, the node is not heard of for this long.
    pub(super) silence: Option<Duration>,
    /// `slow-termination: 10s`: its containers are asked to end this much later, as by a hook that
    /// sleeps.
    pub(super) slow_termination: Option<Duration>,
}

/// An annotation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    name: String,
    value: String,
    expected: &'static str,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            value,
            expected,
        } = self;
        write!(
            f,
            "Annotation {PREFIX}{name}={value:?} is ignored: {expected}"
        )
    }
}

impl Faults {
    /// The faults that a pod asks for now, and what of its annotations cannot be read.
    pub(super) fn of(pod: &Pod) -> (Self, Vec<Unreadable>) {
        let mut faults = Self::default();
        let mut unreadable = Vec::new();
        for (name, value) in pod.metadata.annotations.iter().flatten() {
            let Some(name) = name
                .strip_prefix(PREFIX)
                .filter(|_| name != COMPLETES_AFTER)
            else {
                continue;
            };
            if let Err(expected) = faults.set(name, value) {
                unreadable.push(Unreadable {
                    name: name.to_owned(),
                    value: value.clone(),
                    expected,
                });
            }
        }
        (faults, unreadable)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "never-ready" => self.never_ready = flag(value)?,
            "slow-start" => self.slow_start = Some(duration(value)?),
            "crash-after" => self.crash_after = Some(duration(value)?),
            "image-pull" if value == "fail" => self.image_pull_fails = true,
            "image-pull" => return Err("the only value is \"fail\""),
            "silence" => self.silence = Some(duration(value)?),
            "slow-termination" => self.slow_termination = Some(duration(value)?),
            _ => return Err("there is no such fault"),
        }
        Ok(())
    }
}

fn flag(value: &str) -> Result<bool, &'static str> {
    value
        .parse()
        .map_err(|_| "the values are \"true\" and \"false\"")
}

fn duration(value: &str) -> Result<Duration, &'static str> {
    let parsed: SignedDuration = value
        .parse()
        .map_err(|_| "write a number with its unit, for example 20s or 2m")?;
    match Duration::try_from(parsed) {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) => Err("no more than 24 hours"),
        Err(_) => Err("a duration cannot be negative"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(annotations: &[(&str, &str)]) -> (Faults, Vec<String>) {
        let mut pod = Pod::default();
        let named = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pod.metadata.annotations = Some(annotations.iter().map(named).collect());
        let (faults, unreadable) = Faults::of(&pod);
        (faults, unreadable.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_fault_is_read() {
        let (faults, unreadable) = read(&[
            ("node.aibom-qual.dev/never-ready", "true"),
            ("node.aibom-qual.dev/slow-start", "20s"),
            ("node.aibom-qual.dev/crash-after", "5s"),
            ("node.aibom-qual.dev/image-pull", "fail"),
            ("node.aibom-qual.dev/silence", "1m 30s"),
            ("node.aibom-qual.dev/slow-termination", "500ms"),
            ("node.aibom-qual.dev/completes-after", "1s"),
            ("somebody.else/never-ready", "perhaps"),
        ]);
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let expected = Faults {
            never_ready: true,
            slow_start: seconds(20),
            crash_after: seconds(5),
            image_pull_fails: true,
            silence: seconds(90),
            slow_termination: Some(Duration::from_millis(500)),
        };
        assert_eq!((faults, unreadable), (expected, Vec::new()));
    }

    #[test]
    fn what_cannot_be_read_is_told_and_ignored() {
        for (name, value, told) in [
            ("never-ready", "yes", "the values are"),
            ("silence", "90", "write a number with its unit"),
            ("silence", "-5s", "cannot be negative"),
            ("silence", "100000h", "no more than 24 hours"),
            ("image-pull", "slow", "the only value"),
            ("nver-ready", "true", "there is no such fault"),
        ] {
            let (faults, unreadable) = read(&[(&format!("{PREFIX}{name}"), value)]);
            assert_eq!(faults, Faults::default(), "{name}={value}");
            let [message] = unreadable.as_slice() else {
                panic!("{name}={value}: {unreadable:?}");
            };
            assert!(message.contains(told), "{message}");
            assert!(message.contains(&format!("{PREFIX}{name}={value:?}")));
        }
    }
}
