//! How a sandbox ended: what the kernel counted, what the engine says, what PID 1 wrote and printed.

use super::{
    super::{
        DriverError,
        local::{ending::ended_in_order, layout::SandboxDir, limits::OUTPUT_MAX_LINES},
    },
    driver::Inner,
    engine::Inspected,
    labels,
    limits::LAST_LINES_MAX_MS,
    meaning::{Evidence, Phase, phase, verdict},
    mirror::labels_of,
    run::Run,
};
use crate::core::Death;
use protocol::api::{DeathCause, SandboxId};
use std::time::Duration;
use tokio::time::timeout;

impl Inner {
    /// How it ended, and that this run of it is the one that did. None when the container is gone, or is
    /// another run already.
    pub async fn death(
        &self,
        sandbox: &SandboxId,
        dir: &SandboxDir,
        mut run: Run,
        found: Option<Inspected>,
    ) -> Result<Death, DriverError> {
        let restarted = found.as_ref().is_some_and(|found| run.is_open() && !run.is_seen(&found.state));
        if let Some(found) = &found
            && !restarted
            && !run.is_seen(&found.state)
            && phase(&found.state) != Phase::New
        {
            run.seen = Some(found.state.started_at.clone());
            run.container = Some(found.id.clone());
            run.write(dir)?;
        }
        let note = self.notes.get(sandbox).unwrap_or_default();
        let podman = self.standing.last().is_some_and(|fitness| fitness.meeting.podman);
        let found_id = found.as_ref().map(|found| found.id.as_str()).unwrap_or_default();
        let oom_kills = note.counters.as_ref().map_or(0, |counters| counters.oom_kills);
        let evidence = Evidence {
            state: found.as_ref().map(|found| &found.state),
            restarted,
            in_order: ended_in_order(dir),
            // Podman has no daemon that containers would die with.
            backend_away: self.was_other_boot(&run) || note.away && !podman,
            oom_counted: note.is_final.then_some(oom_kills > note.oom_kills_before),
            oom_before: note.oom_kills_before > 0,
            oom_told_ms_ago: self.mirror.oom_told_ms_ago(found_id),
        };
        let verdict = verdict(&evidence);
        let last_lines = match &found {
            Some(found) => self.last_lines(&found.id).await,
            None => vec![],
        };
        let counters = note.counters;
        let mut death = Death {
            cause: verdict.cause,
            exit_code: verdict.exit_code,
            signal: verdict.signal,
            memory_peak_bytes: counters.as_ref().map(|counters| counters.memory_peak_bytes),
            memory_limit_bytes: counters.as_ref().map(|counters| counters.memory_limit_bytes),
            oom_kills,
            pids_limit_hits: counters.map_or(0, |counters| counters.pids_limit_hits),
            last_lines,
        };
        // Counters that were gone too soon do not know of the kill: it was one, and at the limit.
        if death.cause == DeathCause::Oom {
            death.oom_kills = death.oom_kills.max(1);
            death.memory_peak_bytes = death.memory_peak_bytes.max(death.memory_limit_bytes);
        }
        Ok(death)
    }

    pub fn was_other_boot(&self, run: &Run) -> bool {
        run.boot.as_ref().is_some_and(|boot| *boot != self.boot)
    }

    /// What it printed, for people: without it the death is known all the same.
    pub async fn last_lines(&self, container: &str) -> Vec<String> {
        let lines = self.engine.logs(container, OUTPUT_MAX_LINES);
        let lines = timeout(Duration::from_millis(LAST_LINES_MAX_MS), lines).await;
        lines.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// PID 1 has ended: what it used is counted while it can be.
    pub fn count_last(&self, sandbox: &SandboxId) {
        self.notes.change(sandbox, |note| {
            note.pid = None;
            note.is_final |= note.count();
        });
    }

    /// Memory was short in a container: what it used is counted while it can be.
    pub fn heard_oom(&self, container: &str) {
        self.mirror.heard_oom(container);
        let found = self.mirror.by_id(container);
        let claim = found.and_then(|found| labels::read(&self.sealer, &found.name, labels_of(&found)).ok());
        if let Some(claim) = claim {
            self.notes.change(&claim.sandbox, |note| {
                note.count();
            });
        }
    }
}
