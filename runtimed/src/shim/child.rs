//! Starts the job's program: the steps between fork and exec, as the unprivileged user, and which of them
//! failed.
//!
//! The child borrows the shim's memory until it calls exec, as `vfork` and `posix_spawn` do.

#![allow(unsafe_code)]

use super::messages::{JobSpec, Stdin};
use crate::sys::{pty, signals};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sched::{CloneFlags, clone};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{self, Gid, Pid, Uid};
use std::cell::Cell;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Jobs are the kernel's first choice when memory runs out, before PID 1 and shims.
const OOM_SCORE_ADJ: &str = "500";
/// Stack for the child until exec: paths, a few numbers, one error text.
const CHILD_STACK_BYTES: usize = 64 << 10;
const EXIT_NOT_RUN: isize = 127;
/// Length of a program or directory name in an error; escaped twice it still fits into a message.
const NAME_SHOWN_MAX_BYTES: usize = 1 << 10;

pub struct Started {
    pub pid: Pid,
    /// Output to read: stdout and stderr, or the terminal.
    pub outputs: Outputs,
    /// Write end of the job's stdin.
    pub input: Option<OwnedFd>,
    /// The job's end of its terminal, held open while the leader lives: a job may close its terminal and open
    /// it again, and the master must not read that as end of file.
    pub terminal: Option<OwnedFd>,
    /// Directory that the program was started in.
    pub cwd: PathBuf,
}

pub enum Outputs {
    Pipes { stdout: OwnedFd, stderr: OwnedFd },
    Terminal(OwnedFd),
}

/// The child's ends.
struct Stdio {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    terminal: bool,
}

pub fn start(spec: &JobSpec) -> Result<Started, String> {
    let exec = Exec::prepare(spec)?;
    let (stdio, outputs, input) = if spec.tty.is_some() { terminal(spec) } else { pipes(spec) }
        .map_err(|error| format!("open input and output: {}", error.desc()))?;
    let mut failed = None;
    let pid =
        vfork(|| failed = Some(exec.run(spec, &stdio))).map_err(|error| format!("fork: {}", error.desc()))?;
    match failed {
        None => {
            let terminal = stdio.terminal.then_some(stdio.stderr);
            let cwd = spec.cwd.get(exec.entered.get()).cloned().unwrap_or_default();
            Ok(Started { pid, outputs, input, terminal, cwd })
        }
        Some((step, errno)) => {
            let _ = crate::sys::reap::wait_for(pid);
            Err(format!("{step}: {}", errno.desc()))
        }
    }
}

/// Runs `child` in a new process that borrows our memory until it has called exec or exited, while we are
/// suspended: nothing is copied, and values the child writes are visible here.
fn vfork(child: impl FnOnce()) -> nix::Result<Pid> {
    let mut child = Some(child);
    let mut stack = vec![0; CHILD_STACK_BYTES];
    let run = Box::new(|| {
        if let Some(child) = child.take() {
            child();
        }
        EXIT_NOT_RUN
    });
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: this process has one thread, and that stands still until the child has its own memory or is
    // gone; every signal is blocked, so no handler runs on the borrowed memory; the stack outlives the child's
    // use of it, and its descriptors, directory and user are its own.
    unsafe { clone(run, &mut stack, flags, Some(Signal::SIGCHLD as i32)) }
}

fn pipes(spec: &JobSpec) -> nix::Result<(Stdio, Outputs, Option<OwnedFd>)> {
    let (out_read, stdout) = unistd::pipe2(OFlag::O_CLOEXEC)?;
    let (err_read, stderr) = unistd::pipe2(OFlag::O_CLOEXEC)?;
    for pipe in [&out_read, &err_read] {
        // A larger pipe lets a busy writer run ahead; a refusal only costs speed.
        let _ = nix::fcntl::fcntl(pipe.as_fd(), nix::fcntl::FcntlArg::F_SETPIPE_SZ(super::pump::PIPE_BYTES));
    }
    let (stdin, input) = match spec.stdin {
        Stdin::Null => (no_input()?, None),
        Stdin::Pipe | Stdin::Shim => {
            let (read, write) = unistd::pipe2(OFlag::O_CLOEXEC)?;
            (read, Some(write))
        }
    };
    let stdio = Stdio { stdin, stdout, stderr, terminal: false };
    Ok((stdio, Outputs::Pipes { stdout: out_read, stderr: err_read }, input))
}

