//! Requests of the older routes, and their translation into a `SandboxSpec`. Pure.

use super::super::error::CallError;
use protocol::{
    EnvMap,
    api::{IdlePolicy, LimitsSpec, SandboxSpec, Visibility},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

pub const USER: &str = "external_user_id";
pub const PROJECT: &str = "external_project_id";
pub const WORKSPACE: &str = "external_workspace_id";
/// The user of a sandbox that names none.
const USER_DEFAULT: &str = "local";
pub const EXTERNAL_MAX_CHARS: usize = 256;

/// `POST /sandbox`. Fields that cannot be honoured are refused by name.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OlderCreate {
    /// A ULID chosen by the caller.
    pub id: Option<String>,
    pub ports: Vec<u16>,
    /// As in `4G` or `512M`.
    pub memory_high: Option<String>,
    /// Public unless given.
    pub visibility: Option<Visibility>,
    pub external: OlderExternal,
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub env: EnvMap,
    pub idle_policy: Option<IdlePolicy>,
    image: Option<Value>,
    template: Option<Value>,
    template_path: Option<Value>,
    git: Option<Value>,
    git_remote_url: Option<Value>,
    app_id: Option<Value>,
    runtime_preset: Option<Value>,
}

/// Ids of the sandbox's user, project and workspace in the caller's own system.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OlderExternal {
    pub user_id: Option<String>,
    pub project_id: Option<String>,
    pub workspace_id: Option<String>,
}

/// `POST /sandbox/{id}/exec`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OlderExec {
    pub cmd: Vec<String>,
    #[serde(default)]
    pub stream: bool,
}

/// `POST /sandbox/{id}/keepalive`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OlderKeepalive {
    /// Seconds since the Unix epoch.
    pub until: u64,
}

impl OlderCreate {
    pub fn spec(self) -> Result<SandboxSpec, CallError> {
        self.refuse_unsupported_fields()?;
        let memory_mb = self.memory_high.as_deref().map(memory_mb).transpose()?;
        Ok(SandboxSpec {
            ports: self.ports,
            env: self.env,
            limits: LimitsSpec { memory_mb, ..LimitsSpec::default() },
            visibility: Some(self.visibility.unwrap_or(Visibility::Public)),
            idle_policy: self.idle_policy,
            metadata: self.external.metadata()?,
            ..SandboxSpec::default()
        })
    }

    fn refuse_unsupported_fields(&self) -> Result<(), CallError> {
        let refused = [
            ("image", &self.image),
            ("template", &self.template),
            ("template_path", &self.template_path),
            ("git", &self.git),
            ("git_remote_url", &self.git_remote_url),
            ("app_id", &self.app_id),
            ("runtime_preset", &self.runtime_preset),
        ];
        match refused.into_iter().find(|(_, value)| value.is_some()) {
            Some((field, _)) => Err(CallError::invalid(field, "is not offered on this route; leave it out")),
            None => Ok(()),
        }
    }
}

impl OlderExternal {
    /// The ids as metadata of the sandbox.
    fn metadata(self) -> Result<BTreeMap<String, String>, CallError> {
        let user = self.user_id.filter(|text| !text.is_empty()).unwrap_or_else(|| USER_DEFAULT.to_owned());
        let named = [(USER, Some(user)), (PROJECT, self.project_id), (WORKSPACE, self.workspace_id)];
        let mut metadata = BTreeMap::new();
        for (name, text) in named {
            let Some(text) = text.filter(|text| !text.is_empty()) else { continue };
            let plain = !text.chars().any(|letter| letter.is_control() || letter == ',');
            if !plain || text.chars().count() > EXTERNAL_MAX_CHARS {
                let field = name.replacen("external_", "external.", 1);
                let most = format!("at most {EXTERNAL_MAX_CHARS} characters, no comma, no control character");
                return Err(CallError::invalid(field, most));
            }
            metadata.insert(name.to_owned(), text);
        }
        Ok(metadata)
    }
}

/// Parses `4G`, `512M`, `2097152K` or bytes; rounds up.
fn memory_mb(text: &str) -> Result<u64, CallError> {
    let invalid = || CallError::invalid("memory_high", "must be a size as in 4G or 512M");
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => (&text[..at], letter.to_ascii_uppercase()),
        _ => (text, 'B'),
    };
    let bytes: u64 = match unit {
        'B' => 1,
        'K' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        'T' => 1 << 40,
        _ => return Err(invalid()),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    let count = digits.parse::<u64>().ok().filter(|count| plain && *count > 0).ok_or_else(invalid)?;
    Ok(count.checked_mul(bytes).ok_or_else(invalid)?.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(body: Value) -> Result<SandboxSpec, String> {
        let create: OlderCreate = serde_json::from_value(body).expect("an older body");
        create.spec().map_err(|failure| failure.error.detail.field.unwrap_or_default())
    }

    #[test]
    fn sizes_have_a_unit() {
        let table =
            [("4G", 4096), ("512M", 512), ("512m", 512), ("2097152K", 2048), ("1048577", 2), ("1T", 1 << 20)];
        for (text, expected) in table {
            assert_eq!(memory_mb(text).ok(), Some(expected), "{text}");
        }
        for bad in ["", "G", "4GB", "-1G", "+1G", "1.5G", "0", "0G", "99999999999T", "4 G", "é", "4é"] {
            assert!(memory_mb(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_empty_body_is_a_public_sandbox_of_local() {
        let spec = spec(json!({})).expect("nothing is asked for");
        assert_eq!(spec.visibility, Some(Visibility::Public));
        assert_eq!(spec.metadata, BTreeMap::from([(USER.to_owned(), "local".to_owned())]));
    }

    #[test]
    fn unsupported_fields_are_refused_by_name() {
        let table = [
            (json!({"image": "x"}), "image"),
            (json!({"template": "react"}), "template"),
            (json!({"template_path": "library/x"}), "template_path"),
            (json!({"git": {"repo_url": "https://x"}}), "git"),
            (json!({"git_remote_url": "https://x"}), "git_remote_url"),
            (json!({"app_id": "x"}), "app_id"),
            (json!({"runtime_preset": "vite"}), "runtime_preset"),
            (json!({"memory_high": "much"}), "memory_high"),
            (json!({"external": {"user_id": "a,b"}}), "external.user_id"),
            (json!({"external": {"project_id": "a\nb"}}), "external.project_id"),
            (json!({"external": {"workspace_id": "x".repeat(257)}}), "external.workspace_id"),
        ];
        for (body, field) in table {
            assert_eq!(spec(body.clone()), Err(field.to_owned()), "{body}");
        }
        let unknown = serde_json::from_value::<OlderCreate>(json!({"nope": 1}));
        assert!(unknown.is_err(), "unknown fields are refused too");
    }
}
