//! `slipway ps`: execs of a sandbox.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    humanize::{age, duration},
    output::{Colour, Output},
    table::{Cell, Table},
    text::truncate,
};
use clap::Args;
use protocol::{ExecState, Exit, api::ExecAnswer};

/// Columns of a command line.
const COMMAND_COLUMNS: usize = 60;

#[derive(Debug, Args)]
pub struct PsArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Only those that run
    #[arg(long, short)]
    running: bool,
}

pub async fn run(context: &Context, args: PsArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let output = context.output;
    let format = |mut execs: Vec<ExecAnswer>| {
        execs.retain(|exec| !args.running || exec.state == ExecState::Running);
        execs.sort_by(|a, b| a.started_at.cmp(&b.started_at));
        table(&execs, output)
    };
    context.show_list(ApiRequest::get(format!("/v1/sandboxes/{id}/execs")).long_pages(), format).await
}

fn table(execs: &[ExecAnswer], output: Output) -> String {
    let mut table = Table::new(["ID", "STATE", "STARTED", "TOOK", "COMMAND"]);
    for exec in execs {
        table.row([
            exec.id.as_str().into(),
            state_cell(exec),
            age(&exec.started_at).into(),
            exec.duration_ms.map(duration).unwrap_or_default().into(),
            truncate(&exec.argv.join(" "), COMMAND_COLUMNS).into(),
        ]);
    }
    table.render(output)
}

fn state_cell(exec: &ExecAnswer) -> Cell {
    match &exec.exit {
        None => Cell::painted("running", Colour::Yellow),
        Some(Exit::Exited { code: 0 }) => Cell::painted("done", Colour::Green),
        Some(Exit::Exited { code }) => Cell::painted(format!("exited {code}"), Colour::Red),
        Some(Exit::Signalled { signal }) => Cell::painted(format!("signal {signal}"), Colour::Red),
        Some(Exit::Oom) => Cell::painted("out of memory", Colour::Red),
        Some(Exit::TimedOut) => Cell::painted("timed out", Colour::Red),
        Some(Exit::Cancelled) => Cell::painted("cancelled", Colour::Dim),
        Some(Exit::SpawnFailed { .. }) => Cell::painted("not started", Colour::Red),
        Some(Exit::Lost) => Cell::painted("lost", Colour::Red),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exec_says_how_it_ended() {
        let exec = |fields: &str| -> ExecAnswer {
            serde_json::from_str(&format!(r#"{{"id":"a","cwd":"/","tty":false,"started_at":"",{fields}}}"#))
                .expect("an exec")
        };
        let execs = [
            exec(r#""state":"running","argv":["sleep","9"]"#),
            exec(r#""state":"ended","argv":["false"],"exit":{"kind":"exited","code":1},"duration_ms":1200"#),
            exec(&format!(r#""state":"ended","argv":["echo","{}"],"exit":{{"kind":"oom"}}"#, "x".repeat(80))),
        ];
        insta::assert_snapshot!(table(&execs, Output { json: false, colour: false }), @r"
        ID  STATE          STARTED  TOOK  COMMAND
        a   running        -        -     sleep 9
        a   exited 1       -        1s    false
        a   out of memory  -        -     echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
        ");
    }
}
