//! The table: every route of the API, who may call it, what it takes and gives.

use super::{
    activity, agents, audits, budgets, drivers, egress, ensure, events, execs, host, images, lifecycle,
    links, looks, models, older, permissions,
    route::{
        Needs::{Admin, Nothing, Operator, Read, Write},
        Param, Route,
    },
    sandboxes, services, tasks, terminals, tokens, warm,
};
use hyper::Method;
use protocol::{
    CancelRequest, PermissionAnswer, ServiceView, ServicesRequest, SignalRequest, TtySize,
    api::{
        ActivityView, AgentView, AttemptView, BudgetSpec, BudgetView, DriverView, EgressProfile,
        EgressProfileView, EgressRules, EgressView, EnsureAnswer, EventView, ExecAnswer, ExecCreate,
        HostView, Image, ModelView, PortView, PreviewLinkCreate, PreviewLinkCreated, PreviewLinkView,
        ProviderSpec, ProviderView, SandboxSpec, SandboxView, StaleList, StatsView, TaskAnswer, TaskCreate,
        TaskEventView, TokenCreate, TokenCreated, TokenView, TtlChange, WarmAnswer, WarmCreate,
    },
};

const PAGE: &[Param] =
    &[("after", "Go on after this: `next` of the page before"), ("limit", "Entries, at most 1000")];
const WAIT: &[Param] = &[("wait", "How long to wait for the settled state: 30s, 5m, or 0; 60s unless given")];
const WAKE: &[Param] = &[("wake", "0: do not wake a sandbox that sleeps, answer not_running")];
const FOLLOW: &[Param] = &[("follow", "1: go on with what comes")];
const EVENTS: &[Param] = &[
    ("since", "Go on after the event with this number; `Last-Event-ID` does the same"),
    ("after", "The same as `since`: `next` of the page before"),
    ("limit", "Entries of a page, at most 1000"),
    ("follow", "1: as server-sent events that go on with what comes; 0: a page"),
    ("kind", "Only kinds that begin with one of these, with commas between"),
];
const WORKSPACE: &[Param] = &[("workspace", "keep or remove: what becomes of its files")];
const READ: &[Param] = &[
    ("after", "From this position: the `cursor` of the last chunk seen"),
    ("tail", "From so many lines before the end"),
    ("last", "From so many bytes before the end"),
    ("stream", "stdout or stderr only"),
];
/// Parameters of output and logs that runtimed understands.
pub const READING: &[&str] = &["after", "tail", "last", "stream", "follow"];

pub fn all() -> Vec<Route> {
    [
        health(),
        sandbox(),
        lifecycle_verbs(),
        look(),
        task(),
        exec(),
        service(),
        preview_link(),
        way_out(),
        tenant(),
        model(),
        operator(),
        older::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn health() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/healthz", Nothing, host::healthz)
            .says("hostd answers")
            .gives::<host::Health>(200),
        Route::new(Method::GET, "/readyz", Nothing, host::readyz)
            .says("The store answers, and the driver of new sandboxes is well")
            .gives::<host::Health>(200),
        Route::new(Method::GET, "/openapi.json", Nothing, host::openapi)
            .says("This document")
            .gives_raw(200, "application/json"),
        Route::new(Method::GET, "/metrics", Operator, host::metrics)
            .says("Numbers for Prometheus")
            .gives_raw(200, "text/plain"),
    ]
}

fn sandbox() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes", Write, sandboxes::create)
            .says("Create a sandbox, and wait until it runs")
            .query(WAIT)
            .takes::<SandboxSpec>()
            .by_key()
            .gives::<SandboxView>(201),
        Route::new(Method::POST, "/v1/sandboxes/ensure", Write, ensure::ensure)
            .says("The sandbox of a scope, awake and healthy; made if there is none")
            .query(WAIT)
            .takes::<SandboxSpec>()
            .by_key()
            .gives::<EnsureAnswer>(200)
            .gives::<EnsureAnswer>(201),
        Route::new(Method::GET, "/v1/sandboxes", Read, sandboxes::list)
            .says("Sandboxes, newest first")
            .query(PAGE)
            .query(&[
                ("status", "Only those with this status"),
                ("project", "Only those of this project"),
                ("all", "1: destroyed ones too"),
                (
                    "listening",
                    "1: with the ports that something listens on, where that is known within a second",
                ),
            ])
            .lists::<SandboxView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}", Read, sandboxes::get)
            .says("One sandbox, destroyed or not")
            .gives::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}", Write, sandboxes::patch)
            .says("Change its name or metadata")
            .takes::<sandboxes::SandboxChange>()
            .gives::<SandboxView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}", Write, sandboxes::delete)
            .says("Destroy it; its files too, unless they are to be kept")
            .query(WAIT)
            .query(WORKSPACE)
            .gives::<SandboxView>(200)
            .gives::<SandboxView>(202),
    ]
}

