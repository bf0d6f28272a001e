//! Metrics of the process of hostd, under the names that every Prometheus client uses. Read from /proc when they are
//! scraped.

use hostd_metrics::{Collector, FamilyWriter, SampleKind, write_number};
use nix::{
    sys::resource::{Resource, getrlimit},
    unistd::{SysconfVar, sysconf},
};
use std::{fmt, fs, os::unix::fs::MetadataExt};

#[derive(Debug)]
pub(super) struct ProcessMetrics {
    /// Ticks of the times in `/proc/self/stat`, and bytes of the pages in `statm`.
    ticks_per_s: f64,
    page_bytes: f64,
    /// In seconds since 1970.
    boot_s: f64,
}

impl ProcessMetrics {
    pub(super) fn new() -> Self {
        let setting = |name, usual: i64| sysconf(name).ok().flatten().unwrap_or(usual) as f64;
        let stat = read("/proc/stat");
        let boot = stat.lines().find_map(|line| line.strip_prefix("btime "));
        Self {
            ticks_per_s: setting(SysconfVar::CLK_TCK, 100),
            page_bytes: setting(SysconfVar::PAGE_SIZE, 4096),
            boot_s: boot.and_then(|text| text.trim().parse().ok()).unwrap_or(0.0),
        }
    }
}

impl Collector for ProcessMetrics {
    fn encode(&self, mut writer: FamilyWriter<'_>) -> fmt::Result {
        let stat = StatFields::parse(&read("/proc/self/stat"));
        let pages = read("/proc/self/statm");
        let resident_pages = pages.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0.0);
        let (descriptors_max, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
        let started_s = self.boot_s + stat.start_ticks / self.ticks_per_s;
        for (name, help, kind, value) in [
            (
                "process_cpu_seconds",
                "CPU time of hostd, in its threads and in the kernel",
                SampleKind::Counter,
                stat.cpu_ticks / self.ticks_per_s,
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory of hostd",
                SampleKind::Gauge,
                resident_pages * self.page_bytes,
            ),
            ("process_virtual_memory_bytes", "Address space of hostd", SampleKind::Gauge, stat.virtual_bytes),
            ("process_threads", "Threads of hostd", SampleKind::Gauge, stat.threads),
            ("process_open_fds", "Open file descriptors of hostd", SampleKind::Gauge, open_descriptors()),
            (
                "process_max_fds",
                "File descriptors that hostd may open",
                SampleKind::Gauge,
                descriptors_max as f64,
            ),
            (
                "process_start_time_seconds",
                "When hostd was started, in seconds since 1970",
                SampleKind::Gauge,
                started_s,
            ),
        ] {
            write_number(&mut writer, (name, help), kind, value)?;
        }
        Ok(())
    }
}

/// Fields of `/proc/self/stat`.
#[derive(Debug, Default, PartialEq)]
struct StatFields {
    cpu_ticks: f64,
    threads: f64,
    start_ticks: f64,
    virtual_bytes: f64,
}

impl StatFields {
    fn parse(text: &str) -> Self {
        // The name of the program comes second, in parentheses, and may hold anything.
        let Some((_, rest)) = text.rsplit_once(')') else { return Self::default() };
        let fields: Vec<f64> =
            rest.split_whitespace().skip(1).map(|text| text.parse().unwrap_or(0.0)).collect();
        // By their numbers in proc(5); the list begins with the fourth.
        let field = |number: usize| fields.get(number - 4).copied().unwrap_or(0.0);
        Self {
            cpu_ticks: field(14) + field(15),
            threads: field(20),
            start_ticks: field(22),
            virtual_bytes: field(23),
        }
    }
}

/// The number of open descriptors. Newer kernels say it as the size of the directory; older ones have it listed.
fn open_descriptors() -> f64 {
    const DESCRIPTORS: &str = "/proc/self/fd";
    match fs::metadata(DESCRIPTORS).map(|meta| meta.size()) {
        Ok(count) if count > 0 => count as f64,
        Ok(_) | Err(_) => fs::read_dir(DESCRIPTORS).map_or(0, Iterator::count) as f64,
    }
}

/// Reads a file of /proc: small, and generated on read.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_any_program_name() {
        let text = "42 (a) b) R 1 42 42 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 8 0 700 4096 33\n";
        let expected =
            StatFields { cpu_ticks: 200.0, threads: 8.0, start_ticks: 700.0, virtual_bytes: 4096.0 };
        assert_eq!(StatFields::parse(text), expected);
        assert_eq!(StatFields::parse(""), StatFields::default());
    }

    #[test]
    fn this_process_has_memory_descriptors_and_a_start() {
        let mut registry = hostd_metrics::Registry::default();
        registry.register_collector(Box::new(ProcessMetrics::new()));
        let text = hostd_metrics::text(&registry);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).expect(name);
            line.parse().expect("a number")
        };
        for name in ["process_resident_memory_bytes", "process_virtual_memory_bytes", "process_threads"] {
            assert!(value(name) >= 1.0, "{name} in {text}");
        }
        assert!((3.0..value("process_max_fds")).contains(&value("process_open_fds")), "{text}");
        assert!(value("process_start_time_seconds") > 0.0, "{text}");
    }
}
