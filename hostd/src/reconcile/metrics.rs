//! Metrics of sandboxes and tasks.

use super::SandboxCommand;
use hostd_metrics::{
    Counter, DURATION_BUCKETS_S, Family, Gauge, GaugeGuard, Histogram, Label, LabeledCounters,
    LabeledHistograms, Registry,
};
use hostd_store::TaskRecord;
use protocol::{TaskStatus, api::SandboxStatus};
use std::time::{Duration, Instant};

type DriverLabel = [(&'static str, &'static str); 1];
type StepLabels = [(&'static str, &'static str); 2];

/// Bounds of buckets, in seconds: a task takes up to hours.
const TASK_BUCKETS_S: [f64; 10] = [0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0];

/// Clones count into the same families.
#[derive(Clone)]
pub struct FleetMetrics {
    create_duration: Family<DriverLabel, Histogram, fn() -> Histogram>,
    launch_duration: Family<DriverLabel, Histogram, fn() -> Histogram>,
    launch_steps: Family<StepLabels, Histogram, fn() -> Histogram>,
    failed_launches: Family<DriverLabel, Counter>,
    wakes: LabeledHistograms<WakeKind>,
    open_tasks: Gauge,
    task_steps: LabeledHistograms<TaskStepLabel>,
    task_ends: LabeledCounters<TaskEnd>,
    memory_relief: LabeledCounters<ReliefAction>,
}

impl FleetMetrics {
    /// The metrics of a fleet with these drivers.
    pub fn new(drivers: impl IntoIterator<Item = &'static str>) -> Self {
        let histograms = || Family::<DriverLabel, Histogram, _>::new_with_constructor(histogram as _);
        let (create_duration, launch_duration) = (histograms(), histograms());
        let launch_steps = Family::<StepLabels, Histogram, _>::new_with_constructor(histogram as _);
        let failed_launches = Family::<DriverLabel, Counter>::default();
        for driver in drivers {
            drop(create_duration.get_or_create(&[("driver", driver)]));
            drop(launch_duration.get_or_create(&[("driver", driver)]));
            drop(failed_launches.get_or_create(&[("driver", driver)]));
            for step in LaunchStep::ALL {
                drop(launch_steps.get_or_create(&step_labels(driver, step)));
            }
        }
        Self {
            create_duration,
            launch_duration,
            launch_steps,
            failed_launches,
            wakes: LabeledHistograms::new(histogram),
            open_tasks: Gauge::default(),
            task_steps: LabeledHistograms::new(|| Histogram::new(TASK_BUCKETS_S)),
            task_ends: LabeledCounters::default(),
            memory_relief: LabeledCounters::default(),
        }
    }

    pub fn register(&self, registry: &mut Registry) {
        let help = "Duration of a create, from the stored record until PID 1 of the sandbox is ready";
        registry.register("slipway_sandbox_create_duration_seconds", help, self.create_duration.clone());
        let help = "Duration of a launch (create, start or restart), until PID 1 of the sandbox is ready";
        registry.register("slipway_sandbox_launch_duration_seconds", help, self.launch_duration.clone());
        let help = "Duration of the steps of a launch";
        registry.register("slipway_sandbox_launch_step_duration_seconds", help, self.launch_steps.clone());
        let help = "Duration of a wake, from the call that needs a sleeping sandbox until it answers";
        self.wakes.register(registry, "slipway_sandbox_wake_duration_seconds", help);
        registry.register("slipway_tasks_open", "Tasks that have not ended", self.open_tasks.clone());
        let help = "Duration of the steps of a task that has ended";
        self.task_steps.register(registry, "slipway_task_step_duration_seconds", help);
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
        let step = |step| self.launch_steps.get_or_create_owned(&step_labels(driver, step));
        LaunchMeter {
            started: Instant::now(),
            create: self.create_duration.get_or_create_owned(&labels),
            duration: self.launch_duration.get_or_create_owned(&labels),
            failed: self.failed_launches.get_or_create_owned(&labels),
            steps: LaunchStep::ALL.map(|each| (step(each), Duration::ZERO)),
        }
    }

