//! Records as the API shows them.

use axum::{body::Body, response::Response};
use base64::{Engine, prelude::BASE64_STANDARD};
use hostd_core::{Previews, provision_steps, rfc3339};
use hostd_drivers::DriverError;
use hostd_store::{AttemptRecord, ExecRecord, SandboxRecord, TaskRecord, TokenRecord};
use hyper::{
    StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use protocol::{
    Encoding, ExecState, ExecView, Payload,
    api::{
        AttemptView, ExecAnswer, Page, Problem, ProblemCode, SandboxView, SetupView, TaskAnswer, TokenView,
    },
};
use serde::Serialize;

pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let (status, bytes) = match serde_json::to_vec(value) {
        Ok(bytes) => (status, bytes),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, Vec::new()),
    };
    let made = match status {
        StatusCode::CREATED | StatusCode::ACCEPTED => id_in(&bytes),
        _ => None,
    };
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    made.into_iter().for_each(|made| drop(response.extensions_mut().insert(made)));
    response
}

/// Extension of a response: the id of what the call made or found, for the audit log.
#[derive(Debug, Clone)]
pub struct AnsweredId(pub String);

/// Reads the id at the top of a document.
fn id_in(document: &[u8]) -> Option<AnsweredId> {
    #[derive(serde::Deserialize)]
    struct HasId {
        id: String,
    }
    serde_json::from_slice::<HasId>(document).ok().map(|found| AnsweredId(found.id))
}

/// A document about what the call found instead of making it.
pub fn found(value: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let mut response = ok(value);
    id_in(&bytes).into_iter().for_each(|found| drop(response.extensions_mut().insert(found)));
    response
}

pub fn ok(value: &impl Serialize) -> Response {
    json(StatusCode::OK, value)
}

pub fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// A page of records; a full one may be followed by another.
pub fn page<T, V>(
    records: &[T],
    limit: usize,
    view: impl Fn(&T) -> V,
    cursor: impl Fn(&T) -> String,
) -> Page<V> {
    let next = records.last().filter(|_| records.len() >= limit).map(cursor);
    Page { items: records.iter().map(view).collect(), next }
}

pub fn sandbox(record: &SandboxRecord, previews: &Previews) -> SandboxView {
    let blueprint = &record.blueprint;
    SandboxView {
        id: record.id,
        name: record.name.clone(),
        owner: record.owner.clone(),
        // Depends on the caller.
        shared: None,
        scope: record.scope.clone(),
        replaced_by: record.replaced_by,
        status: record.state.status,
        phase: record.state.operation.as_ref().map(|operation| operation.phase),
        problem: out_of_reach(record).or_else(|| record.state.problem.clone()),
        post_mortem: record.post_mortem.as_deref().cloned(),
        progress: record.progress.as_deref().map(str::to_owned),
        driver: blueprint.driver.clone(),
        runtime: blueprint.runtime.clone(),
        image: blueprint.image.clone(),
        ports: blueprint.ports.clone(),
        previews: previews.of(&record.id, &blueprint.ports),
        listening: None,
        limits: blueprint.limits.clone(),
        network: blueprint.network,
        idle_policy: blueprint.idle_policy,
        visibility: blueprint.visibility.unwrap_or(previews.visibility),
        preview_headers: blueprint.preview_headers,
        env: record.env.0.all.keys().cloned().collect(),
        services: blueprint.services.iter().map(|service| service.name.to_string()).collect(),
        setup: setup(record),
        metadata: record.metadata.clone(),
        attempt: record.attempt,
        created_at: rfc3339(record.created_ms),
        updated_at: rfc3339(record.updated_ms),
        expires_at: record.expires_ms.map(rfc3339),
        on_ttl: blueprint.on_ttl,
    }
}

fn setup(record: &SandboxRecord) -> Option<SetupView> {
    let steps = provision_steps(&record.blueprint);
    let names = || steps.iter().map(|step| step.name().to_owned()).collect();
    (!steps.is_empty()).then(|| SetupView { done: record.provisioning.done, steps: names() })
}

/// The problem of a sandbox that cannot be reached from hostd's PID namespace, whatever its state.
fn out_of_reach(record: &SandboxRecord) -> Option<Problem> {
    let message = DriverError::OtherPidNamespace { sandbox: record.id }.to_string();
    let problem = Problem { code: ProblemCode::DriverUnavailable, message, output: Vec::new(), step: None };
    record.other_pid_namespace.then_some(problem)
}

