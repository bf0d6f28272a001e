//! `hostd launch`: the small process that becomes an OCI runtime. hostd itself never forks: its memory
//! may be large, and a fork would copy the map of it.
//!
//! ```text
//! hostd launch --stdio FILE [--tasks FILE]… [--hide DIR]… [--shield DIR]… -- PROGRAM ARGUMENT…
//!   standard input   a file that hostd has locked: it stays locked until the runtime is done
//!   standard error   where complaints go; `@report` in an argument becomes a path to it
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
        fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

/// As `env` and the like: the command was never run.
const EXIT_NOT_RUN: i32 = 125;
/// In place of a path to where complaints go.
pub const REPORT: &str = "@report";

#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    stdio: Option<PathBuf>,
    tasks: Vec<PathBuf>,
    hide: Vec<PathBuf>,
    shield: Vec<PathBuf>,
    command: Vec<OsString>,
}

/// Ends in the runtime, or with a complaint and exit code 125.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ! {
    let problem = match parse(args).and_then(|wanted| become_runtime(&wanted)) {
        Ok(never) => match never {},
        Err(problem) => problem,
    };
    eprintln!("hostd launch: could not {problem}");
    std::process::exit(EXIT_NOT_RUN);
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut args = args.into_iter();
    while let Some(option) = args.next() {
        if option == "--" {
            wanted.command = args.collect();
            break;
        }
        let value = args.next().map(PathBuf::from);
        let value = value.ok_or_else(|| format!("start: {} needs a value", option.display()))?;
        match option.to_str() {
            Some("--stdio") => wanted.stdio = Some(value),
            Some("--tasks") => wanted.tasks.push(value),
            Some("--hide") => wanted.hide.push(value),
            Some("--shield") => wanted.shield.push(value),
            _ => return Err(format!("start: there is no option {}", option.display())),
        }
    }
    if wanted.command.is_empty() {
        return Err("start: no program is given".to_owned());
    }
    Ok(wanted)
}

fn become_runtime(wanted: &Wanted) -> Result<std::convert::Infallible, String> {
    // Its own session: what is sent to hostd's terminal or group is not for it.
    let _ = setsid();
    let lock = keep(io::stdin().as_fd()).map_err(at("keep the lock"))?;
    note_pid(lock).map_err(at("write into the lock"))?;
    if !wanted.hide.is_empty() || !wanted.shield.is_empty() {
        own_mounts().map_err(at("have mounts of its own"))?;
    }
    for dir in &wanted.hide {
        hide(dir).map_err(at(&format!("hide {}", dir.display())))?;
    }
    for dir in &wanted.shield {
        shield(dir).map_err(at(&format!("shield {}", dir.display())))?;
    }
    for file in &wanted.tasks {
        let joined = OpenOptions::new().write(true).open(file).and_then(|mut file| file.write_all(b"0"));
        joined.map_err(|error| format!("join {}: {error}", file.display()))?;
    }
    let report = keep(io::stderr().as_fd()).map_err(at("keep standard error"))?;
    let command = command(&wanted.command, report)?;
    redirect(wanted).map_err(|error| format!("open standard streams: {error}"))?;
    let ran = execve(
        &command[0],
        &command,
        &[c"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    );
    // Standard error is PID 1's by now.
    let problem = format!("hostd launch: could not run {}: ", wanted.command[0].display());
    let Err(error) = ran;
    complain(report, &format!("{problem}{error}\n"));
    std::process::exit(EXIT_NOT_RUN);
}

fn at(what: &str) -> impl FnOnce(Errno) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {}", error.desc())
}

/// A copy that is still there after `exec`; it is for the runtime alone, which closes it for PID 1.
fn keep(fd: BorrowedFd<'_>) -> Result<RawFd, Errno> {
    fcntl(fd, FcntlArg::F_DUPFD(3))
}

/// Whoever finds the lock held can tell who holds it.
fn note_pid(lock: RawFd) -> Result<(), Errno> {
    let text = format!("{}\n", std::process::id());
    with(lock, |lock| {
        nix::unistd::ftruncate(lock, 0)?;
        nix::unistd::write(lock, text.as_bytes()).map(drop)
    })
}

fn complain(report: RawFd, text: &str) {
    let _ = with(report, |report| nix::unistd::write(report, text.as_bytes()));
}

#[allow(unsafe_code)]
fn with<T>(fd: RawFd, act: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
    // SAFETY: `keep` made this descriptor, and nothing in this process closes it.
    act(unsafe { BorrowedFd::borrow_raw(fd) })
}

const NONE: Option<&str> = None;

/// Nothing that happens from here on reaches the host's mounts; what the host mounts still comes here.
fn own_mounts() -> Result<(), Errno> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE)
}

/// Takes a mount away.
fn hide(dir: &Path) -> Result<(), Errno> {
    match umount2(dir, MntFlags::MNT_DETACH) {
        // Not mounted: nothing to hide.
        Err(Errno::EINVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}

/// No program in it has a set-id bit and no file in it is a device, for every mount made from it.
fn shield(dir: &Path) -> Result<(), Errno> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some(dir), dir, NONE, MsFlags::MS_BIND, NONE)?;
    mount(NONE, dir, NONE, MsFlags::MS_BIND | MsFlags::MS_REMOUNT | flags, NONE)
}

fn command(words: &[OsString], report: RawFd) -> Result<Vec<CString>, String> {
    let report = format!("/proc/self/fd/{report}");
    let text = |word: &OsString| if word == REPORT { OsStr::new(&report).to_owned() } else { word.clone() };
    let c_string = |word: &OsString| CString::new(text(word).as_bytes());
    words
        .iter()
        .map(c_string)
        .collect::<Result<_, _>>()
        .map_err(|_| "start: a zero byte in an argument".to_owned())
}

/// Standard streams become those of PID 1: no input, and a file.
fn redirect(wanted: &Wanted) -> io::Result<()> {
    let null = File::open("/dev/null")?;
    debug_assert!(null.as_raw_fd() > 2, "the standard streams are open");
    dup2_stdin(&null)?;
    if let Some(path) = &wanted.stdio {
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

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let wanted = parse(words("--stdio /o --tasks /a --tasks /b --hide /u --shield /d -- crun --root /r"))
            .expect("good");
        let expected = Wanted {
            stdio: Some("/o".into()),
            tasks: vec!["/a".into(), "/b".into()],
            hide: vec!["/u".into()],
            shield: vec!["/d".into()],
            command: words("crun --root /r"),
        };
        assert_eq!(wanted, expected);
        for bad in ["", "--stdio", "--stdio /o", "--color red -- crun", "--"] {
            assert!(parse(words(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_place_for_complaints_is_put_in() {
        let command = command(&words("crun --log @report run"), 7).expect("no zero bytes");
        assert_eq!(command[2].as_bytes(), b"/proc/self/fd/7");
    }
}
