//! `slipway sync`: keeps a directory of this machine and one of a sandbox the same.

use crate::{
    context::Context,
    copy::file_api,
    failure::Failure,
    files::SandboxPath,
    signals::Signals,
    sync::{Session, SyncOptions},
};
use clap::Args;
use std::{fs, path::PathBuf};

const AFTER_HELP: &str = "\
Both ways: a change on one side is made on the other. The first time, files of both sides are joined by their content,
and nothing is deleted; a deletion is passed on only for a file that both sides had. Where both sides changed a file,
the sandbox's keeps the name and yours becomes NAME.conflict-YYYYMMDD-HHMMSS, on both sides.

Left out: .git and what .gitignore files name (unless --no-ignore), --exclude, links that lead out of the directory,
FIFOs, sockets and devices. What was the same is remembered in $XDG_CACHE_HOME/slipway/sync.

  slipway sync ./app web:workspace/app
  slipway sync . web:workspace/app --once --exclude '*.iso'";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct SyncArgs {
    /// Directory of this machine; made if it is missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Directory of the sandbox; made if it is missing
    #[arg(value_name = "SANDBOX:PATH", value_parser = super::files::sandbox_path())]
    path: SandboxPath,
    /// End when both sides are the same
    #[arg(long)]
    once: bool,
    /// Leave out what matches, as a line of .gitignore would; may be repeated
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Also .git, and what .gitignore files name
    #[arg(long)]
    no_ignore: bool,
    /// Pass on deletions even if one side lost everything
    #[arg(long)]
    delete_all: bool,
}

pub async fn run(context: &Context, args: SyncArgs) -> Result<u8, Failure> {
    let api = file_api(context, &args.path).await?;
    let cannot = |error| Failure::io(format!("use the directory {}", args.directory.display()), error);
    fs::create_dir_all(&args.directory).map_err(cannot)?;
    let directory = args.directory.canonicalize().map_err(cannot)?;
    let options = SyncOptions {
        directory,
        path: args.path.path,
        exclude: args.exclude,
        ignore: !args.no_ignore,
        delete_everything: args.delete_all,
    };
    let mut signals = Signals::listen(false).map_err(|error| Failure::io("handle signals", error))?;
    let mut session = Box::pin(Session::open(api, options, context.output)).await?;
    let syncing = async {
        if args.once {
            return Ok(if session.run_once().await? { 0 } else { 1 });
        }
        session.run().await.map(|()| 0)
    };
    tokio::select! {
        // An interrupted step leaves nothing half done; the next run finds what is left.
        code = Box::pin(syncing) => code,
        code = signals.exit_code() => Ok(code),
    }
}
