//! Starts hostd as a detached process where it is not running, and waits until it serves.

use crate::{
    client::{ApiRequest, Client, ClientError},
    context::Context,
    failure::Failure,
    limits,
    progress::Progress,
};
use protocol::api::ApiErrorCode;
use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::{fs::OpenOptionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tokio::time::{Instant, sleep};

/// Makes sure that hostd serves; returns whether it had to be started.
pub async fn ensure_serving(context: &Context) -> Result<bool, Failure> {
    match ready(&context.client).await {
        Ok(()) => return Ok(false),
        // hostd is starting or stopping: wait until it serves.
        Err(error) if error.is_transient() => {}
        Err(error) => return Err(error.into()),
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::new("hostd is not running, and only root can start it").hint("sudo slipway up"));
    }
    let program = find_program("hostd").ok_or_else(|| {
        Failure::new("hostd is not running, and no hostd was found beside slipway or on PATH")
            .hint("install hostd beside slipway, or start it manually")
    })?;
    let log = context.data_dir.join("hostd.log");
    let mut child = spawn(&program, &context.data_dir, &log)
        .map_err(|error| Failure::io(format!("start {}", program.display()), error))?;
    let _progress = Progress::start(context.output, "starting hostd");
    wait(&context.client, &mut child, &log).await?;
    Ok(true)
}

/// Checks that hostd serves. A full disk counts as serving: hostd refuses single requests itself.
async fn ready(client: &Client) -> Result<(), ClientError> {
    match client.send(ApiRequest::get("/readyz")).await {
        Err(error) if error.is(ApiErrorCode::DiskFull) => Ok(()),
        answer => answer.map(drop),
    }
}

/// Spawns hostd in its own process group, which protects it from our Ctrl-C, with its output in the log.
fn spawn(program: &Path, data_dir: &Path, log: &Path) -> io::Result<Child> {
    std::fs::create_dir_all(data_dir)?;
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(log)?;
    Command::new(program)
        .current_dir("/")
        .env("SLIPWAY_DATA_DIR", data_dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
}

async fn wait(client: &Client, child: &mut Child, log: &Path) -> Result<(), Failure> {
    let deadline = Instant::now() + limits::HOSTD_START_TIMEOUT;
    let mut ended = None;
    loop {
        let error = match ready(client).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // Another hostd may have started first: then ours exits, and that one will serve.
        if let (Some(status), ClientError::NotServing { .. }) = (&ended, &error) {
            return Err(not_started(&format!("hostd exited: {status}"), log));
        }
        if !error.is_transient() {
            return Err(error.into());
        }
        if Instant::now() > deadline {
            return Err(not_started(
                &format!("hostd was not ready within {} s: {error}", limits::HOSTD_START_TIMEOUT.as_secs()),
                log,
            ));
        }
        ended = child.try_wait().ok().flatten();
        sleep(limits::HOSTD_POLL).await;
    }
}

fn not_started(what: &str, log: &Path) -> Failure {
    let mut message = what.to_owned();
    for line in last_lines(log) {
        message.push_str(&format!("\n  | {}", crate::text::plain(&line)));
    }
    Failure::new(message)
        .hint(format!("run `slipway doctor` to see what is missing; the log is {}", log.display()))
}

fn last_lines(log: &Path) -> Vec<String> {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(limits::HOSTD_LOG_READ_BYTES)))?;
        let mut tail = Vec::new();
        file.take(limits::HOSTD_LOG_READ_BYTES).read_to_end(&mut tail)?;
        Ok(tail)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(limits::HOSTD_LOG_LINES);
    lines[from..].iter().map(|line| (*line).to_owned()).collect()
}

/// Finds a program beside ours, on PATH, or in the sbin directories.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let directories = beside.into_iter().chain(std::env::split_paths(&path)).chain(more);
    directories.map(|address| address.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.is_file() && nix::unistd::access(file, nix::unistd::AccessFlags::X_OK).is_ok()
}
