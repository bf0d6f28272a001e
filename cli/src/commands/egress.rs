//! `slipway egress`.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::Failure,
    text::plain,
};
use clap::Args;
use protocol::api::{EgressProfile, EgressProfileView, EgressRules, EgressView, Network, Page, SandboxId};

const AFTER_HELP: &str = "\
A rule is a host with or without ports: example.com, '*.example.com:443', '*:80,8000-8999', 192.0.2.0/24.

Examples:
  slipway egress web                                  show the rules and the traffic of web
  slipway egress web --deny '*.example.com'           deny one more destination
  slipway egress web --only --allow '*.example.com'   replace all rules
  slipway egress --profile default --deny '*:25'      rule for every sandbox of the host";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct EgressArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX", required_unless_present = "profile", conflicts_with = "profile")]
    sandbox: Option<String>,
    /// Egress profile of the host instead of a sandbox; `default` applies to every sandbox
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Destination to allow; with any allow rule everything else is denied
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Destination to deny; wins over allow rules
    #[arg(long, value_name = "RULE")]
    deny: Vec<String>,
    /// Maximum traffic, sent and received together, in MiB
    #[arg(long, value_name = "MB", conflicts_with = "profile")]
    max_mb: Option<u64>,
    /// Replace the existing rules instead of adding to them
    #[arg(long)]
    only: bool,
}

pub async fn run(context: &Context, args: EgressArgs) -> Result<(), Failure> {
    match (&args.sandbox, &args.profile) {
        (Some(sandbox), _) => {
            let id = context.sandbox(sandbox).await?;
            of_sandbox(context, id, &args).await
        }
        (None, Some(name)) => of_profile(context, name, &args).await,
        (None, None) => Err(Failure::Usage("give a sandbox or --profile".into())),
    }
}

async fn of_sandbox(context: &Context, id: SandboxId, args: &EgressArgs) -> Result<(), Failure> {
    let path = format!("/v1/sandboxes/{id}/egress");
    if !args.changes() {
        return context.show(ApiRequest::get(path), |view| Ok(format(&view))).await;
    }
    let known: EgressView = context.client.send(ApiRequest::get(path.clone())).await?.parse()?;
    let rules = EgressRules {
        profile: known.profile,
        allow: args.merge(known.allow, &args.allow),
        deny: args.merge(known.deny, &args.deny),
        max_mb: args.max_mb.or(known.max_mb.filter(|_| !args.only)),
    };
    context.show(ApiRequest::put(path).json(&rules), |view| Ok(format(&view))).await
}

async fn of_profile(context: &Context, name: &str, args: &EgressArgs) -> Result<(), Failure> {
    let path = format!("/v1/egress-profiles/{}", encode(name));
    if !args.changes() {
        return context.show(ApiRequest::get(path), |view| Ok(profile(&view))).await;
    }
    let all: Page<EgressProfileView> =
        context.client.send(ApiRequest::get("/v1/egress-profiles")).await?.parse()?;
    let known = all.items.into_iter().find(|known| known.name == name);
    let (allow, deny) = known.map(|known| (known.allow, known.deny)).unwrap_or_default();
    let rules = EgressProfile { allow: args.merge(allow, &args.allow), deny: args.merge(deny, &args.deny) };
    context.show(ApiRequest::put(path).json(&rules), |view| Ok(profile(&view))).await
}

impl EgressArgs {
    fn changes(&self) -> bool {
        self.only || !self.allow.is_empty() || !self.deny.is_empty() || self.max_mb.is_some()
    }

    fn merge(&self, mut known: Vec<String>, more: &[String]) -> Vec<String> {
        if self.only {
            known.clear();
        }
        let fresh: Vec<String> = more.iter().filter(|rule| !known.contains(rule)).cloned().collect();
        known.extend(fresh);
        known
    }
}

fn format(view: &EgressView) -> String {
    let mode = match view.mode {
        Network::None => "none: loopback only".to_owned(),
        Network::Open => "open: no proxy, and no rules".to_owned(),
        Network::Proxy => "proxy".to_owned(),
    };
    let most = view.max_mb.map(|mb| format!(" of {mb} MiB")).unwrap_or_default();
    let mut lines = vec![format!("network  {mode}")];
    lines.extend(view.profile.as_ref().map(|name| format!("profile  {}", plain(name))));
    lines.extend(rules(&view.allow, &view.deny));
    lines.push(format!("used     {:.1} MiB{most}", view.used_bytes as f64 / f64::from(1 << 20)));
    lines.join("\n") + "\n"
}

fn profile(view: &EgressProfileView) -> String {
    let mut lines = vec![format!("profile  {}", plain(&view.name))];
    lines.extend(rules(&view.allow, &view.deny));
    lines.join("\n") + "\n"
}

fn rules(allow: &[String], deny: &[String]) -> Vec<String> {
    let named = |word: &str, list: &[String]| {
        list.iter().map(|rule| format!("{word:<7}  {}", plain(rule))).collect::<Vec<_>>()
    };
    let mut lines = named("deny", deny);
    lines.extend(named("allow", allow));
    if allow.is_empty() {
        lines.push("allow    everything public".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_may_reach_is_shown() {
        let view = EgressView {
            mode: Network::Proxy,
            profile: Some("strict".into()),
            allow: vec![],
            deny: vec!["*.example.com".into()],
            max_mb: Some(100),
            used_bytes: 3 << 19,
        };
        insta::assert_snapshot!(format(&view), @r"
        network  proxy
        profile  strict
        deny     *.example.com
        allow    everything public
        used     1.5 MiB of 100 MiB
        ");
    }
}
