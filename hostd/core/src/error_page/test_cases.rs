//! Test cases: previews that show no app, one of each kind. Everything that only the tenant may see has
//! `hunter2` in it.

use super::{NoResponse, PreviewFacts};
use crate::{Death, Goal, Operation, Preview, State};
use protocol::{
    Activity, Cgroup, CgroupVersion, Exit, HOSTD_PORT_IN_SANDBOX, ListeningPort, Process, ServiceName,
    ServiceSource, ServiceState, ServiceView, Status, WorkspaceUse,
    api::{ApiErrorCode, DeathCause, Phase, PostMortem, Problem, ProblemCode, SandboxStatus},
};

pub const NOW_MS: u64 = 1_000_000;
pub const SECRET: &str = "hunter2";

pub struct Case {
    pub about: &'static str,
    pub state: State,
    pub post_mortem: Option<PostMortem>,
    pub progress: Option<&'static str>,
    pub status: Option<Status>,
    pub reason: NoResponse,
}

impl Case {
    pub fn facts(&self, trusted: bool) -> PreviewFacts<'_> {
        PreviewFacts {
            preview: Preview { sandbox: "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id"), port: 3000 },
            name: "shop",
            state: &self.state,
            post_mortem: self.post_mortem.as_ref(),
            progress: self.progress,
            status: self.status.as_ref(),
            now_ms: NOW_MS,
            reason: self.reason.clone(),
            trusted,
        }
    }
}

pub fn all() -> Vec<Case> {
    let mut cases = of_sandboxes();
    cases.extend(of_ports());
    cases.extend(of_services());
    cases.extend(of_apps());
    cases
}

pub fn state(status: SandboxStatus, goal: Goal, phase: Option<Phase>) -> State {
    let operation = phase.map(|phase| Operation { phase, deadline_ms: NOW_MS });
    State { goal, status, operation, renewal: None, dozing: false, problem: None }
}

pub fn running() -> State {
    state(SandboxStatus::Running, Goal::Running, None)
}

pub fn at_work(about: &'static str) -> Case {
    let (state, reason) = (running(), NoResponse::Waking);
    Case { about, state, post_mortem: None, progress: None, status: None, reason }
}

/// The post-mortem that is recorded when a task ran in the sandbox.
fn post_mortem(cause: DeathCause) -> PostMortem {
    let last_lines = vec!["runtimed: hunter2".to_owned(), "\u{1b}[31mkilled\u{1b}[0m".to_owned()];
    Death { cause, signal: Some(9), last_lines, ..Death::default() }
        .post_mortem(Some("hunter2".to_owned()), NOW_MS)
}

pub fn problem(code: ProblemCode, message: &str) -> Problem {
    let output = vec!["runtimed: hunter2".to_owned(), "\u{1b}[31mkilled\u{1b}[0m".to_owned()];
    Problem { code, message: message.to_owned(), output, step: None }
}

