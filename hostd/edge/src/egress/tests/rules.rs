use super::fixture::{EgressFixture, LONG};
use base64::{Engine, engine::general_purpose::STANDARD};
use protocol::api::{EgressProfile, EgressRules};
use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{io::AsyncReadExt, net::TcpListener, time::timeout};

fn here(_: &str) -> Vec<IpAddr> {
    vec![Ipv4Addr::LOCALHOST.into()]
}

fn list(rules: &[&str]) -> Vec<String> {
    rules.iter().map(|rule| (*rule).to_owned()).collect()
}

#[tokio::test]
async fn a_rule_that_changes_ends_what_it_denies_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("its address");
    let fixture = EgressFixture::new(&[at.to_string()], here).await;
    let mut one = fixture.tunnel(&format!("one.test:{}", at.port())).await.expect("a tunnel");
    let (_one, _) = listener.accept().await.expect("connected");
    let mut other = fixture.tunnel(&format!("other.test:{}", at.port())).await.expect("a tunnel");
    let (mut far, _) = listener.accept().await.expect("connected");
    fixture.set(EgressRules { deny: list(&["one.test"]), ..EgressRules::default() });
    let mut byte = [0];
    let ended = timeout(LONG, one.read(&mut byte)).await.expect("cut in time");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    tokio::io::AsyncWriteExt::write_all(&mut far, b"x").await.expect("it reads");
    timeout(LONG, other.read_exact(&mut byte)).await.expect("in time").expect("it goes on");
    let response = fixture.tunnel(&format!("one.test:{}", at.port())).await.expect_err("denied");
    assert!(response.contains("rule=\"one.test\""), "{response}");
    // The same by a profile, which applies to every sandbox.
    let profile = EgressProfile { allow: vec![], deny: list(&["other.test"]) };
    fixture.egress.profiles().put("default", profile, 0).await.expect("written");
    let ended = timeout(LONG, other.read(&mut byte)).await.expect("cut in time");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    let response = fixture.tunnel(&format!("other.test:{}", at.port())).await.expect_err("denied");
    assert!(response.contains("rule=\"other.test\"; profile=\"default\""), "{response}");
}

#[tokio::test]
async fn a_sandbox_cannot_allow_itself_what_a_profile_denies() {
    let fixture = EgressFixture::new(&[], here).await;
    let rules = EgressRules { allow: list(&["*:25", "mail.test"]), ..EgressRules::default() };
    fixture.set(rules.clone());
    let response = fixture.tunnel("mail.test:25").await.expect_err("denied");
    assert!(response.contains("rule=\"*:25,465,587\"; profile=\"default\""), "{response}");
    fixture.set(EgressRules { profile: Some("gone".into()), ..rules });
    let response = fixture.tunnel("mail.test:443").await.expect_err("denied");
    assert!(response.contains("rule=\"no such profile\"; profile=\"gone\""), "{response}");
}

#[tokio::test]
async fn repetitions_are_one_event_and_every_event_names_its_job() {
    let fixture = EgressFixture::new(&[], here).await;
    let claim = STANDARD.encode("exec.e1:x");
    let request = format!(
        "GET http://a.test/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\nproxy-authorization: Basic {claim}\r\n\r\n"
    );
    for _ in 0..50 {
        assert!(fixture.ask(&request).await.starts_with("HTTP/1.1 403"));
    }
    assert!(fixture.tunnel("a.test:443").await.is_err());
    let events = fixture.events().await;
    let of_exec: Vec<_> = events.iter().filter(|event| event["by"]["exec"] == "e1").collect();
    assert!(of_exec.len() <= 3, "{events:?}");
    let times: u64 = of_exec.iter().filter_map(|event| event["times"].as_u64()).sum();
    assert_eq!(times, 50);
    assert!(events.iter().any(|event| event["by"].is_null() && event["port"] == 443), "{events:?}");
}

#[tokio::test]
async fn every_refusal_is_recorded() {
    let fixture = EgressFixture::new(&[], here).await;
    let ask = |host: &str| format!("GET http://{host}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let response = fixture.ask("GET https://a.test/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    let permits: Vec<_> = std::iter::from_fn(|| fixture.sandbox_egress.permit()).collect();
    let response = fixture.ask(&ask("many.test")).await;
    assert!(response.starts_with("HTTP/1.1 503"), "{response}");
    drop(permits);
    // Another process of the sandbox sends requests all the time.
    let (sandbox_egress, stop) = (fixture.sandbox_egress.clone(), Arc::new(AtomicBool::new(false)));
    let until = stop.clone();
    let flood = std::thread::spawn(move || {
        while !until.load(Ordering::Relaxed) {
            sandbox_egress.is_rate_limited();
        }
    });
    let refused = async { while !fixture.ask(&ask("rate.test")).await.starts_with("HTTP/1.1 429") {} };
    let refused = timeout(LONG, refused).await;
    stop.store(true, Ordering::Relaxed);
    flood.join().expect("no panic");
    refused.expect("in time");
    let events = fixture.events().await;
    for (host, rule) in [("", "malformed"), ("many.test", "connections"), ("rate.test", "rate")] {
        let is_refusal = |event: &&serde_json::Value| event["host"] == host && event["rule"] == rule;
        let event = events.iter().find(is_refusal).unwrap_or_else(|| panic!("{rule}: {events:?}"));
        assert_eq!(event["verdict"], "denied", "{event}");
    }
}
