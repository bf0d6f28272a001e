//! Verifies from outside what the engine made of a container, before anything in it is trusted. An image may
//! have symlinks at our mount points and volumes behind them: then another program would be PID 1, or the
//! control directory would be writable by the sandbox.

mod mounts;

use super::{
    super::{
        DriverError,
        local::{
            blueprint_checks::refused,
            files::{self, failed},
            images::RUNTIMED_INSIDE,
            init::{Init, proc_of},
            init_exit::terminate_init,
            layout::SandboxDir,
            limits::KERNEL_FILE_MAX_BYTES,
            pidfd::has_exited,
        },
    },
    container_paths::{CONTROL, HOME, PUBLIC},
    driver::DockerInner,
    limits::{ENGINE_POLL_MS, EXEC_MAX_MS},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::{SFlag, fstat},
};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Namespaces that a sandbox must not share with the host.
const NAMESPACES: [&str; 5] = ["mnt", "pid", "net", "ipc", "uts"];
/// Podman does not create one on every host.
const DOCKER_NAMESPACE: &str = "cgroup";

/// Mounts that must be in place inside: path and source.
struct ExpectedMounts {
    paths: [(&'static str, PathBuf); 4],
    podman: bool,
}

impl DockerInner {
    /// Verifies that PID 1 is runtimed, with every mount in its place. Otherwise ends it, removes the
    /// container and refuses the image. `false` when PID 1 exited meanwhile.
    pub async fn verify(&self, dir: &SandboxDir, init: &Init, container: &str) -> Result<bool, DriverError> {
        let podman = self.engine.is_podman().await?;
        let why = match self.find_mismatch(dir, init, podman).await {
            Ok(None) => return Ok(true),
            _ if has_exited(&init.pidfd) => return Ok(false),
            Ok(Some(why)) => why,
            // Files in /proc vanish a moment before the pidfd reports the exit.
            Err(error) if is_gone(&error) => return Ok(false),
            Err(error) => return Err(failed("inspect the container")(error)),
        };
        tracing::warn!(container, why, "removing a container that does not match its configuration");
        if let Err(error) = terminate_init(init, 0).await {
            tracing::warn!(container, %error, "failed to end PID 1; the engine has to");
        }
        self.remove_by_id(container).await?;
        Err(refused("image", format!("the image cannot be used: {why}"), &[]))
    }

    async fn find_mismatch(&self, dir: &SandboxDir, init: &Init, podman: bool) -> io::Result<Option<String>> {
        let sandbox = dir.path().file_name().unwrap_or_default();
        let expected = ExpectedMounts {
            paths: [
                (RUNTIMED_INSIDE, self.runtimed.clone()),
                (CONTROL, dir.control()),
                (PUBLIC, dir.public()),
                (HOME, self.layout.workspaces().join(sandbox)),
            ],
            podman,
        };
        if let Some(why) = expected.find_mismatch(init)? {
            return Ok(Some(why));
        }
        // The runtime's process executes runtimed a moment after the start.
        let deadline = Instant::now() + Duration::from_millis(EXEC_MAX_MS);
        while file_id(&init.proc().join("exe"))? != file_id(&self.runtimed)? {
            if Instant::now() >= deadline {
                return Ok(Some("its PID 1 is not runtimed".to_owned()));
            }
            sleep(Duration::from_millis(ENGINE_POLL_MS)).await;
        }
        Ok(None)
    }
}

impl ExpectedMounts {
    fn find_mismatch(&self, init: &Init) -> io::Result<Option<String>> {
        let docker = (!self.podman).then_some(DOCKER_NAMESPACE);
        for name in NAMESPACES.into_iter().chain(docker) {
            let of = |proc: PathBuf| file_id(&proc.join("ns").join(name));
            if of(init.proc())? == of(proc_of(std::process::id() as i32))? {
                return Ok(Some(format!("its container shares the {name} namespace of the host")));
            }
        }
        let root = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_PATH | OFlag::O_DIRECTORY).bits())
            .open(init.proc().join("root"))?;
        for (path_inside, source) in &self.paths {
            if let Some(why) = mismatch_at(&root, path_inside, source)? {
                return Ok(Some(why));
            }
        }
        let text = files::read_text(&init.proc().join("mountinfo"), KERNEL_FILE_MAX_BYTES)?;
        Ok(mounts::find_mismatch(&text, self.podman))
    }
}

/// Walks from the container's root to a path without following symlinks, and compares the file found with
/// `source`.
fn mismatch_at(root: &File, path_inside: &str, source: &Path) -> io::Result<Option<String>> {
    let (mut path, mut found) = (PathBuf::new(), None);
    for part in path_inside.split('/').filter(|part| !part.is_empty()) {
        path.push(part);
        let resolve = ResolveFlag::RESOLVE_IN_ROOT
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let stat = match openat2(root, &path, OpenHow::new().flags(flags).resolve(resolve)) {
            Ok(opened) => fstat(&opened)?,
            Err(Errno::ENOENT | Errno::ENOTDIR) => {
                return Ok(Some(format!("there is no {path_inside} in it")));
            }
            Err(error) => return Err(error.into()),
        };
        if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFLNK {
            return Ok(Some(format!("its /{} is a link", path.display())));
        }
        found = Some((stat.st_dev, stat.st_ino));
    }
    Ok((found != Some(file_id(source)?)).then(|| format!("another file is at its {path_inside}")))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// Device and inode: the identity of a file, whatever its path.
fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let meta = std::fs::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_is_walked_without_following_symlinks() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |path: &str| dir.path().join(path);
        for path in ["root/run/runtimed", "root/elsewhere/runtimed", "control"] {
            std::fs::create_dir_all(at(path)).expect("made");
        }
        symlink("/elsewhere", at("root/linked")).expect("linked");
        symlink("/run", at("root/elsewhere/up")).expect("linked");
        symlink(at("control"), at("root/control")).expect("linked");
        let root = File::open(at("root")).expect("there");
        let own = at("root/run/runtimed");
        for (path_inside, source, expected) in [
            ("/run/runtimed", &own, None),
            ("/run/runtimed", &at("control"), Some("another file is at its /run/runtimed")),
            ("/linked/runtimed", &own, Some("its /linked is a link")),
            ("/elsewhere/up/runtimed", &own, Some("its /elsewhere/up is a link")),
            ("/control", &at("control"), Some("its /control is a link")),
            ("/nothing/there", &own, Some("there is no /nothing/there in it")),
        ] {
            let mismatch = mismatch_at(&root, path_inside, source).expect("looked at");
            assert_eq!(mismatch.as_deref(), expected, "{path_inside}");
        }
    }
}
