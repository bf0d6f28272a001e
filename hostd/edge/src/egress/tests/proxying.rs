use super::fixture::{EgressFixture, LONG, head, server};
use crate::egress::{metrics::RequestOutcome, tracked_connection::Direction};
use protocol::api::{EgressRules, Network};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::timeout,
};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nkeep-alive: 9\r\nx-kept: 1\r\n\r\nhello";

/// Only `good.test` exists, at loopback.
fn names(host: &str) -> Vec<IpAddr> {
    if host == "good.test" { vec![HERE] } else { vec![] }
}

#[tokio::test]
async fn a_request_is_forwarded_without_hop_by_hop_headers() {
    let (at, received, _server) = server(HELLO).await;
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    let port = at.port();
    let request = format!(
        "GET http://good.test:{port}/path?q=1 HTTP/1.1\r\nhost: other.test\r\nproxy-authorization: Basic eA==\r\n\
         proxy-connection: keep-alive\r\nconnection: close, x-hop\r\nx-hop: 1\r\nte: gzip\r\nx-kept: 1\r\n\r\n"
    );
    let response = fixture.ask(&request).await;
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("hello"), "{response}");
    assert!(response.contains("x-kept: 1") && !response.contains("keep-alive"), "{response}");
    let seen = received.lock().expect("no panic")[0].to_ascii_lowercase();
    assert!(seen.starts_with("get /path?q=1 http/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("host: good.test:{port}\r\n")) && seen.contains("x-kept: 1"), "{seen}");
    for gone in ["proxy-", "x-hop", "te: ", "other.test", "via"] {
        assert!(!seen.contains(gone), "{gone} in {seen}");
    }
}

#[tokio::test]
async fn a_tunnel_relays_both_directions_and_their_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("its address");
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    let mut tunnel = fixture.tunnel(&format!("good.test:{}", at.port())).await.expect("a tunnel");
    let (mut outside, _) = listener.accept().await.expect("connected");
    let much = vec![7; 3 << 20];
    let sent = async {
        tunnel.write_all(&much).await.expect("it reads");
        tunnel.shutdown().await.expect("it reads");
        let mut back = String::new();
        tunnel.read_to_string(&mut back).await.expect("an end");
        back
    };
    let echoed = async {
        let mut got = Vec::new();
        outside.read_to_end(&mut got).await.expect("an end");
        // Sent after the other direction has ended.
        outside.write_all(b"got it").await.expect("it reads");
        outside.shutdown().await.expect("it reads");
        got.len()
    };
    let (back, got) = timeout(LONG, async { tokio::join!(sent, echoed) }).await.expect("in time");
    assert_eq!((back.as_str(), got), ("got it", much.len()));
    drop((tunnel, outside));
    assert_eq!(fixture.used().await, (3 << 20) + 6);
    let events = fixture.events().await;
    assert_eq!(events[0]["host"], "good.test");
    assert_eq!((&events[0]["verdict"], &events[0]["address"]), (&"allowed".into(), &"127.0.0.1".into()));
    let down: u64 = events.iter().filter_map(|event| event["bytes_down"].as_u64()).sum();
    assert_eq!(down, 6, "{events:?}");
}

#[tokio::test]
async fn bytes_count_before_their_connection_ends_and_are_reported_once_when_it_has() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("its address");
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    let mut tunnel = fixture.tunnel(&format!("good.test:{}", at.port())).await.expect("a tunnel");
    let (mut outside, _) = listener.accept().await.expect("connected");
    tunnel.write_all(b"hello").await.expect("it reads");
    let mut hello = [0; 5];
    timeout(LONG, outside.read_exact(&mut hello)).await.expect("in time").expect("it came");
    let record = fixture.record.borrow().clone();
    fixture.egress.finish().await;
    assert_eq!(fixture.store.egress_bytes(&record.id).await.expect("the store"), 5, "it is still open");
    let metrics = fixture.egress.metrics().clone();
    assert_eq!((metrics.tunnels.get(), metrics.bytes(Direction::Up).get()), (1, 5));
    assert_eq!(metrics.requests.of(RequestOutcome::Allowed).get(), 1);
    drop((tunnel, outside));
    assert_eq!(fixture.used().await, 5);
    assert_eq!((metrics.tunnels.get(), metrics.bytes(Direction::Down).get()), (0, 0));
    let (store, id) = (fixture.store.clone(), record.id);
    let events = fixture.events().await;
    let sum = |field: &str| events.iter().filter_map(|event| event[field].as_u64()).sum::<u64>();
    assert_eq!((sum("times"), sum("ended"), sum("bytes_up")), (1, 1, 5), "{events:?}");
    assert_eq!(store.egress_bytes(&id).await.expect("the store"), 5);
}

