//! The manifest on disk: read as the user, applied when it changed.

use super::context::Context;
use super::services::Services;
use crate::core::manifest::{self, Document, Invalid};
use crate::limits::MANIFEST_MAX_BYTES;
use crate::sys::fs_identity::{self, ReadError};
use protocol::{BuildSpec, Fact, ServiceSource};

pub const MANIFEST: &str = "sandbox.yaml";

#[derive(Default)]
pub struct Manifest {
    /// The sandbox is being provisioned: the manifest is not read yet.
    held: bool,
    found: FileState,
    /// The manifest was rejected because of services of the API.
    clashes: bool,
    build: Option<BuildSpec>,
}

/// The manifest file as last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum FileState {
    #[default]
    Unread,
    Absent,
    Present(Vec<u8>),
    Unreadable(String),
}

impl Manifest {
    /// A manifest that is read at once, or only when it is released.
    pub fn new(held: bool) -> Self {
        Self { held, ..Self::default() }
    }

    pub fn release(&mut self) {
        self.held = false;
    }

    /// The build of the last manifest that was applied.
    pub fn build(&self) -> Option<&BuildSpec> {
        self.build.as_ref()
    }

    /// Reads the manifest and applies it if it changed.
    pub fn load(&mut self, context: &mut Context, services: &mut Services) {
        if self.held {
            return;
        }
        let path = context.config.app_dir.join(MANIFEST);
        let found = match fs_identity::read_file(context.config.identity(), &path, MANIFEST_MAX_BYTES) {
            Ok(bytes) => FileState::Present(bytes),
            Err(ReadError::NotFound) => FileState::Absent,
            Err(error) => FileState::Unreadable(error.to_string()),
        };
        let before = std::mem::replace(&mut self.found, found);
        if before == self.found || (before, &self.found) == (FileState::Unread, &FileState::Absent) {
            return;
        }
        let fact = self.apply(context, services);
        services.manifest_error = rejection(&fact);
        context.record(fact);
    }

    /// Retries a manifest that was rejected because of services of the API, now that those changed.
    pub fn retry(&mut self, context: &mut Context, services: &mut Services) {
        if !self.clashes {
            return;
        }
        let fact = self.apply(context, services);
        let error = rejection(&fact);
        if error.is_none() || error != services.manifest_error {
            context.record(fact);
        }
        services.manifest_error = error;
    }

    /// Applies the manifest; returns the event.
    fn apply(&mut self, context: &mut Context, services: &mut Services) -> Fact {
        self.clashes = false;
        let refused = |line, field, message| Fact::ManifestRejected { message, line, field };
        let Document { services: specs, build } = match &self.found {
            FileState::Unread | FileState::Absent => Document::default(),
            FileState::Present(bytes) => match manifest::parse(bytes) {
                Ok(document) => document,
                Err(error) => return refused(error.line, error.field, error.message),
            },
            FileState::Unreadable(why) => {
                return refused(None, None, format!("could not read {MANIFEST}: {why}"));
            }
        };
        let names = specs.iter().map(|spec| spec.name.clone()).collect();
        match services.apply(context, specs, ServiceSource::Manifest) {
            Ok(()) => {
                self.build = build;
                Fact::ManifestLoaded { services: names }
            }
            Err(Invalid { field, message }) => {
                self.clashes = true;
                refused(None, Some(field), message)
            }
        }
    }
}

fn rejection(fact: &Fact) -> Option<String> {
    let Fact::ManifestRejected { message, line, field } = fact else { return None };
    let line = line.map(|line| format!("line {line}, ")).unwrap_or_default();
    let field = field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
    Some(format!("{MANIFEST}: {line}{field}{message}"))
}
