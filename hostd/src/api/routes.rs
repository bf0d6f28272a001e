//! The table: every route of the API, who may call it, what it takes and gives.

use super::{
    activity, agents, audits, budgets, drivers, egress, ensure, events, execs, host, images, lifecycle,
    links, looks, models, older,
    params::{
        AGENTS_OF, EVENTS, EVENTS_OF, FOLLOW, LAST_EVENT_ID, PAGE, PAGE_BY_ATTEMPT, PAGE_BY_NAME,
        PAGE_BY_NUMBER, READ, SANDBOXES, STDIN, TENANT, TERMINAL, WAIT, WAIT_FOR_EXEC, WAKE, WORKSPACE,
    },
    permissions,
    route::{
        Needs::{Admin, Nothing, Operator, Read, Write},
        Route,
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
            .says("getHealth", "hostd answers")
            .gives::<host::HostHealth>(200),
        Route::new(Method::GET, "/readyz", Nothing, host::readyz)
            .says("getReadiness", "The store answers, and the driver of new sandboxes is well")
            .gives::<host::HostHealth>(200),
        Route::new(Method::GET, "/openapi.json", Nothing, host::openapi)
            .says("getOpenapi", "This document")
            .gives_raw(200, "application/json"),
        Route::new(Method::GET, "/metrics", Operator, host::metrics)
            .says("getMetrics", "Numbers for Prometheus")
            .gives_raw(200, "text/plain"),
    ]
}

fn sandbox() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes", Write, sandboxes::create)
            .says("createSandbox", "Create a sandbox, and wait until it runs")
            .query(WAIT)
            .takes::<SandboxSpec>()
            .by_key()
            .gives::<SandboxView>(201),
        Route::new(Method::POST, "/v1/sandboxes/ensure", Write, ensure::ensure)
            .says("ensureSandbox", "The sandbox of a scope, awake and healthy; made if there is none")
            .query(WAIT)
            .takes::<SandboxSpec>()
            .by_key()
            .gives::<EnsureAnswer>(200)
            .gives::<EnsureAnswer>(201),
        Route::new(Method::GET, "/v1/sandboxes", Read, sandboxes::list)
            .says("listSandboxes", "Sandboxes, newest first")
            .query(PAGE)
            .query(SANDBOXES)
            .lists::<SandboxView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}", Read, sandboxes::get)
            .says("getSandbox", "One sandbox, destroyed or not")
            .gives::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}", Write, sandboxes::patch)
            .says("updateSandbox", "Change its name or metadata")
            .takes::<sandboxes::SandboxChange>()
            .gives::<SandboxView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}", Write, sandboxes::delete)
            .says("deleteSandbox", "Destroy it; its files too, unless they are to be kept")
            .query(WAIT)
            .query(WORKSPACE)
            .gives::<SandboxView>(200)
            .gives::<SandboxView>(202),
    ]
}

fn lifecycle_verbs() -> Vec<Route> {
    let settles = |route: Route| route.query(WAIT).gives::<SandboxView>(200).gives::<SandboxView>(202);
    vec![
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/start", Write, lifecycle::start).says("startSandbox", "Start it")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/stop", Write, lifecycle::stop).says("stopSandbox", "Stop it; files stay")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/pause", Write, lifecycle::pause).says("pauseSandbox", "Freeze it")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/resume", Write, lifecycle::resume).says("resumeSandbox", "Thaw it")),
        settles(
            Route::new(Method::POST, "/v1/sandboxes/{id}/recreate", Write, lifecycle::recreate)
                .says("recreateSandbox", "Stop it and bring it up again as it was made; its files stay unless they are to be removed")
                .query(WORKSPACE),
        ),
        Route::new(Method::POST, "/v1/sandboxes/{id}/keepalive", Write, lifecycle::keepalive)
            .says("keepSandboxAlive", "Counts as activity: it sleeps later")
            .gives::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}/ttl", Write, lifecycle::ttl)
            .says("setSandboxTtl", "How long it may exist from now on")
            .takes::<TtlChange>()
            .gives::<SandboxView>(200),
    ]
}

