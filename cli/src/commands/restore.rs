//! `slipway restore`: runs `hostd restore`, which has the code of the database. Works while no hostd runs.

use crate::{failure::Failure, output::Output, secret, start_hostd::find_program};
use clap::Args;
use std::{
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
};

const EXAMPLES: &str = "\
All of the backup is read and checked before anything appears; then the data directory appears at once. It must not exist
yet, or be empty. What is restored is a new instance: sandboxes are stopped and start on demand, tasks that ran are ended,
preview links, signed URLs and tokens of sandboxes are not valid any more, and the administrator has a new token. Tokens
of people stay valid unless --revoke-tokens. The configuration is put beside, and is not in force.

Examples:
  slipway restore --verify-only slipway.age
  slipway restore slipway.age && slipway up
  slipway restore --identity key.txt --data-dir /srv/slipway slipway.age";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RestoreArgs {
    /// A file of `slipway backup`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Data directory to restore into; default: the data_dir of hostd's configuration
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Read the passphrase from this file; - is standard input. Default: a prompt
    #[arg(long, value_name = "FILE", conflicts_with = "identity")]
    passphrase_file: Option<PathBuf>,
    /// Decrypt with the identities of age in this file
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Only read and check the whole backup
    #[arg(long)]
    verify_only: bool,
    /// Revoke API tokens, too
    #[arg(long)]
    revoke_tokens: bool,
}

/// Returns the exit code of hostd.
pub fn run(args: &RestoreArgs, output: Output) -> Result<u8, Failure> {
    let program = find_program("hostd").ok_or_else(|| {
        Failure::new("no hostd was found beside slipway or on PATH").hint("install hostd beside slipway")
    })?;
    let mut command = Command::new(&program);
    command.arg("restore").arg(&args.file);
    let passphrase = match &args.identity {
        Some(identity) => {
            command.arg("--identity").arg(identity);
            None
        }
        None => {
            // By a pipe: every user of the machine can read arguments.
            command.args(["--passphrase-file", "-"]);
            let question = "passphrase of the backup (not shown): ";
            Some(secret::read(args.passphrase_file.as_deref(), question)?)
        }
    };
    if let Some(dir) = &args.data_dir {
        let dir = std::path::absolute(dir).map_err(|error| Failure::io("find the data directory", error))?;
        command.arg("--data-dir").arg(dir);
    }
    let flags = [
        (args.verify_only, "--verify-only"),
        (args.revoke_tokens, "--revoke-tokens"),
        (output.json, "--json"),
    ];
    command.args(flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag));
    command.stdin(if passphrase.is_some() { Stdio::piped() } else { Stdio::null() });
    let cannot = |error| Failure::io(format!("run {}", program.display()), error);
    let mut child = command.spawn().map_err(cannot)?;
    if let (Some(mut stdin), Some(passphrase)) = (child.stdin.take(), passphrase) {
        // hostd says itself why it ended before it read this.
        let _ = stdin.write_all(passphrase.as_bytes());
    }
    let status = child.wait().map_err(cannot)?;
    Ok(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}
