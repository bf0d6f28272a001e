//! Registries that fail for a while.

use super::{
    client, client_of, client_with, descriptor,
    fake_registry::{FakeRegistry, Reply, Seen},
    image,
    manifests::{delivered, manifest},
    text,
};
use crate::{IMAGE_MANIFEST_TYPES, ImageReference, RegistryError};
use std::time::Duration;

/// Long enough for a server on loopback that answers, and for one that does not.
const LONG: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(20);

fn found() -> Reply {
    delivered(&manifest(), IMAGE_MANIFEST_TYPES[0])
}

#[tokio::test]
async fn a_request_is_repeated_while_that_may_help() {
    let table: [(Reply, usize, Result<(), &str>); 8] = [
        (Reply::new(503), 2, Ok(())),
        (Reply::new(429).header("retry-after", "0"), 2, Ok(())),
        (Reply::new(500).dropped_after(0), 2, Ok(())),
        (found().dropped_after(10), 2, Ok(())),
        (Reply::new(502), 3, Err("it answered 502; try again later")),
        (Reply::new(429), 3, Err("it limits the rate of requests (429); try again later")),
        // A registry that asks for a long wait is not waited for.
        (Reply::new(429).header("retry-after", "3600"), 1, Err("it limits the rate of requests (429)")),
        (found().dropped_after(10), 3, Err("try again later")),
    ];
    for (reply, failing, expected) in table {
        let failure = reply.clone();
        let registry =
            FakeRegistry::start(move |_, before| if before < failing { failure.clone() } else { found() })
                .await;
        let resolved = client_of(&registry).resolve(&image(&registry, "app"), None).await;
        match (resolved, expected) {
            (Ok(_), Ok(())) => assert_eq!(registry.lines().len(), failing + 1, "{reply:?}"),
            (Err(error), Err(expected)) => {
                assert!(matches!(error, RegistryError::Unavailable { .. }), "{error}");
                assert!(text(&error).contains(expected), "{error}");
                assert_eq!(registry.lines().len(), failing, "{reply:?}");
            }
            (resolved, expected) => panic!("{reply:?}: {resolved:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn a_registry_that_does_not_answer_is_unavailable() {
    let gone = FakeRegistry::start(|_, _| found()).await;
    let authority = gone.authority.clone();
    drop(gone);
    let image = ImageReference::parse(&format!("{authority}/app")).expect("a name");
    let error = client(&[&authority]).resolve(&image, None).await.expect_err("gone");
    assert!(matches!(error, RegistryError::Unavailable { .. }), "{error}");
    assert!(text(&error).contains("could not connect to 127.0.0.1"), "{error}");

    let image = ImageReference::parse("nowhere.test/app").expect("a name");
    let error = client(&[]).resolve(&image, None).await.expect_err("no host");
    let expected = "the registry nowhere.test cannot be reached for app: there is no host nowhere.test; check its name and its certificate";
    assert_eq!(text(&error), expected);
}

#[tokio::test]
async fn a_registry_that_falls_silent_is_asked_again() {
    for reply in [Reply::silent(), found().silent_after(3)] {
        for (silent, wait, delivers) in [(1, LONG, true), (usize::MAX, SHORT, false)] {
            let reply = reply.clone();
            let script = move |_: &Seen, before| if before < silent { reply.clone() } else { found() };
            let registry = FakeRegistry::start(script).await;
            let client = client_with(&[&registry.authority], wait);
            let resolved = client.resolve(&image(&registry, "app"), None).await;
            assert_eq!(resolved.is_ok(), delivers, "{resolved:?}");
            assert!(matches!(resolved, Ok(_) | Err(RegistryError::Unavailable { .. })), "{resolved:?}");
        }
    }
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_costs_no_attempt() {
    // The connection is closed after each response, though that is whole.
    let registry = FakeRegistry::start(|_, _| {
        let reply = found();
        let length = manifest().len();
        reply.dropped_after(length)
    })
    .await;
    let client = client_of(&registry);
    for _ in 0..5 {
        client.resolve(&image(&registry, "app"), None).await.expect("delivered");
    }
    assert_eq!(registry.lines().len(), 5);
}

#[tokio::test]
async fn a_configuration_is_fetched_and_checked() {
    let config = descriptor("application/json", b"{}");
    for (reply, expected) in [
        (Reply::ok("{}"), None),
        (Reply::ok("{}").chunked(), None),
        (Reply::ok("[]"), Some("delivered sha256:")),
        (Reply::ok("{"), Some("delivered less than the 2 bytes of")),
        (Reply::ok("{} "), Some("delivered more than the 2 bytes of")),
        (Reply::new(204), Some("it answered 204")),
    ] {
        let registry = FakeRegistry::start(move |_, _| reply.clone()).await;
        let fetched = client_of(&registry).fetch_config(&image(&registry, "app"), &config, None).await;
        match (fetched, expected) {
            (Ok(bytes), None) => assert_eq!(bytes, b"{}"),
            (Err(error), Some(expected)) => assert!(text(&error).contains(expected), "{error}"),
            (fetched, expected) => panic!("{fetched:?}, not {expected:?}"),
        }
    }
}
