//! The end of a sandbox's time: its TTL, and what happens then.

use serde::{Deserialize, Deserializer, Serialize};

/// What happens to a sandbox at the end of its `ttl`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnTtl {
    /// Destroyed, with its files.
    #[default]
    Destroy,
    /// Paused, and kept. The TTL counts anew when it is resumed.
    Pause,
    /// Stopped; its files are kept. The TTL counts anew when it is started.
    Stop,
}

impl OnTtl {
    pub fn is_destroy(&self) -> bool {
        match self {
            Self::Destroy => true,
            Self::Pause | Self::Stop => false,
        }
    }
}

/// A new time to live, counted from now, and what happens at its end: `PATCH …/ttl`. A null `ttl` removes the expiry;
/// an absent field stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TtlChange {
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub ttl: Option<Option<String>>,
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    pub on_ttl: Option<OnTtl>,
}

/// Tells null from absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Refuses null, which would mean nothing.
fn not_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OnTtl>, D::Error> {
    OnTtl::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_not_absent() {
        let table = [
            (r#"{"ttl":null}"#, TtlChange { ttl: Some(None), on_ttl: None }),
            (r#"{"ttl":"90s"}"#, TtlChange { ttl: Some(Some("90s".to_owned())), on_ttl: None }),
            (r#"{"on_ttl":"pause"}"#, TtlChange { ttl: None, on_ttl: Some(OnTtl::Pause) }),
        ];
        for (text, change) in table {
            assert_eq!(serde_json::from_str::<TtlChange>(text).expect(text), change);
            assert_eq!(serde_json::to_string(&change).expect("JSON"), text);
        }
        assert!(serde_json::from_str::<TtlChange>(r#"{"on_ttl":null}"#).is_err());
    }
}
