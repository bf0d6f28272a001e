//! The table: every route of the API with its required access, request and responses.

use super::{
    access_routes, activity, agents, audit, backups, budgets, capacity, drivers, egress, ensure, events,
    execs, files, git, host, identity, image_pulls, images, inspect, lifecycle, models, older, permissions,
    port_tunnels, preview_links, quotas,
    route::{
        RequiredAccess::{Admin, Anonymous, Operator, Own, Read, Write},
        Route,
    },
    route_params::{
        AGENTS_OF, APPLY, COLLECT, EVENTS, EVENTS_OF, FOLLOW, LAST_EVENT_ID, OF_EXECS, PAGE, PAGE_BY_ATTEMPT,
        PAGE_BY_NAME, PAGE_BY_NUMBER, PATH_OF_CHANGE, READ, REPLACE, SANDBOXES, STDIN, TENANT, TERMINAL,
        WAIT, WAIT_FOR_EXEC, WAKE, WORKSPACE,
    },
    sandboxes, services, snapshot_routes, task_changes, task_revert, tasks, terminals, tokens, warm_agents,
    webhooks,
};
use hyper::Method;
use protocol::{
    CancelRequest, PermissionAnswer, ServiceView, ServicesRequest, SignalRequest, TtySize,
    api::{
        ActivityView, AgentView, AttemptView, BudgetSpec, BudgetView, DefaultImage, DriverView,
        EgressProfile, EgressProfileView, EgressRules, EgressView, EnsureAnswer, EventView, ExecAnswer,
        ExecCreate, HostView, Image, ImageCollection, ImageDetails, ImagePull, ImagePullCreate, LimitsChange,
        ModelView, PortView, PreviewLinkCreate, PreviewLinkCreated, PreviewLinkView, ProviderSpec,
        ProviderView, ReapReport, SandboxCost, SandboxSpec, SandboxView, StaleList, StatsView, TaskAnswer,
        TaskChangesView, TaskCreate, TaskEventView, TaskRevert, TaskRevertView, TokenCreate, TokenCreated,
        TokenView, TtlChange, WarmAnswer, WarmCreate,
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
        files::routes(),
        git::routes(),
        service(),
        preview_link(),
        egress_rules(),
        tenant(),
        access_routes::all(),
        snapshot_routes::all(),
        model(),
        quotas::routes(),
        identity::routes(),
        webhooks::routes(),
        audit::routes(),
        operator(),
        backups::routes(),
        older::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn health() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/healthz", Anonymous, host::healthz)
            .operation("getHealth", "Liveness of hostd")
            .returns::<host::HostHealth>(200),
        Route::new(Method::GET, "/readyz", Anonymous, host::readyz)
            .operation(
                "getReadiness",
                "Readiness: the store responds, the default driver is healthy, and the disk has room",
            )
            .returns::<host::HostHealth>(200),
        Route::new(Method::GET, "/openapi.json", Anonymous, host::openapi)
            .operation("getOpenapi", "This document")
            .returns_media(200, "application/json"),
        Route::new(Method::GET, "/metrics", Operator, host::metrics)
            .operation("getMetrics", "Metrics for Prometheus, in the text format of OpenMetrics")
            .returns_media(200, "application/openmetrics-text"),
    ]
}

fn sandbox() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes", Write, sandboxes::create)
            .operation("createSandbox", "Create a sandbox, and wait until it runs")
            .query(WAIT)
            .query(REPLACE)
            .query(WORKSPACE)
            .json_body::<SandboxSpec>()
            .idempotent_by_key()
            .returns::<SandboxView>(201),
        Route::new(Method::POST, "/v1/sandboxes/ensure", Write, ensure::ensure)
            .operation(
                "ensureSandbox",
                "Return the sandbox of a scope, awake and healthy; create it if there is none",
            )
            .query(WAIT)
            .json_body::<SandboxSpec>()
            .idempotent_by_key()
            .returns::<EnsureAnswer>(200)
            .returns::<EnsureAnswer>(201),
        Route::new(Method::GET, "/v1/sandboxes", Read, sandboxes::list)
            .operation("listSandboxes", "List sandboxes, newest first")
            .query(PAGE)
            .query(SANDBOXES)
            .returns_page::<SandboxView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}", Read, sandboxes::get)
            .operation("getSandbox", "Get a sandbox, destroyed or not")
            .returns::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}", Own, sandboxes::patch)
            .operation("updateSandbox", "Change the name or metadata of a sandbox")
            .json_body::<sandboxes::SandboxChange>()
            .returns::<SandboxView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}", Own, sandboxes::delete)
            .operation("deleteSandbox", "Destroy a sandbox and, unless `workspace=keep`, its files")
            .query(WAIT)
            .query(WORKSPACE)
            .returns::<SandboxView>(200)
            .returns::<SandboxView>(202),
    ]
}

