//! `slipway files tree`.

use super::{is_hidden, open, path_of};
use crate::{
    context::Context,
    failure::Failure,
    files::{ListOptions, SandboxPath},
    output::{Colour, Output},
    text::plain,
};
use clap::Args;
use protocol::{api::FileView, files::FileType};

#[derive(Debug, Args)]
pub struct TreeArgs {
    /// Directory
    #[arg(value_name = "SANDBOX:PATH", value_parser = super::sandbox_path())]
    path: SandboxPath,
    /// Levels to show
    #[arg(long, short = 'L', value_name = "LEVELS", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Names that begin with a dot, and what .gitignore files name, too
    #[arg(long, short)]
    all: bool,
}

/// An entry below the top.
struct Leaf {
    names: Vec<String>,
    kind: FileType,
    target: Option<String>,
}

pub async fn run(context: &Context, args: TreeArgs) -> Result<(), Failure> {
    let api = open(context, &args.path).await?;
    let top = &args.path.path;
    let options = ListOptions { recursive: true, depth: args.depth, ignore: !args.all, exclude: Vec::new() };
    let items = api.list(top, &options).await?;
    if context.output.json {
        return context.output.json(&serde_json::json!({ "items": items }));
    }
    let leaf = |item: &FileView| {
        let path = path_of(&item.path, item.path_base64.as_deref());
        let rest = top.strip_from(&path).filter(|rest| !rest.is_empty() && (args.all || !is_hidden(rest)))?;
        let names = rest.split(|byte| *byte == b'/').map(|name| plain(&String::from_utf8_lossy(name)));
        Some(Leaf { names: names.collect(), kind: item.kind, target: item.target.clone() })
    };
    let leaves: Vec<Leaf> = items.iter().filter_map(leaf).collect();
    context.output.text(&format!("{}\n{}", plain(&top.to_string()), draw(&leaves, context.output)))
}

fn draw(leaves: &[Leaf], output: Output) -> String {
    let mut text = String::new();
    // Whether the parents at each level have more siblings.
    let mut more: Vec<bool> = Vec::new();
    for (at, leaf) in leaves.iter().enumerate() {
        let level = leaf.names.len() - 1;
        let parent = &leaf.names[..level];
        let later = leaves[at + 1..].iter().take_while(|other| other.names.starts_with(parent));
        let sibling = later.into_iter().any(|other| other.names[level] != leaf.names[level]);
        more.truncate(level);
        text.extend(more.iter().map(|more| if *more { "│   " } else { "    " }));
        more.push(sibling);
        text.push_str(if sibling { "├── " } else { "└── " });
        text.push_str(&shown(leaf, output));
        text.push('\n');
    }
    let directories = leaves.iter().filter(|leaf| leaf.kind == FileType::Directory).count();
    let files = leaves.len() - directories;
    text + &format!("\n{directories} directories, {files} files\n")
}

fn shown(leaf: &Leaf, output: Output) -> String {
    let name = leaf.names.last().cloned().unwrap_or_default();
    match (&leaf.target, leaf.kind) {
        (Some(target), _) => format!("{name} -> {}", plain(target)),
        (None, FileType::Directory) => output.paint(Colour::Bold, &format!("{name}/")),
        (None, FileType::File | FileType::Symlink | FileType::Fifo | FileType::Socket | FileType::Device) => {
            name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_shows_who_belongs_to_whom() {
        let leaf = |path: &str, kind| Leaf {
            names: path.split('/').map(ToOwned::to_owned).collect(),
            kind,
            target: (kind == FileType::Symlink).then(|| "src".to_owned()),
        };
        let leaves = [
            leaf("empty", FileType::Directory),
            leaf("link", FileType::Symlink),
            leaf("src", FileType::Directory),
            leaf("src/a", FileType::Directory),
            leaf("src/a/b.rs", FileType::File),
            leaf("src/c.rs", FileType::File),
            leaf("z", FileType::File),
        ];
        insta::assert_snapshot!(draw(&leaves, Output { json: false, colour: false }), @r"
        ├── empty/
        ├── link -> src
        ├── src/
        │   ├── a/
        │   │   └── b.rs
        │   └── c.rs
        └── z

        3 directories, 4 files
        ");
    }
}
