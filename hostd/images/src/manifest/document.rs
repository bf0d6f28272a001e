//! Manifests and indexes.

use super::{
    ManifestError, Platform,
    media_type::{DocumentType, is_config, is_layer, shown},
};
use crate::{
    Digest, ImageConfig,
    limits::{CONFIG_MAX_BYTES, INDEX_ENTRIES_MAX, LAYER_MAX_BYTES, LAYERS_MAX, MANIFEST_MAX_BYTES},
};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use std::collections::BTreeMap;

const WHAT: &str = "manifest";
const SCHEMA_1: u32 = 1;

/// A blob by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    #[serde(rename = "mediaType")]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
}

/// The manifest of one image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub config: Descriptor,
    /// The lowest layer first.
    pub layers: Vec<Descriptor>,
}

/// One image of an index, or another index.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct IndexEntry {
    #[serde(flatten)]
    pub descriptor: Descriptor,
    #[serde(default)]
    pub platform: Option<Platform>,
    /// Notes of the index's author; in an OCI layout, the tag.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestDocument {
    Image(Manifest),
    Index(Vec<IndexEntry>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
    #[serde(default)]
    manifests: Option<Vec<IndexEntry>>,
    /// Only in schema 1.
    #[serde(default)]
    fs_layers: Option<IgnoredAny>,
}

impl ManifestDocument {
    /// Parses a document. The media type is the one under which it was delivered, where that is known; a document that
    /// says otherwise is refused.
    pub fn parse(bytes: &[u8], media_type: Option<&str>) -> Result<Self, ManifestError> {
        let delivered = media_type.map_or(DocumentType::Other, DocumentType::of);
        if delivered == DocumentType::Schema1 {
            return Err(ManifestError::Schema1);
        }
        // Schema 1 has another shape, so its version is read before anything else.
        let Version { schema_version } = parse_json(WHAT, bytes, MANIFEST_MAX_BYTES)?;
        if schema_version == SCHEMA_1 {
            return Err(ManifestError::Schema1);
        }
        let wire: Wire = parse_json(WHAT, bytes, MANIFEST_MAX_BYTES)?;
        let own = wire.media_type.as_deref().map_or(DocumentType::Other, DocumentType::of);
        match wire.kind(delivered, own)? {
            DocumentType::Image => wire.into_image().map(Self::Image),
            DocumentType::Index => wire.into_index().map(Self::Index),
            DocumentType::Schema1 => Err(ManifestError::Schema1),
            DocumentType::Other => {
                let said = wire.media_type.as_deref().or(media_type).unwrap_or("an unknown document");
                Err(ManifestError::NotAnImage { media_type: shown(said) })
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    schema_version: u32,
}

impl Wire {
    /// Returns the kind on which the delivered type, the type in the document and its shape agree.
    fn kind(&self, delivered: DocumentType, own: DocumentType) -> Result<DocumentType, ManifestError> {
        let is_image = self.config.is_some() || self.layers.is_some();
        let shape = match (is_image, self.manifests.is_some(), self.fs_layers.is_some()) {
            (_, _, true) => DocumentType::Schema1,
            (true, false, false) => DocumentType::Image,
            (false, true, false) => DocumentType::Index,
            (true, true, false) => return Err(ManifestError::Ambiguous),
            (false, false, false) => DocumentType::Other,
        };
        let mut said = [delivered, own, shape].into_iter().filter(|kind| *kind != DocumentType::Other);
        let first = said.next().unwrap_or(DocumentType::Other);
        if said.all(|kind| kind == first) { Ok(first) } else { Err(ManifestError::Ambiguous) }
    }

    fn into_image(self) -> Result<Manifest, ManifestError> {
        let missing = || ManifestError::Invalid { what: WHAT, why: "it names no configuration".to_owned() };
        let config = self.config.ok_or_else(missing)?;
        if !is_config(&config.media_type) {
            return Err(ManifestError::NotAnImage { media_type: shown(&config.media_type) });
        }
        if config.size > CONFIG_MAX_BYTES {
            return Err(ManifestError::TooLarge { what: "configuration", max: CONFIG_MAX_BYTES });
        }
        let layers = self.layers.unwrap_or_default();
        if layers.len() > LAYERS_MAX {
            return Err(ManifestError::TooMany { what: "layers", max: LAYERS_MAX });
        }
        if let Some(other) = layers.iter().find(|layer| !is_layer(&layer.media_type)) {
            return Err(ManifestError::LayerType { media_type: shown(&other.media_type) });
        }
        if layers.iter().any(|layer| layer.size > LAYER_MAX_BYTES) {
            return Err(ManifestError::TooLarge { what: "largest layer", max: LAYER_MAX_BYTES });
        }
        Ok(Manifest { config, layers })
    }

    fn into_index(self) -> Result<Vec<IndexEntry>, ManifestError> {
        let entries = self.manifests.unwrap_or_default();
        match entries.len() > INDEX_ENTRIES_MAX {
            true => Err(ManifestError::TooMany { what: "images in its index", max: INDEX_ENTRIES_MAX }),
            false => Ok(entries),
        }
    }
}

impl Manifest {
    /// Checks that a configuration describes as many layers as the manifest has.
    pub fn check_config(&self, config: &ImageConfig) -> Result<(), ManifestError> {
        let (layers, diff_ids) = (self.layers.len(), config.diff_ids.len());
        if layers == diff_ids { Ok(()) } else { Err(ManifestError::LayerCount { layers, diff_ids }) }
    }
}

impl IndexEntry {
    /// Whether the entry is a manifest of an image or another index, and not something else.
    pub fn is_image_or_index(&self) -> bool {
        match DocumentType::of(&self.descriptor.media_type) {
            DocumentType::Image | DocumentType::Index => true,
            DocumentType::Schema1 | DocumentType::Other => false,
        }
    }
}

/// Parses a document of at most so many bytes.
pub fn parse_json<T: DeserializeOwned>(
    what: &'static str,
    bytes: &[u8],
    max: u64,
) -> Result<T, ManifestError> {
    if bytes.len() as u64 > max {
        return Err(ManifestError::TooLarge { what, max });
    }
    serde_json::from_slice(bytes)
        .map_err(|error| ManifestError::Invalid { what, why: shown(&error.to_string()) })
}

fn null_as_empty<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Option::<BTreeMap<String, String>>::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests;
