use super::cause::SIGNATURES;
use super::*;

fn examined(log: &str, killed: bool) -> (FailureKind, Vec<String>) {
    let cause = cause_of_end(log, killed);
    (classify(log, cause, killed), excerpt(log, cause))
}

fn kind(log: &str, killed: bool) -> FailureKind {
    examined(log, killed).0
}

#[test]
fn the_first_panic_is_shown_and_not_the_last_lines() {
    let log = "I1 started\npanic: first\n\ngoroutine 1 [running]:\npanic: second\nI1 after\n";
    let (kind, lines) = examined(log, false);
    assert_eq!(lines.first().map(String::as_str), Some("panic: first"));
    assert_eq!(kind, FailureKind::Panic);
}

#[test]
fn without_a_panic_the_last_lines_are_shown() {
    let log: String = (0..40).map(|n| format!("line {n}\n")).collect();
    let (_, lines) = examined(&log, false);
    assert_eq!(lines.len(), LAST_LINES);
    assert_eq!(lines.last().map(String::as_str), Some("line 39"));
}

#[test]
fn the_word_panic_inside_a_line_is_not_a_panic() {
    assert!(panic_lines("I1130 recovered from panic: x\n").is_none());
}

#[test]
fn a_cause_wins_over_the_panic_it_led_to() {
    let log = "{\"level\":\"panic\",\"msg\":\"cannot write\",\"error\":\"no space left on device\"}\n\
               panic: cannot write\n\ngoroutine 1 [running]:\n";
    let (kind, lines) = examined(log, false);
    assert_eq!(kind, FailureKind::DiskFull);
    assert_eq!(
        lines,
        [
            "panic: cannot write: no space left on device",
            "panic: cannot write"
        ]
    );
}

#[test]
fn every_signature_is_found_in_a_grave_line_and_in_a_young_log() {
    for (expected, needles) in SIGNATURES {
        for needle in needles {
            let line = format!("E1130 10:00:00.000000 1 run.go:72] x {needle} y");
            assert_eq!(kind(&line, false), expected, "{needle}");
            let young = format!("{{\"level\":\"warn\",\"msg\":\"{needle}\"}}\nI1 more");
            assert_eq!(any_cause(&young).map(|(kind, _)| kind), Some(expected));
        }
    }
}

#[test]
fn an_old_line_is_not_the_cause_of_an_end_hours_later() {
    let old = [
        "E1130 10:00:00.000000 1 authentication.go:73] \"Unable to authenticate the request\" \
         err=\"x509: certificate has expired or is not yet valid\"",
        "W1130 10:00:00.000000 1 proxy.go:9] listen tcp: bind: address already in use",
    ];
    let mut log = old.join("\n");
    for n in 0..5_000 {
        log.push_str(&format!("\nI1130 11:00:00.000000 1 x.go:1] request {n}"));
    }
    assert_eq!(kind(&log, true), FailureKind::Killed);
    assert_eq!(kind(&log, false), FailureKind::Other);
    log.push_str("\npanic: broken\n\ngoroutine 1 [running]:\n");
    assert_eq!(kind(&log, false), FailureKind::Panic);
    log.push_str("address already in use\n".repeat(50).as_str());
    assert_eq!(kind(&log, false), FailureKind::Panic);
}

#[test]
fn a_harmless_line_at_the_very_end_is_not_the_cause_either() {
    let warning = "W1130 10:00:00.000000 1 x.go:1] certificate has expired\n";
    assert_eq!(kind(warning, false), FailureKind::Other);
    // The program went on after an error; what killed it is the signal.
    let error = "E1130 10:00:00.000000 1 x.go:1] certificate has expired\n";
    assert_eq!(kind(error, true), FailureKind::Killed);
}

#[test]
fn the_last_grave_line_wins() {
    let log = "E1130 10:00:00.000000 1 x.go:1] x509: certificate has expired\n\
               E1130 10:00:01.000000 1 run.go:72] \"command failed\" err=\"bind: address already in use\"\n";
    let (kind, lines) = examined(log, false);
    assert_eq!(kind, FailureKind::PortTaken);
    assert!(lines[0].contains("command failed"), "{lines:?}");
}

#[test]
fn refused_command_lines_are_recognised_without_a_log_header() {
    for line in [
        "Error: unknown flag: --x",
        "flag provided but not defined: -x\nUsage:\n",
        "error: unknown shorthand flag: 'x' in -x",
    ] {
        assert_eq!(kind(line, false), FailureKind::UnknownFlag, "{line}");
    }
}

#[test]
fn a_slow_disk_is_told_when_nothing_graver_is() {
    let slow = "{\"level\":\"warn\",\"msg\":\"slow fdatasync\",\"took\":\"3.2s\"}\n";
    assert_eq!(kind(slow, false), FailureKind::SlowDisk);
    assert_eq!(kind(slow, true), FailureKind::Killed);
    assert_eq!(
        any_cause(slow).map(|(kind, _)| kind),
        Some(FailureKind::SlowDisk)
    );
}

#[test]
fn hints_name_the_plane_and_the_authority() {
    let log = |name: &str| PathBuf::from(format!("/state/planes/demo/logs/{name}.log"));
    let data = FailureKind::EtcdData.hint(&log("etcd"));
    assert!(data.contains("plane down demo --delete"), "{data}");
    let data = FailureKind::EtcdData.hint(Path::new("etcd.log"));
    assert!(data.contains("plane down --delete"), "{data}");
    let unknown = |name| FailureKind::UnknownAuthority.hint(&log(name));
    assert!(unknown("kube-apiserver").contains("authority for clients"));
    assert!(unknown("kube-scheduler.2").contains("authority for servers"));
}

#[test]
fn a_signal_counts_only_when_the_log_does_not_tell_the_end() {
    assert_eq!(kind("I1 fine", true), FailureKind::Killed);
    assert_eq!(kind("panic: x", true), FailureKind::Panic);
    assert_eq!(kind("I1 fine", false), FailureKind::Other);
    let fatal = "F1130 10:00:00.000000 1 x.go:1] no space left on device";
    assert_eq!(kind(fatal, true), FailureKind::DiskFull);
}

#[test]
fn a_long_line_is_cut_at_a_character() {
    let line = "ä".repeat(LINE_LIMIT + 5);
    assert_eq!(cut(&line).chars().count(), LINE_LIMIT + 1);
}