#[tokio::test]
async fn a_denied_destination_is_never_connected_and_says_why() {
    let trap = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = trap.local_addr().expect("its address").port();
    let fixture = EgressFixture::new(&[], |host| match host {
        "here.test" => vec![HERE],
        "mapped.test" => vec!["::ffff:127.0.0.1".parse().expect("an address")],
        "metadata.test" => vec!["169.254.169.254".parse().expect("an address")],
        "both.test" => vec!["10.0.0.1".parse().expect("an address"), HERE],
        _ => vec![],
    })
    .await;
    let table = [
        ("here.test", "loopback address"),
        ("mapped.test", "loopback address"),
        ("metadata.test", "link-local address"),
        ("both.test", "private address"),
        ("127.0.0.1", "loopback address"),
        ("127.1", "loopback address"),
        ("2130706433", "loopback address"),
        ("0x7f.1", "loopback address"),
        ("[::1]", "loopback address"),
        ("[::ffff:127.0.0.1]", "loopback address"),
        ("localhost", "loopback address"),
        ("x.localhost.", "loopback address"),
        ("169.254.169.254", "link-local address"),
        ("2852039166", "link-local address"),
        ("0xA9FEA9FE", "link-local address"),
        ("0251.0376.0251.0376", "link-local address"),
        ("[::ffff:169.254.169.254]", "link-local address"),
        ("[64:ff9b::a9fe:a9fe]", "link-local address"),
        ("[fd00:ec2::254]", "private address"),
        ("s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.apps.test", "preview"),
    ];
    for (host, rule) in table {
        let response = fixture.tunnel(&format!("{host}:{port}")).await.expect_err(host);
        assert!(response.starts_with("HTTP/1.1 403"), "{host}: {response}");
        assert!(
            response.contains(&format!("x-slipway-egress: denied; rule=\"{rule}\"")),
            "{host}: {response}"
        );
        let request = format!("GET http://{host}:{port}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let response = fixture.ask(&request).await;
        assert!(response.starts_with("HTTP/1.1 403") && response.contains("slipway: "), "{host}: {response}");
    }
    trap.set_ttl(1).expect("it is open");
    assert!(timeout(std::time::Duration::ZERO, trap.accept()).await.is_err(), "no connection was opened");
    let events = fixture.events().await;
    assert!(events.iter().all(|event| event["verdict"] == "denied"), "{events:?}");
}

#[tokio::test]
async fn the_address_behind_a_name_is_not_revealed() {
    let fixture = EgressFixture::new(&[], |_| vec!["10.11.12.13".parse().expect("an address")]).await;
    let ask =
        |host: &str| format!("GET http://{host}:8080/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let named = fixture.ask(&ask("db.internal.test")).await;
    assert!(named.contains("rule=\"private address\"") && !named.contains("10.11"), "{named}");
    let spelled = fixture.ask(&ask("10.11.12.14")).await;
    assert!(spelled.contains("10.11.12.14 is a private address"), "{spelled}");
    let events = fixture.events().await;
    let address_of = |host: &str| {
        events.iter().find(|event| event["host"] == host).expect("told")["address"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!(address_of("db.internal.test"), None);
    assert_eq!(address_of("10.11.12.14").as_deref(), Some("10.11.12.14"));
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_decided_on_again_and_looked_up_once() {
    let (at, _, _server) = server(HELLO).await;
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = lookups.clone();
    // An allowed address first, a private one then: the decided address is the connected one, so there is no
    // gap between.
    let fixture =
        EgressFixture::new(&[at.to_string()], move |_| match count.fetch_add(1, Ordering::Relaxed) {
            0 => vec![HERE],
            _ => vec!["10.0.0.1".parse().expect("an address")],
        })
        .await;
    let request =
        format!("GET http://moves.test:{}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", at.port());
    assert!(fixture.ask(&request).await.starts_with("HTTP/1.1 200"));
    assert_eq!(lookups.load(Ordering::Relaxed), 1);
    assert!(fixture.ask(&request).await.starts_with("HTTP/1.1 403"));
    assert_eq!(lookups.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_request_that_cannot_be_forwarded_is_refused_with_a_reason() {
    let fixture = EgressFixture::new(&["127.0.0.1:1".to_owned()], names).await;
    let table = [
        ("CONNECT good.test HTTP/1.1\r\nhost: x\r\n\r\n", "400"),
        ("CONNECT user@good.test:443 HTTP/1.1\r\nhost: x\r\n\r\n", "400"),
        ("GET https://good.test/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "400"),
        ("GET http://1.2.3.4.5/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "400"),
        ("GET http://none.test/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "502"),
        // Nothing listens there.
        ("GET http://good.test:1/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", "502"),
    ];
    for (request, status) in table {
        let response = fixture.ask(request).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {response}");
    }
    let json =
        "GET http://none.test/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\naccept: application/json\r\n\r\n";
    let response = fixture.ask(json).await;
    assert!(response.contains("\"message\":\"there is no host none.test.\""), "{response}");
    fixture.set_network(Network::None);
    let response =
        fixture.ask("GET http://good.test:1/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 403") && response.contains("no network"), "{response}");
}

#[tokio::test]
async fn a_malformed_body_is_the_mistake_of_the_sandbox() {
    // A server that accepts connections and never responds.
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = server.local_addr().expect("its address");
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    for wrong in ["zz\r\n", "0\r\nno colon\r\n\r\n", "3\r\nab"] {
        let request = format!(
            "POST http://good.test:{}/ HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n{wrong}",
            at.port()
        );
        let response = fixture.ask(&request).await;
        assert!(
            response.starts_with("HTTP/1.1 400") && response.contains("malformed"),
            "{wrong:?}: {response}"
        );
    }
}

/// hyper reads such a request by one of the two lengths, and each request goes out on its own connection.
#[tokio::test]
async fn a_request_with_two_lengths_goes_out_with_one() {
    let (at, received, _server) = server(HELLO).await;
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    for lengths in
        ["content-length: 4\r\ntransfer-encoding: chunked", "transfer-encoding: chunked\r\ncontent-length: 4"]
    {
        let request = format!(
            "POST http://good.test:{}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{lengths}\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n",
            at.port()
        );
        let response = fixture.ask(&request).await;
        assert!(!response.contains("evil"), "{response}");
    }
    for seen in received.lock().expect("no panic").iter() {
        let lengths = ["content-length:", "transfer-encoding:"].map(|name| seen.matches(name).count());
        assert_eq!(lengths.iter().sum::<usize>(), 1, "{seen}");
    }
}

#[tokio::test]
async fn bytes_have_a_limit_that_cuts_and_can_be_raised() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("its address");
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    let to = format!("good.test:{}", at.port());
    fixture.set(EgressRules { max_mb: Some(1), ..EgressRules::default() });
    let mut tunnel = fixture.tunnel(&to).await.expect("a tunnel");
    let (mut outside, _) = listener.accept().await.expect("connected");
    let flood = tokio::spawn(async move { while outside.write_all(&[0; 64 << 10]).await.is_ok() {} });
    let mut got = Vec::new();
    let _ = timeout(LONG, tunnel.read_to_end(&mut got)).await.expect("cut in time");
    assert!(got.len() <= 1 << 20, "{}", got.len());
    timeout(LONG, flood).await.expect("its end is told to the other side").expect("no panic");
    let response = fixture.tunnel(&to).await.expect_err("nothing is left");
    assert!(response.contains("rule=\"max_mb\""), "{response}");
    fixture.set(EgressRules { max_mb: Some(10), ..EgressRules::default() });
    fixture.tunnel(&to).await.expect("there is more now");
}

/// Sends and receives so many bytes in heads until the quota is used up; returns the number of requests that
/// passed.
async fn spend_in_heads(up: usize, down: usize) -> usize {
    let says = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nx-much: {}\r\n\r\n", "a".repeat(down));
    let (at, received, _server) = server(&says).await;
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    fixture.set(EgressRules { max_mb: Some(1), ..EgressRules::default() });
    let request = format!(
        "GET http://good.test:{}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-much: {}\r\n\r\n",
        at.port(),
        "a".repeat(up)
    );
    for times in 0..20 {
        let response = fixture.ask(&request).await;
        if !response.starts_with("HTTP/1.1 200") {
            assert!(
                response.starts_with("HTTP/1.1 403") && response.contains("rule=\"max_mb\""),
                "{response}"
            );
            assert!(received.lock().expect("no panic").len() <= times + 1);
            return times;
        }
    }
    panic!("nothing counts");
}

#[tokio::test]
async fn heads_are_counted_too() {
    assert_eq!(spend_in_heads(300 << 10, 0).await, 3);
    assert_eq!(spend_in_heads(0, 200 << 10).await, 5);
}

#[tokio::test]
async fn a_request_counts_as_it_is_on_the_wire() {
    let (at, received, _server) = server(HELLO).await;
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    let request = format!(
        "GET http://good.test:{}/path?q=1 HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-a: b\r\nx-a: c\r\n\r\n",
        at.port()
    );
    assert!(fixture.ask(&request).await.ends_with("hello"));
    let sent = received.lock().expect("no panic")[0].len() as u64;
    assert_eq!(fixture.used().await, sent + HELLO.len() as u64);
    let events = fixture.events().await;
    let sum = |field: &str| events.iter().filter_map(|event| event[field].as_u64()).sum::<u64>();
    assert_eq!((sum("bytes_up"), sum("bytes_down")), (sent, HELLO.len() as u64), "{events:?}");
}

#[tokio::test]
async fn an_answer_streams_as_it_comes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("its address");
    let fixture = EgressFixture::new(&[at.to_string()], names).await;
    let mut stream = fixture.connect().await;
    let request = format!("GET http://good.test:{}/ HTTP/1.1\r\nhost: x\r\n\r\n", at.port());
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let (mut outside, _) = listener.accept().await.expect("connected");
    head(&mut outside).await;
    outside
        .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
        .await
        .expect("it reads");
    head(&mut stream).await;
    let mut chunk = [0; 8];
    timeout(LONG, stream.read_exact(&mut chunk)).await.expect("before the end").expect("a chunk");
    assert_eq!(&chunk, b"3\r\none\r\n");
    outside.write_all(b"3\r\ntwo\r\n0\r\n\r\n").await.expect("it reads");
    timeout(LONG, stream.read_exact(&mut chunk)).await.expect("in time").expect("a chunk");
    assert_eq!(&chunk, b"3\r\ntwo\r\n");
}
