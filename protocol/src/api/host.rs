//! What the host is and has.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostView {
    pub version: String,
    pub instance: String,
    pub default_driver: String,
    pub default_image: String,
    pub drivers: Vec<DriverView>,
    pub cpus: u32,
    pub memory_total_bytes: u64,
    pub memory_available_bytes: u64,
    pub disk_total_bytes: u64,
    pub disk_free_bytes: u64,
    pub hostd_rss_bytes: u64,
    /// Sandboxes by status.
    pub sandboxes: std::collections::BTreeMap<String, u64>,
    /// What does not work on this host, for people.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DriverView {
    pub name: String,
    pub available: bool,
    /// The program behind it and its version, or why it is not available.
    pub detail: String,
}
