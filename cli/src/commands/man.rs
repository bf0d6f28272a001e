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
    let man = Man::new(command).source(source).manual("Slipway");
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    fs::write(directory.join(man.get_filename()), with_loose_synopsis(&page))
}

/// Sets the synopsis flush left, without hyphens in flags, and with break points between the alternatives of a group,
/// `<--a|--b>`: a group is one word, which may be wider than a line, and a line of one word cannot be justified.
fn with_loose_synopsis(page: &str) -> String {
    const LOOSE: &str = ".ad l\n.nh\n";
    const JUSTIFIED: &str = ".hy\n.ad b\n";
    let mut text = String::with_capacity(page.len());
    let mut in_synopsis = false;
    for line in page.split_inclusive('\n') {
        let heading = line.strip_prefix(".SH ").map(str::trim);
        if heading.is_some() && in_synopsis {
            text.push_str(JUSTIFIED);
        }
        in_synopsis = heading.map_or(in_synopsis, |heading| heading == "SYNOPSIS");
        match heading {
            Some(_) if in_synopsis => text.extend([line, LOOSE]),
            None if in_synopsis => text.push_str(&with_break_points(line)),
            Some(_) | None => text.push_str(line),
        }
    }
    text
}

fn with_break_points(line: &str) -> String {
    const BREAK: &str = "\\:";
    let mut text = String::with_capacity(line.len());
    let mut in_group = false;
    for c in line.chars() {
        text.push(c);
        match c {
            '<' => in_group = true,
            '>' => in_group = false,
            '|' if in_group => text.push_str(BREAK),
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_synopsis_is_loose_and_only_its_groups_have_break_points() {
        let page = ".SH NAME\na|b\n.SH SYNOPSIS\n<--a|--b|--c> [-d|--e] <F>\n.SH OPTIONS\n<a|b>\n";
        insta::assert_snapshot!(with_loose_synopsis(page), @r"
        .SH NAME
        a|b
        .SH SYNOPSIS
        .ad l
        .nh
        <--a|\:--b|\:--c> [-d|--e] <F>
        .hy
        .ad b
        .SH OPTIONS
        <a|b>
        ");
    }

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
