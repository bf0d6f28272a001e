//! Which servers are reached: redirects, token services, names.

use super::{
    client, client_of,
    fake_registry::{FakeRegistry, Reply},
    image, login,
    manifests::{delivered, manifest},
    text,
};
use crate::{IMAGE_MANIFEST_TYPES, ImageReference, RegistryError, limits::REDIRECTS_MAX};

#[tokio::test]
async fn a_registry_that_is_not_public_is_refused_unless_it_is_listed() {
    for (name, why) in [
        ("127.0.0.1:1/app", "images are not pulled from 127.0.0.1:1 (loopback) unless the operator lists it"),
        ("localhost/app", "images are not pulled from localhost (this machine) unless the operator lists it"),
        (
            "private.test/app",
            "private.test has the address 10.1.2.3 (private) and is not in SLIPWAY_IMAGE_REGISTRIES",
        ),
        ("registry.test:5000/app", "registry.test:5000 has the address 127.0.0.1 (loopback) and is not in"),
    ] {
        let image = ImageReference::parse(name).expect(name);
        let error = client(&["registry.test"]).resolve(&image, None).await.expect_err("refused");
        assert!(matches!(error, RegistryError::NotAllowed { .. }), "{error}");
        assert!(text(&error).contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_redirect_to_an_address_that_is_not_listed_is_refused() {
    let inner = FakeRegistry::start(|_, _| Reply::ok("secret of the host")).await;
    let targets = [
        format!("http://{}/x?signature=1", inner.authority),
        format!("https://{}/x", inner.authority),
        format!("http://localhost:{}/x", inner.port()),
        format!("http://127.1:{}/x", inner.port()),
        format!("http://other.test:{}/x", inner.port()),
        "http://169.254.169.254/latest/meta-data/?signature=1".to_owned(),
        "https://[::ffff:169.254.169.254]/".to_owned(),
        "http://private.test/".to_owned(),
    ];
    for target in targets {
        let location = target.clone();
        let registry = FakeRegistry::start(move |_, _| Reply::redirect(location.as_str())).await;
        let error = client_of(&registry).resolve(&image(&registry, "app"), None).await.expect_err("refused");
        assert!(matches!(error, RegistryError::NotAllowed { .. }), "{target}: {error}");
        text(&error);
    }
    assert_eq!(inner.lines(), [""; 0]);
}

#[tokio::test]
async fn a_redirect_is_followed_without_the_login() {
    let content = FakeRegistry::start(|_, _| delivered(&manifest(), IMAGE_MANIFEST_TYPES[0])).await;
    let location = format!("http://{}/blob?signature=1", content.authority);
    let registry = FakeRegistry::start(move |seen, _| match seen.header("authorization") {
        None => Reply::new(401).header("www-authenticate", "Basic realm=\"r\""),
        Some(_) if seen.line.contains("/v2/") => Reply::redirect("/elsewhere"),
        Some(_) => Reply::redirect(location.as_str()),
    })
    .await;
    let client = client(&[&registry.authority, &content.authority]);
    client.resolve(&image(&registry, "app"), Some(&login())).await.expect("delivered");
    let sent: Vec<bool> = registry.seen().iter().map(|seen| seen.header("authorization").is_some()).collect();
    assert_eq!(sent, [false, true, true]);
    let [seen] = content.seen().try_into().expect("one request");
    assert_eq!(seen.line, "GET /blob?signature=1");
    assert_eq!((seen.header("authorization"), seen.header("host")), (None, Some(content.authority.as_str())));
}

#[tokio::test]
async fn the_challenge_of_a_content_server_gets_no_login() {
    let thief = FakeRegistry::start(|_, _| Reply::ok(r#"{"token":"token-1"}"#)).await;
    let challenge = format!("Bearer realm=\"http://{}/token\"", thief.authority);
    let content =
        FakeRegistry::start(move |_, _| Reply::new(401).header("www-authenticate", challenge.as_str())).await;
    let location = format!("http://{}/blob", content.authority);
    let registry = FakeRegistry::start(move |_, _| Reply::redirect(location.as_str())).await;
    let client = client(&[&registry.authority, &content.authority, &thief.authority]);
    let error = client.resolve(&image(&registry, "app"), Some(&login())).await.expect_err("refused");
    assert!(text(&error).contains("its content server answered 401"), "{error}");
    assert_eq!(thief.lines(), [""; 0]);
}

#[tokio::test]
async fn redirects_end() {
    let registry = FakeRegistry::start(|seen, before| match before {
        0..5 => Reply::redirect(format!("/{before}")),
        _ if seen.line == "GET /4" => delivered(&manifest(), IMAGE_MANIFEST_TYPES[0]),
        _ => Reply::redirect("/again"),
    })
    .await;
    let client = client_of(&registry);
    client.resolve(&image(&registry, "app"), None).await.expect("delivered after five");
    let error = client.resolve(&image(&registry, "app"), None).await.expect_err("refused");
    assert!(text(&error).contains("it redirects more than 5 times"), "{error}");
    assert_eq!(registry.lines().len(), 2 * (REDIRECTS_MAX + 1));
}

#[tokio::test]
async fn an_invalid_redirect_is_refused() {
    for location in ["", "x", "ftp://a/b", "https://user@a/", "http://"] {
        let registry = FakeRegistry::start(move |_, _| Reply::redirect(location)).await;
        let error = client_of(&registry).resolve(&image(&registry, "app"), None).await.expect_err("refused");
        assert!(text(&error).contains("redirects to an address that is not valid"), "{location}: {error}");
    }
}
