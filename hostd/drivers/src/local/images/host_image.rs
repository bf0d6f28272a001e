//! The image `host`: the host's own /usr, read-only, in a generated root. Of /opt and /usr/local only what is
//! allowed; of /etc only what programs need and what says nothing about this host.

use super::{Rootfs, mount_points};
use crate::local::{files, remove_tree};
use sha2::{Digest, Sha256};
use std::{
    fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// Increase when the generated part changes: running sandboxes keep the old one.
const VERSION: &str = "3";
const NAMES: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Bound where they exist.
const ETC_BOUND: [&str; 5] = ["etc/ssl", "etc/pki", "etc/ca-certificates", "etc/alternatives", "etc/fonts"];
/// Copied where they exist.
const ETC_COPIED: [&str; 6] =
    ["etc/ld.so.cache", "etc/localtime", "etc/services", "etc/protocols", "etc/mime.types", "etc/os-release"];
const ETC_WRITTEN: [(&str, &str); 7] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/root:/bin/sh\nsandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\ntty:x:5:\nsandbox:x:1000:\nnogroup:x:65534:\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"),
    (
        "etc/nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\nnetworks: files\n",
    ),
    ("etc/resolv.conf", ""),
    ("etc/shells", "/bin/sh\n/bin/bash\n"),
    ("etc/host.conf", "multi on\n"),
];
/// The largest file that is copied from /etc.
const COPY_MAX_BYTES: u64 = 8 << 20;

pub struct HostRootfs {
    /// The root of the host; another directory in tests.
    pub root: PathBuf,
    /// Allowed directories in /opt and /usr/local.
    pub allow: Vec<PathBuf>,
}

impl HostRootfs {
    /// All directories of the host that sandboxes will see.
    pub fn bound(&self) -> Vec<PathBuf> {
        let fixed = ["usr"].iter().chain(&ETC_BOUND).chain(&NAMES).map(|name| self.root.join(name));
        fixed.chain(self.allow.iter().cloned()).collect()
    }

    /// Builds the generated root, unless it exists. A changed host gets a new one.
    pub fn build(&self, parent: &Path) -> io::Result<Rootfs> {
        let files = self.files();
        let links = self.links();
        let name = self.fingerprint(&files, &links);
        files::make_dir(parent, 0o711)?;
        let dir = parent.join(&name);
        let plan = self.plan(&dir);
        if !dir.exists() {
            let temporary = parent.join(format!(".{name}"));
            remove_tree::remove_tree(&temporary)?;
            self.fill(&temporary, &files, &links)?;
            fs::rename(&temporary, &dir)?;
        }
        Ok(plan)
    }

    fn fill(
        &self,
        dir: &Path,
        contents: &[(String, Vec<u8>)],
        links: &[(String, PathBuf)],
    ) -> io::Result<()> {
        files::make_dir(dir, 0o711)?;
        let rootfs = dir.join("rootfs");
        for path in [rootfs.clone(), dir.join("local")] {
            files::make_dir(&path, 0o755)?;
        }
        mount_points::make_all(&rootfs)?;
        for name in ["usr", "etc", "opt", "root", "mnt", "srv", "var/lib", "var/log", "var/cache"] {
            mount_points::make_directory(&rootfs, name)?;
        }
        symlink("/run", rootfs.join("var/run"))?;
        mount_points::add_workspace_link(&rootfs)?;
        for (name, target) in links {
            symlink(target, rootfs.join(name))?;
        }
        for (name, bytes) in contents {
            files::replace(&rootfs.join(name), bytes, 0o644)?;
        }
        symlink("/proc/self/mounts", rootfs.join("etc/mtab"))?;
        // Mount points of the binds.
        for (_, to) in self.plan(dir).binds {
            let to = to.strip_prefix("/").unwrap_or(&to);
            match to.strip_prefix("usr/local") {
                Ok(below) => mount_points::make_directory(&dir.join("local"), &below.to_string_lossy())?,
                Err(_) => mount_points::make_directory(&rootfs, &to.to_string_lossy())?,
            }
        }
        Ok(())
    }

    /// The binds, in mount order.
    fn plan(&self, dir: &Path) -> Rootfs {
        let mut binds = vec![(self.root.join("usr"), PathBuf::from("/usr"))];
        let inside = |path: &Path| Path::new("/").join(path.strip_prefix(&self.root).unwrap_or(path));
        let local = self.root.join("usr/local");
        if local.is_dir() && !self.allow.contains(&local) {
            binds.push((dir.join("local"), inside(&local)));
        }
        let plain = NAMES.iter().map(|name| self.root.join(name)).filter(|path| is_plain_dir(path));
        let etc = ETC_BOUND.iter().map(|name| self.root.join(name)).filter(|path| is_plain_dir(path));
        let mut allow = self.allow.clone();
        allow.sort();
        allow.retain(|path| *path != local);
        binds.extend(plain.chain(etc).chain(allow).map(|path| (path.clone(), inside(&path))));
        Rootfs::directory(dir.join("rootfs"), binds)
    }

    /// Symlinks like `/bin -> usr/bin`, as this host has them.
    fn links(&self) -> Vec<(String, PathBuf)> {
        let link = |name: &&str| Some(((*name).to_owned(), fs::read_link(self.root.join(name)).ok()?));
        NAMES.iter().filter_map(link).collect()
    }

    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let written = ETC_WRITTEN.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        let copied = ETC_COPIED.iter().filter_map(|name| {
            let path = fs::canonicalize(self.root.join(name)).ok()?;
            Some(((*name).to_owned(), files::read(&path, COPY_MAX_BYTES).ok()?))
        });
        written.chain(copied).collect()
    }

    fn fingerprint(&self, files: &[(String, Vec<u8>)], links: &[(String, PathBuf)]) -> String {
        let mut hash = Sha256::new();
        let mut add = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        add(VERSION.as_bytes());
        for (name, bytes) in files {
            add(name.as_bytes());
            add(bytes);
        }
        let text = |path: &Path| path.as_os_str().as_encoded_bytes().to_vec();
        for (name, target) in links {
            add(name.as_bytes());
            add(&text(target));
        }
        for (from, to) in self.plan(Path::new("/")).binds {
            add(&text(&from));
            add(&text(&to));
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn is_plain_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}
