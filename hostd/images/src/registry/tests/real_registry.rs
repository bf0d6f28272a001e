//! Debian's registry program, where it is installed. Its storage is written as files, so that nothing need push.

use super::{LAYER_TYPE, client, descriptor, text};
use crate::{Descriptor, Digest, IMAGE_MANIFEST_TYPES, ImageReference, RegistryError};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

const PROGRAM: &str = "docker-registry";
const LISTENS: &str = "listening on ";

struct RealRegistry {
    child: Child,
    authority: String,
    /// Its log, which must stay open.
    _log: BufReader<std::process::ChildStderr>,
}

impl RealRegistry {
    /// Starts the program; none where it is not installed.
    fn start(storage: &Path) -> Option<Self> {
        let config = storage.join("config.yml");
        let root = storage.display();
        let text = format!(
            "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {root}}}}}\nhttp: {{addr: '127.0.0.1:0'}}\n"
        );
        fs::write(&config, text).expect("written");
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let mut log = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while !line.contains(LISTENS) {
            line.clear();
            assert!(log.read_line(&mut line).expect("a log") > 0, "the registry ended");
        }
        let (_, after) = line.split_once(LISTENS).expect("found above");
        let authority = after.split(['"', ',', ' ']).next().expect("an address").to_owned();
        Some(Self { child, authority, _log: log })
    }
}

impl Drop for RealRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("below the storage")).expect("made");
    fs::write(path, bytes).expect("written");
}

/// Stores a blob of the repository `app`.
fn store_blob(storage: &Path, bytes: &[u8]) -> Digest {
    let (root, digest) = (storage.join("docker/registry/v2"), Digest::of(bytes));
    let hex = digest.hex();
    write(&root.join(format!("blobs/sha256/{}/{hex}/data", &hex[..2])), bytes);
    write(&root.join(format!("repositories/app/_layers/sha256/{hex}/link")), digest.as_str().as_bytes());
    digest
}

/// Stores a manifest of the repository `app` under a tag.
fn store_manifest(storage: &Path, tag: &str, bytes: &[u8]) -> Digest {
    let (digest, root) =
        (store_blob(storage, bytes), storage.join("docker/registry/v2/repositories/app/_manifests"));
    let link = digest.as_str().as_bytes();
    write(&root.join(format!("revisions/sha256/{}/link", digest.hex())), link);
    write(&root.join(format!("tags/{tag}/current/link")), link);
    write(&root.join(format!("tags/{tag}/index/sha256/{}/link", digest.hex())), link);
    digest
}

fn json(descriptor: &Descriptor) -> String {
    serde_json::to_string(descriptor).expect("serializable")
}

#[tokio::test]
async fn an_image_is_pulled_from_a_real_registry() {
    let dir = tempfile::tempdir().expect("a directory");
    let (config, layer) = (b"{\"rootfs\":{}}".to_vec(), vec![7; 3 << 20]);
    store_blob(dir.path(), &config);
    store_blob(dir.path(), &layer);
    let config_type = "application/vnd.oci.image.config.v1+json";
    let manifest = format!(
        r#"{{"schemaVersion":2,"mediaType":"{}","config":{},"layers":[{}]}}"#,
        IMAGE_MANIFEST_TYPES[0],
        json(&descriptor(config_type, &config)),
        json(&descriptor(LAYER_TYPE, &layer)),
    );
    let digest = store_manifest(dir.path(), "1", manifest.as_bytes());
    let Some(registry) = RealRegistry::start(dir.path()) else { return };
    let client = client(&[&registry.authority]);
    let image = ImageReference::parse(&format!("{}/app:1", registry.authority)).expect("a name");

    assert_eq!(client.check(&image, None).await.expect("there"), digest);
    let resolved = client.resolve(&image, None).await.expect("there");
    assert_eq!((&resolved.digest, resolved.bytes.as_slice()), (&digest, manifest.as_bytes()));
    let fetched = client.fetch_config(&image, &resolved.manifest.config, None).await.expect("there");
    assert_eq!(fetched, config);
    let to = dir.path().join("layer");
    fs::write(&to, &layer[..1 << 20]).expect("written");
    client.fetch_blob(&image, &resolved.manifest.layers[0], None, &to, &|_| ()).await.expect("downloaded");
    assert!(fs::read(&to).expect("read") == layer);

    let missing = ImageReference::parse(&format!("{}/app:2", registry.authority)).expect("a name");
    let error = client.resolve(&missing, None).await.expect_err("missing");
    assert!(matches!(error, RegistryError::NotFound { .. }), "{}", text(&error));
}
