//! Exit code of a task. Pure.

use crate::exit_code as exec_exit_code;
use protocol::{Exit, FailureReason, TaskResult, TaskStatus};

pub const CANCELLED: u8 = 130;
const TIMED_OUT: u8 = 124;
const FAILED: u8 = 1;

pub fn exit_code(result: &TaskResult) -> u8 {
    match (result.status, result.failure_reason) {
        (TaskStatus::Succeeded, _) => 0,
        (TaskStatus::Cancelled, _) | (_, Some(FailureReason::Cancelled)) => CANCELLED,
        (_, Some(FailureReason::TimedOut | FailureReason::IdleTimedOut)) => TIMED_OUT,
        (_, Some(FailureReason::Lost | FailureReason::SandboxFailed | FailureReason::Internal)) => {
            exec_exit_code::OWN
        }
        (_, Some(FailureReason::AgentFailed | FailureReason::SpawnFailed)) => of_agent(result.exit.as_ref()),
        (
            _,
            Some(FailureReason::BuildFailed | FailureReason::ModelFailed | FailureReason::BudgetExceeded)
            | None,
        ) => FAILED,
    }
}

/// Returns the exit code of a failed agent, never 0.
fn of_agent(ended: Option<&Exit>) -> u8 {
    match ended.map_or(FAILED, |ended| exec_exit_code::code(ended, true)) {
        0 => FAILED,
        code => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::tests::result;

    #[test]
    fn every_end_of_a_task_has_its_code() {
        let table = [
            (r#"{"status":"succeeded"}"#, 0),
            (r#"{"status":"failed","failure_reason":"agent_failed","exit":{"kind":"exited","code":3}}"#, 3),
            (r#"{"status":"failed","failure_reason":"agent_failed","exit":{"kind":"exited","code":0}}"#, 1),
            (r#"{"status":"failed","failure_reason":"agent_failed","exit":{"kind":"exited","code":256}}"#, 1),
            (
                r#"{"status":"failed","failure_reason":"agent_failed","exit":{"kind":"signalled","signal":9}}"#,
                137,
            ),
            (r#"{"status":"failed","failure_reason":"agent_failed","exit":{"kind":"oom"}}"#, 137),
            (r#"{"status":"failed","failure_reason":"agent_failed"}"#, 1),
            (
                r#"{"status":"failed","failure_reason":"spawn_failed","exit":{"kind":"spawn_failed","message":"run x: No such file or directory"}}"#,
                127,
            ),
            (r#"{"status":"failed","failure_reason":"build_failed","exit":{"kind":"exited","code":0}}"#, 1),
            (r#"{"status":"failed","failure_reason":"timed_out","exit":{"kind":"timed_out"}}"#, 124),
            (r#"{"status":"failed","failure_reason":"idle_timed_out"}"#, 124),
            (r#"{"status":"failed","failure_reason":"lost"}"#, 125),
            (r#"{"status":"failed","failure_reason":"sandbox_failed"}"#, 125),
            (r#"{"status":"failed","failure_reason":"internal"}"#, 125),
            (r#"{"status":"cancelled","failure_reason":"cancelled"}"#, 130),
            (r#"{"status":"cancelled"}"#, 130),
            (r#"{"status":"failed"}"#, 1),
        ];
        for (json, expected) in table {
            assert_eq!(exit_code(&result(json)), expected, "{json}");
        }
    }
}
