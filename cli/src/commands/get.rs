//! `slipway get`.

use crate::{
    activity::activity_line,
    age::{age, until},
    client::Ask,
    context::Context,
    failure::{Failure, post_mortem_lines, problem_lines},
    text::{plain, word},
};
use clap::Args;
use protocol::api::{ActivityView, ProblemCode, SandboxStatus, SandboxView};

#[derive(Debug, Args)]
pub struct GetArgs {
    /// Id, beginning of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
}

pub async fn run(context: &Context, args: GetArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let answer = context.client.send(Ask::get(format!("/v1/sandboxes/{id}"))).await?;
    let activity = if context.output.json { None } else { activity(context, &answer.parse()?).await };
    context.show_answer(&answer, |view| Ok(describe(&view) + &activity.unwrap_or_default()))
}

/// Of one that is up. It may go down in between, or not answer: then nothing is said.
async fn activity(context: &Context, view: &SandboxView) -> Option<String> {
    if !matches!(view.status, SandboxStatus::Running | SandboxStatus::Paused) {
        return None;
    }
    let answer = context.client.send(Ask::get(format!("/v1/sandboxes/{}/activity", view.id))).await.ok()?;
    let view: ActivityView = answer.parse().ok()?;
    Some(field("activity", &activity_line(&view)) + "\n")
}

pub fn describe(view: &SandboxView) -> String {
    let phase = view.phase.map(|phase| format!(" ({})", word(&phase))).unwrap_or_default();
    let disk = view.limits.disk_mb.map(|mb| format!(", {mb} MiB disk")).unwrap_or_default();
    let limits = &view.limits;
    let mut lines = vec![
        field("id", view.id.as_str()),
        field("name", &view.name),
        field("status", &format!("{}{phase}", word(&view.status))),
        field(
            "owner",
            &format!("{}/{}, project {}", view.owner.tenant, view.owner.principal, view.owner.project),
        ),
        field("image", &format!("{}, by {}", view.image, view.driver)),
        field(
            "limits",
            &format!(
                "{} MiB memory, {} cores, {} processes{disk}",
                limits.memory_mb, limits.cpus, limits.pids
            ),
        ),
        field("network", &word(&view.network)),
        field("when idle", &word(&view.idle_policy).replace('_', " ")),
        field("created", &format!("{} ago, brought up {} times", age(&view.created_at), view.attempt)),
    ];
    if let Some(scope) = &view.scope {
        let key = scope.key.as_ref().map(|key| format!(":{key}")).unwrap_or_default();
        lines.insert(4, field("scope", &format!("{}{key}", scope.kind.as_str())));
    }
    lines.extend(view.expires_at.as_ref().map(|time| field("expires", &until(time))));
    lines.extend(view.previews.iter().map(|(port, url)| field(&format!("port {port}"), url)));
    lines.extend(list("services", &view.services));
    lines.extend(list("variables", &view.env));
    let metadata: Vec<String> = view.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
    lines.extend(list("metadata", &metadata));
    lines.extend(view.progress.as_ref().map(|text| field("progress", text)));
    // One that is in error because it died: the post-mortem says more.
    let died = |code| matches!(code, ProblemCode::Died | ProblemCode::Oom);
    let told = view.problem.iter().filter(|problem| view.post_mortem.is_none() || !died(problem.code));
    let ended = view.post_mortem.iter().flat_map(post_mortem_lines);
    let lines_below = told.flat_map(problem_lines).chain(ended);
    lines.extend(lines_below.map(|line| line.trim_start().to_owned()));
    lines.join("\n") + "\n"
}

fn list(name: &str, items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| field(name, &items.join(", ")))
}

fn field(name: &str, value: &str) -> String {
    format!("{name:<10}  {}", plain(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::ls::tests::view;

    #[test]
    fn everything_about_a_sandbox_is_shown() {
        let view = view(
            r#"{"scope":{"kind":"custom","key":"up"},"status":"error","problem":{"code":"oom","message":"m","output":["x"]}}"#,
        );
        insta::assert_snapshot!(describe(&view), @r"
        id          01jb9xyzabcdefghjkmnpqrstv
        name        web
        status      error
        owner       t/p, project default
        scope       custom:up
        image       host, by oci
        limits      512 MiB memory, 1 cores, 256 processes
        network     none
        when idle   sleep
        created     - ago, brought up 1 times
        port 3000   http://s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.localhost:8080
        services    web
        variables   KEY
        metadata    a=b
        problem: oom: m
        | x
        ");
    }

    #[test]
    fn one_that_died_says_how() {
        let view = view(
            r#"{"status":"error","problem":{"code":"oom","message":"m"},"post_mortem":{"at":"","cause":"oom",
                "message":"the kernel killed PID 1 for memory while task t1 ran","exit_code":137,"signal":9,
                "memory_peak_bytes":535822336,"memory_limit_bytes":536870912,"oom_kills":1,"pids_limit_hits":3,
                "last_lines":["\u001b[1mx"],"task":"t1"},"progress":"pulling node: 3 of 7"}"#,
        );
        let text = describe(&view);
        let below: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("progress")).collect();
        insta::assert_snapshot!(below.join("\n"), @r"
        progress    pulling node: 3 of 7
        ended: - ago, oom: the kernel killed PID 1 for memory while task t1 ran
        of it: exit code 137, signal 9, memory peak 511 of 512 MB, 1 killed for memory, 3 process starts refused, task t1
        | x
        ");
    }
}
