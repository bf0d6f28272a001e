//! Moves bytes between git in a sandbox and git on an SSH server. The commands of a push are checked before the server
//! gets any of them.

use super::{
    super::{
        bodies::Transfer,
        failure::GitFailure,
        grants::GitAccess,
        limits::{SSH_READ_BYTES, SSH_STDERR_MAX_BYTES},
    },
    client::SshSession,
};
use bytes::{Bytes, BytesMut};
use hostd_core::{
    AdvertisedBranch, GitRemote, PUSH_COMMANDS_MAX_BYTES, PushCommands, check_push_commands, pushed_commit,
};
use hostd_edge::egress::Direction;
use protocol::sanitize::one_line;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, client::Msg};
use std::sync::OnceLock;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::tcp::{OwnedReadHalf, OwnedWriteHalf},
};

/// The stream of a channel that is the error output.
const STDERR: u32 = 1;
/// Longest part of a message that a server wrote.
const SAID_MAX_CHARS: usize = 300;

/// Relays until the server has ended, or git has.
pub async fn relay(
    session: SshSession,
    (reader, writer): (&mut OwnedReadHalf, &mut OwnedWriteHalf),
    transfer: &Transfer,
) -> Result<(), GitFailure> {
    let SshSession { channel, held } = session;
    let (mut from_server, to_server) = channel.split();
    let (mut ended, pushed) = (ServerEnd::default(), OnceLock::new());
    let relayed = tokio::select! {
        // Both only move bytes; what is lost with one belongs to a connection that has ended.
        relayed = download(&mut from_server, (writer, &pushed), transfer, &mut ended) => relayed,
        Err(failure) = upload(reader, &to_server, transfer, &pushed) => Err(failure),
    };
    drop(held);
    relayed?;
    ended.result(&transfer.grant.remote)?;
    // git sees the end of the connection in any case.
    let _ = writer.shutdown().await;
    Ok(())
}

/// Sends what git says. Its end is passed on; then the server ends. `pushed` becomes the commit of a push.
async fn upload(
    reader: &mut OwnedReadHalf,
    to_server: &ChannelWriteHalf<Msg>,
    transfer: &Transfer,
    pushed: &OnceLock<String>,
) -> Result<(), GitFailure> {
    let mut commands = match &transfer.grant.access {
        GitAccess::Fetch => None,
        GitAccess::Push { branch } => Some((branch, BytesMut::new())),
    };
    loop {
        let mut read = BytesMut::with_capacity(SSH_READ_BYTES);
        // A read that failed is an end, too: git is gone.
        let length = reader.read_buf(&mut read).await.unwrap_or(0);
        if length == 0 {
            let _ = to_server.eof().await;
            return Ok(());
        }
        transfer.count(Direction::Up, length)?;
        let data = match &mut commands {
            None => read.freeze(),
            Some((branch, waiting)) => {
                waiting.extend_from_slice(&read);
                match check_push_commands(&waiting[..waiting.len().min(PUSH_COMMANDS_MAX_BYTES)], branch)? {
                    PushCommands::Incomplete => continue,
                    PushCommands::Allowed => {
                        let data = std::mem::take(waiting).freeze();
                        if let Some(commit) = pushed_commit(&data) {
                            // Set once: these are the only commands.
                            let _ = pushed.set(commit);
                        }
                        commands = None;
                        data
                    }
                }
            }
        };
        if to_server.data_bytes(data).await.is_err() {
            // The server has ended; the other direction tells how.
            return Ok(());
        }
    }
}

/// Forwards what the server says, and notes how it ends.
#[expect(clippy::wildcard_enum_match_arm, reason = "most messages have no meaning for this client")]
async fn download(
    from_server: &mut ChannelReadHalf,
    (writer, pushed): (&mut OwnedWriteHalf, &OnceLock<String>),
    transfer: &Transfer,
    ended: &mut ServerEnd,
) -> Result<(), GitFailure> {
    let mut branch = match &transfer.grant.access {
        GitAccess::Push { branch } => Some(AdvertisedBranch::new(branch)),
        GitAccess::Fetch => None,
    };
    while let Some(message) = from_server.wait().await {
        match message {
            ChannelMsg::Data { data } => {
                transfer.count(Direction::Down, data.len())?;
                if let Some(commit) = branch.as_mut().and_then(|branch| branch.feed(&data)) {
                    transfer.grant.note_on_server(commit.to_owned());
                    branch = None;
                }
                // Before git hears of it: a server that answers to the commands has got them.
                if let Some(commit) = pushed.get() {
                    transfer.grant.note_on_server(commit.clone());
                }
                ended.is_begun = true;
                if writer.write_all(&data).await.is_err() {
                    // git is gone.
                    ended.is_complete = true;
                    return Ok(());
                }
            }
            ChannelMsg::ExtendedData { data, ext } => {
                transfer.count(Direction::Down, data.len())?;
                if ext == STDERR {
                    ended.add_stderr(&data);
                }
            }
            ChannelMsg::Failure => {
                ended.is_refused = true;
                break;
            }
            ChannelMsg::ExitStatus { exit_status } => ended.status = Some(exit_status),
            ChannelMsg::Eof => ended.is_complete = true,
            ChannelMsg::Close => {
                ended.is_complete = true;
                break;
            }
            _ => {}
        }
    }
    Ok(())
}

