//! The table: every route of the API, who may call it, what it takes and gives.

use super::{
    activity, agents, audit, budgets, drivers, egress, ensure, events, execs, host, images, inspect,
    lifecycle, models, older, permissions, preview_links,
    route::{
        RequiredAccess::{Admin, Anonymous, Operator, Read, Write},
        Route,
    },
    route_params::{
        AGENTS_OF, EVENTS, EVENTS_OF, FOLLOW, LAST_EVENT_ID, PAGE, PAGE_BY_ATTEMPT, PAGE_BY_NAME,
        PAGE_BY_NUMBER, READ, SANDBOXES, STDIN, TENANT, TERMINAL, WAIT, WAIT_FOR_EXEC, WAKE, WORKSPACE,
    },
    sandboxes, services, tasks, terminals, tokens, warm_agents,
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
        inspection(),
        task(),
        exec(),
        service(),
        preview_link(),
        egress_rules(),
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
        Route::new(Method::GET, "/healthz", Anonymous, host::healthz)
            .operation("getHealth", "hostd answers")
            .returns::<host::HostHealth>(200),
        Route::new(Method::GET, "/readyz", Anonymous, host::readyz)
            .operation("getReadiness", "The store answers, and the driver of new sandboxes is well")
            .returns::<host::HostHealth>(200),
        Route::new(Method::GET, "/openapi.json", Anonymous, host::openapi)
            .operation("getOpenapi", "This document")
            .returns_media(200, "application/json"),
        Route::new(Method::GET, "/metrics", Operator, host::metrics)
            .operation("getMetrics", "Numbers for Prometheus")
            .returns_media(200, "text/plain"),
    ]
}

fn sandbox() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes", Write, sandboxes::create)
            .operation("createSandbox", "Create a sandbox, and wait until it runs")
            .query(WAIT)
            .json_body::<SandboxSpec>()
            .idempotent_by_key()
            .returns::<SandboxView>(201),
        Route::new(Method::POST, "/v1/sandboxes/ensure", Write, ensure::ensure)
            .operation("ensureSandbox", "The sandbox of a scope, awake and healthy; made if there is none")
            .query(WAIT)
            .json_body::<SandboxSpec>()
            .idempotent_by_key()
            .returns::<EnsureAnswer>(200)
            .returns::<EnsureAnswer>(201),
        Route::new(Method::GET, "/v1/sandboxes", Read, sandboxes::list)
            .operation("listSandboxes", "Sandboxes, newest first")
            .query(PAGE)
            .query(SANDBOXES)
            .returns_page::<SandboxView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}", Read, sandboxes::get)
            .operation("getSandbox", "One sandbox, destroyed or not")
            .returns::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}", Write, sandboxes::patch)
            .operation("updateSandbox", "Change its name or metadata")
            .json_body::<sandboxes::SandboxChange>()
            .returns::<SandboxView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}", Write, sandboxes::delete)
            .operation("deleteSandbox", "Destroy it; its files too, unless they are to be kept")
            .query(WAIT)
            .query(WORKSPACE)
            .returns::<SandboxView>(200)
            .returns::<SandboxView>(202),
    ]
}

fn lifecycle_verbs() -> Vec<Route> {
    let settles = |route: Route| route.query(WAIT).returns::<SandboxView>(200).returns::<SandboxView>(202);
    vec![
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/start", Write, lifecycle::start).operation("startSandbox", "Start it")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/stop", Write, lifecycle::stop).operation("stopSandbox", "Stop it; files stay")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/pause", Write, lifecycle::pause).operation("pauseSandbox", "Freeze it")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/resume", Write, lifecycle::resume).operation("resumeSandbox", "Thaw it")),
        settles(
            Route::new(Method::POST, "/v1/sandboxes/{id}/recreate", Write, lifecycle::recreate)
                .operation("recreateSandbox", "Stop it and bring it up again as it was made; its files stay unless they are to be removed")
                .query(WORKSPACE),
        ),
        Route::new(Method::POST, "/v1/sandboxes/{id}/keepalive", Write, lifecycle::keepalive)
            .operation("keepSandboxAlive", "Counts as activity: it sleeps later")
            .returns::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}/ttl", Write, lifecycle::ttl)
            .operation("setSandboxTtl", "How long it may exist from now on")
            .json_body::<TtlChange>()
            .returns::<SandboxView>(200),
    ]
}

