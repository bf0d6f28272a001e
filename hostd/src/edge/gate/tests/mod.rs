//! Who is let in.

mod programs;
mod world;

use super::{Entry, Why};
use crate::core::{LinkId, Pass, Purpose, Scheme};
use crate::store::StoreError;
use hyper::Method;
use world::{World, ask, get, preview};

const KNOWN: Entry = Entry::Admitted { known: true };
const UNKNOWN: Entry = Entry::Admitted { known: false };

#[tokio::test]
async fn a_pass_leaves_the_address_and_becomes_a_cookie() {
    for scheme in [Scheme::Http, Scheme::Https] {
        let world = World::new(scheme).await;
        let pass = world.link(preview(1, 3000), 3_600_000).await;
        let path = format!("/a?x=1&slipway_pass={}", world.text(&pass));
        for method in [Method::GET, Method::HEAD] {
            let entry = world.private(preview(1, 3000), ask(method, &path, &[])).await;
            let Entry::Moved { location, cookie: Some(cookie) } = entry else { panic!("{entry:?}") };
            assert_eq!(location, "/a?x=1");
            assert!(cookie.is_sensitive());
            let cookie = cookie.to_str().unwrap().to_owned();
            let (pair, attributes) = cookie.split_once("; ").unwrap();
            assert_eq!(pair, world.cookie(&pass));
            let age = attributes.strip_prefix("Path=/; Max-Age=").and_then(|rest| rest.split_once(';'));
            let age: u64 = age.unwrap().0.parse().unwrap();
            assert!((3000..=3600).contains(&age), "as long as the pass: {attributes}");
            assert_eq!(world.private(preview(1, 3000), get("/a?x=1", &[("cookie", pair)])).await, KNOWN);
        }
    }
}

#[tokio::test]
async fn each_pass_is_good_in_its_own_place_alone() {
    let world = World::new(Scheme::Http).await;
    let pass = world.link(preview(1, 3000), 60_000).await;
    let (link, cookie) = (world.text(&pass), world.links.pass(&pass, Purpose::Cookie));
    let here = preview(1, 3000);
    let refused = |why| Entry::Refused(why);
    let in_url = |text: &str| get(&format!("/?slipway_pass={text}"), &[]);
    let in_cookie = |text: &str| get("/", &[("cookie", &format!("slipway-preview={text}"))]);
    let in_header = |text: &str| get("/", &[("x-slipway-token", text)]);
    assert_eq!(world.private(here, get("/", &[])).await, refused(Why::NoPass));
    assert_eq!(world.private(here, in_header(&link)).await, KNOWN);
    assert_eq!(world.private(here, in_header(&cookie)).await, refused(Why::BadPass));
    assert_eq!(world.private(here, in_url(&cookie)).await, refused(Why::BadPass));
    assert_eq!(world.private(here, in_cookie(&link)).await, refused(Why::BadPass));
    assert_eq!(world.private(here, in_cookie(&cookie)).await, KNOWN);
    let secure = format!("__Host-slipway-preview={cookie}");
    assert_eq!(world.private(here, get("/", &[("cookie", &secure)])).await, refused(Why::NoPass));
    for elsewhere in [preview(1, 3001), preview(2, 3000)] {
        for request in [in_url(&link), in_cookie(&cookie), in_header(&link)] {
            assert_eq!(world.private(elsewhere, request).await, refused(Why::NotHere));
        }
    }
}

#[tokio::test]
async fn an_expired_pass_and_a_revoked_one_are_refused_at_once() {
    let world = World::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let expired = world.link(here, 0).await;
    let expired = [("cookie", &*world.cookie(&expired))];
    assert_eq!(world.private(here, get("/", &expired)).await, Entry::Refused(Why::Expired));
    let pass = world.link(here, 60_000).await;
    let cookie = world.cookie(&pass);
    let path = format!("/?slipway_pass={}", world.text(&pass));
    for _ in 0..2 {
        assert_eq!(world.private(here, get("/", &[("cookie", &cookie)])).await, KNOWN);
    }
    let now_ms = world.gate.clock.now_ms();
    assert!(world.links.revoke(&here.sandbox, pass.link, now_ms).await.unwrap());
    assert_eq!(world.private(here, get("/", &[("cookie", &cookie)])).await, Entry::Refused(Why::Revoked));
    assert_eq!(world.private(here, get(&path, &[])).await, Entry::Refused(Why::Revoked));
    // A link that nobody wrote down is none, however well its pass is signed.
    let lost = Pass { link: LinkId::generate(), ..pass };
    let lost = [("cookie", &*world.cookie(&lost))];
    assert_eq!(world.private(here, get("/", &lost)).await, Entry::Refused(Why::Revoked));
}

#[tokio::test]
async fn good_links_are_not_asked_for_again() {
    let world = World::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let cookie = world.cookie(&world.link(here, 60_000).await);
    assert_eq!(world.private(here, get("/", &[("cookie", &cookie)])).await, KNOWN);
    let unknown = world.cookie(&world.link(here, 60_000).await);
    world.store.clone().close().await;
    assert_eq!(world.private(here, get("/", &[("cookie", &cookie)])).await, KNOWN);
    let asks = world.gate.admit(&here, true, &get("/", &[("cookie", &unknown)]).into_parts().0).await;
    assert!(matches!(asks, Err(StoreError::Closed)), "{asks:?}");
}

