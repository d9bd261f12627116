//! `process_*`, read from `/proc` when the metrics are.
//!
//! No `go_*` series is made up: they describe a runtime that this process does not have, and nothing
//! that judges a run reads one.

use std::fs;
use std::path::Path;

use prometheus::core::Collector;
use prometheus::{Counter, Gauge, Registry};

/// The families of the process.
pub(super) struct Process {
    cpu_seconds: Counter,
    open_fds: Gauge,
    max_fds: Gauge,
    virtual_bytes: Gauge,
    virtual_max_bytes: Gauge,
    resident_bytes: Gauge,
    start_seconds: Gauge,
    received_bytes: Counter,
    transmitted_bytes: Counter,
}

impl Process {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        fn add<C: Collector + Clone + 'static>(
            registry: &Registry,
            metric: Result<C, prometheus::Error>,
        ) -> Result<C, prometheus::Error> {
            let metric = metric?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        }
        let counter = |name: &str, help: &str| add(registry, Counter::new(name, help));
        let gauge = |name: &str, help: &str| add(registry, Gauge::new(name, help));
        Ok(Self {
            cpu_seconds: counter(
                "process_cpu_seconds_total",
                "Total user and system CPU time spent in seconds.",
            )?,
            open_fds: gauge("process_open_fds", "Number of open file descriptors.")?,
            max_fds: gauge(
                "process_max_fds",
                "Maximum number of open file descriptors.",
            )?,
            virtual_bytes: gauge(
                "process_virtual_memory_bytes",
                "Virtual memory size in bytes.",
            )?,
            virtual_max_bytes: gauge(
                "process_virtual_memory_max_bytes",
                "Maximum amount of virtual memory available in bytes.",
            )?,
            resident_bytes: gauge(
                "process_resident_memory_bytes",
                "Resident memory size in bytes.",
            )?,
            start_seconds: gauge(
                "process_start_time_seconds",
                "Start time of the process since unix epoch in seconds.",
            )?,
            received_bytes: counter(
                "process_network_receive_bytes_total",
                "Number of bytes received by the process over the network.",
            )?,
            transmitted_bytes: counter(
                "process_network_transmit_bytes_total",
                "Number of bytes sent by the process over the network.",
            )?,
        })
    }

    /// Reads everything anew. What cannot be read keeps its last value.
    pub(super) fn refresh(&self) {
        let own = Path::new("/proc/self");
        if let Some(stat) = read(&own.join("stat")).as_deref().and_then(parse_stat) {
            let ticks = rustix::param::clock_ticks_per_second() as f64;
            set(&self.cpu_seconds, stat.cpu_ticks as f64 / ticks);
            self.virtual_bytes.set(stat.virtual_bytes as f64);
            let page = rustix::param::page_size() as f64;
            self.resident_bytes.set(stat.resident_pages as f64 * page);
            let boot = read(Path::new("/proc/stat"));
            if let Some(boot) = boot.as_deref().and_then(parse_boot_time) {
                self.start_seconds
                    .set(boot as f64 + stat.start_ticks as f64 / ticks);
            }
        }
        if let Ok(entries) = fs::read_dir(own.join("fd")) {
            self.open_fds.set(entries.count() as f64);
        }
        if let Some(limits) = read(&own.join("limits")) {
            for (gauge, row) in [
                (&self.max_fds, "Max open files"),
                (&self.virtual_max_bytes, "Max address space"),
            ] {
                if let Some(limit) = parse_limit(&limits, row) {
                    gauge.set(limit);
                }
            }
        }
        if let Some(netstat) = read(&own.join("net/netstat")) {
            for (counter, column) in [
                (&self.received_bytes, "InOctets"),
                (&self.transmitted_bytes, "OutOctets"),
            ] {
                if let Some(octets) = parse_octets(&netstat, column) {
                    set(counter, octets as f64);
                }
            }
        }
    }
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Sets a counter that the kernel keeps.
fn set(counter: &Counter, value: f64) {
    counter.reset();
    counter.inc_by(value);
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

/// Fields 14, 15, 22, 23 and 24 of proc_pid_stat(5).
fn parse_stat(text: &str) -> Option<Stat> {
    // The name in parentheses may hold anything, parentheses and spaces included.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Stat {
        cpu_ticks: field(14)? + field(15)?,
        start_ticks: field(22)?,
        virtual_bytes: field(23)?,
        resident_pages: field(24)?,
    })
}

fn parse_boot_time(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// The soft limit; "unlimited" is the largest number, as the Go client prints it.
fn parse_limit(text: &str, row: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(row))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse::<u64>().ok().map(|limit| limit as f64),
    }
}

/// A column of the `IpExt` table: a line of names, then a line of numbers.
fn parse_octets(text: &str, column: &str) -> Option<u64> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("IpExt: "))
        .map(str::split_whitespace);
    let (names, mut numbers) = (lines.next()?, lines.next()?);
    let position = names.into_iter().position(|name| name == column)?;
    numbers.nth(position)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_may_hold_spaces_and_parentheses() {
        let text = "4242 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 33 0 0 20 0 9 0 123456 987654321 2048 18446744073709551615 1";
        assert_eq!(
            parse_stat(text),
            Some(Stat {
                cpu_ticks: 283,
                start_ticks: 123_456,
                virtual_bytes: 987_654_321,
                resident_pages: 2048,
            })
        );
        assert_eq!(parse_stat("4242 (cut off) S 1 2"), None);
    }

    #[test]
    fn limits_and_octets_are_found_by_name() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n\
                      Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(parse_limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(
            parse_limit(limits, "Max address space"),
            Some(18_446_744_073_709_551_615.0)
        );
        assert_eq!(parse_limit(limits, "Max cpu time"), None);
        let netstat =
            "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 77 88\n";
        assert_eq!(parse_octets(netstat, "InOctets"), Some(77));
        assert_eq!(parse_octets(netstat, "OutOctets"), Some(88));
        assert_eq!(parse_octets("IpExt: InOctets\n", "InOctets"), None);
        assert_eq!(
            parse_boot_time("cpu 1\nbtime 1700000000\n"),
            Some(1_700_000_000)
        );
    }
}
