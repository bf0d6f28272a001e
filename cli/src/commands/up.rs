//! `slipway up`: from nothing to a sandbox that can be used.

use crate::{
    commands::ensure,
    context::Context,
    failure::{Failure, eprint_line},
    launch,
    output::{Colour, Output},
    parse, settle,
    spec::SpecFlags,
};
use clap::Args;
use protocol::api::SandboxView;

/// The scope that makes the next `up` find the same sandbox.
const SCOPE: &str = "custom:up";
/// So that `slipway exec up -- …` works.
const NAME: &str = "up";

#[derive(Debug, Args)]
pub struct UpArgs {
    #[command(flatten)]
    spec: SpecFlags,
}

pub async fn run(context: &Context, args: UpArgs) -> Result<(), Failure> {
    if launch::ensure_serving(context).await? {
        eprint_line(&format!(
            "hostd was started; its log is {}",
            context.data_dir.join("hostd.log").display()
        ));
    }
    let mut spec = args.spec.spec()?;
    if spec.scope.is_none() {
        spec.scope = Some(parse::scope(SCOPE).map_err(Failure::Usage)?);
        spec.name.get_or_insert_with(|| NAME.to_owned());
    }
    let (answer, body) = ensure::ensure(context, &spec).await?;
    settle::must_be_well(&answer.sandbox)?;
    if context.output.json {
        return context.output.document(&body);
    }
    context.output.bytes(text(&answer.sandbox, answer.created, context.output).as_bytes())
}

fn text(view: &SandboxView, created: bool, output: Output) -> String {
    let id = view.id;
    let how = if created { "made" } else { "found" };
    let mut text =
        format!("{} {how}, {}\n", output.paint(Colour::Bold, id.as_str()), crate::text::word(&view.status));
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
