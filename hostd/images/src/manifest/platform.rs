//! Platforms of images, and the choice of the image that this host can run.

use super::{IndexEntry, ManifestError, document::Descriptor, media_type::shown};
use crate::limits::NAMED_MAX;
use serde::{Deserialize, Serialize};
use std::fmt;

const LINUX: &str = "linux";
/// Operating system of entries that are no images, such as attestations.
const UNKNOWN: &str = "unknown";

/// An operating system and a processor, in the words of Go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    pub fn linux(architecture: &str) -> Self {
        Self { os: LINUX.to_owned(), architecture: architecture.to_owned(), variant: None }
    }

    /// Returns the platform of this machine.
    pub fn host() -> Self {
        Self::linux(match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "x86" => "386",
            "powerpc64" => "ppc64le",
            "loongarch64" => "loong64",
            other => other,
        })
    }

    /// Whether an image for `self` runs on `host`. A variant other than the oldest one may need instructions that the
    /// processor does not have.
    pub fn runs_on(&self, host: &Self) -> bool {
        let oldest = match self.architecture.as_str() {
            "amd64" => "v1",
            "arm64" => "v8",
            _ => "",
        };
        let is_oldest = self.variant.as_deref().is_none_or(|variant| variant.is_empty() || variant == oldest);
        self.os == host.os && self.architecture == host.architecture && is_oldest
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant
            .iter()
            .filter(|variant| !variant.is_empty())
            .try_for_each(|variant| write!(f, "/{variant}"))
    }
}

/// Chooses the image for a platform: the first that runs on it, else the only one that names no platform. What is
/// chosen may be an index again.
pub fn choose_platform<'a>(
    entries: &'a [IndexEntry],
    wanted: &Platform,
) -> Result<&'a Descriptor, ManifestError> {
    let runs = |entry: &&IndexEntry| entry.platform.as_ref().is_some_and(|platform| platform.runs_on(wanted));
    if let Some(entry) = entries.iter().find(runs) {
        return Ok(&entry.descriptor);
    }
    let mut unnamed = entries.iter().filter(|entry| entry.platform.is_none() && entry.is_image_or_index());
    match (unnamed.next(), unnamed.next()) {
        (Some(only), None) => Ok(&only.descriptor),
        (Some(_), Some(_)) => Err(ManifestError::SeveralImages { wanted: wanted.clone() }),
        (None, _) => Err(ManifestError::NoPlatform { wanted: wanted.clone(), found: found(entries) }),
    }
}

/// Returns the platforms of an index, for people.
fn found(entries: &[IndexEntry]) -> String {
    let platforms = entries.iter().filter_map(|entry| entry.platform.as_ref());
    let mut names: Vec<String> = platforms
        .filter(|platform| platform.os != UNKNOWN)
        .map(|platform| shown(&platform.to_string()))
        .collect();
    names.dedup();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    match (names.is_empty(), more) {
        (true, _) => "no platform".to_owned(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} others", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digest;
    use std::collections::BTreeMap;

    fn entry(platform: Option<&str>, number: u8) -> IndexEntry {
        let media_type = super::super::IMAGE_MANIFEST_TYPES[0].to_owned();
        let platform = platform.map(|text| {
            let mut parts = text.split('/').map(str::to_owned);
            let mut next = || parts.next();
            Platform {
                os: next().expect("an operating system"),
                architecture: next().expect("a processor"),
                variant: next(),
            }
        });
        let descriptor = Descriptor { media_type, digest: Digest::of(&[number]), size: 1 };
        IndexEntry { descriptor, platform, annotations: BTreeMap::new() }
    }

    #[test]
    fn the_first_image_that_runs_on_the_host_is_chosen() {
        type Platforms = &'static [Option<&'static str>];
        let table: [(Platforms, Result<u8, &str>); 9] = [
            (&[Some("linux/arm64"), Some("linux/amd64")], Ok(1)),
            (&[Some("windows/amd64"), Some("linux/amd64/v1")], Ok(1)),
            (&[Some("linux/amd64/v3"), Some("linux/amd64")], Ok(1)),
            (&[None], Ok(0)),
            (&[None, Some("linux/amd64")], Ok(1)),
            (&[Some("linux/arm64"), None], Ok(1)),
            (&[None, None], Err("it has several images for linux/amd64: use the digest of one of them")),
            (&[], Err("it does not exist for linux/amd64, only for no platform")),
            (
                &[Some("linux/arm64/v8"), Some("unknown/unknown"), Some("linux/amd64/v3")],
                Err("it does not exist for linux/amd64, only for linux/arm64/v8, linux/amd64/v3"),
            ),
        ];
        for (platforms, expected) in table {
            let entries: Vec<IndexEntry> =
                (0..).zip(platforms).map(|(number, platform)| entry(*platform, number)).collect();
            let chosen = choose_platform(&entries, &Platform::linux("amd64"));
            let chosen =
                chosen.map(|descriptor| descriptor.digest.clone()).map_err(|error| error.to_string());
            let expected = expected.map(|number| Digest::of(&[number])).map_err(str::to_owned);
            assert_eq!(chosen, expected, "{platforms:?}");
        }
    }

    #[test]
    fn a_message_names_a_bounded_number_of_platforms() {
        let entries: Vec<IndexEntry> =
            (0..200).map(|number| entry(Some(&format!("x/{number}")), number)).collect();
        let error = choose_platform(&entries, &Platform::host()).expect_err("none of them runs").to_string();
        assert!(error.ends_with(" and 184 others"), "{error}");
    }
}
