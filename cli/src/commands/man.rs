//! `slipway man`, which is hidden: writes the manual pages of every command. `scripts/dist` runs it.

use crate::{args, failure::Failure};
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory to write the pages to, such as share/man/man1; it is created if needed
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(args: &ManArgs) -> Result<(), Failure> {
    write_pages(&args.directory).map_err(|error| Failure::io("write the manual pages", error))
}

fn write_pages(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    // `slipway help COMMAND` is no page of its own: it would repeat all others.
    let mut root = args::Args::command().disable_help_subcommand(true);
    root.build();
    write_page_and_below(root, directory)
}

/// Writes the page of a command and those of its subcommands.
fn write_page_and_below(command: Command, directory: &Path) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned() {
        write_page_and_below(inner, directory)?;
    }
    let source = concat!("Slipway ", env!("CARGO_PKG_VERSION"));
    Man::new(command).source(source).manual("Slipway").generate_to(directory).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_hidden_ones_have_none() {
        let directory = tempfile::tempdir().expect("a directory");
        write_pages(directory.path()).expect("the pages");
        let page = |name: &str| fs::read_to_string(directory.path().join(name));
        for inner in args::Args::command().get_subcommands() {
            let name = format!("slipway-{}.1", inner.get_name());
            assert_eq!(page(&name).is_ok(), !inner.is_hide_set(), "{name}");
        }
        let submit = page("slipway-task-submit.1").expect("a page of a command below a command");
        assert!(submit.contains("slipway task submit"), "{submit}");
        let root = page("slipway.1").expect("the page of slipway itself");
        assert!(root.contains(concat!(".TH slipway 1  \"Slipway ", env!("CARGO_PKG_VERSION"))), "{root}");
    }
}
