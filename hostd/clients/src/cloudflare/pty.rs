//! Terminals, as WebSockets: binary messages are input and output, text ones are control messages.
//!
//! ```text
//!  API ── output of the exec ──▶ binary; {"type": "ready" | "exit" | "error"} ──▶ client
//!  API ◀── stdin, resize ─────── binary; {"type": "resize"} ◀──────────────────── client
//! ```
//!
//! The terminal of a session outlives its client: the next one with the same session gets all of its output, from the
//! beginning. Any other terminal ends with its client.

use super::{
    BridgeResult, SandboxCall,
    error::{BridgeCode, BridgeError},
    exec, limits,
};
use crate::{
    ApiClient, ApiFailure,
    command_stream::{CommandEvent, CommandStream, ExitStatus},
    percent,
    shell_session::SessionName,
};
use axum::body::Body;
use bytes::Bytes;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use hostd_net::websocket::{self, Goodbye, SocketSizes};
use hyper::{
    Method, StatusCode,
    http::request::Parts,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use protocol::{
    CancelRequest, ExecId, Exit, TtySize,
    api::{ExecAnswer, ExecCreate, Page, TtyChoice},
};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::time::{interval, timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Error as WsError, Message, protocol::frame::coding::CloseCode},
};

/// The protocol has no name for itself.
const SUBPROTOCOL: &str = "cloudflare.pty";
/// Takes bash where the image has it.
const DEFAULT_SHELL: &str = "if command -v bash >/dev/null; then exec bash; fi; exec sh";
const DEFAULT_SIZE: TtySize = TtySize { cols: 80, rows: 24 };

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ControlMessage {
    Resize { cols: u16, rows: u16 },
}

/// Why the connection of a client ends.
enum PtyEnd {
    /// The shell ended, and the client was told.
    Exited,
    /// The client left, or its connection broke.
    ClientLeft,
    /// The client sent what this protocol does not have.
    Invalid(String),
    /// A call of the API failed.
    Failed(ApiFailure),
    ShuttingDown,
}

struct Terminal {
    api: ApiClient,
    /// The path of the exec in the API.
    path: String,
    /// Whether it outlives its client.
    kept: bool,
}

pub async fn attach(call: SandboxCall<'_>, mut parts: Parts) -> BridgeResult {
    let response = websocket::handshake(&parts.headers, SUBPROTOCOL)
        .map_err(|error| BridgeError::invalid(error.to_string()))?;
    let no_upgrade = || BridgeError::invalid("this connection cannot become a WebSocket");
    let upgrade = parts.extensions.remove::<OnUpgrade>().ok_or_else(no_upgrade)?;
    let query = parts.uri.query();
    let session = percent::value(query, "session").map(|name| SessionName::parse(&name)).transpose();
    let session = session.map_err(|error| BridgeError::invalid(error.to_string()))?;
    let output = open(&call, query, session.as_ref()).await?;
    let path = call.path(&format!("/execs/{}", output.exec()));
    let terminal = Terminal { api: call.api.clone(), path, kept: session.is_some() };
    let closing = call.clients.parts.closing.clone();
    call.clients.parts.work.spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            let end = terminal.serve(upgraded, output, closing.cancelled()).await;
            terminal.leave(&end).await;
        }
    });
    Ok(response.map(|()| Body::empty()))
}

/// Starts the shell, or finds that of the session.
async fn open(
    call: &SandboxCall<'_>,
    query: Option<&str>,
    session: Option<&SessionName>,
) -> Result<CommandStream, BridgeError> {
    let failed = |failure| BridgeError::of(failure, BridgeCode::ExecTransportError);
    let prefix = session.map(id_prefix);
    if let Some(prefix) = &prefix
        && let Some(exec) = running(call, prefix).await.map_err(failed)?
    {
        return Ok(CommandStream::follow(call.api.clone(), &call.id, exec, 0));
    }
    let id = prefix.map(|prefix| format!("{prefix}{}", SessionName::generate().as_str()));
    let id = id.map(|id| ExecId::parse(&id)).transpose();
    let id = id.map_err(|error| BridgeError::invalid(error.to_string()))?;
    let create = ExecCreate { id, ..shell(query)? };
    CommandStream::start(call.api.clone(), &call.id, create).await.map_err(failed)
}

/// Ids of the terminals of one session. A hash, as a name may be longer than an id.
fn id_prefix(session: &SessionName) -> String {
    let digest = Sha256::digest(session.as_str());
    let digest: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("pty-{digest}-")
}

async fn running(call: &SandboxCall<'_>, prefix: &str) -> Result<Option<ExecId>, ApiFailure> {
    let execs: Page<ExecAnswer> = call.api.get(&call.path("/execs?running=1&limit=1000")).await?;
    let is_it = |exec: &&ExecAnswer| exec.id.as_str().starts_with(prefix) && exec.exit.is_none();
    Ok(execs.items.iter().find(is_it).map(|exec| exec.id.clone()))
}

