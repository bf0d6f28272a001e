//! `slipway quota`: what tenants and principals may use, and what they use.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::Failure,
    output::{Colour, Output},
    table::{Cell, Table},
    text::wire_name,
    value_parser::megabytes,
};
use clap::{Args, Subcommand};
use protocol::api::{OwnQuota, Quota, QuotaSource, QuotaUse, QuotaView};

/// The word for a resource without a limit.
const UNLIMITED: &str = "none";
/// Shares of a limit, in percent, from which it is shown in yellow and in red.
const NEAR_PERCENT: u64 = 80;
const FULL_PERCENT: u64 = 100;

#[derive(Debug, Args)]
pub struct QuotaArgs {
    #[command(subcommand)]
    command: QuotaCommand,
}

const EXAMPLES: &str = "\
Examples:
  slipway quota set acme --sandboxes 20 --running 5 --memory 8g --cpus 4 --disk 50g
  slipway quota set acme --principal ann --running 2
  slipway quota set acme --running none";

#[derive(Debug, Subcommand)]
enum QuotaCommand {
    /// Limit what a tenant may use, or one principal of it; only the limits that are given change
    #[command(after_help = EXAMPLES)]
    Set {
        #[command(flatten)]
        owner: OwnerArgs,
        #[command(flatten)]
        limits: Box<LimitFlags>,
    },
    /// Show quotas and their use: your own, or those of a tenant
    Show {
        /// Tenant; your own quotas without it
        tenant: Option<String>,
        /// Principal of the tenant
        #[arg(long, value_name = "NAME", requires = "tenant")]
        principal: Option<String>,
    },
    /// List tenants and principals that have a quota or use something
    #[command(visible_alias = "list")]
    Ls,
    /// Remove a quota: the default of the configuration applies
    Rm {
        #[command(flatten)]
        owner: OwnerArgs,
    },
}

#[derive(Debug, Args)]
struct OwnerArgs {
    /// Tenant
    tenant: String,
    /// Principal of the tenant, instead of all of it
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
}

/// The limits that `set` changes.
#[derive(Debug, Default, Args)]
#[group(required = true, multiple = true)]
struct LimitFlags {
    /// Sandboxes that are not destroyed; `none` for no limit, as with all flags
    #[arg(long, value_name = "N", value_parser = count)]
    sandboxes: Option<Limit<u64>>,
    /// Sandboxes that are up, paused ones included
    #[arg(long, value_name = "N", value_parser = count)]
    running: Option<Limit<u64>>,
    /// Memory of all sandboxes that are up, as in 512m or 8g
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<Limit<u64>>,
    /// Cores of all sandboxes that are up
    #[arg(long, value_name = "N", value_parser = cpus)]
    cpus: Option<Limit<f64>>,
    /// Files of workspaces and the share of the database
    #[arg(long, value_name = "SIZE", value_parser = size)]
    disk: Option<Limit<u64>>,
    /// Tasks that wait
    #[arg(long, value_name = "N", value_parser = count)]
    tasks_queued: Option<Limit<u64>>,
    /// Tasks at once; further ones wait
    #[arg(long, value_name = "N", value_parser = count)]
    tasks_running: Option<Limit<u64>>,
    /// Events and output that are kept; the oldest are deleted beyond it
    #[arg(long, value_name = "SIZE", value_parser = size)]
    events: Option<Limit<u64>>,
    /// Requests to previews and WebSockets at once
    #[arg(long, value_name = "N", value_parser = count)]
    preview_connections: Option<Limit<u64>>,
}

/// A limit, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Limit<T> {
    Unlimited,
    At(T),
}