#[tokio::test]
async fn a_tossed_cookie_neither_lets_in_nor_locks_out() {
    let world = World::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let good = world.cookie(&world.link(here, 60_000).await);
    let neighbours = world.cookie(&world.link(preview(2, 3000), 60_000).await);
    let tossed = ["slipway-preview=", "slipway-preview=x", &neighbours, "slipway-preview=slp1.AAAA"];
    for bad in tossed {
        let alone = world.private(here, get("/", &[("cookie", bad)])).await;
        assert!(matches!(alone, Entry::Refused(Why::BadPass | Why::NotHere)), "{bad}: {alone:?}");
        for both in [format!("{bad}; {good}"), format!("{good}; {bad}")] {
            assert_eq!(world.private(here, get("/", &[("cookie", &both)])).await, KNOWN, "{both}");
        }
        let split = get("/", &[("cookie", bad), ("cookie", "a=b"), ("cookie", &good)]);
        assert_eq!(world.private(here, split).await, KNOWN, "{bad}");
    }
    let many = format!("{}; {good}", vec![tossed[3]; 500].join("; "));
    assert_eq!(world.private(here, get("/", &[("cookie", &many)])).await, KNOWN);
}

#[tokio::test]
async fn a_pass_in_an_address_only_opens_pages() {
    let world = World::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let pass = world.link(here, 60_000).await;
    let (path, cookie) = (format!("/?slipway_pass={}", world.text(&pass)), world.cookie(&pass));
    let websocket = [("connection", "Upgrade"), ("upgrade", "websocket")];
    for request in [
        ask(Method::POST, &path, &[]),
        ask(Method::PUT, &path, &[("cookie", &cookie)]),
        ask(Method::OPTIONS, &path, &[]),
        get(&path, &websocket),
    ] {
        let parts = request.into_parts().0;
        for private in [true, false] {
            let entry = world.gate.admit(&here, private, &parts).await.unwrap();
            assert_eq!(entry, Entry::Refused(Why::UseHeader), "{} {private}", parts.method);
        }
    }
    let h2c = get(&path, &[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c")]);
    assert!(matches!(world.private(here, h2c).await, Entry::Moved { .. }));
}

#[tokio::test]
async fn an_upgrade_by_cookie_comes_from_a_page_of_the_sandbox() {
    let world = World::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let pass = world.link(here, 60_000).await;
    let cookie = world.cookie(&pass);
    let (own, neighbour) = (here.sandbox, preview(2, 3000).sandbox);
    let table = [
        (None, KNOWN),
        (Some(format!("http://s-{own}-3000.preview.localhost:8080")), KNOWN),
        (Some(format!("http://5173-{own}.localhost:8080")), KNOWN),
        (Some(format!("http://s-{neighbour}-3000.preview.localhost:8080")), Entry::Refused(Why::OtherSite)),
        (Some("https://evil.example".to_owned()), Entry::Refused(Why::OtherSite)),
        (Some("null".to_owned()), Entry::Refused(Why::OtherSite)),
    ];
    for (origin, expected) in table {
        let mut headers = vec![("connection", "Upgrade"), ("upgrade", "websocket"), ("cookie", &*cookie)];
        headers.extend(origin.as_deref().map(|origin| ("origin", origin)));
        assert_eq!(world.private(here, get("/", &headers)).await, expected, "{origin:?}");
        let plain: Vec<_> = headers.iter().filter(|(name, _)| *name != "upgrade").copied().collect();
        assert_eq!(world.private(here, get("/", &plain)).await, KNOWN, "{origin:?}: browsers guard these");
    }
    let text = world.text(&pass);
    let program = [("upgrade", "websocket"), ("origin", "https://evil.example"), ("x-slipway-token", &*text)];
    assert_eq!(world.private(here, get("/", &program)).await, KNOWN, "no browser sends our header by itself");
}

#[tokio::test]
async fn a_public_preview_is_open_and_knows_who_shows_a_pass() {
    let world = World::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let pass = world.link(here, 60_000).await;
    let (text, cookie) = (world.text(&pass), world.cookie(&pass));
    assert_eq!(world.public(here, get("/", &[])).await, UNKNOWN);
    assert_eq!(world.public(here, get("/", &[("cookie", "slipway-preview=x; a=b")])).await, UNKNOWN);
    assert_eq!(world.public(here, get("/", &[("x-slipway-token", "x")])).await, UNKNOWN);
    assert_eq!(world.public(here, get("/", &[("cookie", &cookie)])).await, KNOWN);
    assert_eq!(world.public(here, get("/", &[("x-slipway-token", &text)])).await, KNOWN);
    let moved = world.public(here, get(&format!("/?slipway_pass={text}"), &[])).await;
    assert!(matches!(moved, Entry::Moved { cookie: Some(_), .. }), "{moved:?}");
    let bad = world.public(here, get("/x?slipway_pass=bad", &[])).await;
    assert_eq!(bad, Entry::Moved { location: "/x".into(), cookie: None }, "no app sees a pass, good or bad");
}

#[tokio::test]
async fn whoever_has_a_cookie_may_follow_an_old_link() {
    let world = World::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let (old, new) = (world.link(here, 0).await, world.link(here, 60_000).await);
    let (path, cookie) = (format!("/x?slipway_pass={}", world.text(&old)), world.cookie(&new));
    assert_eq!(world.private(here, get(&path, &[])).await, Entry::Refused(Why::Expired));
    let entry = world.private(here, get(&path, &[("cookie", &cookie)])).await;
    let Entry::Moved { location, cookie: Some(kept) } = entry else { panic!("{entry:?}") };
    assert_eq!(location, "/x");
    assert!(kept.to_str().unwrap().starts_with(&cookie));
}
