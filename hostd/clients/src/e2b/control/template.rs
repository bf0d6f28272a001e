//! Templates: images of the host and of registries, and snapshots.

use super::{call::Call, error::E2bError, limits, snapshots};
use protocol::api::{SnapshotId, SnapshotView};

/// The template of E2B's own default, and the one that its code interpreter asks for.
pub const BASE: &str = "base";
const CODE_INTERPRETER: &str = "code-interpreter-v1";
/// The image with a code interpreter.
const INTERPRETER_IMAGE: &str = "interpreter";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    DefaultImage,
    Image(String),
    Snapshot(SnapshotId),
}

pub async fn resolve(call: &Call, asked: &str) -> Result<Template, E2bError> {
    match asked {
        BASE => return Ok(Template::DefaultImage),
        CODE_INTERPRETER => return Ok(Template::Image(INTERPRETER_IMAGE.to_owned())),
        _ => {}
    }
    if let Some(snapshot) = snapshots::find(call, asked).await? {
        return Ok(Template::Snapshot(snapshot.id));
    }
    match is_image(asked) {
        true => Ok(Template::Image(asked.to_owned())),
        false => Err(unknown(call, asked, "this is not the name of an image").await),
    }
}

/// The error for a template that is none, with the reason and with what there is.
pub async fn unknown(call: &Call, asked: &str, why: &str) -> E2bError {
    let snapshots: Vec<SnapshotView> = call.all("/v1/snapshots", "").await.unwrap_or_default();
    let named = |snapshot: &SnapshotView| snapshot.name.clone().unwrap_or_else(|| snapshot.id.to_string());
    let newest: Vec<String> = snapshots.iter().take(limits::NAMED_SNAPSHOTS_MAX).map(named).collect();
    let newest = if newest.is_empty() { "none yet".to_owned() } else { newest.join(", ") };
    E2bError::no_template(format!(
        "template '{asked}' not found: use {BASE}, {CODE_INTERPRETER}, an image of this server or of a registry \
         (as in python:3.12), or a snapshot ({newest}); {why}"
    ))
}

/// Whether this may be the name of an image, or a reference to one.
fn is_image(text: &str) -> bool {
    let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    !text.is_empty() && text.bytes().all(safe) && text.parse::<SnapshotId>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_is_gone_is_no_image() {
        let table = [
            ("python:3.12", true),
            ("registry.example.com/team/app@sha256:00", true),
            ("interpreter", true),
            ("01jb9xyzabcdefghjkmnpqrstv", false),
            ("my template", false),
            ("", false),
        ];
        for (text, expected) in table {
            assert_eq!(is_image(text), expected, "{text}");
        }
    }
}