fn lifecycle_verbs() -> Vec<Route> {
    let settles = |route: Route| route.query(WAIT).gives::<SandboxView>(200).gives::<SandboxView>(202);
    vec![
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/start", Write, lifecycle::start).says("Start it")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/stop", Write, lifecycle::stop).says("Stop it; files stay")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/pause", Write, lifecycle::pause).says("Freeze it")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/resume", Write, lifecycle::resume).says("Thaw it")),
        settles(
            Route::new(Method::POST, "/v1/sandboxes/{id}/recreate", Write, lifecycle::recreate)
                .says("Stop it and bring it up again as it was made; its files stay unless they are to be removed")
                .query(WORKSPACE),
        ),
        Route::new(Method::POST, "/v1/sandboxes/{id}/keepalive", Write, lifecycle::keepalive)
            .says("Counts as activity: it sleeps later")
            .gives::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}/ttl", Write, lifecycle::ttl)
            .says("How long it may exist from now on")
            .takes::<TtlChange>()
            .gives::<SandboxView>(200),
    ]
}

fn look() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/activity", Read, activity::activity)
            .says("Why it is awake, and when it will sleep")
            .gives::<ActivityView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/attempts", Read, looks::attempts)
            .says("Tries to bring it up, newest first")
            .query(PAGE)
            .lists::<AttemptView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/events", Read, events::of_sandbox)
            .says("Its events, oldest first; server-sent events by `Accept: text/event-stream`")
            .query(EVENTS)
            .lists::<EventView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/ports", Read, looks::ports)
            .says("What listens in it, and where browsers see it")
            .lists::<PortView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/stats", Read, looks::stats)
            .says("Memory, CPU and processes")
            .gives::<StatsView>(200),
    ]
}

fn task() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks", Write, tasks::create)
            .says("Give it a task; a sandbox that sleeps is woken for it")
            .takes::<TaskCreate>()
            .by_key()
            .gives::<TaskAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks", Read, tasks::list)
            .says("Its tasks, newest first; without their results")
            .query(PAGE)
            .lists::<TaskAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}", Read, tasks::get)
            .says("One task, with its result when it is done; also of a destroyed sandbox")
            .gives::<TaskAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/events", Read, events::of_task)
            .says("What happens in it, as server-sent events that end after `done`; a page with `Accept: application/json`. 204: `Last-Event-ID` has seen it all")
            .query(EVENTS)
            .lists::<TaskEventView>(200)
            .gives_raw(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/log", Read, tasks::log)
            .says("What its agent printed, byte for byte, as the output of an exec is read; the end of it where it is a lot. Not of the agent `command`, whose lines are events")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .gives_raw(200, "application/x-ndjson"),
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks/{task}/cancel", Write, tasks::cancel)
            .says("End it, in whatever phase; 200 when it has ended")
            .gives::<TaskAnswer>(200)
            .gives::<TaskAnswer>(202),
        Route::new(Method::POST, "/v1/sandboxes/{id}/warm", Write, warm::create)
            .says("Start an agent before there is a task for it; the next task that asks for the same gets it. Asked for again while it is there, nothing is started: the answer says whether it is ready")
            .takes::<WarmCreate>()
            .gives::<WarmAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/warm", Read, warm::get)
            .says("The agent that was started in advance, and whether it is ready; not found once it has a task or has ended")
            .query(WAKE)
            .gives::<WarmAnswer>(200),
        Route::new(
            Method::POST,
            "/v1/sandboxes/{id}/tasks/{task}/permissions/{permission}",
            Write,
            permissions::answer,
        )
        .says("Allow or deny what its agent asked for; not_running when that was decided already")
        .takes::<PermissionAnswer>()
        .gives_raw(204, ""),
    ]
}

