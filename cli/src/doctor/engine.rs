//! Detects Docker or Podman behind a socket.

use protocol::api::{DOCKER_SOCKET, PODMAN_SOCKET};
use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

/// Timeout of every read and write.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_MAX_BYTES: u64 = 64 << 10;
/// HTTP/1.0, so that the response ends with the connection and is not chunked.
const REQUEST: &[u8] = b"GET /version HTTP/1.0\r\nHost: docker\r\n\r\n";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Engine {
    /// The socket does not exist.
    #[default]
    Absent,
    /// The socket exists, but no engine responds on it; the reason.
    Silent(String),
    /// Name and version, as in `Docker 20.10.24`.
    Answers(String),
}

/// Returns the socket that hostd would use: the given one, or the first default one that exists.
pub fn socket(given: Option<&str>) -> PathBuf {
    if let Some(given) = given {
        return PathBuf::from(given.strip_prefix("unix://").unwrap_or(given));
    }
    let usual = [DOCKER_SOCKET, PODMAN_SOCKET].map(Path::new);
    usual.into_iter().find(|path| path.exists()).unwrap_or(usual[0]).to_owned()
}

pub fn probe(socket: &Path) -> Engine {
    if !socket.exists() {
        return Engine::Absent;
    }
    match query(socket) {
        Ok(answer) => version(&answer).map_or_else(
            || Engine::Silent("what answers is neither Docker nor Podman".to_owned()),
            Engine::Answers,
        ),
        // A timeout of a socket is reported as WouldBlock.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Engine::Silent(format!("no answer within {} s", RESPONSE_TIMEOUT.as_secs()))
        }
        Err(error) => Engine::Silent(error.to_string()),
    }
}

fn query(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.write_all(REQUEST)?;
    let mut answer = String::new();
    stream.take(RESPONSE_MAX_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Parses the complete HTTP response.
fn version(answer: &str) -> Option<String> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    if head.split(' ').nth(1) != Some("200") {
        return None;
    }
    let body: serde_json::Value = serde_json::from_str(body.trim()).ok()?;
    let version = body["Version"].as_str()?;
    let components = body["Components"].as_array().into_iter().flatten();
    let podman = components.filter_map(|part| part["Name"].as_str()).any(|name| name.starts_with("Podman"));
    Some(crate::text::plain(&format!("{} {version}", if podman { "Podman" } else { "Docker" })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_who_it_is() {
        let answer =
            |head: &str, body: &str| version(&format!("HTTP/1.0 {head}\r\nServer: x\r\n\r\n{body}\n"));
        let table = [
            ("200 OK", r#"{"Version":"20.10.24"}"#, Some("Docker 20.10.24")),
            (
                "200 OK",
                r#"{"Version":"4.3.1","Components":[{"Name":"Podman Engine"}]}"#,
                Some("Podman 4.3.1"),
            ),
            ("500 No", r#"{"Version":"1"}"#, None),
            ("200 OK", "<html>", None),
        ];
        for (head, body, expected) in table {
            assert_eq!(answer(head, body).as_deref(), expected, "{head} {body}");
        }
        assert_eq!(version(""), None);
    }

    #[test]
    fn a_socket_may_be_given_as_docker_has_it() {
        assert_eq!(socket(Some("unix:///run/x.sock")), Path::new("/run/x.sock"));
        assert_eq!(probe(Path::new("/there/is/none")), Engine::Absent);
    }
}
