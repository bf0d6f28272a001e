//! Tests of passes, cookies and private previews.

mod fixture;
mod programs;

use super::{AccessDenied, AuthDecision};
use fixture::{AuthFixture, ask, get, preview};
use hostd_core::{LinkId, PassPurpose, PreviewPass, Scheme};
use hostd_store::StoreError;
use hyper::Method;

const TRUSTED: AuthDecision = AuthDecision::Admitted { trusted: true };
const UNTRUSTED: AuthDecision = AuthDecision::Admitted { trusted: false };

#[tokio::test]
async fn a_pass_leaves_the_address_and_becomes_a_cookie() {
    for scheme in [Scheme::Http, Scheme::Https] {
        let fixture = AuthFixture::new(scheme).await;
        let pass = fixture.link(preview(1, 3000), 3_600_000).await;
        let path = format!("/a?x=1&slipway_pass={}", fixture.text(&pass));
        for method in [Method::GET, Method::HEAD] {
            let entry = fixture.private(preview(1, 3000), ask(method, &path, &[])).await;
            let AuthDecision::Redirect { location, cookie: Some(cookie) } = entry else {
                panic!("{entry:?}")
            };
            assert_eq!(location, "/a?x=1");
            assert!(cookie.is_sensitive());
            let cookie = cookie.to_str().unwrap().to_owned();
            let (pair, attributes) = cookie.split_once("; ").unwrap();
            assert_eq!(pair, fixture.cookie(&pass));
            let age = attributes.strip_prefix("Path=/; Max-Age=").and_then(|rest| rest.split_once(';'));
            let age: u64 = age.unwrap().0.parse().unwrap();
            assert!((3000..=3600).contains(&age), "as long as the pass: {attributes}");
            assert_eq!(fixture.private(preview(1, 3000), get("/a?x=1", &[("cookie", pair)])).await, TRUSTED);
        }
    }
}

#[tokio::test]
async fn each_pass_is_good_in_its_own_place_alone() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let pass = fixture.link(preview(1, 3000), 60_000).await;
    let (link, cookie) = (fixture.text(&pass), fixture.links.pass_text(&pass, PassPurpose::Cookie));
    let here = preview(1, 3000);
    let refused = |why| AuthDecision::Denied(why);
    let in_url = |text: &str| get(&format!("/?slipway_pass={text}"), &[]);
    let in_cookie = |text: &str| get("/", &[("cookie", &format!("slipway-preview={text}"))]);
    let in_header = |text: &str| get("/", &[("x-slipway-token", text)]);
    assert_eq!(fixture.private(here, get("/", &[])).await, refused(AccessDenied::NoPass));
    assert_eq!(fixture.private(here, in_header(&link)).await, TRUSTED);
    assert_eq!(fixture.private(here, in_header(&cookie)).await, refused(AccessDenied::InvalidPass));
    assert_eq!(fixture.private(here, in_url(&cookie)).await, refused(AccessDenied::InvalidPass));
    assert_eq!(fixture.private(here, in_cookie(&link)).await, refused(AccessDenied::InvalidPass));
    assert_eq!(fixture.private(here, in_cookie(&cookie)).await, TRUSTED);
    let secure = format!("__Host-slipway-preview={cookie}");
    assert_eq!(fixture.private(here, get("/", &[("cookie", &secure)])).await, refused(AccessDenied::NoPass));
    for elsewhere in [preview(1, 3001), preview(2, 3000)] {
        for request in [in_url(&link), in_cookie(&cookie), in_header(&link)] {
            assert_eq!(fixture.private(elsewhere, request).await, refused(AccessDenied::OtherPreview));
        }
    }
}

