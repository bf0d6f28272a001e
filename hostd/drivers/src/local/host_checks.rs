//! Checks of this host that every local driver makes before it opens: a data directory that sandboxes can
//! reach, and that no image exposes.

use super::{
    super::DriverError,
    files::{self, failed},
    limits::{KERNEL_FILE_MAX_BYTES, NOFILE_LOW, NOFILE_MAX},
};
use nix::{
    libc::RLIM_INFINITY,
    sys::resource::{Resource, getrlimit},
};
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Checks the instance, which becomes part of other names.
pub fn check_instance(instance: &str) -> Result<(), DriverError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if instance.is_empty() || instance.len() > 64 || !instance.bytes().all(plain) {
        return Err(unavailable("the instance must be 1 to 64 letters, digits, - or _"));
    }
    Ok(())
}

/// Open files that a sandbox may have: not above hostd's own limit.
pub fn nofile_limit() -> Result<u64, DriverError> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| failed("read our limits")(e.into()))?;
    Ok(hard.min(NOFILE_MAX))
}

/// Processes of one user to request from Podman, where hostd has a limit itself. Not above `pid_max`: Podman
/// lowers its own limit to that.
pub fn nproc_limit() -> Option<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NPROC).ok()?;
    let ids = files::read_text("/proc/sys/kernel/pid_max".as_ref(), KERNEL_FILE_MAX_BYTES).ok()?;
    (hard != RLIM_INFINITY).then_some(hard.min(ids.trim().parse().ok()?))
}

/// Warnings about this host that do not depend on the runtime.
pub fn host_warnings(nofile: u64) -> Vec<String> {
    let mut warnings = vec![];
    if nofile < NOFILE_LOW {
        warnings
            .push(format!("only {nofile} open files for a sandbox: raise the limit of hostd (LimitNOFILE)"));
    }
    warnings
}

pub fn make_data_dir(path: &Path) -> Result<PathBuf, DriverError> {
    let make = || failed("make the data directory");
    std::fs::create_dir_all(path).map_err(make())?;
    let path = std::fs::canonicalize(path).map_err(make())?;
    // The root of a sandbox is an unprivileged user on the host and must be able to traverse the directory.
    let mode = std::fs::metadata(&path).map_err(make())?.permissions().mode();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode | 0o011)).map_err(make())?;
    check_traversable(&path)?;
    Ok(path)
}

/// Checks that every user can traverse the path: the root of a sandbox is an unprivileged user on the host.
pub fn check_traversable(path: &Path) -> Result<(), DriverError> {
    let blocked =
        |part: &&Path| std::fs::metadata(part).is_ok_and(|meta| meta.permissions().mode() & 0o001 == 0);
    let Some(part) = path.ancestors().find(blocked) else { return Ok(()) };
    let (path, part) = (path.display(), part.display());
    Err(unavailable(&format!(
        "sandboxes cannot reach {path}: make {part} passable (chmod o+x), or use another place"
    )))
}

pub fn check_host_dirs(allow: &[PathBuf]) -> Result<Vec<PathBuf>, DriverError> {
    let check = |path: &PathBuf| {
        let real = std::fs::canonicalize(path).ok().filter(|real| real.is_dir());
        let good =
            real.as_ref() == Some(path) && (path.starts_with("/opt") || path.starts_with("/usr/local"));
        let must = "must be a directory in /opt or /usr/local, without links";
        good.then(|| path.clone())
            .ok_or_else(|| unavailable(&format!("{} cannot be shared: it {must}", path.display())))
    };
    allow.iter().map(check).collect()
}

/// Refuses a data directory below a shared one: sandboxes would see each other's files.
pub fn check_not_shared(data: &Path, bound: &[PathBuf]) -> Result<(), DriverError> {
    let Some(within) = bound.iter().find(|bound| data.starts_with(bound)) else { return Ok(()) };
    let (data, within) = (data.display(), within.display());
    Err(unavailable(&format!("the data directory {data} is in {within}, which sandboxes see: use another")))
}

pub fn unavailable(message: &str) -> DriverError {
    DriverError::Unavailable { message: message.to_owned() }
}

/// The error, its cause and the last output, on one line.
pub fn describe_error(error: &DriverError) -> String {
    let mut text = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        text = format!("{text}: {cause}");
    }
    if let DriverError::Failed { output, .. } = error
        && output.len() > 1
    {
        text = format!("{text} [{}]", output.join(" | "));
    }
    text
}
