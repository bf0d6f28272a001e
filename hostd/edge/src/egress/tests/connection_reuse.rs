use super::fixture::{EgressFixture, head};
use protocol::api::EgressRules;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{io::AsyncWriteExt, net::TcpListener, task::JoinSet};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

fn names(_: &str) -> Vec<IpAddr> {
    vec![Ipv4Addr::LOCALHOST.into()]
}

/// When a server closes a connection after its last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closes {
    AtOnce,
    /// On the next request, so that the proxy cannot know before.
    WhenAsked,
}

/// A server that gives so many responses on each connection and then closes it; counts its connections.
async fn server(answers: usize, closes: Closes) -> (SocketAddr, Arc<AtomicUsize>, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    let connections = Arc::new(AtomicUsize::new(0));
    let (count, mut tasks) = (connections.clone(), JoinSet::new());
    tasks.spawn(async move {
        let mut serving = JoinSet::new();
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            count.fetch_add(1, Ordering::Relaxed);
            serving.spawn(async move {
                for _ in 0..answers {
                    if head(&mut stream).await.is_empty() || stream.write_all(HELLO).await.is_err() {
                        return;
                    }
                }
                if closes == Closes::WhenAsked {
                    head(&mut stream).await;
                }
            });
        }
    });
    (address, connections, tasks)
}

#[tokio::test]
async fn a_connection_serves_the_next_request_and_one_that_was_closed_loses_none() {
    use Closes::{AtOnce, WhenAsked};
    let table: [(usize, Closes, &[&str], usize); 6] = [
        (10, AtOnce, &["GET", "GET", "HEAD"], 1),
        (1, AtOnce, &["GET", "GET", "GET"], 3),
        (2, AtOnce, &["GET", "GET", "GET"], 2),
        (1, WhenAsked, &["GET", "GET", "HEAD"], 3),
        // A request that must not arrive twice goes on a new connection.
        (1, WhenAsked, &["POST", "POST"], 2),
        (10, AtOnce, &["POST", "GET"], 1),
    ];
    for (answers, closes, methods, expected) in table {
        let (at, connections, _server) = server(answers, closes).await;
        let fixture = EgressFixture::new(&[at.to_string()], names).await;
        for method in methods {
            let host = format!("good.test:{}", at.port());
            let request =
                format!("{method} http://{host}/ HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n\r\n");
            let response = fixture.ask(&request).await;
            assert!(response.starts_with("HTTP/1.1 200"), "{methods:?}: {response}");
        }
        assert_eq!(connections.load(Ordering::Relaxed), expected, "{answers} {closes:?} {methods:?}");
    }
}

#[tokio::test]
async fn a_connection_that_is_kept_is_decided_on_again() {
    let (at, connections, _server) = server(10, Closes::AtOnce).await;
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    let request = format!("GET http://good.test:{}/ HTTP/1.1\r\nhost: good.test\r\n\r\n", at.port());
    assert!(fixture.ask(&request).await.starts_with("HTTP/1.1 200"));
    fixture.set(EgressRules { deny: vec!["127.0.0.0/8".into()], ..EgressRules::default() });
    assert!(fixture.ask(&request).await.starts_with("HTTP/1.1 403"));
    fixture.set(EgressRules::default());
    assert!(fixture.ask(&request).await.starts_with("HTTP/1.1 200"));
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}