fn look() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/activity", Read, activity::activity)
            .says("getSandboxActivity", "Why it is awake, and when it will sleep")
            .gives::<ActivityView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/attempts", Read, looks::attempts)
            .says("listAttempts", "Tries to bring it up, newest first")
            .query(PAGE_BY_ATTEMPT)
            .lists::<AttemptView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/events", Read, events::of_sandbox)
            .says(
                "listSandboxEvents",
                "Its events, oldest first; server-sent events by `Accept: text/event-stream`",
            )
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .lists::<EventView>(200)
            .streams_events(),
        Route::new(Method::GET, "/v1/sandboxes/{id}/ports", Read, looks::ports)
            .says("listPorts", "What listens in it, and where browsers see it")
            .lists::<PortView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/stats", Read, looks::stats)
            .says("getSandboxStats", "Memory, CPU and processes")
            .gives::<StatsView>(200),
    ]
}

fn task() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks", Write, tasks::create)
            .says("createTask", "Give it a task; a sandbox that sleeps is woken for it")
            .takes::<TaskCreate>()
            .by_key()
            .gives::<TaskAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks", Read, tasks::list)
            .says("listTasks", "Its tasks, newest first; without their results")
            .query(PAGE_BY_NAME)
            .lists::<TaskAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}", Read, tasks::get)
            .says("getTask", "One task, with its result when it is done; also of a destroyed sandbox")
            .gives::<TaskAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/events", Read, events::of_task)
            .says("listTaskEvents", "What happens in it, as server-sent events that end after `done`; a page with `Accept: application/json`. 204: `Last-Event-ID` has seen it all")
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .lists::<TaskEventView>(200)
            .streams_events()
            .gives_raw(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/log", Read, tasks::log)
            .says("readTaskLog", "What its agent printed, byte for byte, as the output of an exec is read; the end of it where it is a lot. Not of the agent `command`, whose lines are events")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .gives_output(),
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks/{task}/cancel", Write, tasks::cancel)
            .says("cancelTask", "End it, in whatever phase; 200 when it has ended")
            .gives::<TaskAnswer>(200)
            .gives::<TaskAnswer>(202),
        Route::new(Method::POST, "/v1/sandboxes/{id}/warm", Write, warm::create)
            .says("warmAgent", "Start an agent before there is a task for it; the next task that asks for the same gets it. Asked for again while it is there, nothing is started: the answer says whether it is ready")
            .takes::<WarmCreate>()
            .gives::<WarmAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/warm", Read, warm::get)
            .says("getWarmAgent", "The agent that was started in advance, and whether it is ready; not found once it has a task or has ended")
            .query(WAKE)
            .gives::<WarmAnswer>(200),
        Route::new(
            Method::POST,
            "/v1/sandboxes/{id}/tasks/{task}/permissions/{permission}",
            Write,
            permissions::answer,
        )
        .says("answerPermission", "Allow or deny what its agent asked for; not_running when that was decided already")
        .takes::<PermissionAnswer>()
        .gives_raw(204, ""),
    ]
}

