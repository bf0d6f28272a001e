//! The process of one verb on files: `runtimed files`, with the socket to its caller as standard input. It becomes the
//! sandbox's user before it reads a byte, performs one request, and exits.
//!
//! Must not: start another process. PID 1 ends it by ending this one.

use crate::sys::inherited_fds;
use files::{FilesError, Workspace, frames::FramedExchange, perform};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};
use nix::unistd::{self, Gid, Uid};
use protocol::files::{FilesRequest, FilesTop};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

/// These processes are the kernel's choice before PID 1 when memory runs out, as jobs are.
const OOM_SCORE_ADJ: &str = "500";
const CALLER_FD: i32 = 0;
const EXIT_USAGE: u8 = 64;
const EXIT_FAILED: u8 = 70;

/// Which verbs a process performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerbSort {
    /// A watch lasts as long as its caller and keeps no sandbox awake.
    Watch,
    Other,
}

impl VerbSort {
    fn of(request: &FilesRequest) -> Self {
        if matches!(request, FilesRequest::Watch { .. }) { Self::Watch } else { Self::Other }
    }
}

/// Which verb a process performs, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbPlace {
    pub sort: VerbSort,
    pub top: FilesTop,
}

/// The argument of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRequest {
    pub place: VerbPlace,
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
}

pub fn main(request: Option<&str>) -> ExitCode {
    let Some(request) = request.and_then(|text| serde_json::from_str::<ProcessRequest>(text).ok()) else {
        eprintln!("runtimed: files takes a request as JSON");
        return ExitCode::from(EXIT_USAGE);
    };
    match become_user(&request).and_then(|caller| serve(caller, &request)) {
        Ok(()) => ExitCode::SUCCESS,
        // The caller is told by the end of the connection.
        Err(_) => ExitCode::from(EXIT_FAILED),
    }
}

/// Takes the steps that a shim takes before it executes a job, and returns the socket.
fn become_user(request: &ProcessRequest) -> io::Result<UnixStream> {
    let caller = inherited_fds::take(CALLER_FD).ok_or_else(|| io::Error::other("there is no caller"))?;
    // Best effort, and before the user changes: afterwards /proc/self belongs to root.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJ);
    unistd::setsid()?;
    close_output()?;
    umask(Mode::from_bits_truncate(0o022));
    let (uid, gid) = (Uid::from_raw(request.uid), Gid::from_raw(request.gid));
    unistd::setgroups(&[])?;
    unistd::setresgid(gid, gid, gid)?;
    unistd::setresuid(uid, uid, uid)?;
    prctl::set_no_new_privs()?;
    // Other processes of the user may neither trace this one nor take its descriptors.
    prctl::set_dumpable(false)?;
    // Where runtimed is not PID 1, its death ends no other process. The kernel forgets it with the change of user.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let _ = prctl::set_name(c"runtimed-files");
    Ok(UnixStream::from(caller))
}

/// Replaces the output of PID 1, which is inherited, by a pipe that no process reads.
fn close_output() -> io::Result<()> {
    let (_, pipe) = unistd::pipe()?;
    unistd::dup2_stdout(&pipe)?;
    unistd::dup2_stderr(&pipe)?;
    Ok(())
}

/// Opened as the user: beneath the root it reaches what any program of the sandbox does, and no more.
fn open_top(process: &ProcessRequest) -> io::Result<Workspace> {
    Ok(match process.place.top {
        FilesTop::Workspace => Workspace::new(File::open(&process.home)?.into()),
        FilesTop::Root => Workspace::root(File::open("/")?.into()),
    })
}

fn serve(caller: UnixStream, process: &ProcessRequest) -> io::Result<()> {
    let mut exchange = FramedExchange::new(caller)?;
    let request = match exchange.request() {
        Ok(request) => request,
        Err(error) => return exchange.finish(Err(FilesError::invalid(error.to_string()))),
    };
    let done = if VerbSort::of(&request) == process.place.sort {
        perform(&open_top(process)?, &mut exchange, &request)
    } else {
        Err(FilesError::invalid("a watch is asked for with watch=1, and nothing else is"))
    };
    exchange.finish(done)
}
