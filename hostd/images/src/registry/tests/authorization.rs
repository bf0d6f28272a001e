//! Logins and tokens.

use super::{
    PASSWORD, client, client_of,
    fake_registry::{FakeRegistry, Reply, Seen},
    image, login,
    manifests::{delivered, manifest},
    text,
};
use crate::{IMAGE_MANIFEST_TYPES, RegistryError, RegistryLogin};

const BASIC: &str = "Basic YW5uOmh1bnRlcjI=";

fn found() -> Reply {
    delivered(&manifest(), IMAGE_MANIFEST_TYPES[0])
}

/// A registry whose token service is on its own server. Accepts tokens that `is_valid`.
async fn with_tokens(
    token: &'static str,
    is_valid: impl Fn(&str, usize) -> bool + Send + Sync + 'static,
) -> FakeRegistry {
    FakeRegistry::start(move |seen, before| {
        if seen.line.starts_with("GET /token") {
            return Reply::ok(token.replace('N', &before.to_string()));
        }
        let given = seen.header("authorization").and_then(|header| header.strip_prefix("Bearer "));
        match given.is_some_and(|given| is_valid(given, before)) {
            true => found(),
            false => {
                Reply::new(401).header("www-authenticate", "Bearer realm=\"/token\",service=\"a registry\"")
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_token_is_fetched_for_one_repository_and_kept() {
    let registry =
        with_tokens(r#"{"token":"token-1","expires_in":300}"#, |token, _| token == "token-1").await;
    let client = client_of(&registry);
    let fetch = "GET /token?service=a%20registry&scope=repository%3Ateam%2Fapp%3Apull";
    for _ in 0..2 {
        client.resolve(&image(&registry, "team/app:1"), None).await.expect("delivered");
    }
    let manifest = "GET /v2/team/app/manifests/1";
    assert_eq!(registry.lines(), [manifest, fetch, manifest, manifest]);
    client.resolve(&image(&registry, "other:1"), None).await.expect("delivered");
    client.resolve(&image(&registry, "team/app:1"), Some(&login())).await.expect("delivered");
    let lines = registry.lines();
    assert_eq!(lines[5], "GET /token?service=a%20registry&scope=repository%3Aother%3Apull");
    assert_eq!(lines[8], format!("{fetch}&account=ann"));
    let sent: Vec<Option<String>> = registry
        .seen()
        .iter()
        .filter(|seen| seen.line.starts_with("GET /token"))
        .map(|seen| seen.header("authorization").map(str::to_owned))
        .collect();
    assert_eq!(sent, [None, None, Some(BASIC.to_owned())]);
}

#[tokio::test]
async fn a_token_that_is_no_longer_accepted_is_replaced_once() {
    let registry = with_tokens(r#"{"access_token":"token-N","expires_in":300}"#, |token, before| {
        // The first token is good for one request.
        token == "token-1" && before < 3 || token == "token-4"
    })
    .await;
    let client = client_of(&registry);
    for _ in 0..2 {
        client.resolve(&image(&registry, "app"), None).await.expect("delivered");
    }
    let error = client_of(&registry).resolve(&image(&registry, "app"), None).await.expect_err("refused");
    assert!(matches!(error, RegistryError::Unauthorized { with_login: false, .. }), "{error}");
    let fetched = registry.lines().iter().filter(|line| line.starts_with("GET /token")).count();
    assert_eq!(fetched, 3);
}

#[tokio::test]
async fn a_token_without_life_is_used_once() {
    let registry = with_tokens(r#"{"token":"token-1","expires_in":1}"#, |token, _| token == "token-1").await;
    let client = client_of(&registry);
    for _ in 0..2 {
        client.resolve(&image(&registry, "app"), None).await.expect("delivered");
    }
    assert_eq!(registry.lines().len(), 6);
}

#[tokio::test]
async fn a_login_is_given_only_when_it_is_asked_for() {
    let registry = FakeRegistry::start(|seen: &Seen, _| match seen.header("authorization") {
        Some(BASIC) => found(),
        Some(_) | None => Reply::new(401).header("www-authenticate", "Basic realm=\"r\""),
    })
    .await;
    let client = client_of(&registry);
    for _ in 0..2 {
        client.resolve(&image(&registry, "app"), Some(&login())).await.expect("delivered");
    }
    let sent: Vec<bool> = registry.seen().iter().map(|seen| seen.header("authorization").is_some()).collect();
    assert_eq!(sent, [false, true, true]);

    let authority = &registry.authority;
    let error = client.resolve(&image(&registry, "app"), None).await.expect_err("no login");
    let expected = format!(
        "the registry {authority} wants a login for app, or has no such repository: check the name, or give a login"
    );
    assert_eq!(text(&error), expected);
    let wrong = RegistryLogin { username: "ann".into(), password: format!("not {PASSWORD}").into() };
    for _ in 0..2 {
        let error = client.resolve(&image(&registry, "app"), Some(&wrong)).await.expect_err("wrong");
        let expected = format!(
            "the registry {authority} does not accept the login for app: check its user name and password"
        );
        assert_eq!(text(&error), expected);
    }
}

#[tokio::test]
async fn the_status_of_a_registry_and_of_its_token_service_is_told() {
    let table: [(Reply, Reply, &str); 7] = [
        (
            Reply::new(403),
            Reply::new(200),
            "denies access to app: ask its owner for access, or use another login",
        ),
        (Reply::new(401), Reply::new(200), "wants a login for app"),
        (
            Reply::new(401).header("www-authenticate", "Digest realm=x"),
            Reply::new(200),
            "wants a login for app",
        ),
        (bearer("/token"), Reply::new(401), "wants a login for app"),
        (bearer("/token"), Reply::new(403), "denies access to app"),
        (bearer("/token"), Reply::new(404), "its token service answered 404"),
        (bearer("/token"), Reply::ok("{}"), "its token service gave no token"),
    ];
    for (registry, token, expected) in table {
        let registry = FakeRegistry::start(move |seen, _| match seen.line.starts_with("GET /token") {
            true => token.clone(),
            false => registry.clone(),
        })
        .await;
        let error = client_of(&registry).resolve(&image(&registry, "app"), None).await.expect_err("refused");
        assert!(text(&error).contains(expected), "{error}");
    }
}

fn bearer(realm: &str) -> Reply {
    Reply::new(401).header("www-authenticate", format!("Bearer realm=\"{realm}\""))
}

#[tokio::test]
async fn a_token_service_elsewhere_is_reached_if_it_is_listed() {
    let service = FakeRegistry::start(|_, _| Reply::ok(r#"{"token":"token-1"}"#)).await;
    let realm = format!("http://{}/token", service.authority);
    let registry = FakeRegistry::start(move |seen: &Seen, _| match seen.header("authorization") {
        Some("Bearer token-1") => found(),
        Some(_) | None => bearer(&realm),
    })
    .await;
    let error =
        client_of(&registry).resolve(&image(&registry, "app"), Some(&login())).await.expect_err("refused");
    assert!(matches!(error, RegistryError::NotAllowed { .. }), "{error}");
    assert_eq!(service.lines(), [""; 0]);
    let client = client(&[&registry.authority, &service.authority]);
    client.resolve(&image(&registry, "app"), Some(&login())).await.expect("delivered");
    assert_eq!(service.seen()[0].header("authorization"), Some(BASIC));
}

#[tokio::test]
async fn a_token_service_in_a_private_network_is_refused() {
    for realm in ["http://169.254.169.254/token", "https://private.test/token", "http://private.test/"] {
        let registry = FakeRegistry::start(move |_, _| bearer(realm)).await;
        let error = client_of(&registry)
            .resolve(&image(&registry, "app"), Some(&login()))
            .await
            .expect_err("refused");
        assert!(matches!(error, RegistryError::NotAllowed { .. }), "{realm}: {error}");
        text(&error);
    }
}