fn inspection() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/activity", Read, activity::activity)
            .operation("getSandboxActivity", "Why it is awake, and when it will sleep")
            .returns::<ActivityView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/attempts", Read, inspect::attempts)
            .operation("listAttempts", "Tries to bring it up, newest first")
            .query(PAGE_BY_ATTEMPT)
            .returns_page::<AttemptView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/events", Read, events::of_sandbox)
            .operation(
                "listSandboxEvents",
                "Its events, oldest first; server-sent events by `Accept: text/event-stream`",
            )
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .returns_page::<EventView>(200)
            .returns_sse(),
        Route::new(Method::GET, "/v1/sandboxes/{id}/ports", Read, inspect::ports)
            .operation("listPorts", "What listens in it, and where browsers see it")
            .returns_page::<PortView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/stats", Read, inspect::stats)
            .operation("getSandboxStats", "Memory, CPU and processes")
            .returns::<StatsView>(200),
    ]
}

fn task() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks", Write, tasks::create)
            .operation("createTask", "Give it a task; a sandbox that sleeps is woken for it")
            .json_body::<TaskCreate>()
            .idempotent_by_key()
            .returns::<TaskAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks", Read, tasks::list)
            .operation("listTasks", "Its tasks, newest first; without their results")
            .query(PAGE_BY_NAME)
            .returns_page::<TaskAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}", Read, tasks::get)
            .operation("getTask", "One task, with its result when it is done; also of a destroyed sandbox")
            .returns::<TaskAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/events", Read, events::of_task)
            .operation("listTaskEvents", "What happens in it, as server-sent events that end after `done`; a page with `Accept: application/json`. 204: `Last-Event-ID` has seen it all")
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .returns_page::<TaskEventView>(200)
            .returns_sse()
            .returns_media(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/log", Read, tasks::log)
            .operation("readTaskLog", "What its agent printed, byte for byte, as the output of an exec is read; the end of it where it is a lot. Not of the agent `command`, whose lines are events")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .returns_output(),
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks/{task}/cancel", Write, tasks::cancel)
            .operation("cancelTask", "End it, in whatever phase; 200 when it has ended")
            .returns::<TaskAnswer>(200)
            .returns::<TaskAnswer>(202),
        Route::new(Method::POST, "/v1/sandboxes/{id}/warm", Write, warm_agents::create)
            .operation("warmAgent", "Start an agent before there is a task for it; the next task that asks for the same gets it. Asked for again while it is there, nothing is started: the answer says whether it is ready")
            .json_body::<WarmCreate>()
            .returns::<WarmAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/warm", Read, warm_agents::get)
            .operation("getWarmAgent", "The agent that was started in advance, and whether it is ready; not found once it has a task or has ended")
            .query(WAKE)
            .returns::<WarmAnswer>(200),
        Route::new(
            Method::POST,
            "/v1/sandboxes/{id}/tasks/{task}/permissions/{permission}",
            Write,
            permissions::answer,
        )
        .operation("answerPermission", "Allow or deny what its agent asked for; not_running when that was decided already")
        .json_body::<PermissionAnswer>()
        .returns_media(204, ""),
    ]
}

