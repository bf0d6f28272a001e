//! How a sandbox reaches the world, as callers ask for it and see it.

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
    /// Loopback, and hostd's proxy there: what its rules allow, and nothing private.
    Proxy,
    /// The network of the host's choice, where the driver has one.
    Open,
}

/// A word, or all there is to say.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum NetworkSpec {
    Mode(Network),
    Rules(NetworkRules),
}

/// What is absent is hostd's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct NetworkRules {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Network>,
    /// A set of rules of the host's administrator, in force beside `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// As in `example.com`, `*.example.com:443` or `192.0.2.0/24:80,8000-8999`. What fits none is denied; when
    /// there are none, everything public is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Denied, whatever is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// The most it may send and receive through the proxy, together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mb: Option<u64>,
}

/// The rules of one sandbox. `PUT …/egress` replaces all of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EgressRules {
    /// A set of rules of the host's administrator, in force beside `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// What fits none is denied; when there are none, everything public is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Denied, whatever is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// The most it may send and receive through the proxy, together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mb: Option<u64>,
}

/// `GET …/egress`
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
    /// Sent and received so far, as far as connections have ended.
    pub used_bytes: u64,
}

/// A named set of rules. The one named `default` is in force for every sandbox.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct EgressProfile {
    pub allow: Vec<String>,
    pub deny: Vec<String>,
}

/// `GET /v1/egress-profiles`
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

    /// Everything but the mode.
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

/// By hand, so that what is wrong is named: whoever derives this is told that nothing fits.
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
