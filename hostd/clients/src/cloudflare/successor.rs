//! The id of a sandbox outlives the sandbox, as clients of the bridge expect: one that resumes a session after its sandbox
//! was deleted uses the id again, and fills a new, empty sandbox from its own archive. The new one has the old id in its
//! scope, which is how the next call finds it.

use super::{
    SandboxCall,
    endpoint::Verb,
    error::{BridgeCode, BridgeError},
    limits,
};
use protocol::api::{
    EnsureAnswer, Label, Page, SandboxId, SandboxScope, SandboxSpec, SandboxStatus, SandboxView, ScopeKind,
};

/// Turns a call about a destroyed sandbox into one about its successor, which is created for calls that add something.
pub async fn follow<'a>(call: SandboxCall<'a>, verb: &Verb<'_>) -> Result<SandboxCall<'a>, BridgeError> {
    // Whatever else is wrong with this sandbox, the call itself is told.
    let destroyed = match call.api.get::<SandboxView>(&call.path("")).await {
        Ok(sandbox) => sandbox.status == SandboxStatus::Destroyed,
        Err(_) => false,
    };
    if !destroyed {
        return Ok(call);
    }
    let scope = scope_of(&call.id)?;
    let id = if adds(verb) { Some(ensure(&call, scope).await?) } else { find(&call, &scope).await? };
    Ok(SandboxCall { id: id.unwrap_or(call.id), ..call })
}

fn scope_of(id: &SandboxId) -> Result<SandboxScope, BridgeError> {
    let key = Label::parse(&format!("cloudflare-{id}"));
    let key = key.map_err(|error| BridgeError::invalid(error.to_string()))?;
    Ok(SandboxScope { kind: ScopeKind::Custom, key: Some(key) })
}

fn adds(verb: &Verb<'_>) -> bool {
    match verb {
        Verb::Exec | Verb::WriteFile(_) | Verb::Hydrate | Verb::Pty | Verb::CreateSession => true,
        Verb::Delete
        | Verb::Running
        | Verb::ReadFile(_)
        | Verb::Persist
        | Verb::OpenTunnel(_)
        | Verb::CloseTunnel(_)
        | Verb::DeleteSession(_)
        | Verb::Mount
        | Verb::Unmount => false,
    }
}

async fn ensure(call: &SandboxCall<'_>, scope: SandboxScope) -> Result<SandboxId, BridgeError> {
    let spec = SandboxSpec { scope: Some(scope), ..SandboxSpec::default() };
    let ensured = call.api.post::<_, EnsureAnswer>("/v1/sandboxes/ensure", &spec).await;
    let ensured = ensured.map_err(|failure| BridgeError::of(failure, BridgeCode::PoolError))?;
    Ok(ensured.sandbox.id)
}

async fn find(call: &SandboxCall<'_>, scope: &SandboxScope) -> Result<Option<SandboxId>, BridgeError> {
    let (mut seen, mut after) = (0, String::new());
    while seen < limits::POOL_COUNTED_MAX {
        let page = call.api.get::<Page<SandboxView>>(&format!("/v1/sandboxes?limit=1000{after}")).await;
        let page = page.map_err(|failure| BridgeError::of(failure, BridgeCode::PoolError))?;
        seen += page.items.len();
        if let Some(found) = page.items.iter().find(|sandbox| sandbox.scope.as_ref() == Some(scope)) {
            return Ok(Some(found.id));
        }
        match page.next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    Ok(None)
}
