//! `slipway limits`: the memory, CPU and process limits of a sandbox, shown or changed.

use crate::{
    client::ApiRequest,
    context::Context,
    failure::Failure,
    humanize::bytes,
    text::{plain, wire_name},
    value_parser::megabytes,
};
use clap::Args;
use protocol::api::{LimitsChange, SandboxStatus, SandboxView};

const AFTER_HELP: &str = "\
Less memory than the sandbox uses is refused, and nothing is changed. The sizes of /tmp, /var/tmp and /dev/shm follow at
the next start.

Examples:
  slipway limits web                        show the limits of web
  slipway limits web --memory 2g --cpus 2   change two of them";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct LimitsArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    #[command(flatten)]
    change: ChangeFlags,
}

/// The limits that change; the others stay as they are.
#[derive(Debug, Default, Args)]
struct ChangeFlags {
    /// Memory limit, as in 512m or 2g
    #[arg(long, short = 'm', value_name = "SIZE", value_parser = megabytes)]
    memory: Option<u64>,
    /// CPU limit in cores, as in 0.5 or 2
    #[arg(long, value_name = "CORES")]
    cpus: Option<f64>,
    /// Limit on processes and threads
    #[arg(long, value_name = "COUNT")]
    pids: Option<u64>,
}

impl ChangeFlags {
    /// Returns what to change; `None` where no flag is given.
    fn change(&self) -> Option<LimitsChange> {
        let change = LimitsChange { memory_mb: self.memory, cpus: self.cpus, pids: self.pids };
        (change != LimitsChange::default()).then_some(change)
    }
}

pub async fn run(context: &Context, args: LimitsArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let path = format!("/v1/sandboxes/{id}");
    let request = match args.change.change() {
        None => ApiRequest::get(path),
        Some(change) => ApiRequest::patch(format!("{path}/limits")).json(&change),
    };
    context.show(request, |view: SandboxView| Ok(describe(&view))).await
}

fn describe(view: &SandboxView) -> String {
    let limits = &view.limits;
    let when = match view.status {
        SandboxStatus::Running | SandboxStatus::Paused => "in force",
        SandboxStatus::Creating | SandboxStatus::Stopped | SandboxStatus::Error => "from the next start",
        SandboxStatus::Destroyed => "until it was destroyed",
    };
    let mut lines = vec![
        format!("limits of {} ({}), {when}", plain(&view.name), wire_name(&view.status)),
        format!("  memory     {}", bytes(limits.memory_mb << 20)),
        format!("  cpus       {}", limits.cpus),
        format!("  processes  {}", limits.pids),
    ];
    lines.extend(limits.disk_mb.map(|mb| format!("  disk       {}", bytes(mb << 20))));
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::ls::tests::view;
    use clap::Parser;

    #[derive(Parser)]
    struct TestArgs {
        #[command(flatten)]
        change: ChangeFlags,
    }

    #[test]
    fn only_the_limits_that_are_given_change() {
        let none = LimitsChange::default();
        let table: [(&[&str], Option<LimitsChange>); 4] = [
            (&[], None),
            (&["--memory", "2g"], Some(LimitsChange { memory_mb: Some(2048), ..none })),
            (
                &["-m", "512", "--cpus", "0.5"],
                Some(LimitsChange { memory_mb: Some(512), cpus: Some(0.5), ..none }),
            ),
            (&["--pids", "512"], Some(LimitsChange { pids: Some(512), ..none })),
        ];
        for (flags, expected) in table {
            let args = TestArgs::parse_from([&["limits"], flags].concat());
            assert_eq!(args.change.change(), expected, "{flags:?}");
        }
        for wrong in [&["--memory", "much"][..], &["--cpus", "x"], &["--pids", "-1"]] {
            assert!(TestArgs::try_parse_from([&["limits"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn limits_are_shown_with_when_they_hold() {
        let texts = [
            r#"{"limits":{"memory_mb":2048,"cpus":0.5,"pids":256,"disk_mb":10240}}"#,
            r#"{"status":"stopped"}"#,
        ]
        .map(|json| describe(&view(json)));
        insta::assert_snapshot!(texts.concat(), @r"
        limits of web (running), in force
          memory     2.0 GiB
          cpus       0.5
          processes  256
          disk       10.0 GiB
        limits of web (stopped), from the next start
          memory     512.0 MiB
          cpus       1
          processes  256
        ");
    }
}
