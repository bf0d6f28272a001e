//! The end of a process, as its last event says it.

use crate::e2b::connect::{Code, ConnectError};
use protocol::Exit;
use serde_json::{Value, json};

/// The exit code of a process that a signal ended.
const NO_EXIT_CODE: i32 = -1;

/// The last event, or the error that takes its place.
pub fn event(exit: &Exit) -> Result<Value, ConnectError> {
    match exit {
        Exit::Exited { code } => {
            let status = format!("exit status {code}");
            let mut end = json!({"exitCode": code, "exited": true, "status": status});
            if *code != 0 {
                end["error"] = Value::String(status);
            }
            Ok(wrapped(&end))
        }
        Exit::Signalled { signal } => Ok(signalled(&signal_name(*signal))),
        Exit::Cancelled => Ok(signalled("terminated")),
        Exit::Oom => Ok(signalled("killed (out of memory)")),
        Exit::TimedOut => {
            Err(ConnectError::new(Code::DeadlineExceeded, "the process was killed: its timeout has passed"))
        }
        Exit::SpawnFailed { message } => Err(ConnectError::invalid(message.clone())),
        Exit::Lost => Err(ConnectError::new(Code::Unavailable, "the sandbox ended before the process did")),
    }
}

fn signalled(name: &str) -> Value {
    let status = format!("signal: {name}");
    wrapped(&json!({"exitCode": NO_EXIT_CODE, "exited": false, "status": status, "error": status}))
}

fn wrapped(end: &Value) -> Value {
    json!({"event": {"end": end}})
}

/// As Go writes it.
fn signal_name(signal: i32) -> String {
    match signal {
        1 => "hangup".to_owned(),
        2 => "interrupt".to_owned(),
        3 => "quit".to_owned(),
        6 => "aborted".to_owned(),
        9 => "killed".to_owned(),
        11 => "segmentation fault".to_owned(),
        13 => "broken pipe".to_owned(),
        15 => "terminated".to_owned(),
        other => format!("signal {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_is_told_as_the_protocol_does() {
        let end =
            |exit| event(&exit).map(|event| event["event"]["end"].to_string()).map_err(|error| error.code);
        let table = [
            (Exit::Exited { code: 0 }, Ok(r#"{"exitCode":0,"exited":true,"status":"exit status 0"}"#)),
            (
                Exit::Exited { code: 7 },
                Ok(r#"{"error":"exit status 7","exitCode":7,"exited":true,"status":"exit status 7"}"#),
            ),
            (
                Exit::Signalled { signal: 9 },
                Ok(r#"{"error":"signal: killed","exitCode":-1,"exited":false,"status":"signal: killed"}"#),
            ),
            (Exit::TimedOut, Err(Code::DeadlineExceeded)),
            (Exit::SpawnFailed { message: "no such file".to_owned() }, Err(Code::InvalidArgument)),
            (Exit::Lost, Err(Code::Unavailable)),
        ];
        for (exit, expected) in table {
            assert_eq!(end(exit.clone()), expected.map(str::to_owned), "{exit:?}");
        }
    }
}
