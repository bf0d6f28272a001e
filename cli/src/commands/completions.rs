//! `slipway completions`.

use crate::{failure::Failure, output::Output};
use clap::Args;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

/// `command` is the whole command line.
pub fn run(args: &CompletionsArgs, mut command: clap::Command, output: Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "slipway", &mut script);
    output.bytes(&script)
}