#[tokio::test]
async fn an_expired_pass_and_a_revoked_one_are_refused_at_once() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let expired = fixture.link(here, 0).await;
    let expired = [("cookie", &*fixture.cookie(&expired))];
    assert_eq!(fixture.private(here, get("/", &expired)).await, AuthDecision::Denied(AccessDenied::Expired));
    let pass = fixture.link(here, 60_000).await;
    let cookie = fixture.cookie(&pass);
    let path = format!("/?slipway_pass={}", fixture.text(&pass));
    for _ in 0..2 {
        assert_eq!(fixture.private(here, get("/", &[("cookie", &cookie)])).await, TRUSTED);
    }
    let now_ms = fixture.auth.clock.now_ms();
    assert!(fixture.links.revoke(&here.sandbox, pass.link, now_ms).await.unwrap());
    assert_eq!(
        fixture.private(here, get("/", &[("cookie", &cookie)])).await,
        AuthDecision::Denied(AccessDenied::Revoked)
    );
    assert_eq!(fixture.private(here, get(&path, &[])).await, AuthDecision::Denied(AccessDenied::Revoked));
    // A pass without a recorded link is invalid, however well it is signed.
    let lost = PreviewPass { link: LinkId::generate(), ..pass };
    let lost = [("cookie", &*fixture.cookie(&lost))];
    assert_eq!(fixture.private(here, get("/", &lost)).await, AuthDecision::Denied(AccessDenied::Revoked));
}

#[tokio::test]
async fn good_links_are_not_asked_for_again() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let cookie = fixture.cookie(&fixture.link(here, 60_000).await);
    assert_eq!(fixture.private(here, get("/", &[("cookie", &cookie)])).await, TRUSTED);
    let unknown = fixture.cookie(&fixture.link(here, 60_000).await);
    fixture.store.clone().close().await;
    assert_eq!(fixture.private(here, get("/", &[("cookie", &cookie)])).await, TRUSTED);
    let asks = fixture.auth.admit(&here, true, &get("/", &[("cookie", &unknown)]).into_parts().0).await;
    let asks = asks.map(|(decision, _)| decision);
    assert!(matches!(asks, Err(StoreError::Closed)), "{asks:?}");
}

#[tokio::test]
async fn a_tossed_cookie_neither_lets_in_nor_locks_out() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let good = fixture.cookie(&fixture.link(here, 60_000).await);
    let neighbours = fixture.cookie(&fixture.link(preview(2, 3000), 60_000).await);
    let tossed = ["slipway-preview=", "slipway-preview=x", &neighbours, "slipway-preview=slp1.AAAA"];
    for bad in tossed {
        let alone = fixture.private(here, get("/", &[("cookie", bad)])).await;
        assert!(
            matches!(alone, AuthDecision::Denied(AccessDenied::InvalidPass | AccessDenied::OtherPreview)),
            "{bad}: {alone:?}"
        );
        for both in [format!("{bad}; {good}"), format!("{good}; {bad}")] {
            assert_eq!(fixture.private(here, get("/", &[("cookie", &both)])).await, TRUSTED, "{both}");
        }
        let split = get("/", &[("cookie", bad), ("cookie", "a=b"), ("cookie", &good)]);
        assert_eq!(fixture.private(here, split).await, TRUSTED, "{bad}");
    }
    let many = format!("{}; {good}", vec![tossed[3]; 500].join("; "));
    assert_eq!(fixture.private(here, get("/", &[("cookie", &many)])).await, TRUSTED);
}

