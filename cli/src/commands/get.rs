//! `slipway get`: everything about a sandbox.

use crate::{
    activity::activity_line,
    client::ApiRequest,
    context::Context,
    failure::{Failure, post_mortem_lines, problem_lines},
    humanize::{age, until},
    text::{plain, truncate, wire_name},
};
use clap::Args;
use protocol::api::{ActivityView, OnTtl, Page, PortView, ProblemCode, SandboxStatus, SandboxView};
use std::collections::BTreeMap;

/// Columns of a command line that are shown.
const PROCESS_COLUMNS: usize = 60;

#[derive(Debug, Args)]
pub struct GetArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
}

pub async fn run(context: &Context, args: GetArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let response = context.client.send(ApiRequest::get(format!("/v1/sandboxes/{id}"))).await?;
    if context.output.json {
        return context.output.document(&response.body);
    }
    let view: SandboxView = response.parse()?;
    let listening = listening(context, &view).await.unwrap_or_default();
    let activity = activity(context, &view).await.unwrap_or_default();
    context.output.text(&(describe(&view) + &listening + &activity))
}

/// Fetches the listening ports of a running sandbox. Errors are ignored: it may have stopped meanwhile.
async fn listening(context: &Context, view: &SandboxView) -> Option<String> {
    if view.status != SandboxStatus::Running {
        return None;
    }
    let response =
        context.client.send(ApiRequest::get(format!("/v1/sandboxes/{}/ports", view.id))).await.ok()?;
    Some(listening_text(&response.parse::<Page<PortView>>().ok()?.items))
}

/// A line for each port, with the address where browsers see it and the program behind it.
fn listening_text(ports: &[PortView]) -> String {
    let mut lines = BTreeMap::new();
    for PortView { listening, preview } in ports {
        let at = preview.clone().unwrap_or_else(|| format!("on {}, without a preview", listening.address));
        let process = listening.process.as_ref();
        let by = process.map(|process| format!(", by {}", truncate(&process.command, PROCESS_COLUMNS)));
        let line = field("listening", &format!("{} {at}{}", listening.port, by.unwrap_or_default()));
        // A port may listen on two addresses: prefer the entry with a preview.
        if preview.is_some() || !lines.contains_key(&listening.port) {
            lines.insert(listening.port, line + "\n");
        }
    }
    lines.into_values().collect()
}

/// Of one that is up. It may go down in between, or not answer: then nothing is said.
async fn activity(context: &Context, view: &SandboxView) -> Option<String> {
    if !matches!(view.status, SandboxStatus::Running | SandboxStatus::Paused) {
        return None;
    }
    let response =
        context.client.send(ApiRequest::get(format!("/v1/sandboxes/{}/activity", view.id))).await.ok()?;
    let view: ActivityView = response.parse().ok()?;
    Some(field("activity", &activity_line(&view)) + "\n")
}

pub fn describe(view: &SandboxView) -> String {
    let phase = view.phase.map(|phase| format!(" ({})", wire_name(&phase))).unwrap_or_default();
    let disk = view.limits.disk_mb.map(|mb| format!(", {mb} MiB disk")).unwrap_or_default();
    let limits = &view.limits;
    let mut lines = vec![
        field("id", view.id.as_str()),
        field("name", &view.name),
        field("status", &format!("{}{phase}", wire_name(&view.status))),
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
        field("network", &wire_name(&view.network)),
        field("when idle", &wire_name(&view.idle_policy).replace('_', " ")),
        field("created", &format!("{} ago, brought up {} times", age(&view.created_at), view.attempt)),
    ];
    if let Some(scope) = &view.scope {
        let key = scope.key.as_ref().map(|key| format!(":{key}")).unwrap_or_default();
        lines.insert(4, field("scope", &format!("{}{key}", scope.kind.as_str())));
    }
    let at_end = match view.on_ttl {
        OnTtl::Destroy => "",
        OnTtl::Pause => ", then paused",
        OnTtl::Stop => ", then stopped",
    };
    lines.extend(view.expires_at.as_ref().map(|time| field("expires", &format!("{}{at_end}", until(time)))));
    lines.extend(view.previews.iter().map(|(port, url)| field(&format!("port {port}"), url)));
    lines.extend(list("services", &view.services));
    lines.extend(list("variables", &view.env));
    let metadata: Vec<String> = view.metadata.iter().map(|(key, value)| format!("{key}={value}")).collect();
    lines.extend(list("metadata", &metadata));
    lines.extend(view.progress.as_ref().map(|text| field("progress", text)));
    // The post-mortem says more about a sandbox that died.
    let died = |code| matches!(code, ProblemCode::Died | ProblemCode::Oom);
    let problems = view.problem.iter().filter(|problem| view.post_mortem.is_none() || !died(problem.code));
    let ended = view.post_mortem.iter().flat_map(post_mortem_lines);
    let lines_below = problems.flat_map(problem_lines).chain(ended);
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
    fn what_listens_in_it_is_shown_once_with_its_preview() {
        let json = r#"[
            {"port":5173,"address":"::1","process":{"pid":7,"command":"node\u001b[2J vite"}},
            {"port":5173,"address":"127.0.0.1","process":{"pid":7,"command":"node vite"},"preview":"http://s-x-5173.preview.localhost:8080"},
            {"port":3000,"address":"10.0.0.2"}
        ]"#;
        let ports: Vec<PortView> = serde_json::from_str(json).expect("ports");
        insta::assert_snapshot!(listening_text(&ports), @r"
        listening   3000 on 10.0.0.2, without a preview
        listening   5173 http://s-x-5173.preview.localhost:8080, by node vite
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
