//! `slipway completions`.

use crate::{failure::Failure, output::Output};
use clap::{Args, CommandFactory as _};

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

pub fn run(args: &CompletionsArgs, output: Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::Args::command(), "slipway", &mut script);
    output.bytes(&script)
}
