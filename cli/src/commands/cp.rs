//! `slipway cp`, which does not exist: files are copied with tar through `slipway exec`. Prints that command, with the
//! given arguments where they are understood.

use crate::{failure::Failure, text::plain};
use clap::Args;

#[derive(Debug, Args)]
pub struct CpArgs {
    /// Source and destination
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FROM TO")]
    paths: Vec<String>,
}

/// A source or destination of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyPath<'a> {
    Local(&'a str),
    InSandbox { sandbox: &'a str, path: &'a str },
}

pub fn run(args: &CpArgs) -> Failure {
    let paths: Vec<CopyPath<'_>> =
        args.paths.iter().filter(|path| !path.starts_with('-')).map(|path| copy_path(path)).collect();
    Failure::UseInstead { message: "there is no `slipway cp`".to_owned(), next: instead(&paths) }
}

/// Parses `SANDBOX:PATH`, as with scp; a path with a slash before the colon is local.
fn copy_path(text: &str) -> CopyPath<'_> {
    match text.split_once(':') {
        Some((sandbox, path)) if !sandbox.is_empty() && !sandbox.contains('/') => {
            CopyPath::InSandbox { sandbox, path }
        }
        Some(_) | None => CopyPath::Local(text),
    }
}

fn instead(paths: &[CopyPath<'_>]) -> String {
    match paths {
        [CopyPath::Local(from), CopyPath::InSandbox { sandbox, path }] => {
            let (from, sandbox, to) = (quoted(from), quoted(sandbox), quoted(directory(path)));
            format!("`tar c {from} | slipway exec {sandbox} -- tar x -C {to}`")
        }
        [CopyPath::InSandbox { sandbox, path }, CopyPath::Local(to)] => {
            let (sandbox, path, to) = (quoted(sandbox), quoted(directory(path)), quoted(to));
            format!("`slipway exec {sandbox} -- tar c {path} | tar x -C {to}`")
        }
        _ => "`tar c FILES | slipway exec SANDBOX -- tar x` copies files in, \
              `slipway exec SANDBOX -- tar c FILES | tar x` copies them out"
            .to_owned(),
    }
}

/// Returns the path, or the app directory where it is empty.
fn directory(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    let text = plain(text);
    let safe = |c: char| c.is_ascii_alphanumeric() || "._-/~+@%,".contains(c);
    if !text.is_empty() && text.chars().all(safe) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_said_as_what_does_it() {
        let table: [&[&str]; 6] = [
            &["src", "web:/home/sandbox/workspace/app"],
            &["-r", "a b", "web:"],
            &["web:dist", "."],
            &["web:a", "api:b"],
            &["x'y", "./odd:name"],
            &[],
        ];
        let said = table.map(|paths| {
            let args = CpArgs { paths: paths.iter().map(|path| (*path).to_owned()).collect() };
            run(&args).lines().join("\n")
        });
        insta::assert_snapshot!(said.join("\n"), @r"
        slipway: there is no `slipway cp`
          next: `tar c src | slipway exec web -- tar x -C /home/sandbox/workspace/app`
        slipway: there is no `slipway cp`
          next: `tar c 'a b' | slipway exec web -- tar x -C .`
        slipway: there is no `slipway cp`
          next: `slipway exec web -- tar c dist | tar x -C .`
        slipway: there is no `slipway cp`
          next: `tar c FILES | slipway exec SANDBOX -- tar x` copies files in, `slipway exec SANDBOX -- tar c FILES | tar x` copies them out
        slipway: there is no `slipway cp`
          next: `tar c FILES | slipway exec SANDBOX -- tar x` copies files in, `slipway exec SANDBOX -- tar c FILES | tar x` copies them out
        slipway: there is no `slipway cp`
          next: `tar c FILES | slipway exec SANDBOX -- tar x` copies files in, `slipway exec SANDBOX -- tar c FILES | tar x` copies them out
        ");
    }
}
