//! Runs one exec: builds the request to runtimed, and waits for the exit across broken connections.

use super::{Api, error::CallError, limits as api_limits};
use crate::reconcile::FleetError;
use hostd_core::limits;
use hostd_drivers::control::{Control, ControlError};
use hyper::Method;
use protocol::{
    EnvMap, ExecRequest, ExecView, TtySize,
    api::{ExecCreate, SandboxId, SandboxStatus, TtyChoice},
    validate,
};
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const TTY_SIZE_DEFAULT: TtySize = TtySize { cols: 80, rows: 24 };
pub const TIMEOUT_MAX_S: f64 = 7.0 * 86_400.0;

/// Builds the request to runtimed. Validated here as runtimed would, because afterwards the id is taken.
pub fn request(create: &ExecCreate, sandbox_env: &EnvMap) -> Result<ExecRequest, CallError> {
    let mut env = sandbox_env.clone();
    env.extend(create.env.clone());
    let request = ExecRequest {
        id: create.id.clone(),
        argv: create.argv.clone(),
        shell: create.shell.clone(),
        cwd: create.cwd.clone(),
        env,
        stdin: create.stdin.clone(),
        stdin_open: create.stdin_open,
        timeout_ms: create.timeout_s.map(timeout_ms).transpose()?,
        tty: tty(create.tty),
    };
    validate::exec_request(&request)?;
    Ok(request)
}

fn timeout_ms(seconds: f64) -> Result<u64, CallError> {
    if !(seconds > 0.0 && seconds <= TIMEOUT_MAX_S) {
        return Err(CallError::invalid(
            "timeout_s",
            format!("must be more than 0 and at most {TIMEOUT_MAX_S}"),
        ));
    }
    // Within the range just checked.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok((seconds * 1000.0).ceil() as u64)
}

fn tty(choice: Option<TtyChoice>) -> Option<TtySize> {
    match choice {
        None | Some(TtyChoice::Default(false)) => None,
        Some(TtyChoice::Default(true)) => Some(TTY_SIZE_DEFAULT),
        Some(TtyChoice::Size(size)) => Some(size),
    }
}

/// Hash that tells a repeated request from a different one with the same id. The id and `wait` do not count.
pub fn hash(create: &ExecCreate) -> [u8; 32] {
    let hashed = ExecCreate { id: None, wait: None, ..create.clone() };
    Sha256::digest(serde_json::to_vec(&hashed).unwrap_or_default()).into()
}

/// The state of an exec when the wait for it ended.
pub enum ExecOutcome {
    Reported(Box<ExecView>),
    /// The sandbox is paused; the exec goes on when it is resumed.
    Paused,
    /// The sandbox does not run any more.
    SandboxDown,
}

/// Starts an exec, or finds it, and waits for its exit if `wait_ms` is given. runtimed runs an id once, so
/// the same request may be sent again.
pub async fn run(
    api: &Api,
    sandbox: &SandboxId,
    mut control: Control,
    request: &ExecRequest,
    wait_ms: Option<u64>,
) -> Result<ExecOutcome, CallError> {
    let deadline = Instant::now() + Duration::from_millis(wait_ms.unwrap_or(0));
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let path = match wait_ms {
            Some(_) => format!("/v1/execs?wait_ms={}", left.as_millis()),
            None => "/v1/execs".to_owned(),
        };
        let within = left + Duration::from_millis(limits::CONTROL_TIMEOUT_MS);
        match control.json::<ExecView>(Method::POST, &path, Some(request), within).await {
            Ok((_, view)) => return Ok(ExecOutcome::Reported(Box::new(view))),
            Err(error @ ControlError::Refused(_)) => return Err(error.into()),
            Err(error) if deadline_passed(deadline) => return Err(error.into()),
            Err(_) => {}
        }
        match liveness(api, sandbox, left.max(Duration::from_millis(limits::CONTROL_TIMEOUT_MS))).await? {
            Liveness::Up(again) => control = again,
            Liveness::Paused => return Ok(ExecOutcome::Paused),
            Liveness::Down => return Ok(ExecOutcome::SandboxDown),
        }
        sleep(Duration::from_millis(api_limits::EXEC_RETRY_MS)).await;
    }
}

