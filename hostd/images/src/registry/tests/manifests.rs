//! Manifests and indexes.

use super::{
    client_of, descriptor,
    fake_registry::{FakeRegistry, Reply, Seen},
    image, text,
};
use crate::{Digest, IMAGE_MANIFEST_TYPES, INDEX_TYPES, Platform, RegistryError, limits::MANIFEST_MAX_BYTES};

const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";

/// A manifest without layers.
pub fn manifest() -> String {
    let config = serde_json::to_string(&descriptor(CONFIG_TYPE, b"{}")).expect("serializable");
    format!(r#"{{"schemaVersion":2,"config":{config},"layers":[]}}"#)
}

fn index(platform: &Platform, of: &str) -> String {
    let digest = Digest::of(of.as_bytes());
    let (os, architecture) = (&platform.os, &platform.architecture);
    format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"{}","digest":"{digest}","size":{},"platform":{{"os":"{os}","architecture":"{architecture}"}}}}]}}"#,
        IMAGE_MANIFEST_TYPES[0],
        of.len(),
    )
}

/// A manifest as a registry delivers it.
pub fn delivered(document: &str, media_type: &str) -> Reply {
    let digest = Digest::of(document.as_bytes()).to_string();
    Reply::ok(document).header("content-type", media_type).header("docker-content-digest", digest)
}

#[tokio::test]
async fn a_manifest_is_fetched_by_tag_and_by_digest() {
    let registry = FakeRegistry::start(|_, _| delivered(&manifest(), IMAGE_MANIFEST_TYPES[1])).await;
    let client = client_of(&registry);
    let digest = Digest::of(manifest().as_bytes());
    for name in ["team/app:1".to_owned(), format!("team/app@{digest}"), format!("team/app:1@{digest}")] {
        let resolved = client.resolve(&image(&registry, &name), None).await.expect("delivered");
        assert_eq!((&resolved.digest, &resolved.reference_digest), (&digest, &digest), "{name}");
        assert_eq!(resolved.bytes, manifest().as_bytes());
        assert_eq!(client.check(&image(&registry, &name), None).await.expect("there"), digest);
    }
    let by_digest = format!("/v2/team/app/manifests/{digest}");
    let lines = registry.lines();
    assert_eq!(lines[..2], ["GET /v2/team/app/manifests/1", "HEAD /v2/team/app/manifests/1"]);
    let (get, head) = (format!("GET {by_digest}"), format!("HEAD {by_digest}"));
    assert_eq!(lines[2..], [&get, &head, &get, &head].map(String::as_str));
    for seen in registry.seen() {
        let accept = seen.header("accept").expect("types");
        assert!(
            [INDEX_TYPES, IMAGE_MANIFEST_TYPES].concat().iter().all(|one| accept.contains(one)),
            "{accept}"
        );
        assert_eq!(seen.header("host"), Some(registry.authority.as_str()));
    }
}

#[tokio::test]
async fn the_image_of_this_host_is_chosen_from_an_index_in_an_index() {
    let inner = index(&Platform::host(), &manifest());
    let outer = format!(
        r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
        serde_json::to_string(&descriptor(INDEX_TYPES[0], inner.as_bytes())).expect("serializable")
    );
    let (top, middle) = (Digest::of(outer.as_bytes()), Digest::of(inner.as_bytes()));
    let registry = FakeRegistry::start(move |seen, _| match seen.line.rsplit('/').next() {
        Some("latest") => delivered(&outer, INDEX_TYPES[1]),
        Some(digest) if digest == middle.as_str() => delivered(&inner, INDEX_TYPES[0]),
        Some(_) | None => delivered(&manifest(), IMAGE_MANIFEST_TYPES[0]),
    })
    .await;
    let resolved = client_of(&registry).resolve(&image(&registry, "app"), None).await.expect("delivered");
    assert_eq!(resolved.digest, Digest::of(manifest().as_bytes()));
    assert_eq!(resolved.reference_digest, top);
    assert_eq!(registry.lines().len(), 3);
}

