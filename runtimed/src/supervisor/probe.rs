//! Health checks that runtimed makes itself: a TCP connection, or one HTTP request.

use crate::limits::PROBE_HEAD_MAX_BYTES;
use crate::sys::loopback;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[derive(Debug, Clone)]
pub enum Check {
    Tcp(u16),
    Http { port: u16, path: String },
}

/// Makes one check; the error text is for the user.
pub async fn run(check: Check, timeout_ms: u64) -> Result<(), String> {
    let checked = tokio::time::timeout(Duration::from_millis(timeout_ms), async {
        match check {
            Check::Tcp(port) => connect(port).await.map(drop),
            Check::Http { port, path } => http(port, &path).await,
        }
    });
    checked.await.unwrap_or_else(|_| Err(format!("no answer within {timeout_ms} ms")))
}

async fn connect(port: u16) -> Result<tokio::net::TcpStream, String> {
    loopback::connect(port)
        .await
        .map_err(|error| format!("nothing accepts connections on port {port}: {error}"))
}

async fn http(port: u16, path: &str) -> Result<(), String> {
    let mut stream = connect(port).await?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nUser-Agent: runtimed\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    );
    let failed = |error: std::io::Error| format!("GET {path} on port {port} failed: {error}");
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut head = Vec::with_capacity(1024);
    loop {
        if let Some(status) = status_of(&head)? {
            let verdict = Err(format!("GET {path} on port {port} answers {status}"));
            return if status < 500 { Ok(()) } else { verdict };
        }
        if head.len() > PROBE_HEAD_MAX_BYTES || stream.read_buf(&mut head).await.map_err(failed)? == 0 {
            return Err(format!("GET {path} on port {port} got no HTTP answer"));
        }
    }
}

/// The status of a response, once its first line is there.
fn status_of(head: &[u8]) -> Result<Option<u16>, String> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(head) {
        Ok(_) | Err(httparse::Error::TooManyHeaders) => Ok(response.code),
        Err(error) => Err(format!("the answer is not HTTP: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_known_as_soon_as_it_is_there() {
        for (head, expected) in [
            ("", Ok(None)),
            ("HTTP/1.1 20", Ok(None)),
            ("HTTP/1.1 204 No Content\r\n", Ok(Some(204))),
            ("HTTP/1.0 503 x\r\nA: b\r\n\r\n", Ok(Some(503))),
        ] {
            assert_eq!(status_of(head.as_bytes()), expected, "{head:?}");
        }
        assert!(status_of(b"SSH-2.0-OpenSSH\r\n").is_err());
    }
}