/// How git on a server ended.
#[derive(Debug, Default)]
struct ServerEnd {
    /// The server said something to git.
    is_begun: bool,
    /// The server closed the session, and not the connection broke off.
    is_complete: bool,
    /// The server does not run the command.
    is_refused: bool,
    status: Option<u32>,
    /// The end of its error output.
    stderr: Vec<u8>,
}

impl ServerEnd {
    fn add_stderr(&mut self, data: &Bytes) {
        self.stderr.extend_from_slice(data);
        let surplus = self.stderr.len().saturating_sub(SSH_STDERR_MAX_BYTES);
        self.stderr.drain(..surplus);
    }

    /// Returns why the server did nothing for git. What went wrong after it began, git itself says.
    fn result(&self, remote: &GitRemote) -> Result<(), GitFailure> {
        let server = remote.host_header();
        if self.is_begun {
            let broken = || GitFailure::Unreachable(format!("the connection to {server} broke off"));
            return if self.is_complete { Ok(()) } else { Err(broken()) };
        }
        let text = String::from_utf8_lossy(&self.stderr);
        let said = |wanted: &[&str]| wanted.iter().any(|part| text.to_ascii_lowercase().contains(part));
        let last = text.lines().map(|line| one_line(line, SAID_MAX_CHARS)).rfind(|line| !line.is_empty());
        if said(&["not found", "does not appear to be a git repository", "does not exist", "no such"]) {
            return Err(GitFailure::NotFound { remote: remote.to_string() });
        }
        if said(&["denied", "read only", "read-only", "not allowed", "not authorized", "unauthorized"]) {
            return Err(GitFailure::AuthFailed {
                server,
                why: last.unwrap_or_default(),
                remedy: format!("check what the key of the secret may do at {remote}"),
            });
        }
        let why = match (last, self.is_refused, self.status) {
            (Some(last), _, _) => format!("{server} says: {last}"),
            (None, true, _) => format!("{server} does not run git for this key"),
            (None, false, Some(status)) => format!("git on {server} ended with the status {status}"),
            (None, false, None) => format!("the connection to {server} broke off"),
        };
        Err(GitFailure::Unreachable(why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(stderr: &str, status: Option<u32>) -> ServerEnd {
        let mut ended = ServerEnd { status, is_complete: true, ..ServerEnd::default() };
        ended.add_stderr(&Bytes::copy_from_slice(stderr.as_bytes()));
        ended
    }

    #[test]
    fn a_server_that_does_nothing_says_why() {
        let remote = GitRemote::parse("git@host:o/r.git").expect("good");
        for (stderr, status, expected) in [
            ("ERROR: Repository not found.\n", 1, "there is no repository git@host:o/r.git"),
            ("fatal: 'x' does not appear to be a git repository\nfatal: …\n", 128, "there is no repository"),
            (
                "ERROR: The key has been marked as read only.\n",
                1,
                "host refused the credential (ERROR: The key",
            ),
            ("ERROR: Permission to o/r denied to x\n\n", 1, "host refused the credential"),
            ("first\n\u{1b}[31mlast\n\n", 1, "host says: last"),
            ("", 3, "git on host ended with the status 3"),
        ] {
            let failure = ended(stderr, Some(status)).result(&remote).expect_err(stderr).to_string();
            assert!(failure.starts_with(expected), "{failure}");
        }
        let refused = ServerEnd { is_refused: true, ..ServerEnd::default() }.result(&remote);
        assert_eq!(refused.expect_err("refused").to_string(), "host does not run git for this key");
    }

    #[test]
    fn a_server_that_began_is_judged_by_git_unless_it_broke_off() {
        let remote = GitRemote::parse("git@host:o/r.git").expect("good");
        let begun = |is_complete| ServerEnd { is_begun: true, is_complete, ..ended("denied", Some(1)) };
        assert_eq!(begun(true).result(&remote), Ok(()));
        assert!(begun(false).result(&remote).is_err());
    }

    #[test]
    fn only_the_end_of_the_error_output_is_kept() {
        let mut ended = ended(&"x".repeat(SSH_STDERR_MAX_BYTES), None);
        ended.add_stderr(&Bytes::from_static(b"end"));
        assert!(ended.stderr.len() == SSH_STDERR_MAX_BYTES && ended.stderr.ends_with(b"xend"));
    }
}
