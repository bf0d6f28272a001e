//! `hostd launch`: the small process that becomes an OCI runtime. hostd itself never forks: a fork would copy
//! its page tables, which may be large.
//!
//! ```text
//! hostd launch --stdio FILE [--tasks FILE]… [--hide DIR]… [--shield DIR]… [--keep DIR]… -- PROGRAM ARGUMENT…
//!   standard input   a file that hostd has locked; it stays locked until the runtime exits
//!   standard error   errors; `@report` in an argument becomes a path to it
//! ```
//!
//! Must not: start a thread, use tokio, or do anything that the death of hostd could leave half done.

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, unshare},
    unistd::{dup2_stderr, dup2_stdin, dup2_stdout, execve, setsid},
};
use std::{
    ffi::{CString, OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// As `env` does: the command was never run.
const EXIT_NOT_RUN: i32 = 125;
/// Placeholder for a path to standard error.
pub const STDERR_PATH: &str = "@report";

#[derive(Debug, Default, PartialEq, Eq)]
struct LaunchOptions {
    stdio: Option<PathBuf>,
    tasks: Vec<PathBuf>,
    hide: Vec<PathBuf>,
    shield: Vec<PathBuf>,
    /// Mounts that stay visible below a shielded directory.
    keep: Vec<PathBuf>,
    command: Vec<OsString>,
}

/// Executes the runtime, or exits with a message and code 125.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ! {
    let problem = match parse(args).and_then(|options| exec_runtime(&options)) {
        Ok(never) => match never {},
        Err(problem) => problem,
    };
    eprintln!("hostd launch: could not {problem}");
    std::process::exit(EXIT_NOT_RUN);
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<LaunchOptions, String> {
    let mut options = LaunchOptions::default();
    let mut args = args.into_iter();
    while let Some(option) = args.next() {
        if option == "--" {
            options.command = args.collect();
            break;
        }
        let value = args.next().map(PathBuf::from);
        let value = value.ok_or_else(|| format!("start: {} needs a value", option.display()))?;
        match option.to_str() {
            Some("--stdio") => options.stdio = Some(value),
            Some("--tasks") => options.tasks.push(value),
            Some("--hide") => options.hide.push(value),
            Some("--shield") => options.shield.push(value),
            Some("--keep") => options.keep.push(value),
            _ => return Err(format!("start: unknown option {}", option.display())),
        }
    }
    if options.command.is_empty() {
        return Err("start: no program is given".to_owned());
    }
    Ok(options)
}

fn exec_runtime(options: &LaunchOptions) -> Result<std::convert::Infallible, String> {
    // A session of its own: signals to hostd's terminal or process group do not reach it.
    let _ = setsid();
    let lock = dup_inherited(io::stdin().as_fd()).map_err(while_doing("keep the lock"))?;
    write_pid(lock).map_err(while_doing("write into the lock"))?;
    if !options.hide.is_empty() || !options.shield.is_empty() {
        unshare_mounts().map_err(while_doing("have mounts of its own"))?;
    }
    for dir in &options.hide {
        detach_mount(dir).map_err(while_doing(&format!("hide {}", dir.display())))?;
    }
    // Taken before the shield covers them.
    let kept = options.keep.iter().map(|dir| clone_mount(dir));
    let kept = kept.collect::<Result<Vec<_>, _>>().map_err(while_doing("find the workspace"))?;
    for dir in &options.shield {
        remount_nosuid_nodev(dir).map_err(while_doing(&format!("shield {}", dir.display())))?;
    }
    for (dir, mount) in options.keep.iter().zip(&kept) {
        attach_mount(mount.as_fd(), dir).map_err(while_doing("mount the workspace"))?;
    }
    for file in &options.tasks {
        let joined = OpenOptions::new().write(true).open(file).and_then(|mut file| file.write_all(b"0"));
        joined.map_err(|error| format!("join {}: {error}", file.display()))?;
    }
    let stderr_fd = dup_inherited(io::stderr().as_fd()).map_err(while_doing("keep standard error"))?;
    let command = runtime_command(&options.command, stderr_fd)?;
    redirect(options).map_err(|error| format!("open standard streams: {error}"))?;
    let ran = execve(
        &command[0],
        &command,
        &[c"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    );
    // Standard error belongs to PID 1 by now.
    let problem = format!("hostd launch: could not run {}: ", options.command[0].display());
    let Err(error) = ran;
    write_stderr(stderr_fd, &format!("{problem}{error}\n"));
    std::process::exit(EXIT_NOT_RUN);
}

fn while_doing(what: &str) -> impl FnOnce(Errno) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {}", error.desc())
}

/// A duplicate that survives `exec`, for the runtime alone, which closes it for PID 1.
fn dup_inherited(fd: BorrowedFd<'_>) -> Result<RawFd, Errno> {
    fcntl(fd, FcntlArg::F_DUPFD(3))
}

/// Writes our pid into the lock file, so that the holder of the lock is known.
fn write_pid(lock: RawFd) -> Result<(), Errno> {
    let text = format!("{}\n", std::process::id());
    with_fd(lock, |lock| {
        nix::unistd::ftruncate(lock, 0)?;
        nix::unistd::write(lock, text.as_bytes()).map(drop)
    })
}

fn write_stderr(stderr_fd: RawFd, text: &str) {
    let _ = with_fd(stderr_fd, |stderr_fd| nix::unistd::write(stderr_fd, text.as_bytes()));
}

#[allow(unsafe_code)]
fn with_fd<T>(fd: RawFd, act: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    // SAFETY: `dup_inherited` made this descriptor, and nothing in this process closes it.
    act(unsafe { BorrowedFd::borrow_raw(fd) })
}

const NONE: Option<&str> = None;

/// Unshares the mount namespace: mounts made here do not reach the host; mounts made on the host still
/// propagate here.
fn unshare_mounts() -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE)
}

/// Detaches a mount.
fn detach_mount(dir: &Path) -> Result<(), Errno> {
    match umount2(dir, MntFlags::MNT_DETACH) {
        // Not mounted: nothing to hide.
        Err(Errno::EINVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Bind-mounts a directory onto itself without set-id programs and devices, for every mount made from it.
fn remount_nosuid_nodev(dir: &Path) -> Result<(), Errno> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some(dir), dir, NONE, MsFlags::MS_BIND, NONE)?;
    mount(NONE, dir, NONE, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags, NONE)
}

/// A copy of a mount, attached nowhere, with its flags.
#[allow(unsafe_code)]
fn clone_mount(dir: &Path) -> Result<OwnedFd, Errno> {
    let path = CString::new(dir.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC;
    // SAFETY: the path is a C string that lives until the call returns.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    let fd = RawFd::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel returned a new descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[allow(unsafe_code)]
fn attach_mount(mount: BorrowedFd<'_>, dir: &Path) -> Result<(), Errno> {
    let to = CString::new(dir.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let (from, flags) = (mount.as_raw_fd(), libc::MOVE_MOUNT_F_EMPTY_PATH);
    // SAFETY: both paths are C strings that live until the call returns.
    let done = unsafe {
        libc::syscall(libc::SYS_move_mount, from, c"".as_ptr(), libc::AT_FDCWD, to.as_ptr(), flags)
    };
    Errno::result(done).map(drop)
}

fn runtime_command(args: &[OsString], stderr_fd: RawFd) -> Result<Vec<CString>, String> {
    let stderr_path = format!("/proc/self/fd/{stderr_fd}");
    let text =
        |arg: &OsString| if arg == STDERR_PATH { OsStr::new(&stderr_path).to_owned() } else { arg.clone() };
    let c_string = |arg: &OsString| CString::new(text(arg).as_bytes());
    args.iter()
        .map(c_string)
        .collect::<Result<_, _>>()
        .map_err(|_| "start: a zero byte in an argument".to_owned())
}

/// Redirects the standard streams for PID 1: no input, output to a file.
fn redirect(options: &LaunchOptions) -> io::Result<()> {
    let null = File::open("/dev/null")?;
    debug_assert!(null.as_raw_fd() > 2, "the standard streams are open");
    dup2_stdin(&null)?;
    if let Some(path) = &options.stdio {
        let flags = libc::O_NOFOLLOW | OFlag::O_CLOEXEC.bits();
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
        file.set_len(0)?;
        dup2_stdout(&file)?;
        dup2_stderr(&file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let options =
            parse(args("--stdio /o --tasks /a --tasks /b --hide /u --shield /d --keep /k -- crun --root /r"))
                .expect("good");
        let expected = LaunchOptions {
            stdio: Some("/o".into()),
            tasks: vec!["/a".into(), "/b".into()],
            hide: vec!["/u".into()],
            shield: vec!["/d".into()],
            keep: vec!["/k".into()],
            command: args("crun --root /r"),
        };
        assert_eq!(options, expected);
        for bad in ["", "--stdio", "--stdio /o", "--color red -- crun", "--"] {
            assert!(parse(args(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_path_of_standard_error_is_substituted() {
        let command = runtime_command(&args("crun --log @report run"), 7).expect("no zero bytes");
        assert_eq!(command[2].as_bytes(), b"/proc/self/fd/7");
    }
}