fn exec() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs", Write, execs::create)
            .operation("createExec", "Run a command; a command that fails is still 200")
            .query(WAKE)
            .json_body::<ExecCreate>()
            .idempotent_by_key()
            .returns::<ExecAnswer>(200)
            .returns::<ExecAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs", Read, execs::list)
            .operation("listExecs", "Execs, newest first")
            .query(PAGE_BY_NAME)
            .returns_page::<ExecAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs/{exec}", Read, execs::get)
            .operation("getExec", "One exec; with `wait`, its end and output")
            .query(WAIT_FOR_EXEC)
            .returns::<ExecAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs/{exec}/output", Read, execs::output)
            .operation(
                "readExecOutput",
                "Its output as NDJSON, as server-sent events or as bytes, by `Accept`",
            )
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .returns_output(),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/stdin", Write, execs::stdin)
            .operation("writeExecStdin", "The body is its input, as fast as it reads")
            .query(STDIN)
            .streamed_body()
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/signal", Write, execs::signal)
            .operation("signalExec", "Send a signal")
            .json_body::<SignalRequest>()
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/cancel", Write, execs::cancel)
            .operation("cancelExec", "End it and everything it started")
            .json_body::<CancelRequest>()
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/resize", Write, execs::resize)
            .operation("resizeTerminal", "Change the size of its terminal")
            .json_body::<TtySize>()
            .returns_media(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/terminals/{exec}", Write, terminals::attach)
            .operation("attachTerminal", "Look at and type into a terminal, as a WebSocket")
            .query(WAKE)
            .query(TERMINAL)
            .returns_media(101, ""),
    ]
}

fn service() -> Vec<Route> {
    let drives = |route: Route, id, says| route.operation(id, says).query(WAKE).returns::<ServiceView>(200);
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/services", Read, services::list)
            .operation("listServices", "Services and how they are")
            .query(WAKE)
            .returns_page::<ServiceView>(200),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/services", Write, services::put)
            .operation("replaceServices", "The whole set of services that come from the API")
            .query(WAKE)
            .json_body::<ServicesRequest>()
            .returns_page::<ServiceView>(200),
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
            .operation("readServiceLog", "Its log, in the formats of output")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .returns_output(),
    ]
}

fn preview_link() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/preview-links", Write, preview_links::create)
            .operation(
                "createPreviewLink",
                "Make a link to a private preview; the only answer that shows its pass",
            )
            .json_body::<PreviewLinkCreate>()
            .rejects_idempotency_key()
            .returns::<PreviewLinkCreated>(201),
        Route::new(Method::GET, "/v1/sandboxes/{id}/preview-links", Read, preview_links::list)
            .operation("listPreviewLinks", "Links to its previews, newest first; without their passes")
            .query(PAGE)
            .returns_page::<PreviewLinkView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}/preview-links/{link}", Write, preview_links::revoke)
            .operation("revokePreviewLink", "Revoke a link, at once, and the cookies that came of it")
            .returns_media(204, ""),
    ]
}

fn egress_rules() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/egress", Read, egress::get)
            .operation("getEgress", "What its proxy lets through, and how much went through it")
            .returns::<EgressView>(200),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/egress", Write, egress::put)
            .operation("replaceEgress", "Its rules, all at once; what is open and now denied ends")
            .json_body::<EgressRules>()
            .returns::<EgressView>(200),
        Route::new(Method::GET, "/v1/egress-profiles", Admin, egress::profile_list)
            .operation("listEgressProfiles", "Named sets of rules; `default` is in force for every sandbox")
            .returns_page::<EgressProfileView>(200),
        Route::new(Method::GET, "/v1/egress-profiles/{name}", Admin, egress::profile_get)
            .operation("getEgressProfile", "One set of rules")
            .returns::<EgressProfileView>(200),
        Route::new(Method::PUT, "/v1/egress-profiles/{name}", Operator, egress::profile_put)
            .operation("putEgressProfile", "Write a set of rules, for all sandboxes that name it, at once")
            .json_body::<EgressProfile>()
            .returns::<EgressProfileView>(200),
        Route::new(Method::DELETE, "/v1/egress-profiles/{name}", Operator, egress::profile_delete)
            .operation("deleteEgressProfile", "Remove a set of rules: sandboxes that name it reach nothing; `default` is again as it was at first")
            .returns_media(204, ""),
    ]
}

