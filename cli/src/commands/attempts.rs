//! `slipway attempts`: attempts to launch a sandbox.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::{Failure, post_mortem_lines, problem_lines},
    humanize::{age, duration},
    output::{Colour, Output},
    table::{Cell, Table},
    text::wire_name,
};
use clap::Args;
use protocol::api::{AttemptState, AttemptView};

#[derive(Debug, Args)]
pub struct AttemptsArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
}

pub async fn run(context: &Context, args: AttemptsArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let output = context.output;
    context
        .show_list(ApiRequest::get(format!("/v1/sandboxes/{id}/attempts")), |attempts| {
            text(&attempts, output)
        })
        .await
}

/// Formats the table, and below it problems and deaths with their output.
fn text(attempts: &[AttemptView], output: Output) -> String {
    let mut table = Table::new(["ATTEMPT", "WHY", "STATE", "DRIVER", "STARTED", "TOOK", "PROBLEM"]);
    for attempt in attempts {
        let state = match attempt.state {
            AttemptState::Open => Cell::painted("open", Colour::Yellow),
            AttemptState::Succeeded => Cell::painted("succeeded", Colour::Green),
            AttemptState::Failed => Cell::painted("failed", Colour::Red),
        };
        table.row([
            attempt.attempt.to_string().into(),
            wire_name(&attempt.relation).into(),
            state,
            attempt.driver.clone().into(),
            age(&attempt.started_at).into(),
            attempt.duration_ms.map(duration).unwrap_or_default().into(),
            attempt.problem.as_ref().map(|problem| wire_name(&problem.code)).unwrap_or_default().into(),
        ]);
    }
    let mut text = table.render(output);
    for attempt in attempts {
        let ended = attempt.post_mortem.iter().flat_map(post_mortem_lines);
        for line in attempt.problem.iter().flat_map(problem_lines).chain(ended) {
            text.push_str(&format!("{}:{line}\n", attempt.attempt));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_attempt_says_what_was_printed() {
        let json = r#"[{"attempt":1,"relation":"create","state":"failed","driver":"oci","blueprint":{},"started_at":"","duration_ms":40,
            "problem":{"code":"launch_failed","message":"crun exited 1","output":["no cgroup"]}},
            {"attempt":2,"relation":"start","state":"succeeded","driver":"oci","blueprint":{},"started_at":"","duration_ms":9}]"#;
        let attempts: Vec<AttemptView> = serde_json::from_str(json).expect("attempts");
        insta::assert_snapshot!(text(&attempts, Output { json: false, colour: false }), @r"
        ATTEMPT  WHY     STATE      DRIVER  STARTED  TOOK  PROBLEM
        1        create  failed     oci     -        40ms  launch_failed
        2        start   succeeded  oci     -        9ms   -
        1:  problem: launch_failed: crun exited 1
        1:  | no cgroup
        ");
    }
}