fn exec() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs", Write, execs::create)
            .says("Run a command; a command that fails is still 200")
            .query(WAKE)
            .takes::<ExecCreate>()
            .by_key()
            .gives::<ExecAnswer>(200)
            .gives::<ExecAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs", Read, execs::list)
            .says("Execs, newest first")
            .query(PAGE)
            .lists::<ExecAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs/{exec}", Read, execs::get)
            .says("One exec; with `wait`, its end and output")
            .query(&[("wait", "How long to wait for its end")])
            .gives::<ExecAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs/{exec}/output", Read, execs::output)
            .says("Its output as NDJSON, as server-sent events or as bytes, by `Accept`")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .gives_raw(200, "application/x-ndjson"),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/stdin", Write, execs::stdin)
            .says("The body is its input, as fast as it reads")
            .query(&[
                ("at", "Bytes sent before, each time with `at`: what is sent again is read once"),
                ("eof", "1: close the input afterwards"),
            ])
            .streams_in()
            .gives_raw(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/signal", Write, execs::signal)
            .says("Send a signal")
            .takes::<SignalRequest>()
            .gives_raw(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/cancel", Write, execs::cancel)
            .says("End it and everything it started")
            .takes::<CancelRequest>()
            .gives_raw(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/resize", Write, execs::resize)
            .says("Change the size of its terminal")
            .takes::<TtySize>()
            .gives_raw(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/terminals/{exec}", Write, terminals::attach)
            .says("Look at and type into a terminal, as a WebSocket")
            .query(WAKE)
            .query(&[
                ("replay", "Bytes shown before what follows, at most 1048576; 65536 unless given"),
                ("after", "From this position on, instead of `replay`"),
                ("skip", "0: show all, also to a viewer who is far behind"),
            ])
            .gives_raw(101, ""),
    ]
}

fn service() -> Vec<Route> {
    let drives = |route: Route, says| route.says(says).query(WAKE).gives::<ServiceView>(200);
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/services", Read, services::list)
            .says("Services and how they are")
            .query(WAKE)
            .lists::<ServiceView>(200),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/services", Write, services::put)
            .says("The whole set of services that come from the API")
            .query(WAKE)
            .takes::<ServicesRequest>()
            .lists::<ServiceView>(200),
        drives(
            Route::new(Method::POST, "/v1/sandboxes/{id}/services/{service}/start", Write, services::start),
            "Start a service",
        ),
        drives(
            Route::new(Method::POST, "/v1/sandboxes/{id}/services/{service}/stop", Write, services::stop),
            "Stop a service",
        ),
        drives(
            Route::new(
                Method::POST,
                "/v1/sandboxes/{id}/services/{service}/restart",
                Write,
                services::restart,
            ),
            "Restart a service",
        ),
        Route::new(Method::GET, "/v1/sandboxes/{id}/services/{service}/logs", Read, services::logs)
            .says("Its log, in the formats of output")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .gives_raw(200, "application/x-ndjson"),
    ]
}

fn preview_link() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/preview-links", Write, links::create)
            .says("Make a link to a private preview; the only answer that shows its pass")
            .takes::<PreviewLinkCreate>()
            .never_by_key()
            .gives::<PreviewLinkCreated>(201),
        Route::new(Method::GET, "/v1/sandboxes/{id}/preview-links", Read, links::list)
            .says("Links to its previews, newest first; without their passes")
            .query(PAGE)
            .lists::<PreviewLinkView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}/preview-links/{link}", Write, links::revoke)
            .says("Revoke a link, at once, and the cookies that came of it")
            .gives_raw(204, ""),
    ]
}

fn way_out() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/egress", Read, egress::get)
            .says("What its proxy lets through, and how much went through it")
            .gives::<EgressView>(200),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/egress", Write, egress::put)
            .says("Its rules, all at once; what is open and now denied ends")
            .takes::<EgressRules>()
            .gives::<EgressView>(200),
        Route::new(Method::GET, "/v1/egress-profiles", Admin, egress::profile_list)
            .says("Named sets of rules; `default` is in force for every sandbox")
            .lists::<EgressProfileView>(200),
        Route::new(Method::GET, "/v1/egress-profiles/{name}", Admin, egress::profile_get)
            .says("One set of rules")
            .gives::<EgressProfileView>(200),
        Route::new(Method::PUT, "/v1/egress-profiles/{name}", Operator, egress::profile_put)
            .says("Write a set of rules, for all sandboxes that name it, at once")
            .takes::<EgressProfile>()
            .gives::<EgressProfileView>(200),
        Route::new(Method::DELETE, "/v1/egress-profiles/{name}", Operator, egress::profile_delete)
            .says("Remove a set of rules: sandboxes that name it reach nothing; `default` is again as it was at first")
            .gives_raw(204, ""),
    ]
}

