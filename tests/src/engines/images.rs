//! Images that tests make: nothing is fetched from anywhere.

use super::Engine;
use anyhow::{Context, Result, ensure};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// A static busybox and its names.
pub const BUSYBOX: &str = "slipway-test/busybox:1";

/// The content of an image and its configuration (as `--change` of `import` takes it).
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    pub name: &'a str,
    pub busybox: bool,
    pub changes: &'a [&'a str],
}

impl Engine {
    pub fn import(&self, image: &Image<'_>) -> Result<()> {
        let dir = tempfile::tempdir()?;
        if image.busybox {
            busybox(dir.path())?;
        }
        self.import_tree(image.name, dir.path(), image.changes)
    }

    /// An image of any tree.
    pub fn import_tree(&self, name: &str, root: &Path, changes: &[&str]) -> Result<()> {
        let changes = changes.iter().flat_map(|change| ["--change", *change]);
        let arguments: Vec<&str> = ["import"].into_iter().chain(changes).chain(["-", name]).collect();
        self.feed(&arguments, &tar(root)?)
    }

    /// A command that reads bytes.
    fn feed(&self, arguments: &[&str], bytes: &[u8]) -> Result<()> {
        let mut command = self.command(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("its input")?.write_all(bytes)?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

/// A root with a static busybox, and links to what programs of the host need where its /usr is shown.
pub fn busybox(root: &Path) -> Result<()> {
    for name in ["bin", "tmp", "usr", "etc"] {
        std::fs::create_dir(root.join(name))?;
    }
    for name in ["lib", "lib64"] {
        symlink(format!("usr/{name}"), root.join(name))?;
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).context("busybox-static is not installed")?;
    for name in ["sh", "true", "cat", "echo", "id", "sleep", "ls", "test", "head"] {
        symlink("busybox", root.join("bin").join(name))?;
    }
    Ok(())
}

fn tar(root: &Path) -> Result<Vec<u8>> {
    let output = Command::new("tar").arg("-C").arg(root).args(["-c", "."]).output()?;
    ensure!(output.status.success(), "tar: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}
