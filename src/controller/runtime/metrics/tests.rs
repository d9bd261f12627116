use super::aibom::{AibomMetrics, Since};
use super::*;

/// The lines of some families, in the order they are exposed.
fn lines(metrics: &Metrics, prefixes: &[&str]) -> String {
    let text = metrics.render().expect("text");
    let wanted = |line: &&str| {
        let name = line
            .trim_start_matches("# HELP ")
            .trim_start_matches("# TYPE ");
        prefixes.iter().any(|prefix| name.starts_with(prefix))
    };
    text.lines()
        .filter(wanted)
        .fold(String::new(), |all, line| all + line + "\n")
}

#[test]
fn the_text_is_exposition_format_with_go_names() {
    let metrics = Metrics::new().expect("metrics");
    metrics.request("200", "GET", "127.0.0.1:6443");
    metrics.request("200", "GET", "127.0.0.1:6443");
    metrics.request("<error>", "PUT", "127.0.0.1:6443");
    assert_eq!(
        lines(&metrics, &["rest_client", "certwatcher"]),
        "# HELP certwatcher_read_certificate_errors_total Total number of certificate read errors
# TYPE certwatcher_read_certificate_errors_total counter
certwatcher_read_certificate_errors_total 0
# HELP certwatcher_read_certificate_total Total number of certificate reads
# TYPE certwatcher_read_certificate_total counter
certwatcher_read_certificate_total 0
# HELP rest_client_requests_total Number of HTTP requests, partitioned by status code, method, and host.
# TYPE rest_client_requests_total counter
rest_client_requests_total{code=\"200\",host=\"127.0.0.1:6443\",method=\"GET\"} 2
rest_client_requests_total{code=\"<error>\",host=\"127.0.0.1:6443\",method=\"PUT\"} 1
"
    );
}

#[test]
fn a_controller_shows_its_zero_series_before_its_first_reconcile() {
    let metrics = Metrics::new().expect("metrics");
    let controller = metrics.controller("job");
    assert_eq!(
        lines(&metrics, &["controller_runtime"]),
        "# HELP controller_runtime_active_workers Number of currently used workers per controller
# TYPE controller_runtime_active_workers gauge
controller_runtime_active_workers{controller=\"job\"} 0
# HELP controller_runtime_max_concurrent_reconciles Maximum number of concurrent reconciles per controller
# TYPE controller_runtime_max_concurrent_reconciles gauge
controller_runtime_max_concurrent_reconciles{controller=\"job\"} 1
# HELP controller_runtime_reconcile_errors_total Total number of reconciliation errors per controller
# TYPE controller_runtime_reconcile_errors_total counter
controller_runtime_reconcile_errors_total{controller=\"job\"} 0
# HELP controller_runtime_reconcile_panics_total Total number of reconciliation panics per controller
# TYPE controller_runtime_reconcile_panics_total counter
controller_runtime_reconcile_panics_total{controller=\"job\"} 0
# HELP controller_runtime_reconcile_timeouts_total Total number of reconciliation timeouts per controller
# TYPE controller_runtime_reconcile_timeouts_total counter
controller_runtime_reconcile_timeouts_total{controller=\"job\"} 0
# HELP controller_runtime_reconcile_total Total number of reconciliations per controller
# TYPE controller_runtime_reconcile_total counter
controller_runtime_reconcile_total{controller=\"job\",result=\"error\"} 0
controller_runtime_reconcile_total{controller=\"job\",result=\"requeue\"} 0
controller_runtime_reconcile_total{controller=\"job\",result=\"requeue_after\"} 0
controller_runtime_reconcile_total{controller=\"job\",result=\"success\"} 0
# HELP controller_runtime_terminal_reconcile_errors_total Total number of terminal reconciliation errors per controller
# TYPE controller_runtime_terminal_reconcile_errors_total counter
controller_runtime_terminal_reconcile_errors_total{controller=\"job\"} 0
"
    );
    controller.took(Duration::from_millis(700));
    let time = lines(&metrics, &["controller_runtime_reconcile_time"]);
    assert!(
        time.contains("_bucket{controller=\"job\",le=\"0.6\"} 0\n"),
        "{time}"
    );
    assert!(
        time.contains("_bucket{controller=\"job\",le=\"0.7\"} 1\n"),
        "{time}"
    );
    assert!(
        time.contains("_bucket{controller=\"job\",le=\"60\"} 1\n"),
        "{time}"
    );
    assert!(
        time.contains("_bucket{controller=\"job\",le=\"+Inf\"} 1\n"),
        "{time}"
    );
    assert!(time.contains("_sum{controller=\"job\"} 0.7\n"), "{time}");
    assert!(time.contains("_count{controller=\"job\"} 1\n"), "{time}");
}

#[test]
fn a_queue_shows_counters_at_once_and_depth_when_used() {
    let metrics = Metrics::new().expect("metrics");
    let queue = metrics.queue("job");
    let text = lines(&metrics, &["workqueue"]);
    assert!(text.contains("workqueue_adds_total{controller=\"job\",name=\"job\"} 0\n"));
    assert!(text.contains("workqueue_retries_total{controller=\"job\",name=\"job\"} 0\n"));
    assert!(!text.contains("workqueue_depth"), "{text}");
    queue.depth(-100).inc();
    let text = lines(&metrics, &["workqueue_depth"]);
    assert!(
        text.contains("workqueue_depth{controller=\"job\",name=\"job\",priority=\"-100\"} 1\n"),
        "{text}"
    );
}

#[test]
fn the_process_is_described_from_proc() {
    let metrics = Metrics::new().expect("metrics");
    let text = lines(&metrics, &["process_"]);
    let value = |name: &str| -> f64 {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("no {name} in\n{text}"));
        let (_, number) = line.split_once(' ').expect("two words");
        number.parse().expect("a number")
    };
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_open_fds") >= 3.0);
    assert!(value("process_max_fds") >= value("process_open_fds"));
    assert!(value("process_cpu_seconds_total") >= 0.0);
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64();
    let age = now - value("process_start_time_seconds");
    assert!((-2.0..86_400.0).contains(&age), "started {age} s ago");
    assert!(!text.contains("go_"));
}

#[test]
fn the_subjects_families_follow_the_release_and_show_only_what_was_observed() {
    let old = Metrics::new().expect("metrics");
    let own = AibomMetrics::register(
        &old,
        Since {
            persist_failures: true,
            outcomes_and_watches: false,
        },
    )
    .expect("families");
    assert_eq!(lines(&old, &["aibom_"]), "");
    own.config_reloads.with_label_values(&["loaded"]).inc();
    own.outcomes.with_label_values(&["Job", "matched"]).inc();
    let text = lines(&old, &["aibom_"]);
    assert!(text.contains("aibom_controller_config_reloads_total{result=\"loaded\"} 1\n"));
    assert!(!text.contains("outcomes"), "{text}");
}
