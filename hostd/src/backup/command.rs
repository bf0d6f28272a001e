//! `hostd restore`: the command line, and what it prints.

use super::{
    encryption::OpenWith,
    error::RestoreError,
    limits::SECRET_FILE_MAX_BYTES,
    reader::WholeBackup,
    restore::{RestoreRequest, Restored, restore, verify},
};
use crate::command::{Failure, print};
use hostd_core::rfc3339;
use hostd_store::{Clock, SecretValue};
use serde_json::json;
use std::{
    error::Error,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The arguments of `hostd restore`.
#[derive(Debug, Default, PartialEq, Eq)]
struct RestoreArgs {
    file: Option<PathBuf>,
    data_dir: Option<PathBuf>,
    passphrase_file: Option<PathBuf>,
    identity: Option<PathBuf>,
    verify_only: bool,
    revoke_tokens: bool,
    json: bool,
}

/// Restores or verifies a backup. `configured` finds the data directory where none is named.
pub fn run(
    arguments: impl Iterator<Item = String>,
    configured: impl FnOnce() -> Result<PathBuf, Failure>,
) -> Result<(), Failure> {
    let args = parse(arguments).map_err(Failure::Usage)?;
    let file = args.file.clone().ok_or_else(|| usage("restore needs the file of a backup (see --help)"))?;
    let key = open_with(&args)?;
    if args.verify_only {
        let backup = verify(&file, &key).map_err(failed)?;
        return print(&verified_text(&backup, args.json));
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(usage("restore must run as root: files get their owners"));
    }
    let data_dir = args.data_dir.map_or_else(configured, Ok)?;
    let now_ms = Clock::new().now_ms();
    let request =
        RestoreRequest { file, data_dir: data_dir.clone(), key, revoke_tokens: args.revoke_tokens, now_ms };
    let restored = restore(&request).map_err(failed)?;
    print(&restored_text(&restored, &data_dir, args.json))
}

fn usage(text: &str) -> Failure {
    Failure::Usage(text.to_owned())
}

/// One line with all causes. What the operator has to change is a mistake of usage.
#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: RestoreError) -> Failure {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    match error {
        RestoreError::NotEmpty(_) | RestoreError::InUse(_) | RestoreError::MountPoint(_) => {
            Failure::Usage(line)
        }
        RestoreError::WrongKey
        | RestoreError::OtherKey(_)
        | RestoreError::NotEncrypted
        | RestoreError::Damaged(_)
        | RestoreError::Format { .. }
        | RestoreError::Schema { .. }
        | RestoreError::DiskFull
        | RestoreError::Io { .. }
        | RestoreError::Files { .. }
        | RestoreError::Database(_) => Failure::Failed(line),
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<RestoreArgs, String> {
    let mut args = RestoreArgs::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().map(PathBuf::from).ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--data-dir" => args.data_dir = Some(value()?),
            "--passphrase-file" => args.passphrase_file = Some(value()?),
            "--identity" => args.identity = Some(value()?),
            "--verify-only" => args.verify_only = true,
            "--revoke-tokens" => args.revoke_tokens = true,
            "--json" => args.json = true,
            flag if flag.starts_with("--") => return Err(format!("unknown flag {flag} (see --help)")),
            _ if args.file.is_none() => args.file = Some(PathBuf::from(word)),
            _ => return Err(format!("one word too many: {word} (see --help)")),
        }
    }
    Ok(args)
}

fn open_with(args: &RestoreArgs) -> Result<OpenWith, Failure> {
    let read = |path: &Path| {
        let text = if path == Path::new("-") {
            read_text(io::stdin())
        } else {
            File::open(path).and_then(read_text)
        };
        text.map_err(|error| Failure::Failed(format!("could not read {}: {error}", path.display())))
    };
    match (&args.passphrase_file, &args.identity) {
        (Some(path), None) => Ok(OpenWith::Passphrase(SecretValue::from(read(path)?.trim().to_owned()))),
        (None, Some(path)) => {
            let text = SecretValue::from(read(path)?);
            let named = |why| Failure::Failed(format!("{}: {why}", path.display()));
            OpenWith::identities(text.as_str()).map_err(named)
        }
        (None, None) => Err(usage("give --passphrase-file or --identity: a backup is encrypted")),
        (Some(_), Some(_)) => Err(usage("give --passphrase-file or --identity, not both")),
    }
}

fn read_text(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(SECRET_FILE_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn verified_text(backup: &WholeBackup, json: bool) -> String {
    let (manifest, summary) = (&backup.manifest, &backup.end.summary);
    if json {
        return json!({ "manifest": manifest, "holds": summary }).to_string();
    }
    let mut text = format!(
        "the backup is whole: of instance {}, made at {} by hostd {}, with schema {}\n\
         it has the files of {} sandboxes and {} snapshots",
        manifest.instance,
        rfc3339(manifest.created_ms),
        manifest.hostd_version,
        manifest.schema,
        summary.sandboxes.len(),
        summary.snapshots.len(),
    );
    for skipped in &summary.skipped {
        text.push_str(&format!("\nthe files of {} are not in it: {}", skipped.id, skipped.why));
    }
    text
}

fn restored_text(restored: &Restored, data_dir: &Path, json: bool) -> String {
    let (rows, summary) = (&restored.rows, &restored.backup.end.summary);
    let (token, without) = (data_dir.join("token"), rows.sandboxes.saturating_sub(summary.sandboxes.len()));
    if json {
        return json!({
            "data_dir": data_dir, "token_file": token, "instance": restored.instance,
            "configuration": restored.configuration, "sandboxes": rows.sandboxes, "sandboxes_without_files": without,
            "snapshots": rows.snapshots, "tasks_ended": rows.tasks_ended, "links_revoked": rows.links_revoked,
            "tokens_revoked": rows.tokens_revoked, "created_at": rfc3339(restored.backup.manifest.created_ms),
        })
        .to_string();
    }
    let mut text = format!(
        "restored {} as it was at {}: {} sandboxes, which are stopped, and {} snapshots\n\
         this is a new instance, {}; the administrator's new token is in {}\n\
         ended: {} tasks and {} links{}",
        data_dir.display(),
        rfc3339(restored.backup.manifest.created_ms),
        rows.sandboxes,
        rows.snapshots,
        restored.instance,
        token.display(),
        rows.tasks_ended,
        rows.links_revoked,
        if rows.tokens_revoked > 0 { format!(", and {} tokens", rows.tokens_revoked) } else { String::new() },
    );
    if without > 0 {
        text.push_str(&format!(
            "\n{without} sandboxes have no files in the backup: they start with new ones"
        ));
    }
    if let Some(configuration) = &restored.configuration {
        let at = configuration.display();
        text.push_str(&format!("\nthe configuration of the backup is in {at}; it is not in force"));
    }
    text.push_str("\nstart hostd now");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_a_file_and_flags() {
        let parsed = |words: &[&str]| parse(words.iter().map(|word| (*word).to_owned()));
        let file = Some(PathBuf::from("b.age"));
        let expected = RestoreArgs {
            file: file.clone(),
            data_dir: Some("/d".into()),
            identity: Some("k".into()),
            revoke_tokens: true,
            ..RestoreArgs::default()
        };
        let words = ["--data-dir", "/d", "b.age", "--identity", "k", "--revoke-tokens"];
        assert_eq!(parsed(&words), Ok(expected));
        let expected = RestoreArgs { file, verify_only: true, ..RestoreArgs::default() };
        assert_eq!(parsed(&["b.age", "--verify-only"]), Ok(expected));
        for wrong in [&["a", "b"][..], &["--data-dir"], &["--force"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
