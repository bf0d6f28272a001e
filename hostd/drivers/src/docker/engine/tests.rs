//! Tests of the client against an engine that misbehaves.

use super::{
    Engine, EngineError, Events,
    client::Tar,
    fake_engine::{FakeEngine, FakeReply, chunked, end_chunked, ok, response},
    limits,
};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use std::{
    io,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixListener,
};

#[tokio::test]
async fn an_engine_without_a_socket_is_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::at(&dir.path().join("none"));
    assert!(matches!(engine.inspect("c").await, Err(EngineError::Unreachable { .. })));
    let long = dir.path().join("x".repeat(300));
    assert!(matches!(
        Engine::at(&long).connect().await,
        Err(EngineError::InvalidResponse { .. } | EngineError::Unreachable { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_never_answers_times_out_on_every_verb() {
    let fake = FakeEngine::new(|_| FakeReply::Hang(vec![]));
    let engine = &fake.engine;
    let mut results = vec![
        engine.start("c").await,
        engine.stop("c", 3).await,
        engine.kill("c").await,
        engine.pause("c").await,
        engine.unpause("c").await,
        engine.remove("c").await,
        engine.inspect("c").await.map(drop),
        engine.list("l").await.map(drop),
        engine.logs("c", 3).await.map(drop),
        engine.image("i").await.map(drop),
        engine.pull("i", &|_| {}).await,
        engine.import("i", "t", tar(vec![])).await,
        engine.network("n").await.map(drop),
        engine.remove_network("n").await,
        engine.events("l").await.map(drop),
        engine.connect().await.map(drop),
    ];
    results.push(engine.create("c", &super::CreateContainer::default()).await.map(drop));
    results.push(engine.create_network(&super::CreateNetwork::default()).await);
    for (at, result) in results.into_iter().enumerate() {
        assert!(matches!(result, Err(EngineError::TimedOut { .. })), "{at}: {result:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_that_stalls_times_out() {
    let fake =
        FakeEngine::new(|_| FakeReply::Hang(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec()));
    assert!(matches!(fake.engine.inspect("c").await, Err(EngineError::TimedOut { .. })));
}

#[tokio::test]
async fn an_engine_that_dies_during_a_response_is_unreachable() {
    for cut in [&b""[..], b"HTTP/1.1 200 OK\r\nConte", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"] {
        let fake = FakeEngine::new(|_| FakeReply::Bytes(cut.to_vec()));
        let result = fake.engine.inspect("c").await;
        assert!(matches!(result, Err(EngineError::Unreachable { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn a_response_that_is_not_http_or_json_is_invalid() {
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<html";
    let headers = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(1_000_000));
    let cases =
        ["SSH-2.0-OpenSSH_9.2\r\n\r\n", page, &headers, "HTTP/1.1 301 Moved\r\nContent-Length: 0\r\n\r\n"];
    for case in cases {
        let case = case.to_owned();
        let fake = FakeEngine::new(move |_| FakeReply::Bytes(case.clone().into_bytes()));
        let result = fake.engine.inspect("c").await;
        assert!(matches!(result, Err(EngineError::InvalidResponse { .. })), "{result:?}");
    }
}

#[tokio::test]
async fn a_response_over_the_size_limit_is_rejected() {
    let fake = FakeEngine::new(|_| {
        let length = limits::RESPONSE_MAX_BYTES + 1;
        let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        bytes.resize(bytes.len() + length, b' ');
        FakeReply::Bytes(bytes)
    });
    assert!(matches!(fake.engine.inspect("c").await, Err(EngineError::InvalidResponse { .. })));
}

#[tokio::test]
async fn unsupported_versions_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let request_bytes = Arc::new(Mutex::new(vec![]));
    let version = r#"{"Version":"99","ApiVersion":"1.70","MinAPIVersion":"1.60"}"#;
    let engine = Engine::at(&socket);
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let length = stream.read(&mut head).await.unwrap();
        request_bytes.lock().unwrap().push(length);
        let FakeReply::Bytes(bytes) = ok(version) else { unreachable!() };
        stream.write_all(&bytes).await.unwrap();
    };
    let (result, ()) = tokio::join!(engine.connect(), server);
    let Err(EngineError::UnsupportedVersion { min, max, .. }) = result else { panic!("{result:?}") };
    assert_eq!((min.as_str(), max.as_str()), ("1.60", "1.70"));
}

#[tokio::test]
async fn the_negotiated_version_is_kept_until_the_engine_is_replaced() {
    let fake = FakeEngine::new(|line| match line {
        "GET /v1.41/containers/a/json" => response("404 Not Found", r#"{"message":"no"}"#),
        _ => response("400 Bad Request", "client version 1.41 is too old. Minimum is 1.44"),
    });
    assert_eq!(fake.engine.inspect("a").await.unwrap(), None);
    assert_eq!(fake.engine.clone().inspect("a").await.unwrap(), None);
    assert_eq!(fake.requests().iter().filter(|line| *line == "GET /version").count(), 1);
    assert!(matches!(fake.engine.inspect("b").await, Err(EngineError::Unreachable { .. })));
    assert_eq!(fake.engine.inspect("a").await.unwrap(), None);
    assert_eq!(fake.requests().iter().filter(|line| *line == "GET /version").count(), 2);
}

#[tokio::test]
async fn a_removal_in_progress_is_waited_for() {
    let busy = r#"{"message":"removal of container c is already in progress"}"#;
    let tries = Mutex::new(0);
    let fake = FakeEngine::new(move |line| {
        if line.starts_with("POST /v1.41/containers/c/wait") {
            return ok(r#"{"StatusCode":0}"#);
        }
        *tries.lock().unwrap() += 1;
        let first = *tries.lock().unwrap() == 1;
        if first { response("409 Conflict", busy) } else { response("404 Not Found", r#"{"message":"no"}"#) }
    });
    fake.engine.remove("c").await.unwrap();
    assert_eq!(fake.requests().len(), 4, "{:?}", fake.requests());
}

#[tokio::test(start_paused = true)]
async fn a_pull_reports_progress_and_fails_by_errors_in_the_stream() {
    let fake = FakeEngine::new(|line| match line {
        "POST /v1.41/images/create?fromImage=good%3Alatest" => end_chunked(chunked(&[
            "{\"status\":\"Pulling fs layer\",\"id\":\"a\"}\n{\"status\":\"Downl",
            "oading\",\"id\":\"a\"}\r\n",
        ])),
        "GET /v1.41/images/good:latest/json" => ok(r#"{"Id":"sha256:00"}"#),
        line if line.contains("missing") => {
            end_chunked(chunked(&["{\"errorDetail\":{\"message\":\"manifest unknown\"}}\n"]))
        }
        line if line.contains("full") => end_chunked(chunked(&["{\"error\":\"no space left on device\"}\n"])),
        line if line.contains("vanished") => response("404 Not Found", "{}"),
        line if line.contains("cut") => FakeReply::Bytes(chunked(&["{\"status\":\"Downloading\"}\n"])),
        line if line.contains("noise") => end_chunked(chunked(&["<html>\n"])),
        line if line.contains("long") => end_chunked(chunked(&[&"x".repeat(10_000_000)])),
        _ => FakeReply::Hang(chunked(&["{}\n"])),
    });
    let reported = Mutex::new(vec![]);
    fake.engine.pull("good", &|text| reported.lock().unwrap().push(text.to_owned())).await.unwrap();
    assert_eq!(*reported.lock().unwrap(), ["pulling good:latest: 0 of 1 layers"]);
    let pull = async |name: &str| fake.engine.pull(name, &|_| {}).await.unwrap_err();
    assert!(matches!(pull("missing").await, EngineError::NotFound(_)));
    assert!(matches!(pull("vanished").await, EngineError::NotFound(_)));
    let full = crate::DriverError::from(pull("full").await);
    assert!(matches!(full, crate::DriverError::DiskFull), "{full:?}");
    assert!(matches!(pull("cut").await, EngineError::Unreachable { .. }));
    assert!(matches!(pull("noise").await, EngineError::InvalidResponse { .. }));
    assert!(matches!(pull("long").await, EngineError::InvalidResponse { .. }));
    assert!(matches!(pull("silent").await, EngineError::TimedOut { .. }));
}

fn tar(pieces: Vec<io::Result<Bytes>>) -> Tar {
    Box::pin(stream::iter(pieces))
}

#[tokio::test]
async fn an_import_fails_by_our_archive_or_by_errors_in_the_stream() {
    let fake = FakeEngine::new(|line| {
        if line.contains("bad") {
            return ok("{\"status\":\"x\"}\n{\"errorDetail\":{\"message\":\"unexpected EOF\"}}\n");
        }
        if line.contains("ours") { FakeReply::Hang(vec![]) } else { ok("{\"status\":\"sha256:00\"}\n") }
    });
    let data = || Ok(Bytes::from_static(b"data"));
    fake.engine.import("good", "1", tar(vec![data(), data()])).await.unwrap();
    let line = &fake.requests()[1];
    assert_eq!(line, "POST /v1.41/images/create?fromSrc=-&repo=good%3A1&tag=1");
    let bad = fake.engine.import("bad", "1", tar(vec![data()])).await;
    assert!(
        matches!(&bad, Err(EngineError::Failed { message, .. }) if message == "unexpected EOF"),
        "{bad:?}"
    );
    let ours = fake.engine.import("ours", "1", tar(vec![data(), Err(io::Error::other("torn"))])).await;
    assert!(
        matches!(&ours, Err(EngineError::Failed { message, .. }) if message.contains("torn")),
        "{ours:?}"
    );
}

async fn events(fake: &FakeEngine) -> Events {
    fake.engine.events("dev.slipway.instance=1").await.unwrap()
}

#[tokio::test]
async fn events_come_in_pieces_and_end_with_the_connection() {
    let line = r#"{"Type":"container","Action":"died","Actor":{"ID":"c1","Attributes":{"name":"x"}}}"#;
    let (one, two) = line.split_at(20);
    let fake = FakeEngine::new(move |_| {
        let end = format!("{two}\n\n{line}\n");
        end_chunked(chunked(&[&format!("{line}\n{one}"), &end]))
    });
    let seen: Vec<_> = events(&fake).await.collect().await;
    assert_eq!(seen.len(), 3);
    for event in seen {
        let event = event.unwrap();
        assert_eq!((event.action.as_str(), event.container.as_str()), ("die", "c1"));
    }
    assert!(fake.requests()[1].starts_with("GET /v1.41/events?since="));
}

#[tokio::test]
async fn after_an_error_there_are_no_events() {
    let event = "{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":\"c\"}}\n";
    let bodies = [FakeReply::Bytes(chunked(&[event])), end_chunked(chunked(&[event, "what\n", event]))];
    for (at, body) in bodies.into_iter().enumerate() {
        let body = Mutex::new(Some(body));
        let fake = FakeEngine::new(move |_| body.lock().unwrap().take().unwrap());
        let seen: Vec<_> = events(&fake).await.collect().await;
        assert_eq!(seen.len(), 2, "{at}");
        assert!(seen[0].is_ok() && seen[1].is_err(), "{at}: {seen:?}");
        assert!(fake.dir.path().exists());
    }
}

#[tokio::test]
async fn an_event_that_is_too_long_is_skipped() {
    let event = "{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":\"c\"}}\n";
    let long = format!("\"{}\n", "x".repeat(10_000_000));
    let body = Mutex::new(Some(end_chunked(chunked(&[event, &long, event]))));
    let fake = FakeEngine::new(move |_| body.lock().unwrap().take().unwrap());
    let seen: Vec<_> = events(&fake).await.collect().await;
    assert!(seen.len() == 2 && seen.iter().all(Result::is_ok), "{seen:?}");
    assert!(fake.dir.path().exists());
}