fn lifecycle_verbs() -> Vec<Route> {
    let settles = |route: Route| route.query(WAIT).returns::<SandboxView>(200).returns::<SandboxView>(202);
    vec![
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/start", Write, lifecycle::start).operation("startSandbox", "Start a sandbox")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/stop", Write, lifecycle::stop).operation("stopSandbox", "Stop a sandbox; its files are kept")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/pause", Write, lifecycle::pause).operation("pauseSandbox", "Freeze a sandbox")),
        settles(Route::new(Method::POST, "/v1/sandboxes/{id}/resume", Write, lifecycle::resume).operation("resumeSandbox", "Thaw a sandbox")),
        settles(
            Route::new(Method::POST, "/v1/sandboxes/{id}/recreate", Own, lifecycle::recreate)
                .operation("recreateSandbox", "Stop a sandbox and launch it again from its spec; its files are kept unless `workspace=remove`")
                .query(WORKSPACE),
        ),
        Route::new(Method::POST, "/v1/sandboxes/{id}/keepalive", Write, lifecycle::keepalive)
            .operation("keepSandboxAlive", "Count as activity, so that the sandbox sleeps later")
            .returns::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}/ttl", Own, lifecycle::ttl)
            .operation("setSandboxTtl", "Set the remaining lifetime of a sandbox")
            .json_body::<TtlChange>()
            .returns::<SandboxView>(200),
        Route::new(Method::PATCH, "/v1/sandboxes/{id}/limits", Own, lifecycle::limits)
            .operation("setSandboxLimits", "Change memory, CPU and process limits of a sandbox; in force at once where it runs")
            .json_body::<LimitsChange>()
            .returns::<SandboxView>(200),
    ]
}

fn inspection() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/activity", Read, activity::activity)
            .operation("getSandboxActivity", "Why a sandbox is awake, and when it will sleep")
            .returns::<ActivityView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/attempts", Read, inspect::attempts)
            .operation("listAttempts", "List attempts to launch a sandbox, newest first")
            .query(PAGE_BY_ATTEMPT)
            .returns_page::<AttemptView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/events", Read, events::of_sandbox)
            .operation(
                "listSandboxEvents",
                "List events of a sandbox, oldest first; server-sent events by `Accept: text/event-stream`",
            )
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .returns_page::<EventView>(200)
            .returns_sse("EventView"),
        Route::new(Method::GET, "/v1/sandboxes/{id}/ports", Read, inspect::ports)
            .operation("listPorts", "List listening ports of a sandbox, with their preview URLs")
            .returns_page::<PortView>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/ports/{port}/tunnel", Write, port_tunnels::open)
            .operation(
                "attachPort",
                "Open a TCP connection to a port of a sandbox as a WebSocket; a sleeping sandbox is woken for it",
            )
            .query(WAKE)
            .returns_media(101, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/stats", Read, inspect::stats)
            .operation("getSandboxStats", "Memory, CPU and process usage of a sandbox")
            .returns::<StatsView>(200),
    ]
}

