//! Metrics of sandboxes and tasks.

use super::SandboxCommand;
use hostd_metrics::{Counter, DURATION_BUCKETS_S, Family, Histogram, Label, LabeledCounters, Registry};
use protocol::TaskStatus;
use std::time::Instant;

type DriverLabel = [(&'static str, &'static str); 1];

/// Clones count into the same families.
#[derive(Clone)]
pub struct FleetMetrics {
    launch_duration: Family<DriverLabel, Histogram, fn() -> Histogram>,
    failed_launches: Family<DriverLabel, Counter>,
    task_ends: LabeledCounters<TaskEnd>,
    memory_relief: LabeledCounters<ReliefAction>,
}

impl FleetMetrics {
    /// The metrics of a fleet with these drivers.
    pub fn new(drivers: impl IntoIterator<Item = &'static str>) -> Self {
        let launch_duration =
            Family::<DriverLabel, Histogram, _>::new_with_constructor(launch_histogram as _);
        let failed_launches = Family::<DriverLabel, Counter>::default();
        for driver in drivers {
            drop(launch_duration.get_or_create(&[("driver", driver)]));
            drop(failed_launches.get_or_create(&[("driver", driver)]));
        }
        let (task_ends, memory_relief) = (LabeledCounters::default(), LabeledCounters::default());
        Self { launch_duration, failed_launches, task_ends, memory_relief }
    }

    pub fn register(&self, registry: &mut Registry) {
        let help = "Duration of a launch (create, start or restart), until PID 1 of the sandbox is ready";
        registry.register("slipway_sandbox_launch_duration_seconds", help, self.launch_duration.clone());
        let help = "Launches that were given up";
        registry.register("slipway_sandbox_failed_launches", help, self.failed_launches.clone());
        self.task_ends.register(registry, "slipway_task_ends", "Tasks that ended, by their status");
        let help = "Idle sandboxes that hostd paused or stopped because memory was short";
        self.memory_relief.register(registry, "slipway_memory_relief", help);
    }

    /// Counts a measure against memory pressure.
    pub(super) fn count_relief(&self, command: SandboxCommand) {
        let action =
            if command == SandboxCommand::Doze { ReliefAction::Paused } else { ReliefAction::Stopped };
        self.memory_relief.of(action).inc();
    }

    /// Begins to meter a launch.
    pub(super) fn launch(&self, driver: &'static str) -> LaunchMeter {
        let labels = [("driver", driver)];
        LaunchMeter {
            started: Instant::now(),
            duration: self.launch_duration.get_or_create_owned(&labels),
            failed: self.failed_launches.get_or_create_owned(&labels),
        }
    }

    pub(super) fn count_task_end(&self, status: TaskStatus) {
        match status {
            // A row without an end was removed.
            TaskStatus::Queued | TaskStatus::Running => {}
            TaskStatus::Succeeded => drop(self.task_ends.of(TaskEnd::Succeeded).inc()),
            TaskStatus::Failed => drop(self.task_ends.of(TaskEnd::Failed).inc()),
            TaskStatus::Cancelled => drop(self.task_ends.of(TaskEnd::Cancelled).inc()),
        }
    }
}

fn launch_histogram() -> Histogram {
    Histogram::new(DURATION_BUCKETS_S)
}

/// The time of one launch. A launch that is neither reached nor given up is not counted.
pub(super) struct LaunchMeter {
    started: Instant,
    duration: Histogram,
    failed: Counter,
}

impl LaunchMeter {
    pub(super) fn reached(self) {
        self.duration.observe(self.started.elapsed().as_secs_f64());
    }

    pub(super) fn given_up(self) {
        self.failed.inc();
    }
}

/// What was done to an idle sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReliefAction {
    Paused,
    Stopped,
}

impl Label for ReliefAction {
    const NAME: &'static str = "action";
    const ALL: &'static [Self] = &[Self::Paused, Self::Stopped];

    fn value(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }
}

/// The final status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskEnd {
    Succeeded,
    Failed,
    Cancelled,
}

impl Label for TaskEnd {
    const NAME: &'static str = "status";
    const ALL: &'static [Self] = &[Self::Succeeded, Self::Failed, Self::Cancelled];

    fn value(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}
