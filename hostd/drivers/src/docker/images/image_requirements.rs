//! Requirements of an image on its container, from its configuration, and whether they can be met.

use super::super::{
    engine::Image,
    limits::{IMAGE_LABELS_MAX_BYTES, IMAGE_VARIABLES_MAX, IMAGE_VOLUMES_MAX},
};
use crate::local::images::volumes;

/// Prefix of the variables that PID 1 reads.
const RUNTIMED_PREFIX: &str = "RUNTIMED_";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageRequirements {
    /// Volumes of the image: paths that must be writable.
    pub volumes: Vec<String>,
    /// Variables of the image, for jobs, as PID 1 takes them.
    pub image_env: Option<String>,
    /// Variables of the image that PID 1 would read.
    pub variables: Vec<String>,
}

impl ImageRequirements {
    /// Reads the configuration of an image; the error says why the image cannot be used.
    pub fn of(image: &Image) -> Result<Self, String> {
        let Some(config) = &image.config else { return Ok(Self::default()) };
        let labels = config.labels.iter().flatten();
        let bytes: usize = labels.map(|(name, value)| name.len() + value.len()).sum();
        if bytes > IMAGE_LABELS_MAX_BYTES {
            return Err(format!("it has more than {} KiB of labels", IMAGE_LABELS_MAX_BYTES >> 10));
        }
        let wanted = config.volumes.iter().flatten().map(|(path, _)| path.as_str());
        if wanted.clone().count() > IMAGE_VOLUMES_MAX {
            return Err(format!("it has more than {IMAGE_VOLUMES_MAX} volumes"));
        }
        let volumes = volumes::normalized(wanted)?;
        let image_env = hostd_core::image_env(config.env.as_deref().unwrap_or_default());
        let pairs = config.env.iter().flatten();
        let names = pairs.map(|pair| pair.split_once('=').map_or(pair.as_str(), |(name, _)| name));
        let variables: Vec<String> =
            names.filter(|name| name.starts_with(RUNTIMED_PREFIX)).map(str::to_owned).collect();
        if variables.len() > IMAGE_VARIABLES_MAX {
            return Err(format!("it has more than {IMAGE_VARIABLES_MAX} variables {RUNTIMED_PREFIX}…"));
        }
        Ok(Self { volumes, image_env, variables })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn requirements(config: &serde_json::Value) -> Result<ImageRequirements, String> {
        let image: Image = serde_json::from_value(json!({"Id": "sha256:1", "Config": config})).expect("JSON");
        ImageRequirements::of(&image)
    }

    #[test]
    fn volumes_that_overlap_no_mount_are_accepted() {
        for (path, expected) in [
            ("/data", Some("/data")),
            ("//var/./lib/x/", Some("/var/lib/x")),
            ("/run/postgresql", Some("/run/postgresql")),
            ("/home/sandboxes", Some("/home/sandboxes")),
            ("/tmp", None),
        ] {
            let volumes = requirements(&json!({"Volumes": {path: {}}})).expect("taken").volumes;
            assert_eq!(volumes.first().map(String::as_str), expected, "{path}");
        }
        for path in [
            "/",
            "",
            "data",
            "/a/../run",
            "/a:b",
            "/a,b",
            "/a\nb",
            "/run",
            "/run/",
            "/run/runtimed",
            "/home",
            "/run/runtimed/x",
            "/home/sandbox",
            "/home/sandbox/workspace",
            "/.runtimed",
            "/tmp/x",
            "/var",
            "/proc",
            "/sys/fs",
            "/dev/shm",
        ] {
            assert!(requirements(&json!({"Volumes": {path: {}}})).is_err(), "{path:?}");
        }
    }

    #[test]
    fn the_configuration_of_an_image_is_limited() {
        let many = |count: usize| -> serde_json::Map<String, serde_json::Value> {
            (0..count).map(|n| (format!("/v{n}"), json!({}))).collect()
        };
        assert!(requirements(&json!({"Volumes": many(IMAGE_VOLUMES_MAX)})).is_ok());
        assert!(requirements(&json!({"Volumes": many(IMAGE_VOLUMES_MAX + 1)})).is_err());
        let label = |bytes: usize| json!({"Labels": {"a": "x".repeat(bytes - 1)}});
        assert!(requirements(&label(IMAGE_LABELS_MAX_BYTES)).is_ok());
        assert!(requirements(&label(IMAGE_LABELS_MAX_BYTES + 1)).is_err());
        assert_eq!(
            requirements(&json!({"Volumes": null, "Labels": null, "Env": null})),
            Ok(ImageRequirements::default())
        );
        let spoken =
            requirements(&json!({"Env": ["PATH=/bin", "RUNTIMED_FAULTS=1", "RUNTIMED_X"]})).expect("taken");
        assert_eq!(spoken.variables, ["RUNTIMED_FAULTS", "RUNTIMED_X"]);
    }
}