fn of_sandboxes() -> Vec<Case> {
    let case = |about, state| Case {
        about,
        state,
        post_mortem: None,
        progress: None,
        status: None,
        reason: NoResponse::Waking,
    };
    let failed = |code, message| State {
        problem: Some(problem(code, message)),
        ..state(SandboxStatus::Error, Goal::Stopped, None)
    };
    let again = State {
        problem: Some(problem(ProblemCode::Died, "PID 1 of hunter2 is gone; start it again")),
        ..state(SandboxStatus::Error, Goal::Running, Some(Phase::Starting))
    };
    let oom = "the kernel killed it for memory (hunter2: limit 512 MB); give it more with limits.memory_mb";
    let refused = |about, code| Case {
        reason: NoResponse::WakeFailed { code, message: "no memory for hunter2; try again later".to_owned() },
        ..case(about, state(SandboxStatus::Stopped, Goal::Stopped, None))
    };
    vec![
        case("being created", state(SandboxStatus::Creating, Goal::Running, Some(Phase::Provisioning))),
        case("starting", state(SandboxStatus::Stopped, Goal::Running, Some(Phase::Starting))),
        case("thawing", state(SandboxStatus::Paused, Goal::Running, Some(Phase::Resuming))),
        case("going to sleep", state(SandboxStatus::Running, Goal::Stopped, Some(Phase::Stopping))),
        case("asleep", state(SandboxStatus::Stopped, Goal::Stopped, None)),
        case("killed for memory", failed(ProblemCode::Oom, oom)),
        Case {
            post_mortem: Some(post_mortem(DeathCause::Removed)),
            ..case("removed", failed(ProblemCode::Died, "hunter2 was removed"))
        },
        Case {
            post_mortem: Some(post_mortem(DeathCause::Killed)),
            ..case("failed again since it died", failed(ProblemCode::NotReady, "hunter2 did not come up"))
        },
        Case {
            progress: Some("pulling hunter2: layer 3 of 7"),
            ..case("being pulled", state(SandboxStatus::Creating, Goal::Running, Some(Phase::Provisioning)))
        },
        case("image missing", failed(ProblemCode::ImageMissing, "there is no image hunter2")),
        case("died and started again", again),
        case("being destroyed", state(SandboxStatus::Running, Goal::Destroyed, Some(Phase::Destroying))),
        case("destroyed", state(SandboxStatus::Destroyed, Goal::Destroyed, None)),
        case("PID 1 silent", running()),
        refused("not woken yet", ApiErrorCode::Waking),
        refused("no memory", ApiErrorCode::Capacity),
        refused("disk full", ApiErrorCode::DiskFull),
        refused("quota exceeded", ApiErrorCode::QuotaExceeded),
        refused("hostd restarts", ApiErrorCode::ShuttingDown),
        refused("hostd fails", ApiErrorCode::Internal),
    ]
}

fn of_ports() -> Vec<Case> {
    let case =
        |about, status| Case { status: Some(status), reason: NoResponse::PortClosed, ..at_work(about) };
    let vite = "/usr/bin/node /app/node_modules/.bin/vite --key hunter2";
    let two =
        vec![listening(5173, "::1", vite), listening(8000, "0.0.0.0", "python3 -m http.server hunter2")];
    let broken = Some("line 4: services.web.port: hunter2 is no port".to_owned());
    let dev = vec![service("web", None, ServiceState::Ready { since_ms: NOW_MS })];
    let vite_runs = vec![listening(5173, "127.0.0.1", vite)];
    let oom = Cgroup { oom_kills: Some(1), ..cgroup() };
    vec![
        case("the only service elsewhere", Status { services: dev, ports: vite_runs.clone(), ..status() }),
        case("elsewhere", Status { ports: vite_runs, ..status() }),
        case("elsewhere twice", Status { ports: two, ..status() }),
        case("nothing at all", status()),
        case("nothing, after memory ran out", Status { cgroup: oom, ..status() }),
        case("out of reach", Status { ports: vec![listening(3000, "10.0.0.2", vite)], ..status() }),
        case("just opened", Status { ports: vec![listening(3000, "::", vite)], ..status() }),
        case("manifest refused", Status { manifest_error: broken, ..status() }),
    ]
}

