//! `hostd launch`: the small process that becomes an OCI runtime. hostd itself never forks: a fork would copy
//! its page tables, which may be large.
//!
//! ```text
//! hostd launch --stdio FILE [--tasks FILE]… [--hide DIR]… [--shield DIR]… [--keep DIR]…
//!              [--merge-at DIR [--layer DIR]… [--ids FIRST]] -- PROGRAM ARGUMENT…
//!   --merge-at       where the layers of the image, topmost first, are mounted as one tree
//!   --ids            the first id of the sandbox on the host: files of layers belong to its users
//!   standard input   a file that hostd has locked; it stays locked until the runtime exits
//!   standard error   errors; `@report` in an argument becomes a path to it
//! ```
//!
//! Must not: start a thread, use tokio, or do anything that the death of hostd could leave half done.

use crate::local::{limits::UID_RANGE, user_namespace};
use hostd_images::{
    LayerStack,
    mount_calls::{attach_mount, clone_mount},
    unshare_mounts,
};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    libc,
    mount::{MntFlags, MsFlags, mount, umount2},
    unistd::{dup2_stderr, dup2_stdin, dup2_stdout, execve, setsid},
};
use std::{
    ffi::{CString, OsStr, OsString},
    fs::{File, OpenOptions},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
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
    /// Where the layers of an image become one tree, which lasts as long as the mount namespace.
    merge_at: Option<PathBuf>,
    /// Topmost first.
    layers: Vec<PathBuf>,
    /// The first id of the sandbox on the host, where layers are mounted with its ids.
    ids: Option<u32>,
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
            Some("--merge-at") => options.merge_at = Some(value),
            Some("--layer") => options.layers.push(value),
            Some("--ids") => options.ids = Some(parse_id(&value)?),
            _ => return Err(format!("start: unknown option {}", option.display())),
        }
    }
    if options.command.is_empty() {
        return Err("start: no program is given".to_owned());
    }
    Ok(options)
}

fn parse_id(value: &Path) -> Result<u32, String> {
    let id = value.to_str().and_then(|text| text.parse().ok());
    id.ok_or_else(|| format!("start: {} is not an id", value.display()))
}

fn exec_runtime(options: &LaunchOptions) -> Result<std::convert::Infallible, String> {
    // A session of its own: signals to hostd's terminal or process group do not reach it.
    let _ = setsid();
    let lock = dup_inherited(io::stdin().as_fd()).map_err(while_doing("keep the lock"))?;
    write_pid(lock).map_err(while_doing("write into the lock"))?;
    if !options.hide.is_empty() || !options.shield.is_empty() || options.merge_at.is_some() {
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
    if let Some(at) = &options.merge_at {
        merge_layers(options, at)?;
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

/// Mounts the layers of the image as one tree.
fn merge_layers(options: &LaunchOptions, at: &Path) -> Result<(), String> {
    let namespace = options.ids.map(|first| user_namespace::with_ids(first, UID_RANGE)).transpose();
    let namespace = namespace.map_err(|error| format!("make a user namespace for the image: {error}"))?;
    let stack = LayerStack { layers: options.layers.clone() };
    let mounted = stack.mount(at, namespace.as_ref().map(AsFd::as_fd));
    mounted.map(drop).map_err(while_doing("mount the layers of the image"))
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
        let options = parse(args(
            "--stdio /o --tasks /a --tasks /b --hide /u --shield /d --keep /k --merge-at /m --layer /1 \
                        --layer /2 --ids 70000 -- crun --root /r",
        ))
        .expect("good");
        let expected = LaunchOptions {
            stdio: Some("/o".into()),
            tasks: vec!["/a".into(), "/b".into()],
            hide: vec!["/u".into()],
            shield: vec!["/d".into()],
            keep: vec!["/k".into()],
            merge_at: Some("/m".into()),
            layers: vec!["/1".into(), "/2".into()],
            ids: Some(70_000),
            command: args("crun --root /r"),
        };
        assert_eq!(options, expected);
        for bad in ["", "--stdio", "--stdio /o", "--color red -- crun", "--ids -1 -- crun", "--"] {
            assert!(parse(args(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_path_of_standard_error_is_substituted() {
        let command = runtime_command(&args("crun --log @report run"), 7).expect("no zero bytes");
        assert_eq!(command[2].as_bytes(), b"/proc/self/fd/7");
    }
}
