//! Numbers, times and names in words.

use chrono::{DateTime, Utc};

use crate::record::grouped;

/// So many names are listed; of the rest only the number is told.
const NAMES: usize = 20;
/// So many digits of a digest tell it from others.
const DIGITS: usize = 12;

/// `1 AIBOM`, `1,002 AIBOMs`.
pub(super) fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// `1,002/1,002`.
pub(super) fn of(number: u64, all: u64) -> String {
    format!("{}/{}", grouped(number), grouped(all))
}

/// Seconds: `2.1 s`, `935 s`.
pub(super) fn seconds(seconds: f64) -> String {
    if seconds < 99.95 {
        format!("{seconds:.1} s")
    } else {
        format!("{seconds:.0} s")
    }
}

/// A length of time that a person waits: `41.0 s`, `33 min 57 s`.
pub(super) fn duration(length: f64) -> String {
    let whole = length.max(0.0).round() as u64;
    if whole < 120 {
        seconds(length)
    } else if whole < 7200 {
        format!("{} min {} s", whole / 60, whole % 60)
    } else {
        format!("{} h {} min", whole / 3600, whole % 3600 / 60)
    }
}

/// `93.4 MiB`.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// `17:25:03`, with the day where it is not that of the run's start.
pub(super) fn time(at: DateTime<Utc>, start: DateTime<Utc>) -> String {
    let format = if at.date_naive() == start.date_naive() {
        "%H:%M:%S"
    } else {
        "%m-%d %H:%M:%S"
    };
    at.format(format).to_string()
}

/// `2026-09-29 17:18:05 UTC`.
pub(super) fn date(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The first digits of a digest in hex, with or without a prefix.
pub(super) fn digest(hex: &str) -> String {
    let hex = hex.strip_prefix("sha256:").unwrap_or(hex);
    match hex.get(..DIGITS) {
        Some(start) if hex.len() > DIGITS => format!("sha256:{start}…"),
        _ => format!("sha256:{hex}"),
    }
}

/// What tells an image from the one before it: its digest, or its tag.
pub(super) fn image(reference: &str) -> String {
    if let Some((_, hex)) = reference.rsplit_once("@sha256:") {
        return digest(hex);
    }
    let name = reference.rsplit('/').next().unwrap_or(reference);
    match name.rsplit_once(':') {
        Some((_, tag)) => format!("tag {tag}"),
        None => name.to_owned(),
    }
}

/// `a, b and 980 more`.
pub(super) fn names<T: ToString>(names: &[T]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES).map(T::to_string).collect();
    let mut text = shown.join(", ");
    if let Some(more) = names.len().checked_sub(NAMES).filter(|more| *more > 0) {
        text.push_str(&format!(" and {} more", grouped(more as u64)));
    }
    text
}

/// `4`, `4, 5 and 8`.
pub(super) fn enumerated(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match texts.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_have_their_units() {
        assert_eq!(
            [0, 999, 1_002, 1_234_567].map(grouped),
            ["0", "999", "1,002", "1,234,567"]
        );
        assert_eq!(counted(1, "AIBOM"), "1 AIBOM");
        assert_eq!(counted(0, "AIBOM"), "0 AIBOMs");
        assert_eq!(
            [2.14, 99.96, 934.6].map(seconds),
            ["2.1 s", "100 s", "935 s"]
        );
        assert_eq!(
            [41.0, 2_037.2, 9_000.0].map(duration),
            ["41.0 s", "33 min 57 s", "2 h 30 min"]
        );
        assert_eq!(mebibytes(97_936_998), "93.4 MiB");
    }

    #[test]
    fn an_image_is_told_by_its_digest_or_else_by_its_tag() {
        let digest = "f8e48d4edc44e6ee8e40a2ac6c5f60b190aa18d411a75702dc5798a77a039e8d";
        assert_eq!(
            image(&format!("ghcr.io/a/b:v1@sha256:{digest}")),
            "sha256:f8e48d4edc44…"
        );
        assert_eq!(image("localhost:5000/a/b:v1.6.0"), "tag v1.6.0");
        assert_eq!(image("localhost:5000/a/b"), "b");
    }

    #[test]
    fn only_twenty_names_are_listed() {
        let all: Vec<u32> = (1..=1_002).collect();
        assert_eq!(names(&all[..2]), "1, 2");
        assert!(names(&all).ends_with("19, 20 and 982 more"));
        assert!(names(&all[..20]).ends_with("19, 20"));
        assert_eq!(enumerated(&[4, 5, 8]), "4, 5 and 8");
        assert_eq!(enumerated(&[4]), "4");
    }
}