fn task() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks", Write, tasks::create)
            .operation("createTask", "Create a task; a sleeping sandbox is woken for it")
            .json_body::<TaskCreate>()
            .idempotent_by_key()
            .returns::<TaskAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks", Read, tasks::list)
            .operation("listTasks", "List tasks of a sandbox, newest first, without their results")
            .query(PAGE_BY_NAME)
            .returns_page::<TaskAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}", Read, tasks::get)
            .operation("getTask", "Get a task, with its result when it is done; also of a destroyed sandbox")
            .returns::<TaskAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/events", Read, events::of_task)
            .operation("listTaskEvents", "Events of a task, as server-sent events that end after `done`; a page with `Accept: application/json`. 204: no event after `Last-Event-ID` will come")
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .returns_page::<TaskEventView>(200)
            .returns_sse("TaskEventView")
            .returns_media(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/log", Read, tasks::log)
            .operation("readTaskLog", "Raw output of a task's agent, read as the output of an exec; only its end where there is much. Not of the agent `command`, whose lines are events")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .returns_output(),
        Route::new(Method::GET, "/v1/sandboxes/{id}/tasks/{task}/changes", Read, task_changes::get)
            .operation("getTaskChanges", "What a task changed, from its checkpoint to its end: files with their unified diffs, or with `Accept: text/x-diff` the diffs alone, of files whose diff is whole. Also of a sandbox that sleeps or is destroyed, without waking it")
            .query(PAGE_BY_NUMBER)
            .query(PATH_OF_CHANGE)
            .returns::<TaskChangesView>(200)
            .returns_media(200, "text/x-diff")
            .returns_media(200, "text/plain"),
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks/{task}/cancel", Write, tasks::cancel)
            .operation("cancelTask", "Cancel a task in any phase; 200 when it has ended")
            .returns::<TaskAnswer>(200)
            .returns::<TaskAnswer>(202),
        Route::new(Method::POST, "/v1/sandboxes/{id}/tasks/{task}/revert", Write, task_revert::revert)
            .operation("revertTask", "Restore the files of the app directory to the checkpoint before a task, all or one path: files changed or deleted since come back, those added since are deleted, ignored ones and the app's own repository stay. What is replaced or deleted is saved first. Wakes a sleeping sandbox; task_running while one of its tasks has not ended")
            .idempotent_by_key()
            .json_body::<TaskRevert>()
            .returns::<TaskRevertView>(200),
        Route::new(Method::POST, "/v1/sandboxes/{id}/warm", Write, warm_agents::create)
            .operation("warmAgent", "Start an agent before there is a task for it; the next task with the same spec adopts it. Repeated while the agent waits, the call starts nothing and reports whether it is ready")
            .json_body::<WarmCreate>()
            .returns::<WarmAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/warm", Read, warm_agents::get)
            .operation("getWarmAgent", "Get the warm agent, and whether it is ready; not found once it has a task or has ended")
            .query(WAKE)
            .returns::<WarmAnswer>(200),
        Route::new(
            Method::POST,
            "/v1/sandboxes/{id}/tasks/{task}/permissions/{permission}",
            Write,
            permissions::answer,
        )
        .operation("answerPermission", "Allow or deny a permission that an agent asked for; not_running when it was decided already")
        .json_body::<PermissionAnswer>()
        .returns_media(204, ""),
    ]
}

fn exec() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs", Write, execs::create)
            .operation("createExec", "Run a command; a failing command is still 200")
            .query(WAKE)
            .json_body::<ExecCreate>()
            .idempotent_by_key()
            .returns::<ExecAnswer>(200)
            .returns::<ExecAnswer>(202),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs", Read, execs::list)
            .operation("listExecs", "List execs, newest first")
            .query(PAGE_BY_NAME)
            .query(OF_EXECS)
            .returns_page::<ExecAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs/{exec}", Read, execs::get)
            .operation("getExec", "Get an exec; with `wait`, its exit and output")
            .query(WAIT_FOR_EXEC)
            .returns::<ExecAnswer>(200),
        Route::new(Method::GET, "/v1/sandboxes/{id}/execs/{exec}/output", Read, execs::output)
            .operation(
                "readExecOutput",
                "Output of an exec as NDJSON, as server-sent events or as bytes, by `Accept`",
            )
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .returns_output(),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/stdin", Write, execs::stdin)
            .operation(
                "writeExecStdin",
                "Write the body to the standard input of an exec, as fast as the exec reads",
            )
            .query(STDIN)
            .streamed_body()
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/signal", Write, execs::signal)
            .operation("signalExec", "Send a signal to an exec")
            .json_body::<SignalRequest>()
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/cancel", Write, execs::cancel)
            .operation("cancelExec", "End an exec and all processes it started")
            .json_body::<CancelRequest>()
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/sandboxes/{id}/execs/{exec}/resize", Write, execs::resize)
            .operation("resizeTerminal", "Change the size of an exec's terminal")
            .json_body::<TtySize>()
            .returns_media(204, ""),
        Route::new(Method::GET, "/v1/sandboxes/{id}/terminals/{exec}", Write, terminals::attach)
            .operation("attachTerminal", "Attach to a terminal as a WebSocket")
            .query(WAKE)
            .query(TERMINAL)
            .returns_media(101, ""),
    ]
}

fn service() -> Vec<Route> {
    let drives = |route: Route, id, says| route.operation(id, says).query(WAKE).returns::<ServiceView>(200);
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/services", Read, services::list)
            .operation("listServices", "List services and their states")
            .query(WAKE)
            .returns_page::<ServiceView>(200),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/services", Write, services::put)
            .operation("replaceServices", "Replace all services that come from the API")
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
            .operation("readServiceLog", "Log of a service, in the formats of exec output")
            .query(READ)
            .query(FOLLOW)
            .query(WAKE)
            .returns_output(),
    ]
}