fn tenant() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/events", Read, events::all)
            .says(
                "All events the caller may see, as server-sent events; a page by `Accept: application/json`",
            )
            .query(EVENTS)
            .query(&[
                ("sandbox", "Only of this sandbox"),
                ("task", "Only what this task of the sandbox tells"),
            ])
            .gives_raw(200, "text/event-stream")
            .gives_raw(204, ""),
        Route::new(Method::POST, "/v1/tokens", Admin, tokens::create)
            .says("Make a token; the only answer that shows it")
            .takes::<TokenCreate>()
            .never_by_key()
            .gives::<TokenCreated>(201),
        Route::new(Method::GET, "/v1/tokens", Admin, tokens::list)
            .says("Tokens, newest first")
            .query(PAGE)
            .lists::<TokenView>(200),
        Route::new(Method::DELETE, "/v1/tokens/{token}", Admin, tokens::revoke)
            .says("Revoke a token, at once")
            .gives_raw(204, ""),
        Route::new(Method::GET, "/v1/audit", Admin, audits::list)
            .says("Calls that changed something or were refused, newest first")
            .query(PAGE)
            .lists::<audits::AuditView>(200),
        Route::new(Method::GET, "/v1/drivers", Read, drivers::list)
            .says("What runs sandboxes here, what could and what is missing for it; names that are not supported, and why")
            .lists::<DriverView>(200),
        Route::new(Method::GET, "/v1/agents", Read, agents::list)
            .says("Who can do tasks, the default first: installed here or in a sandbox, connected to a model")
            .query(&[("sandbox", "Look in this sandbox, and ask the agents there for their versions")])
            .query(WAKE)
            .lists::<AgentView>(200),
    ]
}

fn model() -> Vec<Route> {
    const TENANT: &[Param] = &[("tenant", "That of this tenant; that of everybody unless given")];
    vec![
        Route::new(Method::GET, "/v1/models", Read, models::list)
            .says("The models that tasks of the caller may use")
            .lists::<ModelView>(200),
        Route::new(Method::PUT, "/v1/model-providers/{provider}", Operator, models::put)
            .says("Add a provider of models, or put another in its place; its key is never shown")
            .takes::<ProviderSpec>()
            .gives::<ProviderView>(200),
        Route::new(Method::GET, "/v1/model-providers", Admin, models::providers)
            .says("Providers of models")
            .lists::<ProviderView>(200),
        Route::new(Method::DELETE, "/v1/model-providers/{provider}", Operator, models::remove)
            .says("Remove a provider of models, at once")
            .query(TENANT)
            .gives_raw(204, ""),
        Route::new(Method::PUT, "/v1/budgets/{tenant}", Operator, budgets::put)
            .says("Bound what all tasks of a tenant may use of models")
            .takes::<BudgetSpec>()
            .gives::<BudgetView>(200),
        Route::new(Method::GET, "/v1/budgets", Admin, budgets::list)
            .says("Budgets, and what is used of them")
            .lists::<BudgetView>(200),
        Route::new(Method::GET, "/v1/budgets/{tenant}", Admin, budgets::get)
            .says("The budget of a tenant, and what is used of it")
            .gives::<BudgetView>(200),
        Route::new(Method::DELETE, "/v1/budgets/{tenant}", Operator, budgets::remove)
            .says("Remove the bounds of a tenant")
            .gives_raw(204, ""),
    ]
}

fn operator() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/host", Operator, host::host)
            .says("What this host is and has")
            .gives::<HostView>(200),
        Route::new(Method::GET, "/v1/host/stale", Operator, drivers::stale)
            .says("What drivers find that carries our marks and is not ours: it is never touched")
            .gives::<StaleList>(200),
        Route::new(Method::GET, "/v1/images", Operator, images::list)
            .says("Imported images")
            .lists::<Image>(200),
        Route::new(Method::POST, "/v1/images", Operator, images::import)
            .says("Import an image from a path of the host")
            .takes::<images::ImageImport>()
            .by_key()
            .gives::<Image>(201),
        Route::new(Method::DELETE, "/v1/images/{name}", Operator, images::remove)
            .says("Remove an image that no sandbox is made of")
            .gives_raw(204, ""),
    ]
}
