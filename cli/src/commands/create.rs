//! `slipway create`: prints the id for scripts.

use crate::{
    client::ApiRequest, context::Context, failure::Failure, limits, progress::Progress,
    sandbox_flags::SpecFlags, sandbox_wait,
};
use clap::Args;
use protocol::api::SandboxView;

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// Display name, as --name
    #[arg(value_name = "NAME")]
    pub called: Option<String>,
    #[command(flatten)]
    pub spec: SpecFlags,
    /// Destroy the sandbox that has the name now, with its files, in the same step
    #[arg(long)]
    pub replace: bool,
    /// With --replace: keep the files of the other sandbox
    #[arg(long, requires = "replace")]
    pub keep_workspace: bool,
    /// Print the id at once, without waiting until the sandbox runs
    #[arg(long)]
    pub no_wait: bool,
}

pub async fn run(context: &Context, args: CreateArgs) -> Result<(), Failure> {
    let CreateArgs { no_wait, replace, keep_workspace, .. } = args;
    let spec = args.named()?.spec.spec()?;
    let progress = Progress::start(context.output, "creating");
    let wait = if no_wait { "0".to_owned() } else { sandbox_wait::create_wait(&spec) };
    let request = ApiRequest::post("/v1/sandboxes")
        .query("wait", wait)
        .query_if("replace", replace.then_some(1))
        .query_if("workspace", keep_workspace.then_some("keep"))
        .json(&spec)
        .timeout(limits::SETTLE_TIMEOUT);
    let mut response = context.client.send(request).await?;
    if !no_wait {
        response = sandbox_wait::until_settled(context, response, &progress).await?;
    }
    drop(progress);
    let view: SandboxView = response.parse()?;
    context.show_response(&response, |view: SandboxView| Ok(format!("{}\n", view.id)))?;
    sandbox_wait::fail_if_error(&view)
}

impl CreateArgs {
    /// Merges the positional name and --name.
    fn named(mut self) -> Result<Self, Failure> {
        match (self.called.take(), &self.spec.sandbox_flags.name) {
            (Some(called), Some(name)) if called != *name => Err(Failure::Usage(format!(
                "the sandbox is called {called:?} and --name {name:?}: give one name"
            ))),
            (Some(called), _) => {
                self.spec.sandbox_flags.name = Some(called);
                Ok(self)
            }
            (None, _) => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct TestArgs {
        #[command(flatten)]
        create: CreateArgs,
    }

    #[test]
    fn a_sandbox_has_one_name_wherever_it_is_given() {
        let table: [(&[&str], Option<&str>); 5] = [
            (&["web"], Some("web")),
            (&["--name", "web"], Some("web")),
            (&["web", "--name", "web"], Some("web")),
            (&["--port", "3000", "web"], Some("web")),
            (&[], None),
        ];
        for (flags, expected) in table {
            let line = TestArgs::parse_from([&["create"], flags].concat());
            let named = line.create.named().expect("one name");
            assert_eq!(named.spec.sandbox_flags.name.as_deref(), expected, "{flags:?}");
        }
        let two = TestArgs::parse_from(["create", "web", "--name", "api"]).create.named();
        assert_eq!(two.map_err(|failure| failure.exit_code()).err(), Some(2));
    }
}
