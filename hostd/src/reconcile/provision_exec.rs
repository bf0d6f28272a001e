//! Runs the exec of one step of a provisioning, or waits for it where an earlier hostd started it.

use super::provision::StepOutcome;
use hostd_core::{SetupStep, limits, redact_lines, setup_argv, setup_env, step_problem};
use hostd_drivers::control::{self, Control, ControlError};
use hostd_store::SandboxRecord;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::Method;
use protocol::{Chunk, Encoding, EnvMap, ErrorCode, ExecId, ExecRequest, ExecView, Exit};
use std::time::Duration;
use tokio::time::sleep;

/// How long runtimed is asked to wait for the end of an exec in one request.
const WAIT_MS: u64 = 60_000;
/// The pause after a request that broke. The actor ends the wait when PID 1 is dead or the deadline passed.
const RETRY: Duration = Duration::from_millis(100);
/// Bytes of output that are read for the last lines.
const OUTPUT_MAX_BYTES: usize = 256 << 10;

/// The command of a step.
pub(super) struct StepExec {
    pub(super) argv: Vec<String>,
    pub(super) cwd: Option<String>,
    pub(super) env: EnvMap,
    pub(super) timeout_ms: u64,
    /// Values that are replaced in what is shown of its output.
    pub(super) secrets: Vec<String>,
}

impl StepExec {
    pub(super) fn of_setup(record: &SandboxRecord, number: usize, step: &SetupStep) -> Self {
        let env = setup_env(&record.env.0, number);
        Self {
            argv: setup_argv(step),
            cwd: step.dir.clone(),
            timeout_ms: step.timeout_ms,
            secrets: env.values().cloned().collect(),
            env,
        }
    }
}

/// Starts the exec, or finds it, and waits for its end. runtimed runs an id once.
pub(super) async fn run(
    control: &Control,
    record: &SandboxRecord,
    index: usize,
    exec: StepExec,
) -> Result<StepOutcome, ControlError> {
    let id = record.provisioning.exec_id();
    let StepExec { argv, cwd, env, timeout_ms, secrets } = exec;
    let request = ExecRequest {
        id: ExecId::parse(&id).ok(),
        argv: Some(argv),
        shell: None,
        cwd,
        env,
        stdin: None,
        stdin_open: false,
        timeout_ms: Some(timeout_ms),
        tty: None,
    };
    start(control, &request).await?;
    finish(control, record, index, &secrets).await
}

/// Waits for the end of the exec, which was started.
pub(super) async fn finish(
    control: &Control,
    record: &SandboxRecord,
    index: usize,
    secrets: &[String],
) -> Result<StepOutcome, ControlError> {
    let id = record.provisioning.exec_id();
    let view = wait(control, &id).await?;
    let exit = view.exit.unwrap_or(Exit::Lost);
    if exit == (Exit::Exited { code: 0 }) {
        return Ok(StepOutcome::Succeeded);
    }
    let lines = last_lines(control, &id).await.unwrap_or_default();
    let lines = redact_lines(&lines, secrets);
    Ok(StepOutcome::Failed(step_problem(&record.blueprint, index, Some(id), Some(exit), &lines)))
}

/// Whether runtimed knows the exec of the step that runs.
pub(super) async fn is_known(control: &Control, record: &SandboxRecord) -> Result<bool, ControlError> {
    let path = format!("/v1/execs/{}", record.provisioning.exec_id());
    let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
    match control.get::<ExecView>(&path, within).await {
        Ok(_) => Ok(true),
        Err(ControlError::Refused(body)) if body.error.code == ErrorCode::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

async fn start(control: &Control, request: &ExecRequest) -> Result<(), ControlError> {
    let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
    loop {
        match control.json::<ExecView>(Method::POST, "/v1/execs", Some(request), within).await {
            Ok(_) => return Ok(()),
            Err(error @ (ControlError::Refused(_) | ControlError::Malformed(_))) => return Err(error),
            Err(ControlError::Unreachable(_) | ControlError::Broken(_) | ControlError::TimedOut(_)) => {}
        }
        sleep(RETRY).await;
    }
}

/// Waits for the end of an exec.
pub(super) async fn wait(control: &Control, id: &str) -> Result<ExecView, ControlError> {
    let path = format!("/v1/execs/{id}?wait_ms={WAIT_MS}");
    let within = Duration::from_millis(WAIT_MS + limits::CONTROL_TIMEOUT_MS);
    loop {
        match control.get::<ExecView>(&path, within).await {
            Ok(view) if view.exit.is_some() => return Ok(view),
            Ok(_) => {}
            Err(error @ (ControlError::Refused(_) | ControlError::Malformed(_))) => return Err(error),
            Err(ControlError::Unreachable(_) | ControlError::Broken(_) | ControlError::TimedOut(_)) => {
                sleep(RETRY).await;
            }
        }
    }
}

/// The last lines of both streams, in the order in which they were written.
async fn last_lines(control: &Control, id: &str) -> Result<Vec<String>, ControlError> {
    let within = Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
    let path = format!("/v1/execs/{id}/output?tail={}", limits::SETUP_LINES_MAX);
    let request = control::request(&Method::GET, &path)
        .body(Empty::new().boxed())
        .map_err(|error| ControlError::Malformed(error.to_string()))?;
    let body = control.stream(request, within).await?.into_body();
    let read = tokio::time::timeout(within, Limited::new(body, OUTPUT_MAX_BYTES).collect()).await;
    let read = read.map_err(|_| ControlError::TimedOut(limits::CONTROL_TIMEOUT_MS))?;
    let bytes = read.map_err(|error| ControlError::Malformed(error.to_string()))?.to_bytes();
    Ok(lines_of(&bytes))
}

/// The lines of output in a response of NDJSON. Bytes that are no text are left out.
fn lines_of(ndjson: &[u8]) -> Vec<String> {
    let chunks = ndjson.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let mut text = String::new();
    for chunk in chunks {
        if let Chunk::Output { payload, .. } = chunk
            && payload.encoding == Encoding::Utf8
        {
            text.push_str(&payload.data);
        }
    }
    text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_across_chunks() {
        let ndjson = concat!(
            r#"{"type":"output","cursor":3,"stream":"stdout","offset":0,"data":"on"}"#,
            "\n",
            r#"{"type":"output","cursor":9,"stream":"stderr","offset":0,"data":"e\n\ntwo\n"}"#,
            "\n",
            r#"{"type":"output","cursor":9,"stream":"stderr","offset":9,"data":"/w==","encoding":"base64"}"#,
            "\nnot json\n",
            r#"{"type":"end","cursor":9,"ended":true}"#,
        );
        assert_eq!(lines_of(ndjson.as_bytes()), ["one", "two"]);
    }
}
