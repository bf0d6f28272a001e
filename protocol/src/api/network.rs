//! Network access of a sandbox: mode, egress rules, and named sets of rules (profiles).

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::fmt;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Loopback only.
    #[default]
    None,
    /// Loopback, with hostd's egress proxy on it: public addresses that the rules allow, never private ones.
    Proxy,
    /// A network of the driver with direct access, where the driver has one.
    Open,
}

/// A mode by name, or mode and egress rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum NetworkSpec {
    Mode(Network),
    Rules(NetworkRules),
}

/// Mode and egress rules. Absent fields have hostd's defaults.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct NetworkRules {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Network>,
    /// Name of an egress profile that applies beside the profile `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Allowed destinations, as in `example.com`, `*.example.com:443` or `192.0.2.0/24:80,8000-8999`. Everything else is
    /// denied; an empty list allows every public address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Denied destinations. Deny rules win over allow rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Maximum traffic through the proxy, sent and received together, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mb: Option<u64>,
}

/// Egress rules of one sandbox. `PUT …/egress` replaces all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EgressRules {
    /// Name of an egress profile that applies beside the profile `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Allowed destinations. Everything else is denied; an empty list allows every public address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Denied destinations. Deny rules win over allow rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Maximum traffic through the proxy, sent and received together, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mb: Option<u64>,
}

/// Egress rules of a sandbox and its traffic: `GET …/egress`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressView {
    pub mode: Network,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    pub allow: Vec<String>,
    pub deny: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_mb: Option<u64>,
    /// Bytes sent and received so far, counted when a connection ends.
    pub used_bytes: u64,
}

/// A named set of egress rules. The profile `default` applies to every sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EgressProfile {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

/// A named set of egress rules: `GET /v1/egress-profiles`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EgressProfileView {
    pub name: String,
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

impl NetworkSpec {
    pub fn mode(&self) -> Option<Network> {
        match self {
            Self::Mode(mode) => Some(*mode),
            Self::Rules(rules) => rules.mode,
        }
    }

    /// Returns the egress rules; empty when only a mode is given.
    pub fn egress(&self) -> EgressRules {
        match self {
            Self::Mode(_) => EgressRules::default(),
            Self::Rules(NetworkRules { profile, allow, deny, max_mb, .. }) => EgressRules {
                profile: profile.clone(),
                allow: allow.clone(),
                deny: deny.clone(),
                max_mb: *max_mb,
            },
        }
    }
}

impl EgressRules {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl From<Network> for NetworkSpec {
    fn from(mode: Network) -> Self {
        Self::Mode(mode)
    }
}

/// Written by hand so that the error names the wrong field; a derived untagged enum only says that no variant fits.
impl<'de> Deserialize<'de> for NetworkSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = NetworkSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("none, proxy, open, or an object with mode, profile, allow, deny and max_mb")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<NetworkSpec, E> {
                match word {
                    "none" => Ok(NetworkSpec::Mode(Network::None)),
                    "proxy" => Ok(NetworkSpec::Mode(Network::Proxy)),
                    "open" => Ok(NetworkSpec::Mode(Network::Open)),
                    other => Err(E::unknown_variant(other, &["none", "proxy", "open"])),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NetworkSpec, A::Error> {
                NetworkRules::deserialize(MapAccessDeserializer::new(map)).map(NetworkSpec::Rules)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_enough_and_an_object_says_more() {
        let read = |text: &str| serde_json::from_str::<NetworkSpec>(text).map_err(|error| error.to_string());
        assert_eq!(read("\"proxy\"").map(|spec| spec.mode()), Ok(Some(Network::Proxy)));
        let spec = read(r#"{"mode":"proxy","deny":["*.example.com"],"max_mb":5}"#).expect("a spec");
        assert_eq!(spec.egress().deny, ["*.example.com"]);
        let again = serde_json::to_string(&spec).expect("JSON");
        assert_eq!(read(&again), Ok(spec));
        for (wrong, named) in
            [("\"closed\"", "`closed`"), (r#"{"denied":[]}"#, "`denied`"), ("3", "none, proxy")]
        {
            assert!(read(wrong).expect_err("refused").contains(named), "{wrong}");
        }
    }
}
