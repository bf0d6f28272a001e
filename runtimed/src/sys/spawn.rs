//! Starts shims and verbs on files: this same binary, with one descriptor and an empty environment.

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The running binary, also where its file was replaced.
const SELF: &str = "/proc/self/exe";

/// Starts a shim with its end of the control socket. The child is reaped by the sweep, never by the handle
/// that is dropped here.
pub fn shim(control: OwnedFd) -> io::Result<Pid> {
    start(&["shim"], control)
}

/// Starts a verb on files with the socket to its caller. `request` says whose files, and which verbs.
pub fn files(request: &str, caller: OwnedFd) -> io::Result<Pid> {
    start(&["files", request], caller)
}

fn start(arguments: &[&str], stdin: OwnedFd) -> io::Result<Pid> {
    let mut command = Command::new(SELF);
    command.arg0("runtimed").args(arguments).env_clear();
    // Stdout and stderr are inherited, though unused: an image need not have a /dev/null.
    let child = command.stdin(Stdio::from(stdin)).spawn().map_err(explain)?;
    Ok(Pid::from_raw(child.id() as i32))
}

fn explain(error: io::Error) -> io::Error {
    if Path::new(SELF).exists() {
        return error;
    }
    io::Error::other("/proc is not mounted, and nothing can be started or ended without it")
}

/// A file in memory, to pass to another process.
pub fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create(c"job", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}
