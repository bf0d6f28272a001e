//! `slipway share`: shares a sandbox with colleagues.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::Failure,
    text::wire_name,
};
use clap::{ArgGroup, Args};
use protocol::api::{SandboxId, ShareAccess, ShareSpec, ShareView};

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("grantee").args(["with", "with_tenant"]).required(true).multiple(true)))]
pub struct ShareArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    #[command(flatten)]
    grantees: Grantees,
    /// Also let them use it: commands, terminals, tasks, files, services, start and stop
    #[arg(long, conflicts_with = "read")]
    run: bool,
    /// Let them see it: files, tasks, output, events and previews (the default)
    #[arg(long)]
    read: bool,
}

/// With whom a sandbox is shared.
#[derive(Debug, Args)]
pub struct Grantees {
    /// A principal of your tenant; may be repeated
    #[arg(long, value_name = "PRINCIPAL")]
    pub with: Vec<String>,
    /// Every principal of your tenant
    #[arg(long)]
    pub with_tenant: bool,
}

impl Grantees {
    /// Returns the path of each share.
    pub fn paths(&self, sandbox: &SandboxId) -> Vec<String> {
        let shares = format!("/v1/sandboxes/{sandbox}/shares");
        let of_tenant = self.with_tenant.then(|| format!("{shares}/tenant"));
        let of_principal = |principal: &String| format!("{shares}/principals/{}", encode(principal));
        self.with.iter().map(of_principal).chain(of_tenant).collect()
    }
}

pub async fn run(context: &Context, args: ShareArgs) -> Result<(), Failure> {
    let sandbox = context.sandbox(&args.sandbox).await?;
    let access = if args.run { ShareAccess::Run } else { ShareAccess::Read };
    for path in args.grantees.paths(&sandbox) {
        let said = |share: ShareView| Ok(format!("{sandbox} shared with {}\n", describe(&share)));
        context.show(ApiRequest::put(path).json(&ShareSpec { access }), said).await?;
    }
    Ok(())
}

fn describe(share: &ShareView) -> String {
    let access = wire_name(&share.access);
    match &share.principal {
        Some(principal) => format!("{principal}, to {access}"),
        None => format!("the whole tenant, to {access}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_of_any_spelling_is_one_part_of_a_path() {
        let sandbox: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        let grantees = Grantees { with: vec!["ann".to_owned(), "team/tenant".to_owned()], with_tenant: true };
        insta::assert_snapshot!(grantees.paths(&sandbox).join("\n"), @r"
        /v1/sandboxes/01jb9xyzabcdefghjkmnpqrstv/shares/principals/ann
        /v1/sandboxes/01jb9xyzabcdefghjkmnpqrstv/shares/principals/team%2Ftenant
        /v1/sandboxes/01jb9xyzabcdefghjkmnpqrstv/shares/tenant
        ");
    }
}
