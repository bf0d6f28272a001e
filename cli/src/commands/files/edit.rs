//! `slipway files edit`: a file of a sandbox in the editor of this machine.

use super::open;
use crate::{
    context::Context,
    failure::{Failure, eprint_line},
    files::{
        FileApi, PartialFile, ReadError, SandboxPath, Transfer, WorkspacePath, WriteOptions, body_of_reader,
        open_regular, os_name, read_body,
    },
    limits,
    text::plain,
};
use clap::Args;
use protocol::api::ApiErrorCode;
use std::{
    env, fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

const EDITOR_DEFAULT: &str = "vi";

#[derive(Debug, Args)]
pub struct EditArgs {
    /// File to edit; a new one is written when the editor saved it
    #[arg(value_name = "SANDBOX:PATH", value_parser = super::sandbox_path())]
    path: SandboxPath,
}

/// A directory of this machine that only the user may read, removed when dropped unless its file is kept.
struct PrivateDirectory {
    path: PathBuf,
    keep: bool,
}

/// The version of the file that is edited.
enum Version {
    /// The tag of the file that was read.
    Read(String),
    New,
}

pub async fn run(context: &Context, args: EditArgs) -> Result<(), Failure> {
    let api = open(context, &args.path).await?;
    let name = args.path.path.name().ok_or_else(|| Failure::Usage("give the path of a file".to_owned()))?;
    let mut directory = PrivateDirectory::create()?;
    let local = directory.path.join(os_name(name));
    let version = fetch(&api, &args.path.path, &local).await?;
    let before = fs::read(&local).ok();
    edit(&local)?;
    let after = fs::read(&local).map_err(|error| Failure::io(format!("read {}", local.display()), error))?;
    if before.as_deref() == Some(&after) {
        eprint_line("slipway: nothing was changed");
        return Ok(());
    }
    match save(&api, &args.path.path, &local, &version).await {
        Ok(()) => Ok(()),
        Err(failure) => {
            // Whatever went wrong, the work is kept.
            directory.keep = true;
            Err(keep_message(failure, &local))
        }
    }
}

/// Reads the file into the local one; a file that is not there is a new one.
async fn fetch(api: &FileApi, path: &WorkspacePath, local: &Path) -> Result<Version, Failure> {
    let response = match api.read(path).await {
        Ok(response) => response,
        Err(error)
            if error.is(ApiErrorCode::NotFound)
                && error.api().is_some_and(|e| e.detail.missing.is_none()) =>
        {
            return Ok(Version::New);
        }
        Err(error) => return Err(error.into()),
    };
    let header = |name: &str| {
        response.headers().get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
    };
    let length = header("content-length").and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits::EDIT_MAX_BYTES) {
        return Err(Failure::new("the file is too large to edit").hint("copy it with `slipway cp`"));
    }
    let etag =
        header("etag").ok_or_else(|| Failure::new("hostd did not say which version of the file it is"))?;
    let target = local.to_owned();
    let saved = read_body(Arc::new(Transfer::silent()), response.into_body(), move |body| {
        let mut file = PartialFile::create(&target)?;
        io::copy(body, &mut file)?;
        file.finish(&target, 0o600)
    });
    saved.await.map_err(|error| match error {
        ReadError::Remote(error) => error.into(),
        ReadError::Local(error) => Failure::io(format!("write {}", local.display()), error),
    })?;
    Ok(Version::Read(etag))
}

/// Runs the editor, which may have arguments, as a shell would.
fn edit(local: &Path) -> Result<(), Failure> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| EDITOR_DEFAULT.into());
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg("eval \"$SLIPWAY_EDITOR \\\"\\$1\\\"\"")
        .arg("sh")
        .arg(local)
        .env("SLIPWAY_EDITOR", &editor);
    let shown = editor.to_string_lossy().into_owned();
    let status = command.status().map_err(|error| Failure::io(format!("start {shown}"), error))?;
    if status.success() {
        return Ok(());
    }
    let failure = Failure::new(format!("the editor {shown} failed: {status}; nothing was written"));
    Err(failure.hint("set VISUAL or EDITOR to the editor to use"))
}

async fn save(api: &FileApi, path: &WorkspacePath, local: &Path, version: &Version) -> Result<(), Failure> {
    let cannot = |error| Failure::io(format!("read {}", local.display()), error);
    let (file, _) = open_regular(local, true).map_err(cannot)?;
    let (if_match, create_only) = match version {
        Version::Read(etag) => (Some(etag.clone()), false),
        Version::New => (None, true),
    };
    let options = WriteOptions { mode: None, append: false, create_only, if_match };
    let written = api.write(path, &options, body_of_reader(Arc::new(Transfer::silent()), file)).await;
    match written {
        Ok(_) => Ok(()),
        Err(error) if error.is(ApiErrorCode::PreconditionFailed) || error.is(ApiErrorCode::FileExists) => {
            Err(Failure::new(format!("{} was changed in the sandbox meanwhile", plain(&path.to_string()))))
        }
        Err(error) => Err(error.into()),
    }
}

fn keep_message(failure: Failure, local: &Path) -> Failure {
    let kept = format!("your version is in {}", local.display());
    match failure {
        Failure::Other { message, .. } => Failure::new(message).hint(kept),
        other @ (Failure::Client(_)
        | Failure::Usage(_)
        | Failure::Io { .. }
        | Failure::Output(_)
        | Failure::Reported) => {
            other.report(false);
            eprint_line(&format!("  {kept}"));
            Failure::Reported
        }
    }
}

impl PrivateDirectory {
    fn create() -> Result<Self, Failure> {
        let cannot = |error| Failure::io("make a temporary directory", error);
        let random = getrandom::u64().map_err(|error| cannot(io::Error::other(error)))?;
        let path = env::temp_dir().join(format!("slipway-edit-{random:016x}"));
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(cannot)?;
        Ok(Self { path, keep: false })
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is left to the system's own cleaning.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
