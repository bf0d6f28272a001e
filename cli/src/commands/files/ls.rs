//! `slipway files ls`.

use super::{is_hidden, open, path_of};
use crate::{
    context::Context,
    failure::Failure,
    files::{ListOptions, SandboxPath, WorkspacePath},
    humanize,
    output::{Colour, Output},
    table::{Cell, Table},
    text::plain,
};
use clap::Args;
use protocol::{api::FileView, files::FileType};

#[derive(Debug, Args)]
pub struct LsArgs {
    /// Directory or file
    #[arg(value_name = "SANDBOX:PATH", value_parser = super::sandbox_path())]
    path: SandboxPath,
    /// Permissions, size and time too
    #[arg(long, short)]
    long: bool,
    /// Names that begin with a dot too
    #[arg(long, short)]
    all: bool,
    /// Directories with their content
    #[arg(long, short = 'R')]
    recursive: bool,
}

pub async fn run(context: &Context, args: LsArgs) -> Result<(), Failure> {
    let api = open(context, &args.path).await?;
    let found = api.stat(&args.path.path, true).await?;
    let top = &args.path.path;
    let items = if found.kind == FileType::Directory {
        let options = ListOptions { recursive: args.recursive, ..ListOptions::default() };
        let below = |item: &FileView| rest(top, item).is_some_and(|name| !name.is_empty());
        let mut items = api.list(top, &options).await?;
        items.retain(|item| below(item) && (args.all || !is_hidden(&rest(top, item).unwrap_or_default())));
        items
    } else {
        vec![found]
    };
    if context.output.json {
        return context.output.json(&serde_json::json!({ "items": items }));
    }
    let text = if args.long { table(top, &items, context.output) } else { names(top, &items) };
    context.output.text(&text)
}

/// The path of an item relative to the listed directory; of a listed file, its name.
fn rest(top: &WorkspacePath, item: &FileView) -> Option<Vec<u8>> {
    let path = path_of(&item.path, item.path_base64.as_deref());
    let rest = top.strip_from(&path)?;
    Some(if rest.is_empty() && item.kind != FileType::Directory {
        path.name()?.to_vec()
    } else {
        rest.to_vec()
    })
}

/// The name of an item as people see it; a directory ends in a slash.
fn shown(top: &WorkspacePath, item: &FileView) -> String {
    let name = plain(&String::from_utf8_lossy(&rest(top, item).unwrap_or_default()));
    if item.kind == FileType::Directory { format!("{name}/") } else { name }
}

fn names(top: &WorkspacePath, items: &[FileView]) -> String {
    items.iter().map(|item| format!("{}\n", shown(top, item))).collect()
}

fn table(top: &WorkspacePath, items: &[FileView], output: Output) -> String {
    let mut table = Table::new(["MODE", "SIZE", "MODIFIED", "NAME"]);
    for item in items {
        let name = shown(top, item);
        let name = match &item.target {
            Some(target) => format!("{name} -> {target}"),
            None => name,
        };
        let size = if item.kind == FileType::File { humanize::bytes(item.size) } else { String::new() };
        let name =
            if item.kind == FileType::Directory { Cell::painted(name, Colour::Bold) } else { name.into() };
        table.row([permissions(item).into(), size.into(), moment(&item.modified_at).into(), name]);
    }
    table.render(output)
}

/// Permissions as `ls` writes them.
fn permissions(item: &FileView) -> String {
    let letter = match item.kind {
        FileType::File => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::Device => 'c',
    };
    let mode = u32::from_str_radix(&item.mode, 8).unwrap_or(0);
    let bits = (0..9).rev().zip("rwxrwxrwx".chars());
    let bits = bits.map(|(bit, letter)| if mode >> bit & 1 == 1 { letter } else { '-' });
    std::iter::once(letter).chain(bits).collect()
}

/// A time to the second.
fn moment(time: &str) -> String {
    let cut = time.split_once('.').map_or(time, |(seconds, _)| seconds);
    cut.trim_end_matches('Z').replacen('T', " ", 1)
}