    /// Counts a wake of a sandbox that had this status.
    pub(super) fn count_wake(&self, from: SandboxStatus, took: Duration) {
        let kind = match from {
            SandboxStatus::Paused => WakeKind::Thaw,
            SandboxStatus::Creating
            | SandboxStatus::Running
            | SandboxStatus::Stopped
            | SandboxStatus::Error
            | SandboxStatus::Destroyed => WakeKind::Launch,
        };
        self.wakes.of(kind).observe(took.as_secs_f64());
    }

    /// Counts a task as open until the other value is dropped.
    pub(super) fn open_task(&self) -> GaugeGuard {
        GaugeGuard::new(&self.open_tasks)
    }

    /// Counts the end of a task and the time of its steps; those of a task that never began are not known.
    pub(super) fn count_task(&self, task: &TaskRecord) {
        self.count_task_end(task.status);
        let observe = |step, from_ms: u64, to_ms: u64| {
            let took = Duration::from_millis(to_ms.saturating_sub(from_ms));
            self.task_steps.of(step).observe(took.as_secs_f64());
        };
        if let Some(started_ms) = task.started_ms {
            observe(TaskStepLabel::Queued, task.created_ms, started_ms);
            if let Some(ended_ms) = task.ended_ms {
                observe(TaskStepLabel::Run, started_ms, ended_ms);
            }
        }
    }

    fn count_task_end(&self, status: TaskStatus) {
        match status {
            // A row without an end was removed.
            TaskStatus::Queued | TaskStatus::Running => {}
            TaskStatus::Succeeded => drop(self.task_ends.of(TaskEnd::Succeeded).inc()),
            TaskStatus::Failed => drop(self.task_ends.of(TaskEnd::Failed).inc()),
            TaskStatus::Cancelled => drop(self.task_ends.of(TaskEnd::Cancelled).inc()),
        }
    }
}

fn histogram() -> Histogram {
    Histogram::new(DURATION_BUCKETS_S)
}

fn step_labels(driver: &'static str, step: LaunchStep) -> StepLabels {
    [("driver", driver), ("step", step.value())]
}

/// The steps of a launch, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LaunchStep {
    /// Waits for a permit: few launches of a driver are under way at once.
    Queued,
    /// The driver makes and starts the container, and pulls its image if need be.
    Launch,
    /// PID 1 comes up, answers and takes its services.
    FirstAnswer,
    /// The source, dotfiles and setup of a new sandbox.
    Provision,
}

impl LaunchStep {
    const ALL: [Self; 4] = [Self::Queued, Self::Launch, Self::FirstAnswer, Self::Provision];

    fn value(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Launch => "launch",
            Self::FirstAnswer => "first_answer",
            Self::Provision => "provision",
        }
    }
}

/// The time of one launch and of its steps. A launch that is neither reached nor given up is not counted.
pub(super) struct LaunchMeter {
    started: Instant,
    create: Histogram,
    duration: Histogram,
    failed: Counter,
    /// In the order of [`LaunchStep::ALL`]. A step of a launch that is tried again takes the time of all tries.
    steps: [(Histogram, Duration); LaunchStep::ALL.len()],
}

impl LaunchMeter {
    pub(super) fn add(&mut self, step: LaunchStep, took: Duration) {
        self.steps[step as usize].1 += took;
    }

    /// The sandbox is up; `age` is that of one that never was before.
    pub(super) fn reached(self, age: Option<Duration>) {
        self.duration.observe(self.started.elapsed().as_secs_f64());
        for (histogram, took) in &self.steps {
            histogram.observe(took.as_secs_f64());
        }
        if let Some(age) = age {
            self.create.observe(age.as_secs_f64());
        }
    }

    pub(super) fn given_up(self) {
        self.failed.inc();
    }
}

/// How a sleeping sandbox was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeKind {
    Thaw,
    Launch,
}

impl Label for WakeKind {
    const NAME: &'static str = "kind";
    const ALL: &'static [Self] = &[Self::Thaw, Self::Launch];

    fn value(self) -> &'static str {
        match self {
            Self::Thaw => "thaw",
            Self::Launch => "launch",
        }
    }
}

/// The steps of a task: until its agent started, and from then to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TaskStepLabel {
    Queued,
    Run,
}

impl Label for TaskStepLabel {
    const NAME: &'static str = "step";
    const ALL: &'static [Self] = &[Self::Queued, Self::Run];

    fn value(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Run => "run",
        }
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
