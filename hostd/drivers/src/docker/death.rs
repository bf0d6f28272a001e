//! How a sandbox died: from the kernel's counters, the engine's state, and what PID 1 logged and printed.

use super::{
    super::{
        DriverError,
        local::{init_exit::shut_down_cleanly, layout::SandboxDir, limits::OUTPUT_MAX_LINES},
    },
    classify_state::{ContainerPhase, DeathEvidence, LastRun, OomEvidence, container_phase, death_outcome},
    container_cache::labels_of,
    driver::DockerInner,
    engine::InspectedContainer,
    labels,
    limits::LAST_LINES_MAX_MS,
    run_record::RunRecord,
};
use hostd_core::Death;
use protocol::api::{DeathCause, SandboxId};
use std::time::Duration;
use tokio::time::timeout;

impl DockerInner {
    /// Determines how a sandbox died and records that its last run ended. `found` is `None` when the
    /// container is gone.
    pub async fn death(
        &self,
        sandbox: &SandboxId,
        dir: &SandboxDir,
        mut run: RunRecord,
        found: Option<InspectedContainer>,
    ) -> Result<Death, DriverError> {
        let restarted = found
            .as_ref()
            .is_some_and(|found| run.has_uncleared_start() && !run.is_observed_start(&found.state));
        if let Some(found) = &found
            && !restarted
            && !run.is_observed_start(&found.state)
            && container_phase(&found.state) != ContainerPhase::Created
        {
            run.observed_start = Some(found.state.started_at.clone());
            run.container = Some(found.id.clone());
            run.write(dir)?;
        }
        let last = self.last_inspects.get(sandbox).unwrap_or_default();
        let podman = self.health.last_fit().is_some_and(|fit_engine| fit_engine.info.podman);
        let found_id = found.as_ref().map(|found| found.id.as_str()).unwrap_or_default();
        let oom_kills = last.counters.as_ref().map_or(0, |counters| counters.oom_kills);
        let evidence = DeathEvidence {
            last_run: match &found {
                None => LastRun::Removed,
                Some(_) if restarted => LastRun::Restarted,
                Some(found) => LastRun::Exited(&found.state),
            },
            shut_down_cleanly: shut_down_cleanly(dir),
            // Podman has no daemon whose death would end containers.
            backend_away: self.is_from_other_boot(&run) || last.engine_was_away && !podman,
            oom: if last.counted_after_exit {
                OomEvidence::Counted { killed: oom_kills > last.oom_kills_before }
            } else {
                let killed_before = last.oom_kills_before > 0;
                OomEvidence::Reported { killed_before, event_age_ms: self.cache.oom_event_age_ms(found_id) }
            },
        };
        let outcome = death_outcome(&evidence);
        let last_lines = match &found {
            Some(found) => self.last_lines(&found.id).await,
            None => vec![],
        };
        let counters = last.counters;
        let mut death = Death {
            cause: outcome.cause,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            memory_peak_bytes: counters.as_ref().map(|counters| counters.memory_peak_bytes),
            memory_limit_bytes: counters.as_ref().map(|counters| counters.memory_limit_bytes),
            oom_kills,
            pids_limit_hits: counters.map_or(0, |counters| counters.pids_limit_hits),
            last_lines,
        };
        // Counters that vanished with the control group miss the kill: there was one, at the limit.
        if death.cause == DeathCause::Oom {
            death.oom_kills = death.oom_kills.max(1);
            death.memory_peak_bytes = death.memory_peak_bytes.max(death.memory_limit_bytes);
        }
        Ok(death)
    }

    pub fn is_from_other_boot(&self, run: &RunRecord) -> bool {
        run.boot.as_ref().is_some_and(|boot| *boot != self.boot)
    }

    /// Last output of PID 1. Best effort: the death is known without it.
    pub async fn last_lines(&self, container: &str) -> Vec<String> {
        let lines = self.engine.logs(container, OUTPUT_MAX_LINES);
        let lines = timeout(Duration::from_millis(LAST_LINES_MAX_MS), lines).await;
        lines.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// Reads the counters once more after PID 1 exited, while the control group still exists.
    pub fn count_after_exit(&self, sandbox: &SandboxId) {
        self.last_inspects.change(sandbox, |last| {
            last.pid = None;
            last.counted_after_exit |= last.read_counters();
        });
    }

    /// Records an OOM event of a container and reads its counters while they exist.
    pub fn record_oom(&self, container: &str) {
        self.cache.record_oom(container);
        let found = self.cache.by_id(container);
        let claim = found.and_then(|found| labels::read(&self.signer, &found.name, labels_of(&found)).ok());
        if let Some(claim) = claim {
            self.last_inspects.change(&claim.sandbox, |last| {
                last.read_counters();
            });
        }
    }
}
