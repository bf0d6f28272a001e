//! The report of a run, in Markdown for people and in JSON, and whether it is one of success.

use super::Load;
use super::faults::FaultCounts;
use super::follower::EventCounts;
use super::leaks::Leaks;
use super::operations::{Counts, Operation};
use super::samples::{Samples, slope_per_hour};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Where the report goes, as `mixed.md` and `mixed.json`; without it the run says it on standard error.
const DIRECTORY: &str = "SLIPWAY_MIXED_REPORT";

pub struct Report<'a> {
    pub load: &'a Load,
    pub counts: FaultCounts,
    pub events: EventCounts,
    pub left: Leaks,
    pub samples: Samples,
    pub length_s: u64,
    pub seed: u64,
}

impl Report<'_> {
    pub fn write(&self) -> Result<()> {
        let operations = self.load.operations.counts();
        let markdown = self.markdown(&operations);
        eprintln!("{markdown}");
        let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return Ok(()) };
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("mixed.md"), markdown)?;
        let json = serde_json::to_string_pretty(&self.json(&operations))?;
        Ok(std::fs::write(directory.join("mixed.json"), json)?)
    }

    /// An error if anything was lost, doubled, leaked or answered without a code.
    pub fn check(&self) -> Result<()> {
        let failures = self.load.operations.failures();
        ensure!(failures.is_empty(), "{} failures: {failures:#?}", failures.len());
        let EventCounts { lost, doubled, different, examples, .. } = &self.events;
        ensure!(
            lost + doubled + different == 0,
            "lost {lost}, doubled {doubled}, different {different}: {examples:#?}"
        );
        ensure!(self.left.is_empty(), "left behind: {:#?}", self.left);
        let done = self.load.operations.counts();
        let create = done.get(&Operation::Create).map_or(0, |counts| counts.done);
        ensure!(create > 0 && self.events.in_log > 0, "nothing was done");
        Ok(())
    }

    fn slopes(&self) -> (Option<f64>, Option<f64>, Option<f64>) {
        let samples = self.samples.of_last_hostd();
        (
            slope_per_hour(samples, |sample| sample.memory_mb),
            slope_per_hour(samples, |sample| sample.descriptors as f64),
            slope_per_hour(samples, |sample| sample.database_mb),
        )
    }

    fn json(&self, operations: &BTreeMap<Operation, Counts>) -> Value {
        let (memory, descriptors, database) = self.slopes();
        json!({
            "passed": self.check().is_ok(),
            "seed": self.seed,
            "driver": self.load.driver,
            "length_s": self.length_s,
            "operations": operations,
            "failures": self.load.operations.failures(),
            "faults": self.counts,
            "events": self.events,
            "leaks": self.left,
            "slopes_per_hour": {"memory_mb": memory, "descriptors": descriptors, "database_mb": database},
            "samples": self.samples,
        })
    }

    fn markdown(&self, operations: &BTreeMap<Operation, Counts>) -> String {
        let mut text = String::new();
        let verdict = if self.check().is_ok() { "passed" } else { "FAILED" };
        let FaultCounts { hostd_killed, sandboxes_killed, engine_killed, disk_filled } = self.counts;
        let _ = writeln!(
            text,
            "Mixed load of {} s on the driver {}: **{verdict}**. Seed {}.\n\nFaults: hostd killed {hostd_killed} times, \
             PID 1 of a sandbox {sandboxes_killed}, the engine {engine_killed}; the disk nearly full {disk_filled} times.\n",
            self.length_s, self.load.driver, self.seed,
        );
        text += "| operation | done | p50 ms | p99 ms | refused, by code | cut off |\n|---|---|---|---|---|---|\n";
        for (operation, counts) in operations {
            let refused: Vec<String> =
                counts.refused.iter().map(|(code, count)| format!("{code} {count}")).collect();
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} |",
                serde_json::to_value(operation).ok().as_ref().and_then(Value::as_str).unwrap_or_default(),
                counts.done,
                counts.percentile_ms(50),
                counts.percentile_ms(99),
                refused.join(", "),
                counts.cut,
            );
        }
        text + &self.findings()
    }

    fn findings(&self) -> String {
        let EventCounts {
            in_log, of_followed_tasks, lost, doubled, different, told_gaps, reconnects, ..
        } = &self.events;
        let Leaks {
            processes, mounts, control_groups, directories, descriptors, descriptors_at_start, ..
        } = &self.left;
        let (memory, descriptor, database) = self.slopes();
        let shown = |slope: Option<f64>, unit: &str| {
            slope.map_or("too short to say".to_owned(), |slope| format!("{slope:+.1}{unit} an hour"))
        };
        let last = self.samples.0.last();
        format!(
            "\n| found | |\n|---|---|\n\
             | answers without a code | {} |\n\
             | events in the log; seen by viewers of tasks | {in_log}; {of_followed_tasks} |\n\
             | events lost, doubled, different | {lost}, {doubled}, {different} |\n\
             | gaps that the log tells of | {told_gaps} |\n\
             | connections that followers opened anew | {reconnects} |\n\
             | left: processes, mounts, control groups, directories | {processes}, {mounts}, {control_groups}, {directories} |\n\
             | left: descriptors of hostd above {descriptors_at_start} at its start and those it keeps | {descriptors} |\n\
             | memory of hostd at the end; slope | {:.1} MB; {} |\n\
             | descriptors of hostd, slope | {} |\n\
             | database at the end; slope | {:.1} MB; {} |\n",
            self.load.operations.failures().len(),
            last.map_or(0.0, |sample| sample.memory_mb),
            shown(memory, " MB"),
            shown(descriptor, ""),
            last.map_or(0.0, |sample| sample.database_mb),
            shown(database, " MB"),
        )
    }
}
