//! `slipway cp`: copies files and directories into a sandbox, out of it, and between sandboxes.

use crate::{
    context::Context,
    copy::{self, CopyTarget},
    failure::Failure,
    files::CopyPath,
    signals::Signals,
};
use clap::Args;
use std::ffi::OsString;

const AFTER_HELP: &str = "\
Paths in a sandbox are SANDBOX:PATH, relative to /home/sandbox; the app is in workspace/app. `-` is standard input or
output. A destination that is a directory, or ends in a slash, gets the source under its own name; otherwise the
destination is the copy. Directories are copied whole, with links as links; permissions are kept.

  slipway cp notes.md web:workspace/app/
  slipway cp web:workspace/app/dist ./dist
  slipway cp src/. web:workspace/app          the content of src
  tar c . | slipway cp - web:backup.tar
  slipway cp web:data.csv api:data.csv";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct CpArgs {
    /// Source, or several; then the destination
    #[arg(value_name = "FROM TO", num_args = 2.., required = true)]
    paths: Vec<OsString>,
    /// Accepted as with scp: directories are always copied whole
    #[arg(long, short = 'r', visible_short_alias = 'R')]
    recursive: bool,
}

pub async fn run(context: &Context, args: CpArgs) -> Result<u8, Failure> {
    let parse = |text: &OsString| CopyPath::parse(text).map_err(Failure::Usage);
    let mut paths = args.paths.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let to = paths.pop().ok_or_else(|| Failure::Usage("give a source and a destination".to_owned()))?;
    check(&paths, &to)?;
    let mut signals = Signals::listen(false).map_err(|error| Failure::io("handle signals", error))?;
    let copying = async {
        let target = CopyTarget::find(context, to, paths.len() > 1).await?;
        for from in &paths {
            copy::copy(context, from, &target).await?;
        }
        Ok(0)
    };
    tokio::select! {
        // An interrupted copy removes what it has not finished.
        copied = copying => copied,
        signal = signals.exit_code() => Ok(signal),
    }
}

fn check(from: &[CopyPath], to: &CopyPath) -> Result<(), Failure> {
    let in_sandbox = |path: &CopyPath| matches!(path, CopyPath::InSandbox(_));
    let wrong = |message: &str| Err(Failure::Usage(message.to_owned()));
    if !in_sandbox(to) && !from.iter().all(in_sandbox) {
        return wrong("one side must be in a sandbox, as in web:notes.md");
    }
    if from.contains(&CopyPath::Stdio) && from.len() > 1 {
        return wrong("standard input is the only source, or none");
    }
    if *to == CopyPath::Stdio && from.len() > 1 {
        return wrong("only one file can be copied to standard output");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn a_copy_has_a_sandbox_on_one_side() {
        let table = [
            (&["a", "web:b"][..], true),
            (&["web:a", "b"], true),
            (&["web:a", "api:b"], true),
            (&["-", "web:b"], true),
            (&["web:a", "-"], true),
            (&["a", "b", "web:c"], true),
            (&["a", "b"], false),
            (&["-", "b"], false),
            (&["web:a", "b", "c"], false),
            (&["-", "a", "web:c"], false),
            (&["web:a", "web:b", "-"], false),
        ];
        for (paths, fine) in table {
            let mut paths: Vec<CopyPath> =
                paths.iter().map(|path| CopyPath::parse(OsStr::new(path)).expect("a path")).collect();
            let to = paths.pop().expect("two");
            assert_eq!(check(&paths, &to).is_ok(), fine, "{paths:?} {to:?}");
        }
    }
}
