//! The configuration of an image: what its author wants to be set in a container.

use super::{ManifestError, Platform, document::parse_json};
use crate::{
    Digest,
    limits::{CONFIG_MAX_BYTES, IMAGE_ENV_MAX, IMAGE_LABELS_MAX_BYTES, IMAGE_VOLUMES_MAX, LAYERS_MAX},
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use std::collections::BTreeMap;

const WHAT: &str = "configuration";

/// The parts of a configuration that are used. Its serde form is ours, not that of images.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// Variables, as `NAME=value`.
    pub env: Vec<String>,
    /// A user and group by name or number, or nothing.
    pub user: String,
    pub working_dir: String,
    pub labels: BTreeMap<String, String>,
    /// Paths that the image wants to be writable.
    pub volumes: Vec<String>,
    /// Digests of the uncompressed layers, lowest first.
    pub diff_ids: Vec<Digest>,
    /// Empty in images that do not say.
    pub architecture: String,
    pub os: String,
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    architecture: Option<String>,
    #[serde(default)]
    os: Option<String>,
    #[serde(default)]
    config: Option<WireSettings>,
    rootfs: WireRootfs,
}

#[derive(Deserialize)]
struct WireRootfs {
    #[serde(default)]
    diff_ids: Option<Vec<Digest>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct WireSettings {
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    volumes: Option<BTreeMap<String, IgnoredAny>>,
}

impl ImageConfig {
    /// Parses the configuration of an OCI or Docker image. `null` means the same as nothing.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let Wire { architecture, os, config, rootfs } = parse_json(WHAT, bytes, CONFIG_MAX_BYTES)?;
        let settings = config.unwrap_or_default();
        let config = Self {
            env: settings.env.unwrap_or_default(),
            user: settings.user.unwrap_or_default(),
            working_dir: settings.working_dir.unwrap_or_default(),
            labels: settings.labels.unwrap_or_default(),
            volumes: settings.volumes.unwrap_or_default().into_keys().collect(),
            diff_ids: rootfs.diff_ids.unwrap_or_default(),
            architecture: architecture.unwrap_or_default(),
            os: os.unwrap_or_default(),
        };
        config.check_limits()?;
        Ok(config)
    }

    /// Checks that the image runs on a host.
    pub fn check_platform(&self, host: &Platform) -> Result<(), ManifestError> {
        let or = |said: &str, unsaid: &str| if said.is_empty() { unsaid.to_owned() } else { said.to_owned() };
        let own = Platform {
            os: or(&self.os, &host.os),
            architecture: or(&self.architecture, &host.architecture),
            variant: None,
        };
        if own.runs_on(host) {
            return Ok(());
        }
        let found = super::media_type::shown(&own.to_string());
        Err(ManifestError::NoPlatform { wanted: host.clone(), found })
    }

    fn check_limits(&self) -> Result<(), ManifestError> {
        let labels = self.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        let counted = [
            ("variables", self.env.len(), IMAGE_ENV_MAX),
            ("volumes", self.volumes.len(), IMAGE_VOLUMES_MAX),
            ("bytes of labels", labels, IMAGE_LABELS_MAX_BYTES),
            ("layers", self.diff_ids.len(), LAYERS_MAX),
        ];
        if let Some((what, _, max)) = counted.into_iter().find(|(_, count, max)| count > max) {
            return Err(ManifestError::TooMany { what, max });
        }
        let texts = self.env.iter().chain(&self.volumes).chain([&self.user, &self.working_dir]);
        match texts.into_iter().any(|text| text.contains('\0')) {
            true => Err(ManifestError::Invalid { what: WHAT, why: "it contains a NUL byte".to_owned() }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_of_docker_is_parsed() {
        let layer = Digest::of(b"layer");
        let text = format!(
            r#"{{"architecture":"amd64","os":"linux","created":"2024-01-01T00:00:00Z","history":[{{"created_by":"x"}}],
            "config":{{"Env":["PATH=/bin","A="],"User":"1000:1000","WorkingDir":"/srv","Labels":{{"a":"b"}},
            "Volumes":{{"/data":{{}},"/cache":{{}}}},"Cmd":["sh"],"Entrypoint":null}},
            "rootfs":{{"type":"layers","diff_ids":["{layer}"]}}}}"#
        );
        let config = ImageConfig::parse(text.as_bytes()).expect("valid");
        let expected = ImageConfig {
            env: vec!["PATH=/bin".into(), "A=".into()],
            user: "1000:1000".into(),
            working_dir: "/srv".into(),
            labels: BTreeMap::from([("a".into(), "b".into())]),
            volumes: vec!["/cache".into(), "/data".into()],
            diff_ids: vec![layer],
            architecture: "amd64".into(),
            os: "linux".into(),
        };
        assert_eq!(config, expected);
        let stored = serde_json::to_vec(&config).expect("serializable");
        assert_eq!(serde_json::from_slice::<ImageConfig>(&stored).expect("valid"), config);
    }

    #[test]
    fn what_is_missing_or_null_is_empty() {
        for text in [
            r#"{"rootfs":{"diff_ids":[]}}"#,
            r#"{"config":null,"rootfs":{"diff_ids":null}}"#,
            r#"{"config":{"Env":null,"Labels":null,"Volumes":null,"User":null},"rootfs":{}}"#,
        ] {
            assert_eq!(ImageConfig::parse(text.as_bytes()), Ok(ImageConfig::default()), "{text}");
        }
    }

    #[test]
    fn an_invalid_configuration_is_refused_with_the_reason() {
        let many =
            format!(r#"{{"config":{{"Env":[{}"A=1"]}},"rootfs":{{}}}}"#, r#""A=1","#.repeat(IMAGE_ENV_MAX));
        let labels = format!(r#"{{"config":{{"Labels":{{"a":"{}"}}}},"rootfs":{{}}}}"#, "x".repeat(70_000));
        let table = [
            ("{}", "its configuration is not valid: missing field `rootfs`"),
            ("[]", "its configuration is not valid: "),
            (
                r#"{"rootfs":{"diff_ids":["sha512:0"]}}"#,
                "its configuration is not valid: its digest uses sha512",
            ),
            (
                r#"{"config":{"Env":["A=\u0000"]},"rootfs":{}}"#,
                "its configuration is not valid: it contains a NUL",
            ),
            (&many, "it has more than 1024 variables"),
            (&labels, "it has more than 65536 bytes of labels"),
        ];
        for (text, expected) in table {
            let error = ImageConfig::parse(text.as_bytes()).expect_err(text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_platform_of_a_configuration_is_checked() {
        let host = Platform::linux("amd64");
        for (os, architecture, runs) in
            [("linux", "amd64", true), ("", "", true), ("linux", "arm64", false), ("windows", "amd64", false)]
        {
            let config =
                ImageConfig { os: os.into(), architecture: architecture.into(), ..ImageConfig::default() };
            assert_eq!(config.check_platform(&host).is_ok(), runs, "{os} {architecture}");
        }
    }
}
