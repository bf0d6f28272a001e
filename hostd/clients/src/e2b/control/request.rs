//! Bodies of requests, as the SDKs send them. Fields that are not known are left alone: a newer SDK may send more.

use super::{error::E2bError, limits};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewSandbox {
    #[serde(rename = "templateID")]
    pub template: Option<String>,
    pub timeout: Option<u64>,
    pub metadata: Option<BTreeMap<String, String>>,
    pub env_vars: Option<BTreeMap<String, String>>,
    pub auto_pause: Option<bool>,
    pub auto_pause_memory: Option<bool>,
    pub auto_resume: Option<AutoResume>,
    #[serde(rename = "allow_internet_access")]
    pub allow_internet_access: Option<bool>,
    /// As it is, to be shown again.
    pub network: Option<Value>,
    pub mcp: Option<Value>,
    pub iam: Option<Value>,
    pub volume_mounts: Option<Vec<Value>>,
}

#[derive(Debug, Deserialize)]
pub struct AutoResume {
    pub enabled: bool,
}

/// Rules for the network: of a new sandbox, or to replace those of one.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkConfig {
    pub allow_public_traffic: Option<bool>,
    pub allow_out: Option<Vec<String>>,
    pub deny_out: Option<Vec<String>>,
    #[serde(rename = "allow_internet_access")]
    pub allow_internet_access: Option<bool>,
    pub mask_request_host: Option<String>,
    pub egress_proxy: Option<Value>,
    pub dns_servers: Option<Vec<String>>,
    pub https_ports: Option<Vec<u16>>,
    pub rules: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
pub struct SetTimeout {
    pub timeout: u64,
}

#[derive(Debug, Deserialize)]
pub struct Refresh {
    pub duration: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Connect {
    pub timeout: Option<u64>,
    /// False: only its files are resumed.
    pub memory: Option<bool>,
    /// Only in `resume`.
    pub auto_pause: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub struct Pause {
    /// False: only its files are kept.
    pub memory: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub struct Snapshot {
    pub name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Fork {
    pub timeout: Option<u64>,
    pub count: Option<u64>,
}

impl NewSandbox {
    /// Refuses what would otherwise be missing without a word.
    pub fn check(&self) -> Result<(), E2bError> {
        let given = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
        let refused = [
            ("volumeMounts", self.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty())),
            ("iam", given(&self.iam)),
            ("mcp", given(&self.mcp)),
        ];
        if let Some((field, _)) = refused.iter().find(|(_, given)| *given) {
            return Err(E2bError::invalid(format!("{field}: this server does not have it; leave it out")));
        }
        let template = self.template.as_deref().unwrap_or_default();
        if template.len() > limits::TEMPLATE_MAX_BYTES || template.chars().any(char::is_control) {
            return Err(E2bError::invalid("templateID: this is no template"));
        }
        Ok(())
    }
}