fn exec() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs", Write, execs::create)
            .says("createExec", "Run a command; a command that fails is still 200")
            .query(WAKE)
            .takes::<ExecCreate>()
            .by_key()
            .gives::<ExecAnswer>(200)
            .gives::<ExecAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs", Read, execs::list)
            .says("listExecs", "Execs, newest first")
            .query(PAGE_BY_NAME)
            .lists::<ExecAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs/{exec}", Read, execs::get)
            .says("getExec", "One exec; with `wait`, its end and output")
            .query(WAIT_FOR_EXEC)
            .gives::<ExecAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs/{exec}/output", Read, execs::output)
            .says("readExecOutput", "Its output as NDJSON, as server-sent events or as bytes, by `Accept`")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .gives_output(),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/stdin", Write, execs::stdin)
            .says("writeExecStdin", "The body is its input, as fast as it reads")
            .query(STDIN)
            .streams_in()
            .gives_raw(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/signal", Write, execs::signal)
            .says("signalExec", "Send a signal")
            .takes::<SignalRequest>()
            .gives_raw(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/cancel", Write, execs::cancel)
            .says("cancelExec", "End it and everything it started")
            .takes::<CancelRequest>()
            .gives_raw(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/resize", Write, execs::resize)
            .says("resizeTerminal", "Change the size of its terminal")
            .takes::<TtySize>()
            .gives_raw(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/terminals/{exec}", Write, terminals::attach)
            .says("attachTerminal", "Look at and type into a terminal, as a WebSocket")
            .query(WAKE)
            .query(TERMINAL)
            .gives_raw(101, ""),
    ]
}

fn service() -> Vec<Route> {
    let drives = |route: Route, id, says| route.says(id, says).query(WAKE).gives::<ServiceView>(200);
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/services", Read, services::list)
            .says("listServices", "Services and how they are")
            .query(WAKE)
            .lists::<ServiceView>(200),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/services", Write, services::put)
            .says("replaceServices", "The whole set of services that come from the API")
            .query(WAKE)
            .takes::<ServicesRequest>()
            .lists::<ServiceView>(200),
        drives(
            Route::new(Method::POST, "/v1/sandboxes/{id}/services/{service}/start", Write, services::start),
            "startService",
            "Start a service",
        ),
        drives(
            Route::new(Method::POST, "/v1/sandboxes/{id}/services/{service}/stop", Write, services::stop),
            "stopService",
            "Stop a service",
        ),
        drives(
            Route::new(
                Method::POST,
                "/v1/sandboxes/{id}/services/{service}/restart",
                Write,
                services::restart,
            ),
            "restartService",
            "Restart a service",
        ),
        Route::new(Method::GET, "/v1/sandboxes/{id}/services/{service}/logs", Read, services::logs)
            .says("readServiceLog", "Its log, in the formats of output")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .gives_output(),
    ]
}

fn preview_link() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/preview-links", Write, links::create)
            .says(
                "createPreviewLink",
                "Make a link to a private preview; the only answer that shows its pass",
            )
            .takes::<PreviewLinkCreate>()
            .never_by_key()
            .gives::<PreviewLinkCreated>(201),
        Route::new(Method::GET, "/v1/sandboxes/{id}/preview-links", Read, links::list)
            .says("listPreviewLinks", "Links to its previews, newest first; without their passes")
            .query(PAGE)
            .lists::<PreviewLinkView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}/preview-links/{link}", Write, links::revoke)
            .says("revokePreviewLink", "Revoke a link, at once, and the cookies that came of it")
            .gives_raw(204, ""),
    ]
}

fn way_out() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/egress", Read, egress::get)
            .says("getEgress", "What its proxy lets through, and how much went through it")
            .gives::<EgressView>(200),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/egress", Write, egress::put)
            .says("replaceEgress", "Its rules, all at once; what is open and now denied ends")
            .takes::<EgressRules>()
            .gives::<EgressView>(200),
        Route::new(Method::GET, "/v1/egress-profiles", Admin, egress::profile_list)
            .says("listEgressProfiles", "Named sets of rules; `default` is in force for every sandbox")
            .lists::<EgressProfileView>(200),
        Route::new(Method::GET, "/v1/egress-profiles/{name}", Admin, egress::profile_get)
            .says("getEgressProfile", "One set of rules")
            .gives::<EgressProfileView>(200),
        Route::new(Method::PUT, "/v1/egress-profiles/{name}", Operator, egress::profile_put)
            .says("putEgressProfile", "Write a set of rules, for all sandboxes that name it, at once")
            .takes::<EgressProfile>()
            .gives::<EgressProfileView>(200),
        Route::new(Method::DELETE, "/v1/egress-profiles/{name}", Operator, egress::profile_delete)
            .says("deleteEgressProfile", "Remove a set of rules: sandboxes that name it reach nothing; `default` is again as it was at first")
            .gives_raw(204, ""),
    ]
}

