//! What the store keeps about an image: `image.json` beside it.

use hostd_images::{Digest, ImageConfig};
use serde::{Deserialize, Serialize};

/// An image of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRecord {
    /// The name that was given, or the reference that it was pulled by.
    pub name: String,
    pub created_ms: u64,
    /// Content of all files, with those of layers that other images have too.
    pub size_bytes: u64,
    /// Absent: a root file system without layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layered: Option<LayeredImage>,
    /// Absent: imported from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulled: Option<PulledFrom>,
}

impl ImageRecord {
    /// The layers that the image is mounted from.
    pub fn layers(&self) -> impl Iterator<Item = &Digest> {
        self.layered.iter().flat_map(|layered| &layered.layers)
    }

    /// Whether the image has the name of its reference: sandboxes pull it when it is missing.
    pub fn is_by_reference(&self) -> bool {
        self.pulled.as_ref().is_some_and(|pulled| pulled.reference == self.name)
    }
}

/// An image of layers that it shares with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayeredImage {
    /// The digest of its manifest.
    pub digest: Digest,
    pub config: ImageConfig,
    /// The layers that are mounted, topmost first. The first has the mount points of a sandbox.
    pub layers: Vec<Digest>,
    /// Whether it has the first content of a workspace.
    pub has_skeleton: bool,
    /// Whether the directory of agents can be mounted in it.
    pub takes_agents: bool,
}

/// Where an image was pulled from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PulledFrom {
    pub reference: String,
    /// Whether the pull had a login. Such an image is used only by tenants that the registry allows to.
    pub with_login: bool,
}
