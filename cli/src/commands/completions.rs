//! `slipway completions`.

use crate::{completion, failure::Failure, output::Output};
use clap::Args;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell to print the script for
    shell: clap_complete::Shell,
}

pub fn run(args: &CompletionsArgs, output: Output) -> Result<(), Failure> {
    let script = completion::script(args.shell).map_err(|error| Failure::io("write the script", error))?;
    output.bytes(&script)
}