fn preview_link() -> Vec<Route> {
    vec![
        Route::new(Method::POST, "/v1/sandboxes/{id}/preview-links", Own, preview_links::create)
            .operation(
                "createPreviewLink",
                "Create a link to a private preview; the only response that contains its pass",
            )
            .json_body::<PreviewLinkCreate>()
            .rejects_idempotency_key()
            .returns::<PreviewLinkCreated>(201),
        Route::new(Method::GET, "/v1/sandboxes/{id}/preview-links", Read, preview_links::list)
            .operation(
                "listPreviewLinks",
                "List links to previews of a sandbox, newest first, without their passes",
            )
            .query(PAGE)
            .returns_page::<PreviewLinkView>(200),
        Route::new(Method::DELETE, "/v1/sandboxes/{id}/preview-links/{link}", Own, preview_links::revoke)
            .operation("revokePreviewLink", "Revoke a link and the cookies issued for it, at once")
            .returns_media(204, ""),
    ]
}

fn egress_rules() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/sandboxes/{id}/egress", Read, egress::get)
            .operation("getEgress", "Get the egress rules of a sandbox, and how much traffic it used")
            .returns::<EgressView>(200),
        Route::new(Method::PUT, "/v1/sandboxes/{id}/egress", Own, egress::put)
            .operation("replaceEgress", "Replace the egress rules of a sandbox; open connections that are now denied end")
            .json_body::<EgressRules>()
            .returns::<EgressView>(200),
        Route::new(Method::GET, "/v1/egress-profiles", Admin, egress::profile_list)
            .operation("listEgressProfiles", "List egress profiles; `default` applies to every sandbox")
            .returns_page::<EgressProfileView>(200),
        Route::new(Method::GET, "/v1/egress-profiles/{name}", Admin, egress::profile_get)
            .operation("getEgressProfile", "Get an egress profile")
            .returns::<EgressProfileView>(200),
        Route::new(Method::PUT, "/v1/egress-profiles/{name}", Operator, egress::profile_put)
            .operation("putEgressProfile", "Write an egress profile; applies at once to all sandboxes that name it")
            .json_body::<EgressProfile>()
            .returns::<EgressProfileView>(200),
        Route::new(Method::DELETE, "/v1/egress-profiles/{name}", Operator, egress::profile_delete)
            .operation("deleteEgressProfile", "Remove an egress profile: sandboxes that name it reach nothing; `default` returns to its initial rules")
            .returns_media(204, ""),
    ]
}

fn tenant() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/events", Read, events::all)
            .operation(
                "listEvents", "All events visible to the caller, as server-sent events; a page by `Accept: application/json`",
            )
            .query(EVENTS)
            .headers(LAST_EVENT_ID)
            .query(EVENTS_OF)
            .returns_page::<EventView>(200)
            .returns_sse("EventView")
            .returns_media(204, ""),
        Route::new(Method::POST, "/v1/tokens", Admin, tokens::create)
            .operation("createToken", "Create a token; the only response that contains it")
            .json_body::<TokenCreate>()
            .rejects_idempotency_key()
            .returns::<TokenCreated>(201),
        Route::new(Method::GET, "/v1/tokens", Admin, tokens::list)
            .operation("listTokens", "List tokens, newest first")
            .query(PAGE)
            .returns_page::<TokenView>(200),
        Route::new(Method::DELETE, "/v1/tokens/{token}", Admin, tokens::revoke)
            .operation("revokeToken", "Revoke a token, at once")
            .returns_media(204, ""),
        Route::new(Method::GET, "/v1/drivers", Read, drivers::list)
            .operation("listDrivers", "List drivers: usable ones, unusable ones with what they lack, and unsupported names with the reason")
            .returns_page::<DriverView>(200),
        Route::new(Method::GET, "/v1/agents", Read, agents::list)
            .operation("listAgents", "List agents, the default first: whether they are installed, on the host or in a sandbox, and connected to a model")
            .query(AGENTS_OF)
            .query(WAKE)
            .returns_page::<AgentView>(200),
    ]
}

