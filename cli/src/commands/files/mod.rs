//! `slipway files`: the files of a sandbox, one verb per file.

mod cat;
mod edit;
mod find;
mod grep;
mod link;
mod ls;
mod mkdir;
mod mv;
mod put;
mod rm;
mod tree;

use crate::{
    context::Context,
    copy::file_api,
    failure::Failure,
    files::{FileApi, SandboxPath, WorkspacePath},
};
use clap::{Args, Subcommand};

const AFTER_HELP: &str = "\
Paths are SANDBOX:PATH, relative to /home/sandbox; the app is in workspace/app. Files can be used while the sandbox
sleeps, which does not wake it.";

#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct FilesArgs {
    #[command(subcommand)]
    verb: FilesVerb,
}

#[derive(Debug, Subcommand)]
enum FilesVerb {
    /// List a directory
    #[command(visible_alias = "list")]
    Ls(ls::LsArgs),
    /// Print files
    Cat(cat::CatArgs),
    /// Write a file, from a file of this machine or standard input
    Put(put::PutArgs),
    /// Delete files, and directories with -r
    Rm(rm::RmArgs),
    /// Move or rename within a sandbox
    Mv(mv::MvArgs),
    /// Make directories, with their parents
    Mkdir(mkdir::MkdirArgs),
    /// Find files by name
    Find(find::FindArgs),
    /// Find lines by a regular expression; exits 1 where there are none
    Grep(grep::GrepArgs),
    /// Show a directory as a tree
    Tree(tree::TreeArgs),
    /// Edit a file with $VISUAL or $EDITOR
    ///
    /// The file is written when the editor ends, unless it was changed meanwhile: then your copy is kept here.
    Edit(edit::EditArgs),
    /// Create a signed URL that reads or writes one file without a token
    Link(link::LinkArgs),
}

pub async fn run(context: &Context, args: FilesArgs) -> Result<u8, Failure> {
    match args.verb {
        FilesVerb::Ls(args) => ls::run(context, args).await.map(|()| 0),
        FilesVerb::Cat(args) => cat::run(context, args).await.map(|()| 0),
        FilesVerb::Put(args) => put::run(context, args).await.map(|()| 0),
        FilesVerb::Rm(args) => rm::run(context, args).await.map(|()| 0),
        FilesVerb::Mv(args) => mv::run(context, args).await.map(|()| 0),
        FilesVerb::Mkdir(args) => mkdir::run(context, args).await.map(|()| 0),
        FilesVerb::Find(args) => find::run(context, args).await.map(|()| 0),
        FilesVerb::Grep(args) => grep::run(context, args).await,
        FilesVerb::Tree(args) => tree::run(context, args).await.map(|()| 0),
        FilesVerb::Edit(args) => edit::run(context, args).await.map(|()| 0),
        FilesVerb::Link(args) => link::run(context, args).await.map(|()| 0),
    }
}

/// The files of the sandbox of a path.
async fn open(context: &Context, path: &SandboxPath) -> Result<FileApi, Failure> {
    file_api(context, path).await
}

/// The bytes of a path of a response: its text may be lossy.
pub fn path_of(text: &str, base64: Option<&str>) -> WorkspacePath {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let decoded = base64.and_then(|encoded| STANDARD.decode(encoded).ok());
    WorkspacePath::from_relative(&decoded.unwrap_or_else(|| text.as_bytes().to_vec()))
}

/// Whether a name is hidden.
fn is_hidden(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name.starts_with(b"."))
}

/// Parses an argument that is a path in a sandbox.
pub fn sandbox_path() -> impl clap::builder::TypedValueParser<Value = SandboxPath> {
    use clap::builder::TypedValueParser as _;
    clap::builder::OsStringValueParser::new().try_map(|text| SandboxPath::parse(&text))
}

/// Parses permissions in octal.
fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "must be permissions in octal, as in 644 or 0755".to_owned())
}