fn of_services() -> Vec<Case> {
    let case = |about, services| Case { status: Some(Status { services, ..status() }), ..at_work(about) };
    let web = |state| service("web", Some(3000), state);
    let backoff = |failures| ServiceState::Backoff { next_try_ms: NOW_MS + 4_000, failures };
    let ended = |exit, view: ServiceView| ServiceView { last_exit: Some(exit), ..view };
    let db = |state| service("db", Some(5432), state);
    let waiting = || web(ServiceState::Waiting { on: vec![name("db")] });
    let spawn = Exit::SpawnFailed { message: "no such directory: hunter2".to_owned() };
    let reason = "GET /healthz of hunter2 answered 500".to_owned();
    let unhealthy = ServiceState::Unhealthy { since_ms: NOW_MS, reason };
    let exited = Exit::Exited { code: 1 };
    let worker = || service("worker", None, backoff(1));
    vec![
        case("starting", vec![web(ServiceState::Starting)]),
        case("exited 1 twice", vec![ended(exited.clone(), web(backoff(2))), db(ServiceState::Starting)]),
        case("the only one exited", vec![ended(Exit::Signalled { signal: 11 }, worker())]),
        case("killed for memory", vec![ended(Exit::Oom, web(backoff(3)))]),
        case("not to be started", vec![ended(spawn, web(backoff(1)))]),
        case("waiting", vec![waiting(), db(ServiceState::Starting)]),
        case("waiting for one that fails", vec![waiting(), ended(exited.clone(), db(backoff(2)))]),
        case("unhealthy", vec![web(unhealthy)]),
        case("stopping", vec![web(ServiceState::Stopping)]),
        case("stopped", vec![ended(Exit::Exited { code: 0 }, web(ServiceState::Stopped))]),
        case(
            "dependency stopped",
            vec![
                web(ServiceState::FailedDependency { on: name("db") }),
                ended(exited, db(ServiceState::Stopped)),
            ],
        ),
        case("ready and deaf", vec![web(ServiceState::Ready { since_ms: NOW_MS - 60_000 })]),
        case("ready and about to listen", vec![web(ServiceState::Ready { since_ms: NOW_MS - 1_000 })]),
    ]
}

fn of_apps() -> Vec<Case> {
    let case = |about, reason| Case {
        status: Some(Status {
            ports: vec![listening(3000, "127.0.0.1", "node hunter2")],
            services: vec![service("web", Some(3000), ServiceState::Ready { since_ms: NOW_MS })],
            ..status()
        }),
        reason,
        ..at_work(about)
    };
    vec![
        case("no answer", NoResponse::TimedOut { after_ms: 60_000 }),
        case("hung up", NoResponse::Closed),
        case("garbled", NoResponse::NotHttp),
        Case { status: None, ..case("hung up, PID 1 silent", NoResponse::Closed) },
    ]
}

pub fn name(name: &str) -> ServiceName {
    ServiceName::parse(name).expect("a name")
}

pub fn listening(port: u16, address: &str, command: &str) -> ListeningPort {
    let process = Some(Process { pid: 42, command: command.to_owned() });
    ListeningPort { port, address: address.to_owned(), process }
}

pub fn service(called: &str, port: Option<u16>, state: ServiceState) -> ServiceView {
    let well = matches!(state, ServiceState::Ready { .. });
    let lines = [
        "> shop@1.0.0 dev",
        "> vite --key hunter2",
        "",
        "\u{1b}[31merror\u{1b}[0m when starting dev server:",
        "Error: Cannot find module './<router>' & \"friends\"",
        "    at load (/home/sandbox/workspace/app/vite.config.ts:3:24)",
        "building 10%\rbuilding 100%",
    ];
    ServiceView {
        name: name(called),
        source: ServiceSource::Manifest,
        command: "npm run dev -- --key hunter2".to_owned(),
        port,
        state,
        pid: None,
        restarts: 2,
        last_exit: None,
        last_lines: if well { vec![] } else { lines.map(str::to_owned).to_vec() },
    }
}

fn cgroup() -> Cgroup {
    Cgroup { version: CgroupVersion::V2, memory_limit_bytes: Some(512 << 20), ..Cgroup::default() }
}

/// The status of a sandbox in which only hostd itself listens.
pub fn status() -> Status {
    Status {
        version: "0.1.0".to_owned(),
        pid1: true,
        boot_ms: 0,
        epoch: 1,
        services: vec![],
        manifest_error: None,
        warnings: vec![],
        execs: vec![],
        ports: vec![ListeningPort {
            port: HOSTD_PORT_IN_SANDBOX,
            address: "127.0.0.1".to_owned(),
            process: None,
        }],
        cgroup: cgroup(),
        processes: 1,
        zombies: 0,
        runtimed_rss_bytes: 0,
        workspace: WorkspaceUse::default(),
        holds: vec![],
        activity: Activity { busy: false, since_ms: 0, for_ms: None, reasons: vec![] },
    }
}