fn tenant() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/events", Read, events::all)
            .says(
                "listEvents", "All events the caller may see, as server-sent events; a page by `Accept: application/json`",
            )
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .query(EVENTS_OF)
            .lists::<EventView>(200)
            .streams_events()
            .gives_raw(204, ""),
        Route::new(Method::POST, "/v1/tokens", Admin, tokens::create)
            .says("createToken", "Make a token; the only answer that shows it")
            .takes::<TokenCreate>()
            .never_by_key()
            .gives::<TokenCreated>(201),
        Route::new(Method::GET, "/v1/tokens", Admin, tokens::list)
            .says("listTokens", "Tokens, newest first")
            .query(PAGE)
            .lists::<TokenView>(200),
        Route::new(Method::DELETE, "/v1/tokens/{token}", Admin, tokens::revoke)
            .says("revokeToken", "Revoke a token, at once")
            .gives_raw(204, ""),
        Route::new(Method::GET, "/v1/audit", Admin, audits::list)
            .says("listAudit", "Calls that changed something or were refused, newest first")
            .query(PAGE_BY_NUMBER)
            .lists::<audits::AuditView>(200),
        Route::new(Method::GET, "/v1/drivers", Read, drivers::list)
            .says("listDrivers", "What runs sandboxes here, what could and what is missing for it; names that are not supported, and why")
            .lists::<DriverView>(200),
        Route::new(Method::GET, "/v1/agents", Read, agents::list)
            .says("listAgents", "Who can do tasks, the default first: installed here or in a sandbox, connected to a model")
            .query(AGENTS_OF)
            .query(WAKE)
            .lists::<AgentView>(200),
    ]
}

fn model() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/models", Read, models::list)
            .says("listModels", "The models that tasks of the caller may use")
            .lists::<ModelView>(200),
        Route::new(Method::PUT, "/v1/model-providers/{provider}", Operator, models::put)
            .says(
                "putModelProvider",
                "Add a provider of models, or put another in its place; its key is never shown",
            )
            .takes::<ProviderSpec>()
            .gives::<ProviderView>(200),
        Route::new(Method::GET, "/v1/model-providers", Admin, models::providers)
            .says("listModelProviders", "Providers of models")
            .lists::<ProviderView>(200),
        Route::new(Method::DELETE, "/v1/model-providers/{provider}", Operator, models::remove)
            .says("deleteModelProvider", "Remove a provider of models, at once")
            .query(TENANT)
            .gives_raw(204, ""),
        Route::new(Method::PUT, "/v1/budgets/{tenant}", Operator, budgets::put)
            .says("putBudget", "Bound what all tasks of a tenant may use of models")
            .takes::<BudgetSpec>()
            .gives::<BudgetView>(200),
        Route::new(Method::GET, "/v1/budgets", Admin, budgets::list)
            .says("listBudgets", "Budgets, and what is used of them")
            .lists::<BudgetView>(200),
        Route::new(Method::GET, "/v1/budgets/{tenant}", Admin, budgets::get)
            .says("getBudget", "The budget of a tenant, and what is used of it")
            .gives::<BudgetView>(200),
        Route::new(Method::DELETE, "/v1/budgets/{tenant}", Operator, budgets::remove)
            .says("deleteBudget", "Remove the bounds of a tenant")
            .gives_raw(204, ""),
    ]
}

fn operator() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/host", Operator, host::host)
            .says("getHost", "What this host is and has")
            .gives::<HostView>(200),
        Route::new(Method::GET, "/v1/host/stale", Operator, drivers::stale)
            .says(
                "listStaleResources",
                "What drivers find that carries our marks and is not ours: it is never touched",
            )
            .gives::<StaleList>(200),
        Route::new(Method::GET, "/v1/images", Operator, images::list)
            .says("listImages", "Imported images")
            .lists::<Image>(200),
        Route::new(Method::POST, "/v1/images", Operator, images::import)
            .says("importImage", "Import an image from a path of the host")
            .takes::<images::ImageImport>()
            .by_key()
            .gives::<Image>(201),
        Route::new(Method::DELETE, "/v1/images/{name}", Operator, images::remove)
            .says("deleteImage", "Remove an image that no sandbox is made of")
            .gives_raw(204, ""),
    ]
}