fn model() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/models", Read, models::list)
            .operation("listModels", "List models that tasks of the caller may use")
            .returns_page::<ModelView>(200),
        Route::new(Method::PUT, "/v1/model-providers/{provider}", Operator, models::put)
            .operation("putModelProvider", "Add or replace a model provider; its key is never returned")
            .json_body::<ProviderSpec>()
            .returns::<ProviderView>(200),
        Route::new(Method::GET, "/v1/model-providers", Admin, models::providers)
            .operation("listModelProviders", "List model providers")
            .returns_page::<ProviderView>(200),
        Route::new(Method::DELETE, "/v1/model-providers/{provider}", Operator, models::remove)
            .operation("deleteModelProvider", "Remove a model provider, at once")
            .query(TENANT)
            .returns_media(204, ""),
        Route::new(Method::PUT, "/v1/budgets/{tenant}", Operator, budgets::put)
            .operation("putBudget", "Set the model budget of all tasks of a tenant")
            .json_body::<BudgetSpec>()
            .returns::<BudgetView>(200),
        Route::new(Method::GET, "/v1/budgets", Admin, budgets::list)
            .operation("listBudgets", "List budgets and their use")
            .returns_page::<BudgetView>(200),
        Route::new(Method::GET, "/v1/budgets/{tenant}", Admin, budgets::get)
            .operation("getBudget", "Get the budget of a tenant and its use")
            .returns::<BudgetView>(200),
        Route::new(Method::DELETE, "/v1/budgets/{tenant}", Operator, budgets::remove)
            .operation("deleteBudget", "Remove the budget of a tenant")
            .returns_media(204, ""),
    ]
}

fn operator() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/host", Operator, host::host)
            .operation("getHost", "Version, drivers and resources of this host")
            .returns::<HostView>(200),
        Route::new(Method::GET, "/v1/host/sandboxes", Operator, capacity::sandboxes)
            .operation("listSandboxCosts", "What each sandbox costs this host, the largest use of memory first")
            .query(PAGE_BY_NUMBER)
            .returns_page::<SandboxCost>(200),
        Route::new(Method::POST, "/v1/host/reap", Operator, capacity::reap)
            .operation("reapHost", "List what destroyed sandboxes left; with `apply`, remove it. What fails verification is never touched")
            .query(APPLY)
            .returns::<ReapReport>(200),
        Route::new(Method::GET, "/v1/host/stale", Operator, drivers::stale)
            .operation(
                "listStaleResources",
                "List resources that carry labels of hostd but fail verification: they are never touched",
            )
            .returns::<StaleList>(200),
        Route::new(Method::GET, "/v1/images", Operator, images::list)
            .operation("listImages", "List the images of this host")
            .returns_page::<Image>(200),
        Route::new(Method::POST, "/v1/images", Operator, images::import)
            .operation("importImage", "Import an image from a path of the host")
            .json_body::<images::ImageImport>()
            .idempotent_by_key()
            .returns::<Image>(201),
        Route::new(Method::POST, "/v1/images/collect", Operator, images::collect)
            .operation("reapImages", "List pulled images that are not used, and layers of none; with `apply`, remove them")
            .query(COLLECT)
            .returns::<ImageCollection>(200),
        Route::new(Method::GET, "/v1/images/{name}", Operator, images::inspect)
            .operation("getImage", "An image with its configuration, by its name or reference")
            .returns::<ImageDetails>(200),
        Route::new(Method::POST, "/v1/image-pulls", Operator, image_pulls::create)
            .operation("createImagePull", "Pull an image from its registry, with the login of the caller's tenant")
            .json_body::<ImagePullCreate>()
            .returns::<ImagePull>(202),
        Route::new(Method::GET, "/v1/image-pulls/{pull}", Operator, image_pulls::get)
            .operation("getImagePull", "The progress of a pull, and its end")
            .returns::<ImagePull>(200),
        Route::new(Method::GET, "/v1/default-image", Operator, images::default_image)
            .operation("getDefaultImage", "The image of sandboxes that name none")
            .returns::<DefaultImage>(200),
        Route::new(Method::PUT, "/v1/default-image", Operator, images::set_default)
            .operation("setDefaultImage", "Choose the image of sandboxes that name none")
            .json_body::<DefaultImage>()
            .returns::<DefaultImage>(200),
        Route::new(Method::DELETE, "/v1/default-image", Operator, images::unset_default)
            .operation("deleteDefaultImage", "Leave the image of sandboxes that name none to the configuration")
            .returns_media(204, ""),
        Route::new(Method::DELETE, "/v1/images/{name}", Operator, images::remove)
            .operation("deleteImage", "Remove an image that no sandbox uses")
            .returns_media(204, ""),
    ]
}