pub fn attempt(record: &AttemptRecord) -> AttemptView {
    AttemptView {
        attempt: record.attempt,
        relation: record.relation,
        state: record.state,
        driver: record.blueprint.driver.clone(),
        blueprint: serde_json::to_value(&*record.blueprint).unwrap_or_default(),
        problem: record.problem.clone(),
        post_mortem: record.post_mortem.as_deref().cloned(),
        started_at: rfc3339(record.started_ms),
        ended_at: record.ended_ms.map(rfc3339),
        duration_ms: record.ended_ms.map(|ended_ms| ended_ms.saturating_sub(record.started_ms)),
    }
}

pub fn task(record: &TaskRecord) -> TaskAnswer {
    TaskAnswer {
        id: record.id.clone(),
        sandbox_id: record.sandbox,
        status: record.status,
        phase: record.phase,
        failure_reason: record.failure_reason,
        agent: record.agent.clone(),
        created_by: record.created_by.clone(),
        prompt: record.prompt.clone(),
        recovered: record.is_recovered(),
        events_url: format!("/v1/sandboxes/{}/tasks/{}/events", record.sandbox, record.id),
        cancelling: record.cancelling && record.done_seq.is_none(),
        open_permissions: record.open_permissions.clone(),
        revertible: record.done_seq.is_some() && record.checkpoint.is_some(),
        created_at: rfc3339(record.created_ms),
        started_at: record.started_ms.map(rfc3339),
        ended_at: record.ended_ms.map(rfc3339),
        result: record.result.clone(),
    }
}

pub fn token(record: &TokenRecord) -> TokenView {
    TokenView {
        id: record.id.clone(),
        tenant: record.tenant.clone(),
        principal: record.principal.clone(),
        scope: record.scope,
        created_at: rfc3339(record.created_ms),
        expires_at: record.expires_ms.map(rfc3339),
        revoked_at: record.revoked_ms.map(rfc3339),
    }
}

/// An exec as it is recorded: without output.
pub fn exec_record(record: &ExecRecord) -> ExecAnswer {
    let state = if record.exit.is_some() { ExecState::Ended } else { ExecState::Running };
    ExecAnswer {
        id: record.id.clone(),
        state,
        argv: record.argv.clone(),
        cwd: record.cwd.clone(),
        tty: record.tty,
        pid: None,
        exit: record.exit.clone(),
        stdout: None,
        stderr: None,
        encoding: None,
        truncated: false,
        hints: record.hints.clone(),
        duration_ms: record.ended_ms.map(|ended_ms| ended_ms.saturating_sub(record.started_ms)),
        started_at: rfc3339(record.started_ms),
        ended_at: record.ended_ms.map(rfc3339),
    }
}

/// An exec as runtimed reports it.
pub fn exec(view: ExecView) -> ExecAnswer {
    let (stdout, stderr, encoding) = output(view.stdout, view.stderr);
    ExecAnswer {
        id: view.id,
        state: view.state,
        argv: view.argv,
        cwd: view.cwd,
        tty: view.tty,
        pid: view.pid,
        exit: view.exit,
        stdout,
        stderr,
        encoding,
        truncated: view.truncated,
        hints: view.hints,
        duration_ms: view.duration_ms,
        started_at: rfc3339(view.started_ms),
        ended_at: view.ended_ms.map(rfc3339),
    }
}

/// Both streams as text, or both in base64 when one of them is not UTF-8.
fn output(
    stdout: Option<Payload>,
    stderr: Option<Payload>,
) -> (Option<String>, Option<String>, Option<String>) {
    let binary =
        |payload: &Option<Payload>| payload.as_ref().is_some_and(|each| each.encoding == Encoding::Base64);
    if !binary(&stdout) && !binary(&stderr) {
        return (stdout.map(|payload| payload.data), stderr.map(|payload| payload.data), None);
    }
    let encoded = |payload: Payload| match payload.encoding {
        Encoding::Base64 => payload.data,
        Encoding::Utf8 => BASE64_STANDARD.encode(payload.data),
    };
    (stdout.map(encoded), stderr.map(encoded), Some("base64".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_text_or_all_of_it_is_base64() {
        let text = |data: &str| Some(Payload { data: data.into(), encoding: Encoding::Utf8 });
        let binary = |data: &str| Some(Payload { data: data.into(), encoding: Encoding::Base64 });
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(output(text("a"), text("")), (some("a"), some(""), None));
        assert_eq!(output(text("a"), binary("/w==")), (some("YQ=="), some("/w=="), some("base64")));
        assert_eq!(output(None, None), (None, None, None));
    }
}
