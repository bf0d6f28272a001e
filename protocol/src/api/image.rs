//! Images of a host: `/v1/images`, `/v1/image-pulls` and `/v1/default-image`.

use super::{ApiError, SandboxId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An image that the host has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Image {
    /// Its name, or the reference that it was pulled by.
    pub name: String,
    pub source: ImageSource,
    pub created_at: String,
    /// When a new sandbox got it last, or when it was made.
    pub used_at: String,
    /// Files of all layers; layers that images share count in each.
    pub size_bytes: u64,
    /// 0: a root file system without layers.
    pub layers: u32,
    /// The digest of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The reference that it was pulled by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Whether sandboxes get it that name none.
    pub is_default: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ImageSource {
    /// From files of the host.
    Imported,
    /// From a registry.
    Pulled,
}

/// An image with its configuration: `GET /v1/images/{name}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageDetails {
    pub image: Image,
    /// Variables that jobs get, as `NAME=value`.
    pub env: Vec<String>,
    /// Not used: everything runs as the user of the sandbox.
    pub user: String,
    /// Not used: everything starts in the workspace.
    pub working_dir: String,
    pub labels: BTreeMap<String, String>,
    /// Paths that are writable, in memory.
    pub volumes: Vec<String>,
    /// Digests of the uncompressed layers, lowest first.
    pub layer_digests: Vec<String>,
    /// Sandboxes that name this image.
    pub sandboxes: Vec<SandboxId>,
}

/// `POST /v1/image-pulls`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ImagePullCreate {
    /// As in `alpine:3.20` or `registry:5000/team/app@sha256:…`.
    pub reference: String,
    /// A name under which every tenant may use the image, without asking its registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A pull. It ends with hostd: repeat it, and it goes on where its downloads ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImagePull {
    pub id: String,
    pub reference: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub state: ImagePullState,
    /// What is being done, for people.
    pub message: String,
    pub downloaded_bytes: u64,
    /// Compressed layers that the host lacked; 0 until that is known.
    pub total_bytes: u64,
    /// When it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// When it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ApiError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ImagePullState {
    Running,
    Done,
    Failed,
}

/// What `POST /v1/images/collect` removed, or would remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ImageCollection {
    pub applied: bool,
    /// Pulled images that no sandbox has and none got for long.
    pub images: Vec<String>,
    /// Layers that no image and no sandbox has.
    pub layers: u64,
    pub bytes: u64,
}

/// The image of sandboxes that name none: `/v1/default-image`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DefaultImage {
    pub image: String,
}