fn shell(query: Option<&str>) -> Result<ExecCreate, BridgeError> {
    let size = TtySize {
        cols: side(query, "cols", DEFAULT_SIZE.cols)?,
        rows: side(query, "rows", DEFAULT_SIZE.rows)?,
    };
    let place = exec::working_directory(None)?;
    let tty = Some(TtyChoice::Size(size));
    Ok(match percent::value(query, "shell").filter(|shell| !shell.is_empty()) {
        Some(shell) => ExecCreate { argv: Some(vec![shell]), tty, ..place },
        None => ExecCreate { shell: Some(DEFAULT_SHELL.to_owned()), tty, ..place },
    })
}

fn side(query: Option<&str>, name: &str, otherwise: u16) -> Result<u16, BridgeError> {
    let Some(text) = percent::value(query, name) else { return Ok(otherwise) };
    text.parse().map_err(|_| BridgeError::invalid(format!("{name} must be a number of characters")))
}

impl Terminal {
    async fn serve(
        &self,
        upgraded: Upgraded,
        mut output: CommandStream,
        closing: impl Future<Output = ()>,
    ) -> PtyEnd {
        let sizes = SocketSizes {
            message_max_bytes: limits::TERMINAL_MESSAGE_MAX_BYTES,
            write_buffer_max_bytes: limits::TERMINAL_BUFFER_MAX_BYTES,
        };
        let socket = websocket::accept(TokioIo::new(upgraded), sizes).await;
        let (mut to_client, mut from_client) = socket.split();
        let end = if send(&mut to_client, &json!({"type": "ready"})).await.is_err() {
            PtyEnd::ClientLeft
        } else {
            tokio::select! {
                // Cancelling any branch loses nothing that matters: the client is about to be told of the end.
                end = send_output(&mut output, &mut to_client) => end,
                end = self.relay_input(&mut from_client) => end,
                () = closing => PtyEnd::ShuttingDown,
            }
        };
        if let Some(message) = end.message() {
            let _ = send(&mut to_client, &json!({"type": "error", "message": message})).await;
        }
        close(to_client.reunite(from_client).expect("halves of one socket"), &end).await;
        end
    }

    async fn relay_input(&self, from: &mut (impl Stream<Item = Result<Message, WsError>> + Unpin)) -> PtyEnd {
        let silent_max = Duration::from_millis(limits::TERMINAL_SILENT_MAX_MS);
        loop {
            let called = match timeout(silent_max, from.next()).await {
                Err(_) | Ok(None | Some(Ok(Message::Close(_)))) => return PtyEnd::ClientLeft,
                Ok(Some(Err(WsError::Capacity(error)))) => return PtyEnd::Invalid(error.to_string()),
                Ok(Some(Err(_))) => return PtyEnd::ClientLeft,
                Ok(Some(Ok(Message::Binary(keys)))) => self.type_in(keys).await,
                Ok(Some(Ok(Message::Text(text)))) => match serde_json::from_str(&text) {
                    Ok(ControlMessage::Resize { cols, rows }) => self.resize(TtySize { cols, rows }).await,
                    Err(error) => return PtyEnd::Invalid(error.to_string()),
                },
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => Ok(()),
            };
            match called {
                // The shell ended: its output says so in a moment.
                Err(failure) if failure.status == StatusCode::CONFLICT => {}
                Err(failure) => return PtyEnd::Failed(failure),
                Ok(()) => {}
            }
        }
    }

    async fn type_in(&self, keys: Bytes) -> Result<(), ApiFailure> {
        let mut request = ApiClient::request(Method::POST, &format!("{}/stdin", self.path));
        *request.body_mut() = Body::from(keys);
        self.api.send(request).await.map(drop)
    }

    async fn resize(&self, size: TtySize) -> Result<(), ApiFailure> {
        self.api.post::<_, Value>(&format!("{}/resize", self.path), &size).await.map(drop)
    }

    /// Ends the shell with its client, unless it belongs to a session or hostd is restarted.
    async fn leave(&self, end: &PtyEnd) {
        match end {
            PtyEnd::Exited | PtyEnd::ShuttingDown => {}
            PtyEnd::ClientLeft | PtyEnd::Invalid(_) | PtyEnd::Failed(_) if self.kept => {}
            PtyEnd::ClientLeft | PtyEnd::Invalid(_) | PtyEnd::Failed(_) => {
                let cancel = CancelRequest { grace_ms: Some(limits::TERMINAL_GRACE_MS) };
                let cancelled: Result<Value, _> =
                    self.api.post(&format!("{}/cancel", self.path), &cancel).await;
                if let Err(error) = cancelled {
                    tracing::debug!(path = self.path, %error, "shell of a terminal not ended");
                }
            }
        }
    }
}

