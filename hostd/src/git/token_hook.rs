//! The token hook: a program of the operator that mints a token for one operation, such as one of a GitHub App.
//!
//! ```text
//!  hostd ──▶ hostd token-hook UID GID PROGRAM ──exec──▶ PROGRAM   standard input: the request, a JSON object
//!                                                                 standard output: TOKEN, or USER:TOKEN
//! ```
//!
//! The program runs as a user of its own, without privileges, with nothing of hostd's environment. The hop through
//! `hostd token-hook` drops the privileges, so that hostd itself does not fork.

use super::limits::{HOOK_MAX_MS, HOOK_OUTPUT_MAX_BYTES, HOOKS_AT_ONCE};
use hostd_core::GitRemote;
use hostd_net::keyed_locks::KeyedLocks;
use hostd_store::SecretValue;
use nix::{
    sys::{
        prctl,
        signal::{Signal, killpg},
    },
    unistd::{Gid, Pid, Uid, chdir, execve, setgroups, setresgid, setresuid},
};
use protocol::sanitize::one_line;
use serde::Serialize;
use std::{
    ffi::{CString, OsString},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    sync::Semaphore,
    time::timeout,
};
use tracing::warn;

/// The word by which `main` recognises the process that drops the privileges.
pub const SUBCOMMAND: &str = "token-hook";
const SEARCH_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// As `env` does: the program was never run.
const EXIT_NOT_RUN: i32 = 125;
/// Longest line of the program that is logged.
const LOGGED_MAX_CHARS: usize = 200;

/// The program of the operator, and the user that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHookSettings {
    pub program: PathBuf,
    pub uid: u32,
    pub gid: u32,
    /// The servers that it has tokens for: host, with the port where it is not the default one.
    pub servers: Vec<String>,
}

/// What a token is wanted for.
#[derive(Debug, Serialize)]
pub struct TokenRequest<'a> {
    pub tenant: &'a str,
    pub principal: &'a str,
    pub project: &'a str,
    pub sandbox: &'a str,
    /// Host, with the port where it is not the default one.
    pub server: &'a str,
    /// Path of the repository on the server.
    pub repository: &'a str,
    /// `fetch` or `push`.
    pub access: &'a str,
    /// The one branch that may be pushed.
    pub branch: Option<&'a str>,
}

/// Says for people why there is no token; nothing in it comes from the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the token hook of this host gave no token ({0}); its operator finds more in the log of hostd")]
pub struct NoToken(String);

pub struct TokenHook {
    settings: TokenHookSettings,
    running: Semaphore,
    /// One run at a time for each tenant, so that one cannot take all permits.
    tenants: KeyedLocks<String>,
}

impl TokenHook {
    pub fn new(settings: TokenHookSettings) -> Self {
        Self { settings, running: Semaphore::new(HOOKS_AT_ONCE), tenants: KeyedLocks::default() }
    }

    /// Whether the program may be asked for a token of this server. One without TLS is named with its port, so that no
    /// token for https goes out in clear text.
    pub fn serves(&self, remote: &GitRemote) -> bool {
        let server = remote.host_header();
        let is_named = self.settings.servers.iter().any(|named| named.eq_ignore_ascii_case(&server));
        is_named && (remote.is_secure() || server.contains(':'))
    }

    /// Runs the program once; `None` where it has no token for this. Dropping the future kills it.
    pub async fn mint(&self, request: &TokenRequest<'_>) -> Result<Option<SecretValue>, NoToken> {
        let _turn = self.tenants.lock(request.tenant.to_owned()).await;
        let _permit = self.running.acquire().await;
        let within = Duration::from_millis(HOOK_MAX_MS);
        let minted = match timeout(within, self.run(request)).await {
            Ok(minted) => minted,
            Err(_) => Err(NoToken(format!("no end within {} s", HOOK_MAX_MS / 1_000))),
        };
        minted.inspect_err(|error| {
            warn!(program = %self.settings.program.display(), server = request.server, %error, "git token hook failed");
        })
    }

