//! Access control: every route for every kind of caller, and the audit log.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};
use protocol::api::ApiErrorCode;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use tests::host::until;
use tests::{Caller, Hostd, Reply};
use tokio::process::Command;

/// The callers that a route admits.
#[derive(Clone, Copy, PartialEq)]
enum For {
    Everybody,
    /// Every caller with a token; each sees its own objects.
    Known,
    /// The same, who may also change.
    Runner,
    /// Callers that may see the sandbox.
    Seeing,
    /// Callers that may see and use the sandbox.
    Driving,
    /// Callers to whom the sandbox belongs.
    Owning,
    /// The same, of a sandbox that is destroyed, with its shares.
    OwningDestroyed,
    /// The administrator of a tenant.
    Admin,
    /// The administrator of the tenant of the token.
    AdminOfToken,
    /// The same of the webhook.
    AdminOfWebhook,
    Operator,
}

/// Every route, in an order in which each of them can be done; a body, and the statuses of success.
const ROUTES: &[(&str, For, &str, &[u16])] = &[
    ("GET /healthz", For::Everybody, "", &[200]),
    ("GET /readyz", For::Everybody, "", &[200]),
    ("GET /openapi.json", For::Everybody, "", &[200]),
    ("GET /metrics", For::Operator, "", &[200]),
    ("GET /v1/drivers", For::Known, "", &[200]),
    ("GET /v1/agents", For::Known, "", &[200]),
    ("GET /v1/events", For::Known, "", &[200]),
    ("GET /v1/sandboxes", For::Known, "", &[200]),
    ("GET /v1/sandboxes/{id}", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/activity", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/attempts", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/events", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/ports", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/stats", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/egress", For::Seeing, "", &[200]),
    ("PUT /v1/sandboxes/{id}/egress", For::Owning, r#"{"deny": ["a.example"]}"#, &[200]),
    ("GET /v1/egress-profiles", For::Admin, "", &[200]),
    ("PUT /v1/egress-profiles/{name}", For::Operator, r#"{"deny": ["a.example"]}"#, &[200]),
    ("GET /v1/egress-profiles/{name}", For::Admin, "", &[200]),
    // The second who removes it comes too late.
    ("DELETE /v1/egress-profiles/{name}", For::Operator, "", &[204, 404]),
    ("GET /v1/sandboxes/{id}/tasks", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/tasks/{task}", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/tasks/{task}/events", For::Seeing, "", &[200]),
    // That of a command is its events.
    ("GET /v1/sandboxes/{id}/tasks/{task}/log", For::Seeing, "", &[409]),
    ("GET /v1/sandboxes/{id}/tasks/{task}/changes", For::Seeing, "", &[200, 409]),
    // While the task runs that is made for this table.
    ("POST /v1/sandboxes/{id}/tasks/{task}/revert", For::Driving, r#"{"dry_run": true}"#, &[200, 409]),
    ("PUT /v1/sandboxes/{id}/files/content?path=f", For::Driving, "x", &[200, 201]),
    ("GET /v1/sandboxes/{id}/files/content?path=f", For::Seeing, "", &[200]),
    ("HEAD /v1/sandboxes/{id}/files/content?path=f", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/files", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/files/stat?path=f", For::Seeing, "", &[200]),
    // The app directory is no repository.
    ("GET /v1/sandboxes/{id}/git/status", For::Seeing, "", &[422]),
    ("GET /v1/sandboxes/{id}/git/diff", For::Seeing, "", &[422]),
    ("GET /v1/sandboxes/{id}/git/log", For::Seeing, "", &[422]),
    ("POST /v1/sandboxes/{id}/git/commit", For::Driving, r#"{"message": "x"}"#, &[422]),
    ("POST /v1/sandboxes/{id}/git/branch", For::Driving, r#"{"name": "x"}"#, &[422]),
    ("POST /v1/sandboxes/{id}/git/push", For::Driving, "{}", &[422]),
    ("POST /v1/sandboxes/{id}/git/fetch", For::Driving, "{}", &[422]),
    ("GET /v1/sandboxes/{id}/files/search?name=f", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/files/archive", For::Seeing, "", &[200]),
    // A stream would not end; that there is no such directory is told to callers that may see the sandbox.
    ("GET /v1/sandboxes/{id}/files/watch?path=none", For::Seeing, "", &[404]),
    ("POST /v1/sandboxes/{id}/files/mkdir?path=d", For::Driving, "", &[200, 201]),
    ("POST /v1/sandboxes/{id}/files/copy?from=f&to=c&overwrite=true", For::Driving, "", &[200]),
    // Only the first finds it.
    ("POST /v1/sandboxes/{id}/files/move?from=c&to=m&overwrite=true", For::Driving, "", &[200, 404]),
    ("DELETE /v1/sandboxes/{id}/files/content?path=m", For::Driving, "", &[204, 404]),
    (
        "POST /v1/sandboxes/{id}/files/write-many",
        For::Driving,
        r#"{"files": [{"path": "w", "content": ""}]}"#,
        &[200],
    ),
    ("PUT /v1/sandboxes/{id}/files/archive", For::Driving, "no archive", &[400]),
    ("POST /v1/sandboxes/{id}/file-links", For::Owning, r#"{"method": "GET", "path": "f"}"#, &[201]),
    ("GET /v1/sandboxes/{id}/file-links", For::Seeing, "", &[200]),
    ("DELETE /v1/sandboxes/{id}/file-links/{file_link}", For::Owning, "", &[404]),
    // Without a signature, which is all that counts, whoever asks.
    ("GET /v1/sandboxes/{id}/file-links/{file_link}/content", For::Everybody, "", &[401]),
    ("PUT /v1/sandboxes/{id}/file-links/{file_link}/content", For::Everybody, "x", &[401]),
    ("GET /v1/sandboxes/{id}/ports/{port}/tunnel", For::Driving, "", &[502]),
    ("GET /v1/sandboxes/{id}/execs", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/execs/{exec}", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/execs/{exec}/output", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/terminals/{exec}", For::Driving, "", &[101]),
    // No warm agent exists, which callers that may see the sandbox learn.
    ("GET /v1/sandboxes/{id}/warm", For::Seeing, "", &[404]),
    ("GET /v1/sandboxes/{id}/services", For::Seeing, "", &[200]),
    ("GET /v1/sandboxes/{id}/services/{service}/logs", For::Seeing, "", &[200]),
    ("POST /v1/sandboxes/{id}/preview-links", For::Owning, r#"{"port": 3000}"#, &[201]),
    ("GET /v1/sandboxes/{id}/preview-links", For::Seeing, "", &[200]),
    ("DELETE /v1/sandboxes/{id}/preview-links/{link}", For::Owning, "", &[204]),
    ("GET /v1/sandboxes/{id}/shares", For::Seeing, "", &[200]),
    ("PUT /v1/sandboxes/{id}/shares/principals/{principal}", For::Owning, r#"{"access": "run"}"#, &[200]),
    // Only the first finds it.
    ("DELETE /v1/sandboxes/{id}/shares/principals/{principal}", For::Owning, "", &[204, 404]),
    // There is none: it would let all colleagues see the sandbox.
    ("DELETE /v1/sandboxes/{id}/shares/tenant", For::Owning, "", &[404]),
    ("PATCH /v1/sandboxes/{id}", For::Owning, r#"{"name": "n"}"#, &[200]),
    ("PATCH /v1/sandboxes/{id}/ttl", For::Owning, r#"{"ttl": null}"#, &[200]),
    ("PATCH /v1/sandboxes/{id}/limits", For::Owning, r#"{"pids": 300}"#, &[200]),
    ("POST /v1/sandboxes/{id}/keepalive", For::Driving, "", &[200]),
    ("POST /v1/sandboxes/{id}/tasks", For::Driving, r#"{"prompt": "x", "command": ["true"]}"#, &[202]),
    ("POST /v1/sandboxes/{id}/warm", For::Driving, r#"{"agent": "command"}"#, &[400]),
    // No permission is pending, which callers that may change the sandbox learn.
    (
        "POST /v1/sandboxes/{id}/tasks/{task}/permissions/{permission}",
        For::Driving,
        r#"{"decision": "allow"}"#,
        &[404],
    ),
    ("POST /v1/sandboxes/{id}/tasks/{task}/cancel", For::Driving, "", &[200, 202]),
    ("POST /v1/sandboxes/{id}/execs", For::Driving, r#"{"shell": "true"}"#, &[200]),
    ("POST /v1/sandboxes/{id}/execs/{exec}/stdin", For::Driving, "x", &[204]),
    ("POST /v1/sandboxes/{id}/execs/{exec}/signal", For::Driving, r#"{"signal": "WINCH"}"#, &[204]),
    ("POST /v1/sandboxes/{id}/execs/{exec}/resize", For::Driving, r#"{"cols": 9, "rows": 9}"#, &[204]),
    // The second who cancels comes too late.
    ("POST /v1/sandboxes/{id}/execs/{exec}/cancel", For::Driving, r#"{"grace_ms": 0}"#, &[204, 409]),
    ("POST /v1/sandboxes/{id}/services/{service}/restart", For::Driving, "", &[200]),
    ("POST /v1/sandboxes/{id}/services/{service}/stop", For::Driving, "", &[200]),
    ("POST /v1/sandboxes/{id}/services/{service}/start", For::Driving, "", &[200]),
    ("PUT /v1/sandboxes/{id}/services", For::Driving, r#"{"services": []}"#, &[200]),
    ("POST /v1/sandboxes/{id}/pause", For::Driving, "", &[200]),
    ("POST /v1/sandboxes/{id}/resume", For::Driving, "", &[200]),
    ("POST /v1/sandboxes/{id}/stop", For::Driving, "", &[200]),
    ("POST /v1/sandboxes/{id}/start", For::Driving, "", &[200]),
    ("POST /v1/sandboxes/{id}/snapshots", For::Owning, "{}", &[201]),
    ("POST /v1/sandboxes/{id}/recreate", For::Owning, "", &[200]),
    ("GET /sandboxes", For::Known, "", &[200]),
    ("GET /sandbox/{id}", For::Seeing, "", &[200]),
    ("POST /wake/{id}", For::Driving, "", &[200]),
    ("POST /sandbox/{id}/exec", For::Driving, r#"{"cmd": ["true"]}"#, &[200]),
    ("POST /sandbox/{id}/keepalive", For::Driving, r#"{"until": 4102444800}"#, &[200]),
    // Only the first finds it.
    ("DELETE /sandbox/{id}", For::Owning, "", &[204, 404]),
    ("POST /sandbox/{id}/purge", For::OwningDestroyed, "", &[200, 404]),
    ("POST /sandbox", For::Runner, "{}", &[201]),
    ("DELETE /v1/sandboxes/{id}", For::OwningDestroyed, "", &[200]),
    ("PUT /v1/sandboxes/{id}/shares/tenant", For::OwningDestroyed, r#"{"access": "read"}"#, &[410]),
    ("DELETE /v1/sandboxes/{id}/shares", For::OwningDestroyed, "", &[410]),
    ("POST /v1/sandboxes", For::Runner, "{}", &[201]),
    ("POST /v1/sandboxes/ensure", For::Runner, "{}", &[200, 201]),
    ("POST /v1/tokens", For::Admin, r#"{"tenant": "{tenant}", "principal": "p"}"#, &[201]),
    ("GET /v1/tokens", For::Admin, "", &[200]),
    ("DELETE /v1/tokens/{token}", For::AdminOfToken, "", &[204]),
    ("PUT /v1/secrets/{name}", For::Admin, r#"{"value": "of-a-test"}"#, &[200]),
    ("GET /v1/secrets", For::Admin, "", &[200]),
    // Each removes that of its own tenant; the second of a tenant comes too late.
    ("DELETE /v1/secrets/{name}", For::Admin, "", &[204, 404]),
    ("GET /v1/audit", For::Admin, "", &[200]),
    ("GET /v1/audit/export", For::Admin, "", &[200]),
    // Nothing answers there.
    ("POST /v1/webhooks", For::Admin, r#"{"url": "https://127.0.0.1:1/"}"#, &[201]),
    ("GET /v1/webhooks", For::Admin, "", &[200]),
    ("GET /v1/webhooks/{webhook}", For::AdminOfWebhook, "", &[200]),
    ("PATCH /v1/webhooks/{webhook}", For::AdminOfWebhook, r#"{"enabled": false}"#, &[200]),
    ("POST /v1/webhooks/{webhook}/secret", For::AdminOfWebhook, "", &[200]),
    ("POST /v1/webhooks/{webhook}/test", For::AdminOfWebhook, "", &[200]),
    ("GET /v1/webhooks/{webhook}/deliveries", For::AdminOfWebhook, "", &[200]),
    ("POST /v1/webhooks/{webhook}/redeliver", For::AdminOfWebhook, r#"{"dead": true}"#, &[202]),
    // Only the first finds it.
    ("DELETE /v1/webhooks/{webhook}", For::AdminOfWebhook, "", &[204, 404]),
    ("GET /v1/models", For::Known, "", &[200]),
    (
        "PUT /v1/model-providers/{provider}",
        For::Operator,
        r#"{"dialect": "openai", "key": "sk-of-a-test", "verify": false}"#,
        &[200],
    ),
    ("GET /v1/model-providers", For::Admin, "", &[200]),
    ("DELETE /v1/model-providers/{provider}", For::Operator, "", &[204]),
    ("PUT /v1/budgets/{tenant}", For::Operator, r#"{"tokens": 5, "per": "day"}"#, &[200]),
    ("GET /v1/budgets", For::Admin, "", &[200]),
    // Each asks for that of its own tenant, and only one has one.
    ("GET /v1/budgets/{tenant}", For::Admin, "", &[200, 404]),
    ("DELETE /v1/budgets/{tenant}", For::Operator, "", &[204]),
    ("GET /v1/quota", For::Known, "", &[200]),
    ("GET /v1/identity", For::Known, "", &[200]),
    ("PUT /v1/quotas/{tenant}", For::Operator, r#"{"sandboxes": 1000}"#, &[200]),
    ("PUT /v1/quotas/{tenant}/principals/{principal}", For::Admin, r#"{"sandboxes": 1000}"#, &[200]),
    ("GET /v1/quotas", For::Admin, "", &[200]),
    ("GET /v1/quotas/{tenant}", For::Admin, "", &[200]),
    ("GET /v1/quotas/{tenant}/principals/{principal}", For::Admin, "", &[200]),
    // The second who removes it comes too late.
    ("DELETE /v1/quotas/{tenant}/principals/{principal}", For::Admin, "", &[204, 404]),
    ("DELETE /v1/quotas/{tenant}", For::Operator, "", &[204, 404]),
    ("GET /v1/host", For::Operator, "", &[200]),
    ("GET /v1/host/stale", For::Operator, "", &[200]),
    ("GET /v1/host/sandboxes", For::Operator, "", &[200]),
    ("POST /v1/host/reap", For::Operator, "", &[200]),
    ("POST /v1/host/backup", For::Operator, r#"{"passphrase": "long enough", "workspaces": "none"}"#, &[200]),
    ("GET /v1/images", For::Operator, "", &[200]),
    ("POST /v1/images", For::Operator, r#"{"name": "i", "path": "/nowhere"}"#, &[400, 422]),
    ("GET /v1/images/{name}", For::Operator, "", &[404]),
    ("DELETE /v1/images/{name}", For::Operator, "", &[404]),
    ("POST /v1/images/collect", For::Operator, "", &[200]),
    ("POST /v1/image-pulls", For::Operator, r#"{"reference": "127.0.0.1:1/x:1"}"#, &[422]),
    ("GET /v1/image-pulls/{pull}", For::Operator, "", &[404]),
    ("GET /v1/snapshots", For::Known, "", &[200]),
    ("POST /v1/snapshots", For::Runner, "no archive", &[422]),
    ("GET /v1/snapshots/{snapshot}", For::Known, "", &[404]),
    ("GET /v1/snapshots/{snapshot}/manifest", For::Known, "", &[404]),
    ("GET /v1/snapshots/{snapshot}/archive", For::Known, "", &[404]),
    ("POST /v1/snapshots/{snapshot}/verify", For::Known, "", &[404]),
    ("POST /v1/snapshots/{snapshot}/restore", For::Runner, "{}", &[404]),
    ("POST /v1/snapshots/{snapshot}/fork", For::Runner, "{}", &[404]),
    ("DELETE /v1/snapshots/{snapshot}", For::Runner, "", &[404]),
    ("GET /v1/default-image", For::Operator, "", &[200]),
    ("PUT /v1/default-image", For::Operator, r#"{"image": "nowhere-at-all"}"#, &[422]),
    ("DELETE /v1/default-image", For::Operator, "", &[204]),
];

/// The relation of a caller to the sandbox.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Owner,
    Reader,
    Colleague,
    /// A colleague with whom the sandbox is shared to read.
    SharedRead,
    SharedRun,
    /// The principal of `SharedRun`, with a token of scope read.
    SharedRunReader,
    /// Any colleague; another sandbox of the owner is shared with the whole tenant to run.
    TenantShared,
    /// A colleague with whom the sandbox was shared to run.
    Unshared,
    Admin,
    Stranger,
    /// The principal of `SharedRun`, of another tenant.
    Namesake,
    OtherAdmin,
    Anonymous,
    Revoked,
    Expired,
    Operator,
}

impl Who {
    /// Not found is all that these are told about the sandbox.
    fn is_foreign(self) -> bool {
        matches!(self, Self::Colleague | Self::Unshared | Self::Stranger | Self::Namesake | Self::OtherAdmin)
    }

    fn is_shared(self) -> bool {
        matches!(self, Self::SharedRead | Self::SharedRun | Self::SharedRunReader | Self::TenantShared)
    }
}

/// The rule. `None` is success.
fn refusal(needs: For, who: Who) -> Option<u16> {
    use Who::{
        Admin, Anonymous, Expired, Operator, OtherAdmin, Reader, Revoked, SharedRead, SharedRunReader,
        TenantShared,
    };
    let token_reads = matches!(who, Reader | SharedRunReader);
    match (needs, who) {
        (For::Everybody, _) | (_, Operator) => None,
        (_, Anonymous | Revoked | Expired) => Some(401),
        (For::Known, _) => None,
        (For::Runner, _) => token_reads.then_some(403),
        (For::Seeing, who) => who.is_foreign().then_some(404),
        (For::Driving | For::Owning | For::OwningDestroyed, _) if token_reads => Some(403),
        (For::Driving, SharedRead) => Some(403),
        (For::Owning, who) if who.is_shared() => Some(403),
        // The sandbox of this caller lives on.
        (For::OwningDestroyed, TenantShared) => Some(403),
        (For::OwningDestroyed, who) if who.is_shared() => Some(404),
        (For::Driving | For::Owning | For::OwningDestroyed, who) => who.is_foreign().then_some(404),
        (For::AdminOfToken | For::AdminOfWebhook, OtherAdmin) => Some(404),
        (For::Admin | For::AdminOfToken | For::AdminOfWebhook, Admin | OtherAdmin) => None,
        (For::Admin | For::AdminOfToken | For::AdminOfWebhook, _) => Some(403),
        (For::Operator, _) => Some(403),
    }
}

async fn token(hostd: &Hostd, body: &Value) -> Result<(String, Caller)> {
    let created: Value = hostd.operator()?.post("/v1/tokens", body).await?.expect(201)?;
    let text = |field: &str| created[field].as_str().map(str::to_owned).context("a token");
    Ok((text("id")?, Caller::tcp(hostd.url(), Some(&text("token")?))))
}

async fn callers(hostd: &Hostd) -> Result<Vec<(Who, Caller)>> {
    let (revoked_id, revoked) = token(hostd, &json!({"tenant": "a", "principal": "ann"})).await?;
    let gone = hostd.operator()?.delete(&format!("/v1/tokens/{revoked_id}")).await?;
    ensure!(gone.status == 204, "{}", gone.text());
    let (_, expired) = token(hostd, &json!({"tenant": "a", "principal": "ann", "ttl": "1s"})).await?;
    until("it expires", async || Ok((expired.get("/v1/drivers").await?.status == 401).then_some(()))).await?;
    Ok(vec![
        (Who::Anonymous, expired.with_token(None)),
        (Who::Revoked, revoked),
        (Who::Expired, expired),
        (Who::Stranger, hostd.caller("b", "ann", "run").await?),
        (Who::Namesake, hostd.caller("b", "dave", "run").await?),
        (Who::OtherAdmin, hostd.caller("b", "ann", "admin").await?),
        // Before the owner, who destroys the sandbox.
        (Who::SharedRead, hostd.caller("a", "rita", "run").await?),
        (Who::SharedRun, hostd.caller("a", "dave", "run").await?),
        (Who::SharedRunReader, hostd.caller("a", "dave", "read").await?),
        (Who::TenantShared, hostd.caller("a", "tess", "run").await?),
        (Who::Unshared, hostd.caller("a", "una", "run").await?),
        (Who::Colleague, hostd.caller("a", "bob", "run").await?),
        (Who::Reader, hostd.caller("a", "ann", "read").await?),
        (Who::Owner, hostd.caller("a", "ann", "run").await?),
        (Who::Admin, hostd.caller("a", "carl", "admin").await?),
        (Who::Operator, hostd.operator()?),
    ])
}

async fn call(caller: &Caller, route: &str, body: &str, names: &[(&str, &str)]) -> Result<Reply> {
    let (mut route, mut body) = (route.to_owned(), body.to_owned());
    for (name, value) in names {
        route = route.replace(name, value);
        body = body.replace(name, value);
    }
    let (method, path) = route.split_once(' ').context("a route")?;
    let mut request = Request::builder().method(method).uri(path).header("accept", "application/json");
    if path.contains("/terminals/") || path.ends_with("/tunnel") {
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        request = request.header("connection", "Upgrade").header("upgrade", "websocket");
        request = request.header("sec-websocket-version", "13").header("sec-websocket-key", key);
    }
    caller.call(request.body(Full::new(Bytes::from(body)))?).await
}

/// A route as the document has it.
fn without_query(route: &str) -> &str {
    route.split('?').next().unwrap_or_default()
}

/// Its id, and that of a link to a preview of it.
async fn owned_sandbox(owner: &Caller) -> Result<(String, String)> {
    let services = json!([{"name": "web", "command": "sleep 1000"}]);
    let id = owner.create(&json!({"services": services})).await?;
    let exec = json!({"id": "e1", "argv": ["cat"], "tty": true});
    owner.post(&format!("/v1/sandboxes/{id}/execs"), &exec).await?.expect::<Value>(202)?;
    let task = json!({"id": "t1", "prompt": "x", "command": ["true"]});
    owner.post(&format!("/v1/sandboxes/{id}/tasks"), &task).await?.expect::<Value>(202)?;
    let link: Value = owner
        .post(&format!("/v1/sandboxes/{id}/preview-links"), &json!({"port": 3000}))
        .await?
        .expect(201)?;
    Ok((id, link["id"].as_str().context("a link")?.to_owned()))
}

/// Shares a sandbox as the table of callers says.
async fn share(owner: &Caller, id: &str) -> Result<()> {
    let shares = format!("/v1/sandboxes/{id}/shares");
    for (principal, access) in [("rita", "read"), ("dave", "run"), ("una", "run")] {
        let path = format!("{shares}/principals/{principal}");
        owner.put(&path, &json!({ "access": access })).await?.expect::<Value>(200)?;
    }
    let ended = owner.delete(&format!("{shares}/principals/una")).await?;
    ensure!(ended.status == 204, "{}", ended.text());
    Ok(())
}

#[tokio::test]
async fn every_route_is_open_to_whom_it_is_for_and_closed_to_all_others() -> Result<()> {
    let hostd = Hostd::start().await?;
    let callers = callers(&hostd).await?;
    let owner = &callers.iter().find(|(who, _)| *who == Who::Owner).context("the owner")?.1;
    let (own, link) = owned_sandbox(owner).await?;
    share(owner, &own).await?;
    let (tenants, _) = owned_sandbox(owner).await?;
    let of_tenant = format!("/v1/sandboxes/{tenants}/shares/tenant");
    owner.put(&of_tenant, &json!({"access": "run"})).await?.expect::<Value>(200)?;
    let (spare, _) = token(&hostd, &json!({"tenant": "a", "principal": "dora"})).await?;
    let webhook = json!({"url": "https://127.0.0.1:1/", "tenant": "a"});
    let webhook: Value = hostd.operator()?.post("/v1/webhooks", &webhook).await?.expect(201)?;
    let webhook = webhook["id"].as_str().context("an id")?.to_owned();
    for (route, needs, body, success) in ROUTES {
        for (who, caller) in &callers {
            let id = if *who == Who::TenantShared { &tenants } else { &own };
            let tenant = if *who == Who::OtherAdmin { "b" } else { "a" };
            let names = |id| {
                [
                    ("{id}", id),
                    ("{exec}", "e1"),
                    ("{task}", "t1"),
                    ("{service}", "web"),
                    ("{link}", &link),
                    ("{file_link}", "01jb9xyzabcdefghjkmnpqrstw"),
                    ("{port}", "1"),
                    ("{permission}", "p1"),
                    ("{name}", "i"),
                    ("{snapshot}", "01jzzzzzzzzzzzzzzzzzzzzzzz"),
                    ("{pull}", "01jzzzzzzzzzzzzzzzzzzzzzzz"),
                    ("{provider}", "p1"),
                    ("{principal}", "zoe"),
                    ("{tenant}", tenant),
                ]
            };
            let real = [names(id).as_slice(), &[("{token}", &spare), ("{webhook}", &webhook)]].concat();
            let reply = call(caller, route, body, &real).await?;
            let told = || format!("{route} for {who:?}: {} {}", reply.status, reply.text());
            match refusal(*needs, *who) {
                None => ensure!(success.contains(&reply.status), told()),
                Some(expected) => {
                    ensure!(reply.status == expected, told());
                    if who.is_shared() && expected == 403 {
                        // This caller sees the sandbox, and is told what is missing.
                        continue;
                    }
                    let (no_sandbox, no_token) = ("01jb9xyzabcdefghjkmnpqrstv", "nope");
                    let unknown =
                        [names(no_sandbox).as_slice(), &[("{token}", no_token), ("{webhook}", no_token)]]
                            .concat();
                    let other = call(caller, route, body, &unknown).await?;
                    // Both repeat the id that was asked for, and nothing else tells them apart.
                    let text = other.text().replace(no_sandbox, id);
                    let same_kind = if route.contains("{webhook}") { &webhook } else { &spare };
                    let text = text.replace(no_token, same_kind);
                    let same = other.status == reply.status && text == reply.text();
                    ensure!(same, "{}: unlike what is not there: {}", told(), other.text());
                }
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_table_of_this_file_has_every_documented_route() -> Result<()> {
    let hostd = Hostd::start().await?;
    let document: Value = hostd.local().get("/openapi.json").await?.expect(200)?;
    let mut documented = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().context("paths")? {
        let methods = methods.as_object().context("methods")?.keys();
        documented.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    let here: BTreeSet<String> = ROUTES.iter().map(|(route, ..)| without_query(route).to_owned()).collect();
    ensure!(here == documented, "{:?}", here.symmetric_difference(&documented).collect::<Vec<_>>());
    Ok(())
}

#[tokio::test]
async fn lists_and_events_show_only_what_a_caller_may_see() -> Result<()> {
    let hostd = Hostd::start().await?;
    let callers = callers(&hostd).await?;
    let find = |wanted: Who| {
        callers
            .iter()
            .find(|(who, _)| *who == wanted)
            .map(|(_, caller)| caller)
            .context("a caller of this kind")
    };
    let mine = find(Who::Owner)?.create(&json!({})).await?;
    let colleagues = find(Who::Colleague)?.create(&json!({})).await?;
    let strangers = find(Who::Stranger)?.create(&json!({})).await?;
    let table: [(Who, &[&String]); 6] = [
        (Who::Owner, &[&mine]),
        (Who::Reader, &[&mine]),
        (Who::Colleague, &[&colleagues]),
        (Who::Admin, &[&mine, &colleagues]),
        (Who::OtherAdmin, &[&strangers]),
        (Who::Operator, &[&mine, &colleagues, &strangers]),
    ];
    for (who, expected) in table {
        let expected: BTreeSet<&str> = expected.iter().map(|id| id.as_str()).collect();
        for (path, field) in [("/v1/sandboxes", "id"), ("/v1/events?follow=0&limit=1000", "sandbox")] {
            let page: Value = find(who)?.get(path).await?.expect(200)?;
            let found = page["items"].as_array().context("items")?.iter();
            let found: BTreeSet<&str> = found.filter_map(|item| item[field].as_str()).collect();
            ensure!(found == expected, "{who:?} {path}: {found:?}");
        }
        let filtered = find(who)?.get(&format!("/v1/events?follow=0&sandbox={strangers}")).await?.status;
        ensure!(filtered == if expected.contains(strangers.as_str()) { 200 } else { 404 }, "{who:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_body_that_names_another_owner_is_refused() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let own = json!({"tenant": "a", "principal": "ann"});
    for path in ["/v1/sandboxes", "/v1/sandboxes/ensure"] {
        for (field, value) in [("tenant", "b"), ("principal", "bob"), ("tenant", ""), ("principal", "ANN")] {
            let mut body = own.clone();
            body[field] = json!(value);
            let reply = ann.post(path, &body).await?;
            let error = reply.error()?;
            ensure!(reply.status == 403 && error.code == ApiErrorCode::Forbidden, "{body}: {}", reply.text());
            ensure!(error.detail.field.as_deref() == Some(field), "{}", reply.text());
        }
        ann.post(path, &own).await?.expect::<Value>(201)?;
    }
    let admin = hostd.caller("a", "carl", "admin").await?;
    let foreign = admin.post("/v1/tokens", &json!({"tenant": "b", "principal": "x"})).await?;
    ensure!(foreign.status == 403, "{}", foreign.text());
    Ok(())
}

#[tokio::test]
async fn what_acts_and_what_is_refused_is_in_the_audit_with_its_caller() -> Result<()> {
    let hostd = Hostd::start().await?;
    let (ann, bob) = (hostd.caller("a", "ann", "run").await?, hostd.caller("b", "bob", "read").await?);
    let id = ann.create(&json!({})).await?;
    let sandbox = format!("/v1/sandboxes/{id}");
    let anonymous = ann.with_token(None);
    let table = [
        ("r-acted", &ann, Method::PATCH, sandbox.as_str(), Some((200, "a", "ann"))),
        ("r-read", &ann, Method::GET, &sandbox, None),
        ("r-unknown", &ann, Method::GET, "/v1/sandboxes/01jb9xyzabcdefghjkmnpqrstv", None),
        ("r-foreign", &bob, Method::GET, &sandbox, Some((404, "b", "bob"))),
        ("r-scope", &bob, Method::POST, "/v1/sandboxes", Some((403, "b", "bob"))),
        ("r-anonymous", &anonymous, Method::GET, "/v1/sandboxes", Some((401, "", ""))),
        ("r-last", &ann, Method::DELETE, &sandbox, Some((200, "a", "ann"))),
    ];
    for (request_id, caller, method, path, _) in &table {
        let request =
            Request::builder().method(method.clone()).uri(*path).header("x-request-id", *request_id);
        let reply = caller.call(request.body(Full::new(Bytes::from_static(b"{}")))?).await?;
        ensure!(reply.headers["x-request-id"] == *request_id, "{:?}", reply.headers);
    }
    let has_last = |page: &Value| page["items"][0]["request_id"] == "r-last";
    let page = hostd.operator()?.until("/v1/audit", has_last).await?;
    let rows = page["items"].as_array().context("rows")?;
    for (request_id, _, method, path, expected) in &table {
        let row = rows.iter().find(|row| row["request_id"] == *request_id);
        ensure!(row.is_some() == expected.is_some(), "{request_id}: {row:?}");
        let (Some(row), Some((status, tenant, principal))) = (row, expected) else { continue };
        let right = row["status"] == *status && row["tenant"] == *tenant && row["principal"] == *principal;
        ensure!(right && row["method"] == method.as_str() && row["path"] == *path, "{request_id}: {row}");
    }
    let own: Value = hostd.caller("b", "root", "admin").await?.get("/v1/audit").await?.expect(200)?;
    let own = own["items"].as_array().context("rows")?;
    ensure!(!own.is_empty() && own.iter().all(|row| row["tenant"] == "b"), "{own:?}");
    Ok(())
}

#[tokio::test]
async fn the_secret_of_a_token_is_nowhere_but_with_its_holder() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({})).await?;
    ann.prints(&id, "true").await?;
    let secret = ann.token().context("her token")?;
    let operator = hostd.operator()?;
    let admin = operator.token().context("the operator's token")?;
    for path in ["/v1/tokens", "/v1/audit", "/v1/events?follow=0", "/metrics"] {
        let text = operator.get(path).await?.text();
        ensure!(!text.contains(secret) && !text.contains(admin), "{path}");
    }
    ensure!(!hostd.said().contains(secret) && !hostd.said().contains(admin), "{}", hostd.said());
    for (needle, allowed) in [(secret, ""), (admin, "token")] {
        let mut grep = Command::new("grep");
        grep.args(["-rlFa", "--devices=skip", "--exclude-dir=images", "-e", needle]).arg(hostd.data());
        let found = String::from_utf8(grep.output().await?.stdout)?;
        let names: Vec<&str> =
            found.lines().filter_map(|path| Path::new(path).file_name()?.to_str()).collect();
        ensure!(names.iter().all(|name| *name == allowed), "{names:?}");
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&hostd.data().join("token").metadata()?.permissions());
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    Ok(())
}

#[tokio::test]
async fn the_unix_socket_needs_no_token_and_is_roots_alone() -> Result<()> {
    let hostd = Hostd::start().await?;
    hostd.local().get("/v1/host").await?.expect::<Value>(200)?;
    let wrong = hostd.local().with_token(Some("slw_wrong")).get("/v1/host").await?;
    ensure!(wrong.status == 401, "a wrong token is not forgiven: {}", wrong.text());
    let socket = hostd.data().join("hostd.sock");
    let ask = async || {
        let mut curl = Command::new("setpriv");
        curl.args([
            "--reuid=1000",
            "--regid=1000",
            "--clear-groups",
            "--",
            "curl",
            "-s",
            "-w",
            "%{http_code}",
        ]);
        let asked =
            curl.args(["-o", "/dev/null", "--unix-socket"]).arg(&socket).arg("http://x/v1/host").output();
        anyhow::Ok(String::from_utf8(asked.await?.stdout)?)
    };
    ensure!(ask().await? == "000", "the file does not keep others out");
    std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
    ensure!(ask().await? == "403", "only the file keeps others out");
    Ok(())
}