impl PtyEnd {
    /// What the client is told before the connection is closed.
    fn message(&self) -> Option<String> {
        match self {
            Self::Exited | Self::ClientLeft => None,
            Self::Invalid(why) => Some(format!("not a message of this protocol: {why}")),
            Self::Failed(failure) => Some(failure.to_string()),
            Self::ShuttingDown => Some("hostd is shutting down".to_owned()),
        }
    }
}

/// Sends output as it comes, and at the end how the shell ended.
async fn send_output(
    output: &mut CommandStream,
    to: &mut (impl Sink<Message, Error = WsError> + Unpin),
) -> PtyEnd {
    let mut pings = interval(Duration::from_millis(limits::TERMINAL_PING_MS));
    loop {
        let sent = tokio::select! {
            // Both are safe to cancel: see `CommandStream`; a missed tick comes later.
            event = output.next() => match event {
                Ok(Some(CommandEvent::Output { stream: _, bytes })) => to.send(Message::Binary(bytes)).await,
                Ok(Some(CommandEvent::Lost { .. })) => Ok(()),
                Ok(Some(CommandEvent::Ended(exit))) => {
                    let told = send(to, &exit_message(&exit)).await;
                    return if told.is_ok() { PtyEnd::Exited } else { PtyEnd::ClientLeft };
                }
                Ok(None) => return PtyEnd::Exited,
                Err(failure) => return PtyEnd::Failed(failure),
            },
            _ = pings.tick() => to.send(Message::Ping(Bytes::new())).await,
        };
        if sent.is_err() {
            return PtyEnd::ClientLeft;
        }
    }
}

fn exit_message(exit: &Exit) -> Value {
    match (exit, ExitStatus::from(exit)) {
        (Exit::Signalled { signal }, ExitStatus::Code(code)) => {
            json!({"type": "exit", "code": code, "signal": signal_name(*signal)})
        }
        (_, ExitStatus::Code(code)) => json!({"type": "exit", "code": code}),
        (_, ExitStatus::NotStarted { message, .. }) => json!({"type": "error", "message": message}),
        (_, ExitStatus::Lost) => {
            json!({"type": "error", "message": "the sandbox stopped under the terminal"})
        }
    }
}

fn signal_name(signal: i32) -> String {
    let known = [(1, "SIGHUP"), (2, "SIGINT"), (3, "SIGQUIT"), (9, "SIGKILL"), (15, "SIGTERM")];
    let found = known.into_iter().find(|(number, _)| *number == signal);
    found.map_or_else(|| signal.to_string(), |(_, name)| name.to_owned())
}

async fn send(to: &mut (impl Sink<Message, Error = WsError> + Unpin), text: &Value) -> Result<(), WsError> {
    to.send(Message::text(text.to_string())).await
}

type Socket = WebSocketStream<TokioIo<Upgraded>>;

async fn close(socket: Socket, end: &PtyEnd) {
    let goodbye = match end {
        PtyEnd::Exited => Goodbye::Close(CloseCode::Normal, "ended"),
        PtyEnd::ClientLeft => Goodbye::None,
        PtyEnd::Invalid(why) => Goodbye::Rejected(CloseCode::Policy, why),
        PtyEnd::Failed(_) => Goodbye::Close(CloseCode::Again, "open the terminal again in a moment"),
        PtyEnd::ShuttingDown => Goodbye::Close(CloseCode::Away, "hostd is shutting down"),
    };
    websocket::close(socket, goodbye).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_the_size_and_shell_of_its_query() {
        let made = shell(Some("cols=120&rows=30&shell=%2Fbin%2Fsh")).expect("good");
        assert_eq!(made.argv.as_deref(), Some(&["/bin/sh".to_owned()][..]));
        assert_eq!(made.tty, Some(TtyChoice::Size(TtySize { cols: 120, rows: 30 })));
        assert!(shell(Some("cols=wide")).is_err());
        let made = shell(None).expect("good");
        assert_eq!(
            (made.shell.as_deref(), made.tty),
            (Some(DEFAULT_SHELL), Some(TtyChoice::Size(DEFAULT_SIZE)))
        );
    }

    #[test]
    fn the_terminals_of_a_session_have_ids_of_their_own() {
        let name = |text: &str| SessionName::parse(text).expect("good");
        let prefix = id_prefix(&name("a"));
        assert_ne!(prefix, id_prefix(&name("b")));
        assert!(ExecId::parse(&format!("{prefix}{}", SessionName::generate().as_str())).is_ok());
    }

    #[test]
    fn the_end_of_a_shell_is_told() {
        for (exit, expected) in [
            (Exit::Exited { code: 4 }, json!({"type": "exit", "code": 4})),
            (Exit::Signalled { signal: 15 }, json!({"type": "exit", "code": 143, "signal": "SIGTERM"})),
        ] {
            assert_eq!(exit_message(&exit), expected);
        }
        assert_eq!(exit_message(&Exit::Lost)["type"], "error");
    }
}