    async fn run(&self, request: &TokenRequest<'_>) -> Result<Option<SecretValue>, NoToken> {
        let failed = |what: &str, why: &dyn std::fmt::Display| NoToken(format!("could not {what}: {why}"));
        let input = serde_json::to_vec(request).map_err(|error| failed("write the request", &error))?;
        let mut child = self.spawn().map_err(|error| failed("start it", &error))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(|id| KilledGroup(Pid::from_raw(id)));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that does not want the request need not read it.
                let _ = stdin.write_all(&input).await;
            }
        };
        let ((), stdout, stderr) = tokio::join!(write, read_limited(stdout), read_limited(stderr));
        let status = child.wait().await.map_err(|error| failed("wait for its end", &error))?;
        // The number of the group may be another's now.
        std::mem::forget(group);
        if let Some(line) = String::from_utf8_lossy(&stderr).lines().rfind(|line| !line.trim().is_empty()) {
            let line = one_line(line, LOGGED_MAX_CHARS);
            warn!(program = %self.settings.program.display(), line, "git token hook wrote to standard error");
        }
        token_of(status, stdout)
    }

    /// No working directory, ids or `pre_exec`: so std can start it without a fork.
    fn spawn(&self) -> std::io::Result<Child> {
        let TokenHookSettings { program, uid, gid, servers: _ } = &self.settings;
        let mut command = Command::new("/proc/self/exe");
        command.arg(SUBCOMMAND).arg(uid.to_string()).arg(gid.to_string()).arg(program);
        command.env_clear().process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    }
}

/// The processes of a hook that has not ended, killed when this is dropped.
struct KilledGroup(Pid);

impl Drop for KilledGroup {
    fn drop(&mut self) {
        // It may end at this moment.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}

/// Reads to the end or up to the limit; a program that writes more gets a broken pipe.
async fn read_limited(pipe: Option<impl AsyncReadExt + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // An error ends the output, as its end does.
        let _ = pipe.take(HOOK_OUTPUT_MAX_BYTES).read_to_end(&mut bytes).await;
    }
    bytes
}

/// Returns the token in the output of the program; no output says that it has none, and that none is needed.
fn token_of(status: ExitStatus, stdout: Vec<u8>) -> Result<Option<SecretValue>, NoToken> {
    let refuse = |why: &str| Err(NoToken(why.to_owned()));
    if !status.success() {
        return Err(NoToken(status.to_string()));
    }
    let Ok(text) = String::from_utf8(stdout) else { return refuse("its output is not text") };
    // Also clears the whole output from memory.
    let value = SecretValue::from(text);
    let token = value.as_str().trim_end_matches(['\r', '\n']);
    if token.is_empty() {
        return Ok(None);
    }
    match token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Some(SecretValue::from(token.to_owned()))),
        false => refuse("its output is not one line with a token"),
    }
}

/// The process between hostd and the program: gives up all privileges and executes it.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ! {
    let error = match exec_hook(args) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    eprintln!("hostd {SUBCOMMAND}: could not {error}");
    std::process::exit(EXIT_NOT_RUN);
}

fn exec_hook(args: impl IntoIterator<Item = OsString>) -> Result<std::convert::Infallible, String> {
    let mut args = args.into_iter();
    let mut id = || args.next()?.to_str()?.parse::<u32>().ok().filter(|id| *id != 0);
    let (Some(uid), Some(gid)) = (id(), id()) else { return Err("start: needs UID GID PROGRAM".to_owned()) };
    let program = args.next().and_then(|path| CString::new(path.as_bytes()).ok());
    let program = program.ok_or("start: needs UID GID PROGRAM")?;
    let failed = |what: &str| {
        let what = what.to_owned();
        move |errno: nix::Error| format!("{what}: {errno}")
    };
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    setgroups(&[]).map_err(failed("leave its groups"))?;
    setresgid(gid, gid, gid).map_err(failed("change its group"))?;
    // Capabilities go with the last id of root.
    setresuid(uid, uid, uid).map_err(failed("change its user"))?;
    prctl::set_no_new_privs().map_err(failed("give up new privileges"))?;
    chdir("/").map_err(failed("change its directory"))?;
    let search_path = CString::new(SEARCH_PATH).map_err(|error| error.to_string())?;
    execve(&program, &[&program], &[&search_path])
        .map_err(|errno| format!("execute {}: {errno}", program.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn a_token_is_one_line_of_a_program_that_succeeded() {
        let token = |raw, text: &[u8]| {
            let value = token_of(ExitStatus::from_raw(raw), text.to_vec());
            value.map(|value| value.map(|value| value.as_str().to_owned())).map_err(|error| error.0)
        };
        assert_eq!(token(0, b"ghs_abc\n"), Ok(Some("ghs_abc".to_owned())));
        assert_eq!(token(0, b"user:abc\r\n"), Ok(Some("user:abc".to_owned())));
        assert_eq!((token(0, b""), token(0, b"\n")), (Ok(None), Ok(None)));
        for bad in [&b"two\nlines\n"[..], b"a b\n", b"\x01"] {
            assert_eq!(token(0, bad), Err("its output is not one line with a token".to_owned()), "{bad:?}");
        }
        assert_eq!(token(0, b"\xff"), Err("its output is not text".to_owned()));
        assert_eq!(token(3 << 8, b"ghs_abc\n"), Err("exit status: 3".to_owned()));
    }
}
