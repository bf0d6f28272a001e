//! An OCI image layout of layers that a test describes, written with `tar` and `gzip`.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One layer: a directory that becomes an archive.
pub struct Layer {
    dir: tempfile::TempDir,
}

impl Layer {
    pub fn new() -> Result<Self> {
        Ok(Self { dir: tempfile::tempdir()? })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Adds a file with its parents.
    pub fn file(self, name: &str, content: &str) -> Result<Self> {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().context("a parent")?)?;
        fs::write(path, content)?;
        Ok(self)
    }

    fn tar(&self) -> Result<Vec<u8>> {
        let mut tar = Command::new("tar");
        // The same files are the same layer.
        tar.args(["--create", "--numeric-owner", "--xattrs", "--format=pax", "--sort=name", "--mtime=@0"]);
        tar.arg("--pax-option=delete=atime,delete=ctime");
        tar.arg("--directory").arg(self.path());
        tar.arg(".");
        let output = tar.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(output.stdout)
    }
}

/// A layout on disk: `oci-layout`, `index.json` and blobs.
pub struct ImageLayout {
    dir: tempfile::TempDir,
}

impl ImageLayout {
    /// Writes an image with these layers, lowest first. `config` is the part of its configuration that programs see.
    pub fn write(layers: &[Layer], config: &Value) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::create_dir_all(dir.path().join("blobs/sha256"))?;
        fs::write(dir.path().join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
        let (mut described, mut diff_ids) = (Vec::new(), Vec::new());
        for layer in layers {
            let tar = layer.tar()?;
            diff_ids.push(digest_of(&tar));
            let blob = put(dir.path(), &gzip(&tar)?)?;
            described.push(described_as("application/vnd.oci.image.layer.v1.tar+gzip", &blob));
        }
        let config = json!({"architecture": "amd64", "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        let config = put(dir.path(), &serde_json::to_vec(&config)?)?;
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described_as("application/vnd.oci.image.config.v1+json", &config), "layers": described});
        let manifest = put(dir.path(), &serde_json::to_vec(&manifest)?)?;
        let index = json!({"schemaVersion": 2,
            "manifests": [described_as("application/vnd.oci.image.manifest.v1+json", &manifest)]});
        fs::write(dir.path().join("index.json"), serde_json::to_vec(&index)?)?;
        Ok(Self { dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The digest of the largest blob, which is a layer.
    pub fn largest_blob(&self) -> Result<String> {
        let blobs = fs::read_dir(self.path().join("blobs/sha256"))?.collect::<Result<Vec<_>, _>>()?;
        let largest = blobs.iter().max_by_key(|blob| blob.metadata().map_or(0, |meta| meta.len()));
        let name = largest.context("a blob")?.file_name();
        Ok(format!("sha256:{}", name.to_string_lossy()))
    }

    /// The file of a blob.
    pub fn blob(&self, digest: &str) -> PathBuf {
        self.path().join("blobs").join(digest.replace(':', "/"))
    }

    /// The layout as one archive.
    pub fn archive(&self) -> Result<PathBuf> {
        let file = self.path().with_extension("tar");
        let tar = Command::new("tar")
            .arg("--create")
            .arg("--file")
            .arg(&file)
            .arg("--directory")
            .arg(self.path())
            .arg(".")
            .status()?;
        ensure!(tar.success(), "tar failed");
        Ok(file)
    }
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(bytes)?;
    let output = Command::new("gzip").args(["--stdout", "--fast"]).arg(file.path()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

type Blob = (String, u64);

fn put(dir: &Path, bytes: &[u8]) -> Result<Blob> {
    let digest = digest_of(bytes);
    fs::write(dir.join("blobs").join(digest.replace(':', "/")), bytes)?;
    Ok((digest, bytes.len() as u64))
}

fn described_as(media_type: &str, (digest, size): &Blob) -> Value {
    json!({"mediaType": media_type, "digest": digest, "size": size})
}

fn digest_of(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