#[tokio::test]
async fn a_pass_in_an_address_only_opens_pages() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let pass = fixture.link(here, 60_000).await;
    let (path, cookie) = (format!("/?slipway_pass={}", fixture.text(&pass)), fixture.cookie(&pass));
    let websocket = [("connection", "Upgrade"), ("upgrade", "websocket")];
    for request in [
        ask(Method::POST, &path, &[]),
        ask(Method::PUT, &path, &[("cookie", &cookie)]),
        ask(Method::OPTIONS, &path, &[]),
        get(&path, &websocket),
    ] {
        let parts = request.into_parts().0;
        for private in [true, false] {
            let (entry, _) = fixture.auth.admit(&here, private, &parts).await.unwrap();
            assert_eq!(entry, AuthDecision::Denied(AccessDenied::UseHeader), "{} {private}", parts.method);
        }
    }
    let h2c = get(&path, &[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")]);
    assert!(matches!(fixture.private(here, h2c).await, AuthDecision::Redirect { .. }));
}

#[tokio::test]
async fn an_upgrade_by_cookie_comes_from_a_page_of_the_sandbox() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let pass = fixture.link(here, 60_000).await;
    let cookie = fixture.cookie(&pass);
    let (own, neighbour) = (here.sandbox, preview(2, 3000).sandbox);
    let table = [
        (None, TRUSTED),
        (Some(format!("http://s-{own}-3000.preview.localhost:8080")), TRUSTED),
        (Some(format!("http://5173-{own}.localhost:8080")), TRUSTED),
        (
            Some(format!("http://s-{neighbour}-3000.preview.localhost:8080")),
            AuthDecision::Denied(AccessDenied::OtherSite),
        ),
        (Some("https://evil.example".to_owned()), AuthDecision::Denied(AccessDenied::OtherSite)),
        (Some("null".to_owned()), AuthDecision::Denied(AccessDenied::OtherSite)),
    ];
    for (origin, expected) in table {
        let mut headers = vec![("connection", "Upgrade"), ("upgrade", "websocket"), ("cookie", &*cookie)];
        headers.extend(origin.as_deref().map(|origin| ("origin", origin)));
        assert_eq!(fixture.private(here, get("/", &headers)).await, expected, "{origin:?}");
        let plain: Vec<_> = headers.iter().filter(|(name, _)| *name != "upgrade").copied().collect();
        assert_eq!(
            fixture.private(here, get("/", &plain)).await,
            TRUSTED,
            "{origin:?}: browsers guard these"
        );
    }
    let text = fixture.text(&pass);
    let program = [("upgrade", "websocket"), ("origin", "https://evil.example"), ("x-slipway-token", &*text)];
    assert_eq!(
        fixture.private(here, get("/", &program)).await,
        TRUSTED,
        "no browser sends our header by itself"
    );
}

#[tokio::test]
async fn a_public_preview_is_open_and_trusts_visitors_with_a_pass() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let pass = fixture.link(here, 60_000).await;
    let (text, cookie) = (fixture.text(&pass), fixture.cookie(&pass));
    assert_eq!(fixture.public(here, get("/", &[])).await, UNTRUSTED);
    assert_eq!(fixture.public(here, get("/", &[("cookie", "slipway-preview=x; a=b")])).await, UNTRUSTED);
    assert_eq!(fixture.public(here, get("/", &[("x-slipway-token", "x")])).await, UNTRUSTED);
    assert_eq!(fixture.public(here, get("/", &[("cookie", &cookie)])).await, TRUSTED);
    assert_eq!(fixture.public(here, get("/", &[("x-slipway-token", &text)])).await, TRUSTED);
    let moved = fixture.public(here, get(&format!("/?slipway_pass={text}"), &[])).await;
    assert!(matches!(moved, AuthDecision::Redirect { cookie: Some(_), .. }), "{moved:?}");
    let bad = fixture.public(here, get("/x?slipway_pass=bad", &[])).await;
    assert_eq!(
        bad,
        AuthDecision::Redirect { location: "/x".into(), cookie: None },
        "no app sees a pass, good or bad"
    );
}

#[tokio::test]
async fn a_visitor_with_a_cookie_may_follow_an_old_link() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let (old, new) = (fixture.link(here, 0).await, fixture.link(here, 60_000).await);
    let (path, cookie) = (format!("/x?slipway_pass={}", fixture.text(&old)), fixture.cookie(&new));
    assert_eq!(fixture.private(here, get(&path, &[])).await, AuthDecision::Denied(AccessDenied::Expired));
    let entry = fixture.private(here, get(&path, &[("cookie", &cookie)])).await;
    let AuthDecision::Redirect { location, cookie: Some(kept) } = entry else { panic!("{entry:?}") };
    assert_eq!(location, "/x");
    assert!(kept.to_str().unwrap().starts_with(&cookie));
}
