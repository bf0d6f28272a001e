//! `slipway up`: starts hostd where needed, and finds or creates the default sandbox.

use crate::{
    client::ApiRequest,
    commands::ensure,
    context::Context,
    failure::{Failure, eprint_line},
    output::{Colour, Output},
    sandbox_flags::SpecFlags,
    sandbox_wait, start_hostd, value_parser,
};
use clap::Args;
use protocol::api::{HostView, SandboxView};

/// The scope that makes the next `up` find the same sandbox.
const SCOPE: &str = "custom:up";
/// Name of the sandbox, for `slipway exec up -- …`.
const NAME: &str = "up";

#[derive(Debug, Args)]
pub struct UpArgs {
    #[command(flatten)]
    spec: SpecFlags,
}

pub async fn run(context: &Context, args: UpArgs) -> Result<(), Failure> {
    context.require_local("up", "`slipway create` creates a sandbox there")?;
    if start_hostd::ensure_serving(context).await? {
        eprint_line(&format!(
            "hostd was started; its log is {}",
            context.data_dir.join("hostd.log").display()
        ));
    } else {
        warn_other_driver(context).await;
    }
    let mut spec = args.spec.spec()?;
    if spec.scope.is_none() {
        spec.scope = Some(value_parser::scope(SCOPE).map_err(Failure::Usage)?);
        spec.name.get_or_insert_with(|| NAME.to_owned());
    }
    let (response, body) = ensure::ensure(context, &spec).await?;
    sandbox_wait::fail_if_error(&response.sandbox)?;
    if context.output.json {
        return context.output.document(&body);
    }
    context.output.text(&text(&response.sandbox, response.created, context.output))
}

/// Warns when SLIPWAY_DRIVER differs from the driver of a running hostd, which reads it only at start.
async fn warn_other_driver(context: &Context) {
    let Some(wanted) =
        std::env::var("SLIPWAY_DRIVER").ok().filter(|name| !["", "auto"].contains(&name.as_str()))
    else {
        return;
    };
    let Ok(response) = context.client.send(ApiRequest::get("/v1/host")).await else { return };
    let Ok(host) = response.parse::<HostView>() else { return };
    if host.default_driver != wanted {
        eprint_line(&format!(
            "hostd runs already, with the driver {}: SLIPWAY_DRIVER counts when it starts (slipway down, then up), \
             or use --driver",
            crate::text::plain(&host.default_driver)
        ));
    }
}

fn text(view: &SandboxView, created: bool, output: Output) -> String {
    let id = view.id;
    let how = if created { "made" } else { "found" };
    let mut text = format!(
        "{} {how}, {}\n",
        output.paint(Colour::Bold, id.as_str()),
        crate::text::wire_name(&view.status)
    );
    for (port, url) in &view.previews {
        text.push_str(&format!("  port {port}: {url}\n"));
    }
    text.push_str(&format!(
        "\nNext:\n  slipway sh {id}                  a shell in it\n  slipway exec {id} -- COMMAND     run something\n  \
         slipway task submit {id} …       give it a task\n  slipway events -f {id}           watch what happens\n  \
         slipway rm {id}                  destroy it\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::ls::tests::view;

    #[test]
    fn up_says_what_to_type_next() {
        insta::assert_snapshot!(text(&view("{}"), true, Output { json: false, colour: false }), @r"
        01jb9xyzabcdefghjkmnpqrstv made, running
          port 3000: http://s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.localhost:8080

        Next:
          slipway sh 01jb9xyzabcdefghjkmnpqrstv                  a shell in it
          slipway exec 01jb9xyzabcdefghjkmnpqrstv -- COMMAND     run something
          slipway task submit 01jb9xyzabcdefghjkmnpqrstv …       give it a task
          slipway events -f 01jb9xyzabcdefghjkmnpqrstv           watch what happens
          slipway rm 01jb9xyzabcdefghjkmnpqrstv                  destroy it
        ");
    }
}