/// Whether the deadline is so far in the past that the wait is given up; the exec can still be found by its
/// id.
fn deadline_passed(deadline: Instant) -> bool {
    Instant::now() > deadline + Duration::from_millis(limits::CONTROL_TIMEOUT_MS)
}

enum Liveness {
    Up(Control),
    Paused,
    Down,
}

/// Returns whether a sandbox whose connection broke still runs.
async fn liveness(api: &Api, sandbox: &SandboxId, within: Duration) -> Result<Liveness, CallError> {
    let record = match api.fleet.wait_settled(sandbox, within).await {
        Ok(record) => record,
        Err(FleetError::Failed { .. }) => return Ok(Liveness::Down),
        Err(error) => return Err(error.into()),
    };
    match record.state.status {
        SandboxStatus::Paused => Ok(Liveness::Paused),
        SandboxStatus::Stopped | SandboxStatus::Error | SandboxStatus::Destroyed => Ok(Liveness::Down),
        SandboxStatus::Running | SandboxStatus::Creating => match api.fleet.control(sandbox).await {
            Ok((_, control)) => Ok(Liveness::Up(control)),
            Err(FleetError::NotRunning { .. } | FleetError::Refused(_)) => Ok(Liveness::Down),
            Err(error) => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request_of(body: serde_json::Value) -> Result<ExecRequest, String> {
        let create: ExecCreate = serde_json::from_value(body).unwrap();
        let env = EnvMap::from([("A".into(), "sandbox".into()), ("B".into(), "sandbox".into())]);
        request(&create, &env).map_err(|failure| failure.error.detail.field.unwrap_or_default())
    }

    #[test]
    fn the_environment_of_the_exec_overrides_that_of_the_sandbox() {
        let request = request_of(json!({"argv": ["env"], "env": {"B": "exec"}})).unwrap();
        assert_eq!(request.env["A"], "sandbox");
        assert_eq!(request.env["B"], "exec");
    }

    #[test]
    fn an_invalid_exec_is_refused_by_field() {
        let table = [
            (json!({}), "argv"),
            (json!({"argv": []}), "argv"),
            (json!({"argv": ["a\u{0}"]}), "argv"),
            (json!({"argv": ["a"], "shell": "b"}), "shell"),
            (json!({"shell": ""}), "shell"),
            (json!({"shell": "a", "cwd": ""}), "cwd"),
            (json!({"shell": "a", "env": {"": "x"}}), "env."),
            (json!({"shell": "a", "timeout_s": 0}), "timeout_s"),
            (json!({"shell": "a", "timeout_s": -1.5}), "timeout_s"),
            (json!({"shell": "a", "timeout_s": 1e12}), "timeout_s"),
            (json!({"shell": "a", "tty": {"cols": 0, "rows": 1}}), "tty"),
        ];
        for (body, field) in table {
            assert_eq!(request_of(body.clone()).unwrap_err(), field, "{body}");
        }
    }

    #[test]
    fn times_and_sizes_are_translated() {
        let request = request_of(json!({"shell": "a", "timeout_s": 0.0001, "tty": true})).unwrap();
        assert_eq!(request.timeout_ms, Some(1));
        assert_eq!(request.tty, Some(TTY_SIZE_DEFAULT));
        assert_eq!(request_of(json!({"shell": "a", "tty": false})).unwrap().tty, None);
    }

    #[test]
    fn the_same_request_has_the_same_hash() {
        let parse = |body| serde_json::from_value::<ExecCreate>(body).unwrap();
        let one = hash(&parse(json!({"shell": "a", "id": "x", "wait": true})));
        assert_eq!(one, hash(&parse(json!({"id": "y", "shell": "a"}))));
        assert_ne!(one, hash(&parse(json!({"shell": "b"}))));
    }
}