#[tokio::test]
async fn an_image_that_cannot_be_used_is_refused_with_the_reason() {
    let other = index(&Platform { os: "plan9".into(), ..Platform::linux("mips") }, "x");
    let nested = format!(
        r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
        serde_json::to_string(&descriptor(INDEX_TYPES[0], b"other")).expect("serializable")
    );
    let large = " ".repeat(usize::try_from(MANIFEST_MAX_BYTES).expect("small") + 1);
    let (wrong, lying) = (Digest::of(b"other"), Digest::of(b"lie"));
    let table: [(String, Reply, String); 9] = [
        ("app".into(), delivered(&other, INDEX_TYPES[0]), "only for plan9/mips".into()),
        ("app".into(), Reply::ok(r#"{"schemaVersion":1,"fsLayers":[]}"#), "(schema 1), which is not".into()),
        ("app".into(), Reply::ok(large.clone()), "its manifest has more than 4194304 bytes".into()),
        ("app".into(), Reply::ok(large).chunked(), "its manifest has more than 4194304 bytes".into()),
        ("app".into(), delivered("<html>", "text/html"), "its manifest is not valid: expected value".into()),
        (
            "app".into(),
            Reply::ok(manifest()).header("docker-content-digest", lying.to_string()),
            format!("delivered {} as {lying}", Digest::of(manifest().as_bytes())),
        ),
        (format!("app@{wrong}"), Reply::ok(manifest()), format!("as {wrong} of app")),
        ("app".into(), Reply::ok(nested), format!("as {wrong} of app")),
        ("app".into(), Reply::new(418), "it answered 418; check that it is an image registry".into()),
    ];
    for (name, reply, expected) in table {
        let registry = FakeRegistry::start(move |_, _| reply.clone()).await;
        let error = client_of(&registry).resolve(&image(&registry, &name), None).await.expect_err("refused");
        let text = text(&error);
        assert!(text.contains(&expected) && text.contains(&registry.authority), "{text}");
    }
}

#[tokio::test]
async fn a_manifest_of_another_size_than_its_index_says_is_refused() {
    let listed = index(&Platform::host(), &manifest())
        .replace(&format!("\"size\":{}", manifest().len()), "\"size\":1");
    let registry = FakeRegistry::start(move |_, before| match before {
        0 => delivered(&listed, INDEX_TYPES[0]),
        _ => delivered(&manifest(), IMAGE_MANIFEST_TYPES[0]),
    })
    .await;
    let error = client_of(&registry).resolve(&image(&registry, "app"), None).await.expect_err("refused");
    assert!(matches!(error, RegistryError::WrongSize { size: 1, longer: true, .. }), "{error}");
}

#[tokio::test]
async fn a_check_falls_back_to_the_manifest_and_sees_a_moved_tag() {
    let answers = |seen: &Seen, _| match seen.line.starts_with("HEAD") {
        true => Reply::new(405),
        false => delivered(&manifest(), IMAGE_MANIFEST_TYPES[0]),
    };
    let registry = FakeRegistry::start(answers).await;
    let checked = client_of(&registry).check(&image(&registry, "app"), None).await.expect("there");
    assert_eq!(checked, Digest::of(manifest().as_bytes()));

    let registry = FakeRegistry::start(|_, _| delivered(&manifest(), IMAGE_MANIFEST_TYPES[0])).await;
    let pinned = image(&registry, &format!("app@{}", Digest::of(b"other")));
    let error = client_of(&registry).check(&pinned, None).await.expect_err("refused");
    assert!(matches!(error, RegistryError::WrongDigest { .. }), "{error}");
}

#[tokio::test]
async fn what_is_not_there_is_named() {
    let registry = FakeRegistry::start(|_, _| Reply::new(404)).await;
    let client = client_of(&registry);
    let missing = image(&registry, "team/app:9");
    let authority = &registry.authority;
    let expected = format!(
        "the registry {authority} has no team/app with the tag 9: check the name, or push the image again"
    );
    assert_eq!(text(&client.resolve(&missing, None).await.expect_err("missing")), expected);
    assert_eq!(text(&client.check(&missing, None).await.expect_err("missing")), expected);
    let config = descriptor(CONFIG_TYPE, b"{}");
    let error = client.fetch_config(&missing, &config, None).await.expect_err("missing");
    assert!(text(&error).contains(&format!("the blob {}", config.digest)), "{error}");
}