/// An empty stdin: /dev/null, or where the image has none, a pipe without a writer.
fn no_input() -> nix::Result<OwnedFd> {
    nix::fcntl::open("/dev/null", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
        .or_else(|_| unistd::pipe2(OFlag::O_CLOEXEC).map(|(read, _)| read))
}

fn terminal(spec: &JobSpec) -> nix::Result<(Stdio, Outputs, Option<OwnedFd>)> {
    let pair = pty::open(spec.tty, Uid::from_raw(spec.uid), Gid::from_raw(spec.gid))?;
    let again = |fd: &OwnedFd| fd.try_clone().map_err(|_| Errno::EMFILE);
    let input = again(&pair.master)?;
    let stdio =
        Stdio { stdin: again(&pair.slave)?, stdout: again(&pair.slave)?, stderr: pair.slave, terminal: true };
    Ok((stdio, Outputs::Terminal(pair.master), Some(input)))
}

/// Arguments of exec, built before the fork.
struct Exec {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    /// Index of the directory that was entered; written by the child, into shared memory.
    entered: Cell<usize>,
}

type Failed = (String, Errno);

impl Exec {
    fn prepare(spec: &JobSpec) -> Result<Self, String> {
        let c = |text: String| CString::new(text).map_err(|_| "a NUL byte in the command".to_owned());
        let program = spec.argv.first().ok_or("an empty command")?;
        let path = spec.env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, value)| value);
        let candidates = candidates(program, path).into_iter().map(c).collect::<Result<_, _>>()?;
        let argv = spec.argv.iter().cloned().map(c).collect::<Result<_, _>>()?;
        let env =
            spec.env.iter().map(|(name, value)| c(format!("{name}={value}"))).collect::<Result<_, _>>()?;
        Ok(Self { candidates, argv, env, entered: Cell::new(0) })
    }

    /// Runs in the child; returns only on failure.
    fn run(&self, spec: &JobSpec, stdio: &Stdio) -> Failed {
        match self.become_job(spec, stdio) {
            Err(failed) => failed,
            Ok(()) => {
                let errno = self.exec();
                (format!("run {}", quoted(&spec.argv[0])), errno)
            }
        }
    }

    fn become_job(&self, spec: &JobSpec, stdio: &Stdio) -> Result<(), Failed> {
        let step = |name: &str| {
            let name = name.to_owned();
            move |errno| (name, errno)
        };
        // Best effort, and before the user changes: afterwards /proc/self belongs to root.
        let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
        unistd::setsid().map_err(step("start a session"))?;
        if stdio.terminal {
            pty::make_controlling(stdio.stdin.as_fd()).map_err(step("take the terminal"))?;
        }
        dup_stdio(stdio).map_err(step("connect input and output"))?;
        umask(Mode::from_bits_truncate(0o022));
        let (uid, gid) = (Uid::from_raw(spec.uid), Gid::from_raw(spec.gid));
        unistd::setgroups(&[]).map_err(step("leave all groups"))?;
        unistd::setresgid(gid, gid, gid).map_err(step("change the group"))?;
        unistd::setresuid(uid, uid, uid).map_err(step("change the user"))?;
        prctl::set_no_new_privs().map_err(step("forbid new privileges"))?;
        // As the user: a directory that the user may not enter is an error.
        self.entered.set(enter(&spec.cwd)?);
        default_signals().map_err(step("reset signals"))
    }

    /// Tries each candidate as execvp does: EACCES is remembered, a missing file is not.
    fn exec(&self) -> Errno {
        let mut worst = Errno::ENOENT;
        for program in &self.candidates {
            let Err(errno) = unistd::execve(program, &self.argv, &self.env);
            if errno == Errno::EACCES {
                worst = errno;
            } else if !matches!(errno, Errno::ENOENT | Errno::ENOTDIR) {
                return errno;
            }
        }
        worst
    }
}

/// Enters the first possible directory; the error is that of the last one.
fn enter(directories: &[PathBuf]) -> Result<usize, Failed> {
    let mut failed = (String::from("enter no directory"), Errno::ENOENT);
    for (at, directory) in directories.iter().enumerate() {
        match unistd::chdir(directory) {
            Ok(()) => return Ok(at),
            Err(errno) => failed = (format!("enter {}", quoted(directory)), errno),
        }
    }
    Err(failed)
}

/// Quotes a name for a message. A long one is cut: the message must fit into a packet.
fn quoted(name: &(impl std::fmt::Debug + ?Sized)) -> String {
    let whole = format!("{name:?}");
    match whole.char_indices().map(|(at, _)| at).take_while(|at| *at <= NAME_SHOWN_MAX_BYTES).last() {
        Some(cut) if whole.len() > NAME_SHOWN_MAX_BYTES => format!("{}…", &whole[..cut]),
        _ => whole,
    }
}

/// The files that a program name may mean.
fn candidates(program: &str, path: &str) -> Vec<String> {
    if program.contains('/') {
        return vec![program.to_owned()];
    }
    path.split(':').filter(|dir| !dir.is_empty()).map(|dir| format!("{dir}/{program}")).collect()
}

/// Moves the child's ends to 0, 1 and 2; `dup2` also clears close-on-exec. Ends that are already there (a
/// shim started with a closed stderr) are moved away first.
fn dup_stdio(stdio: &Stdio) -> nix::Result<()> {
    let high = |fd: &OwnedFd| nix::fcntl::fcntl(fd.as_fd(), nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(10));
    let ends = [high(&stdio.stdin)?, high(&stdio.stdout)?, high(&stdio.stderr)?];
    for (target, end) in ends.iter().enumerate() {
        // SAFETY: plain descriptor numbers of this process; the raw call is used because 0 to 2 have no owner here.
        Errno::result(unsafe { nix::libc::dup2(*end, target as i32) })?;
    }
    Ok(())
}

/// Resets signals: a job starts with every signal at its default and none blocked. Handlers do not survive an
/// exec and PID 1 reset inherited dispositions, so only signals remain that Rust itself ignores, or would
/// have handled had they not been ignored.
fn default_signals() -> nix::Result<()> {
    for signal in [Signal::SIGPIPE, Signal::SIGSEGV, Signal::SIGBUS] {
        signals::to_default(signal)?;
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}