fn limit<T>(text: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<Limit<T>, String> {
    if text == UNLIMITED { Ok(Limit::Unlimited) } else { parse(text).map(Limit::At) }
}

fn count(text: &str) -> Result<Limit<u64>, String> {
    limit(text, |text| text.parse().map_err(|_| format!("must be a whole number, or {UNLIMITED}")))
}

fn size(text: &str) -> Result<Limit<u64>, String> {
    limit(text, |text| if text == "0" { Ok(0) } else { megabytes(text) })
}

fn cpus(text: &str) -> Result<Limit<f64>, String> {
    let wrong = || format!("must be a number of cores, as in 0.5 or 4, or {UNLIMITED}");
    let parse = |text: &str| text.parse().ok().filter(|cpus: &f64| cpus.is_finite() && *cpus >= 0.0);
    limit(text, |text| parse(text).ok_or_else(wrong))
}

impl LimitFlags {
    /// Returns the quota with the given limits changed.
    fn apply(&self, quota: &Quota) -> Quota {
        fn changed<T: Copy>(before: Option<T>, flag: Option<Limit<T>>) -> Option<T> {
            match flag {
                None => before,
                Some(Limit::Unlimited) => None,
                Some(Limit::At(limit)) => Some(limit),
            }
        }
        Quota {
            sandboxes: changed(quota.sandboxes, self.sandboxes),
            running: changed(quota.running, self.running),
            memory_mb: changed(quota.memory_mb, self.memory),
            cpus: changed(quota.cpus, self.cpus),
            disk_mb: changed(quota.disk_mb, self.disk),
            tasks_queued: changed(quota.tasks_queued, self.tasks_queued),
            tasks_running: changed(quota.tasks_running, self.tasks_running),
            events_mb: changed(quota.events_mb, self.events),
            preview_connections: changed(quota.preview_connections, self.preview_connections),
        }
    }
}

impl OwnerArgs {
    fn path(&self) -> String {
        path(&self.tenant, self.principal.as_deref())
    }
}

fn path(tenant: &str, principal: Option<&str>) -> String {
    let tenant = format!("/v1/quotas/{}", encode(tenant));
    match principal {
        Some(principal) => format!("{tenant}/principals/{}", encode(principal)),
        None => tenant,
    }
}

pub async fn run(context: &Context, args: QuotaArgs) -> Result<(), Failure> {
    let output = context.output;
    let one = |view: QuotaView| Ok(describe(&view, output));
    match args.command {
        QuotaCommand::Set { owner, limits } => {
            let before: QuotaView = context.client.send(ApiRequest::get(owner.path())).await?.parse()?;
            let quota = limits.apply(&before.quota);
            context.show(ApiRequest::put(owner.path()).json(&quota), one).await
        }
        QuotaCommand::Show { tenant: Some(tenant), principal } => {
            context.show(ApiRequest::get(path(&tenant, principal.as_deref())), one).await
        }
        QuotaCommand::Show { tenant: None, .. } => {
            let both = |own: OwnQuota| {
                Ok(format!("{}\n{}", describe(&own.tenant, output), describe(&own.principal, output)))
            };
            context.show(ApiRequest::get("/v1/quota"), both).await
        }
        QuotaCommand::Ls => context.show_list(ApiRequest::get("/v1/quotas"), |all| list(&all, output)).await,
        QuotaCommand::Rm { owner } => {
            context.client.send(ApiRequest::delete(owner.path())).await?;
            let whose = owner.principal.as_ref().unwrap_or(&owner.tenant);
            if output.json { Ok(()) } else { output.line(&format!("quota of {whose} removed")) }
        }
    }
}

/// One resource of a quota: its name, use and limit; a use that is not measured is absent.
struct Line {
    resource: &'static str,
    used: Option<f64>,
    limit: Option<f64>,
    unit: &'static str,
}

fn lines(quota: &Quota, used: &QuotaUse) -> [Line; 9] {
    let line = |resource, used: Option<u64>, limit: Option<u64>, unit| Line {
        resource,
        used: used.map(|used| used as f64),
        limit: limit.map(|limit| limit as f64),
        unit,
    };
    [
        line("sandboxes", Some(used.sandboxes), quota.sandboxes, ""),
        line("running", Some(used.running), quota.running, ""),
        line("memory", Some(used.memory_mb), quota.memory_mb, " MB"),
        Line { resource: "cpus", used: Some(used.cpus), limit: quota.cpus, unit: "" },
        line("disk", used.disk_mb, quota.disk_mb, " MB"),
        line("tasks queued", Some(used.tasks_queued), quota.tasks_queued, ""),
        line("tasks running", Some(used.tasks_running), quota.tasks_running, ""),
        line("events", used.events_mb, quota.events_mb, " MB"),
        line("preview connections", Some(used.preview_connections), quota.preview_connections, ""),
    ]
}

impl Line {
    fn percent(&self) -> Option<u64> {
        let (used, limit) = (self.used?, self.limit?);
        let share = if limit > 0.0 { used / limit * 100.0 } else { 100.0 };
        Some(share.round() as u64)
    }

    fn share(&self) -> Cell {
        let Some(percent) = self.percent() else { return "".into() };
        let text = format!("{percent}%");
        match percent {
            ..NEAR_PERCENT => text.into(),
            NEAR_PERCENT..FULL_PERCENT => Cell::painted(text, Colour::Yellow),
            FULL_PERCENT.. => Cell::painted(text, Colour::Red),
        }
    }
}

fn describe(view: &QuotaView, output: Output) -> String {
    let source = match view.source {
        QuotaSource::Set => "set".to_owned(),
        QuotaSource::Default => "default of the configuration".to_owned(),
        QuotaSource::None => "no quota: unlimited".to_owned(),
    };
    let whose = match &view.principal {
        Some(principal) => format!("principal {principal} of tenant {}", view.tenant),
        None => format!("tenant {}", view.tenant),
    };
    let mut table = Table::new(["RESOURCE", "USED", "LIMIT", "SHARE"]);
    for line in lines(&view.quota, &view.used) {
        let amount = |amount: Option<f64>| amount.map(|amount| format!("{amount}{}", line.unit));
        table.row([
            line.resource.into(),
            amount(line.used).unwrap_or_else(|| "not measured".to_owned()).into(),
            amount(line.limit).unwrap_or_else(|| UNLIMITED.to_owned()).into(),
            line.share(),
        ]);
    }
    format!("{} ({source})\n{}", crate::text::plain(&whose), table.render(output))
}

fn list(views: &[QuotaView], output: Output) -> String {
    if views.is_empty() {
        return "no quotas, and nothing is used; set one with `slipway quota set TENANT --running N`\n"
            .to_owned();
    }
    let heads = [
        "TENANT",
        "PRINCIPAL",
        "SOURCE",
        "SANDBOXES",
        "RUNNING",
        "MEMORY",
        "CPUS",
        "DISK",
        "TASKS",
        "EVENTS",
    ];
    let mut table = Table::new(heads);
    for view in views {
        let [sandboxes, running, memory, cpus, disk, queued, at_work, events, _] =
            lines(&view.quota, &view.used).map(|line| {
                let amount = |amount: Option<f64>| amount.map(|amount| amount.to_string());
                let used = amount(line.used).unwrap_or_else(|| "?".to_owned());
                amount(line.limit).map(|limit| format!("{used}/{limit}")).unwrap_or(used)
            });
        table.row([
            view.tenant.as_str().into(),
            view.principal.as_ref().map_or("", |principal| principal.as_str()).into(),
            wire_name(&view.source).into(),
            sandboxes.into(),
            running.into(),
            format!("{memory} MB").into(),
            cpus.into(),
            format!("{disk} MB").into(),
            format!("{at_work}+{queued}").into(),
            format!("{events} MB").into(),
        ]);
    }
    table.render(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use protocol::api::Label;

    #[derive(Parser)]
    struct TestArgs {
        #[command(flatten)]
        limits: LimitFlags,
    }

    fn view(principal: Option<&str>) -> QuotaView {
        let label = |text| Label::parse(text).expect("a label");
        QuotaView {
            tenant: label("acme"),
            principal: principal.map(label),
            quota: Quota {
                sandboxes: Some(20),
                running: Some(5),
                memory_mb: Some(8192),
                cpus: Some(4.0),
                preview_connections: Some(0),
                ..Quota::default()
            },
            source: QuotaSource::Set,
            used: QuotaUse {
                sandboxes: 7,
                running: 5,
                memory_mb: 6_800,
                cpus: 2.5,
                events_mb: Some(3),
                tasks_queued: 1,
                tasks_running: 2,
                ..QuotaUse::default()
            },
        }
    }

    #[test]
    fn a_quota_is_shown_with_what_is_used() {
        let output = Output { json: false, colour: false };
        insta::assert_snapshot!(describe(&view(Some("ann")), output));
        insta::assert_snapshot!(list(&[view(None), view(Some("ann"))], output));
        insta::assert_snapshot!(list(&[], output));
    }

    #[test]
    fn only_the_limits_that_are_given_change() {
        let before = view(None).quota;
        let table: [(&[&str], Quota); 4] = [
            (&["--running", "9"], Quota { running: Some(9), ..before.clone() }),
            (&["--running", "none", "--cpus", "none"], Quota { running: None, cpus: None, ..before.clone() }),
            (
                &["--memory", "16g", "--cpus", "0.5"],
                Quota { memory_mb: Some(16_384), cpus: Some(0.5), ..before.clone() },
            ),
            (
                &["--disk", "0", "--events", "1g"],
                Quota { disk_mb: Some(0), events_mb: Some(1024), ..before.clone() },
            ),
        ];
        for (flags, expected) in table {
            let args = TestArgs::parse_from([&["set"], flags].concat());
            assert_eq!(args.limits.apply(&before), expected, "{flags:?}");
        }
        for wrong in
            [&[][..], &["--running", "-1"], &["--running", "all"], &["--cpus", "inf"], &["--memory", "x"]]
        {
            assert!(TestArgs::try_parse_from([&["set"], wrong].concat()).is_err(), "{wrong:?}");
        }
    }
}
