//! The whole way from bytes to specs, and from a wrong field to its line.

use super::error::{Invalid, ManifestError};
use super::field::Field;
use super::validate::validate_build;
use super::yaml_node::Node;
use super::{specs::read, validate_all, yaml};
use crate::limits::MANIFEST_MAX_BYTES;
use protocol::{BuildSpec, ServiceSpec};

/// The content of a manifest; the default is that of an empty one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document {
    /// In the order of the document.
    pub services: Vec<ServiceSpec>,
    pub build: Option<BuildSpec>,
}

pub fn parse(bytes: &[u8]) -> Result<Document, ManifestError> {
    let source = text(bytes)?;
    let root = yaml::parse(source)?;
    let document = read(&Field::root(source, &root)).map_err(|invalid| locate(invalid, &root))?;
    let located = |invalid| locate(as_written(invalid), &root);
    validate_all(&document.services).map_err(located)?;
    document.build.as_ref().map_or(Ok(()), validate_build).map_err(located)?;
    Ok(document)
}

fn text(bytes: &[u8]) -> Result<&str, ManifestError> {
    if bytes.len() as u64 > MANIFEST_MAX_BYTES {
        let message = format!("a manifest is at most {} KiB", MANIFEST_MAX_BYTES >> 10);
        return Err(whole(None, message));
    }
    str::from_utf8(bytes).map_err(|error| {
        let newlines = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        whole(u32::try_from(newlines + 1).ok(), "a manifest is UTF-8 text, and this line is not")
    })
}

/// Durations in a document carry their unit, so their keys do not end in `_ms`.
fn as_written(invalid: Invalid) -> Invalid {
    let plain = [".health.interval_ms", ".health.timeout_ms", "build.timeout_ms"]
        .iter()
        .find(|end| invalid.field.ends_with(**end))
        .and_then(|_| invalid.field.strip_suffix("_ms").map(str::to_owned));
    match plain {
        Some(field) => Invalid { field, ..invalid },
        None => invalid,
    }
}

fn locate(invalid: Invalid, root: &Node) -> ManifestError {
    let Invalid { field, message } = invalid;
    let line = root.line_of(&field);
    let field = Some(field).filter(|field| !field.is_empty());
    ManifestError { line: Some(line), field, message }
}

fn whole(line: Option<u32>, message: impl Into<String>) -> ManifestError {
    ManifestError { line, field: None, message: message.into() }
}