fn tenant() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/events", Read, events::all)
            .operation(
                "listEvents", "All events the caller may see, as server-sent events; a page by `Accept: application/json`",
            )
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .query(EVENTS_OF)
            .returns_page::<EventView>(200)
            .returns_sse()
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/tokens", Admin, tokens::create)
            .operation("createToken", "Make a token; the only answer that shows it")
            .json_body::<TokenCreate>()
            .rejects_idempotency_key()
            .returns::<TokenCreated>(201),
        Route::new(Method::GET, "/v1/tokens", Admin, tokens::list)
            .operation("listTokens", "Tokens, newest first")
            .query(PAGE)
            .returns_page::<TokenView>(200),
        Route::new(Method::DELETE, "/v1/tokens/{token}", Admin, tokens::revoke)
            .operation("revokeToken", "Revoke a token, at once")
            .returns_media(204, ""),
        Route::new(Method::GET, "/v1/audit", Admin, audit::list)
            .operation("listAudit", "Calls that changed something or were refused, newest first")
            .query(PAGE_BY_NUMBER)
            .returns_page::<audit::AuditView>(200),
        Route::new(Method::GET, "/v1/drivers", Read, drivers::list)
            .operation("listDrivers", "What runs sandboxes here, what could and what is missing for it; names that are not supported, and why")
            .returns_page::<DriverView>(200),
        Route::new(Method::GET, "/v1/agents", Read, agents::list)
            .operation("listAgents", "Who can do tasks, the default first: installed here or in a sandbox, connected to a model")
            .query(AGENTS_OF)
            .query(WAKE)
            .returns_page::<AgentView>(200),
    ]
}

fn model() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/models", Read, models::list)
            .operation("listModels", "The models that tasks of the caller may use")
            .returns_page::<ModelView>(200),
        Route::new(Method::PUT, "/v1/model-providers/{provider}", Operator, models::put)
            .operation(
                "putModelProvider",
                "Add a provider of models, or put another in its place; its key is never shown",
            )
            .json_body::<ProviderSpec>()
            .returns::<ProviderView>(200),
        Route::new(Method::GET, "/v1/model-providers", Admin, models::providers)
            .operation("listModelProviders", "Providers of models")
            .returns_page::<ProviderView>(200),
        Route::new(Method::DELETE, "/v1/model-providers/{provider}", Operator, models::remove)
            .operation("deleteModelProvider", "Remove a provider of models, at once")
            .query(TENANT)
            .returns_media(204, ""),
        Route::new(Method::PUT, "/v1/budgets/{tenant}", Operator, budgets::put)
            .operation("putBudget", "Bound what all tasks of a tenant may use of models")
            .json_body::<BudgetSpec>()
            .returns::<BudgetView>(200),
        Route::new(Method::GET, "/v1/budgets", Admin, budgets::list)
            .operation("listBudgets", "Budgets, and what is used of them")
            .returns_page::<BudgetView>(200),
        Route::new(Method::GET, "/v1/budgets/{tenant}", Admin, budgets::get)
            .operation("getBudget", "The budget of a tenant, and what is used of it")
            .returns::<BudgetView>(200),
        Route::new(Method::DELETE, "/v1/budgets/{tenant}", Operator, budgets::remove)
            .operation("deleteBudget", "Remove the bounds of a tenant")
            .returns_media(204, ""),
    ]
}

fn operator() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/host", Operator, host::host)
            .operation("getHost", "What this host is and has")
            .returns::<HostView>(200),
        Route::new(Method::GET, "/v1/host/stale", Operator, drivers::stale)
            .operation(
                "listStaleResources",
                "What drivers find that carries our marks and is not ours: it is never touched",
            )
            .returns::<StaleList>(200),
        Route::new(Method::GET, "/v1/images", Operator, images::list)
            .operation("listImages", "Imported images")
            .returns_page::<Image>(200),
        Route::new(Method::POST, "/v1/images", Operator, images::import)
            .operation("importImage", "Import an image from a path of the host")
            .json_body::<images::ImageImport>()
            .idempotent_by_key()
            .returns::<Image>(201),
        Route::new(Method::DELETE, "/v1/images/{name}", Operator, images::remove)
            .operation("deleteImage", "Remove an image that no sandbox is made of")
            .returns_media(204, ""),
    ]
}
