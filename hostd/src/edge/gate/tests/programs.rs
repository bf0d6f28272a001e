//! What programs send instead of cookies, and what apps get of it.

use super::{
    super::{Denied, Entry, PORT, SANDBOX, TOKEN, Why},
    KNOWN,
    world::{ADMIN, World, get, preview},
};
use crate::core::Scheme;
use protocol::api::TokenScope;

#[tokio::test]
async fn a_token_of_the_api_opens_what_it_may_drive() {
    let world = World::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let table = [
        (world.token("own", "ann", TokenScope::Run).await, KNOWN),
        (world.token("admin", "carl", TokenScope::Admin).await, KNOWN),
        (ADMIN.to_owned(), KNOWN),
        (world.token("reader", "ann", TokenScope::Read).await, Entry::Refused(Why::NotHere)),
        (world.token("stranger", "bob", TokenScope::Run).await, Entry::Refused(Why::NotHere)),
        ("slw_unknown".to_owned(), Entry::Refused(Why::BadPass)),
    ];
    for (token, expected) in &table {
        let entry = world.private(here, get("/", &[("x-slipway-token", token)])).await;
        assert_eq!(entry, *expected, "{token}");
    }
    world.store.revoke_token("own", 1).await.unwrap();
    let revoked = world.private(here, get("/", &[("x-slipway-token", "slw_own")])).await;
    assert_eq!(revoked, Entry::Refused(Why::BadPass));
    let unknown = world.private(preview(9, 3000), get("/", &[("x-slipway-token", ADMIN)])).await;
    assert_eq!(unknown, Entry::Refused(Why::NotHere), "there is no such sandbox");
}

#[tokio::test]
async fn a_program_names_a_sandbox_by_headers_with_a_token() {
    let world = World::new(Scheme::Http).await;
    let own = world.token("own", "ann", TokenScope::Run).await;
    let reader = world.token("reader", "ann", TokenScope::Read).await;
    let (here, there) = (preview(1, 3000), preview(2, 3000));
    let (id, other, unknown) =
        (here.sandbox.to_string(), there.sandbox.to_string(), preview(9, 1).sandbox.to_string());
    let bearer = format!("Bearer {own}");
    let asked = |path: &str, id: &str, port: &str, header: &str, token: &str| {
        let headers = [(SANDBOX, id), (PORT, port), (header, token)];
        let headers: Vec<_> = headers.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        get(path, &headers).into_parts().0
    };
    let named = |id: &str, port: &str, header: &str, token: &str| asked("/", id, port, header, token);
    let table = [
        (named("", "3000", TOKEN, &own), "none"),
        (named(&id, "3000", TOKEN, &own), "here"),
        (named(&id.to_uppercase(), "3000", "authorization", &bearer), "here"),
        (named(&id, "3000", TOKEN, ADMIN), "here"),
        (named(&id, "3000", TOKEN, ""), "Unauthorized"),
        (named(&id, "3000", TOKEN, "slw_nope"), "Unauthorized"),
        (named(&id, "3000", "authorization", "Basic eDp5"), "Unauthorized"),
        (named(&id, "3000", TOKEN, &reader), "Forbidden"),
        (named(&other, "3000", TOKEN, &own), "NotFound"),
        (named(&unknown, "3000", TOKEN, &own), "NotFound"),
        (named("../etc", "3000", TOKEN, &own), "NotFound"),
        (named(&id, "", TOKEN, &own), "Malformed(\"X-Sandbox-Port\")"),
        (named(&id, "900", TOKEN, &own), "Malformed(\"X-Sandbox-Port\")"),
        (named(&id, "+80", TOKEN, &own), "Malformed(\"X-Sandbox-Port\")"),
        (asked("/?a=b&slipway_pass=x", &id, "3000", TOKEN, &own), "PassInAddress"),
    ];
    for (parts, expected) in table {
        let told = match world.gate.program(&parts).await {
            Ok(None) => "none".to_owned(),
            Ok(Some(preview)) if preview == here => "here".to_owned(),
            Ok(Some(preview)) => format!("{preview:?}"),
            Err(denied) => format!("{denied:?}"),
        };
        assert_eq!(told, expected, "{parts:?}");
    }
    let pass = world.text(&world.link(here, 60_000).await);
    let by_pass = world.gate.program(&named(&id, "3000", TOKEN, &pass)).await;
    assert!(matches!(by_pass, Err(Denied::Unauthorized)), "a pass is for its hostname");
}

/// What is recognised by its form alone has its tests in `core::edge::strip`.
#[tokio::test]
async fn an_app_gets_nothing_that_was_for_us() {
    type Lines = &'static [(&'static str, &'static str)];
    let table: [(Lines, Lines); 8] = [
        (
            &[("accept", "a"), ("authorization", "Bearer x")],
            &[("accept", "a"), ("authorization", "Bearer x")],
        ),
        (&[(TOKEN, "t"), ("authorization", "Bearer x")], &[("authorization", "Bearer x")]),
        (&[(SANDBOX, "s"), (PORT, "1"), ("authorization", "Bearer x")], &[]),
        (&[(SANDBOX, "s"), (TOKEN, "t"), ("authorization", "Bearer x")], &[("authorization", "Bearer x")]),
        (&[("authorization", "Bearer  slw_0123456789abcdef")], &[]),
        (&[("authorization", "Basic x"), ("authorization", "bearer slipway_0123456789abcdef")], &[]),
        (&[(SANDBOX, "s"), (TOKEN, "t"), ("authorization", "Bearer slp1.0123456789abcdef")], &[]),
        (&[("cookie", "slipway-preview=x"), ("cookie", "a=b"), ("cookie", "c=d")], &[("cookie", "a=b; c=d")]),
    ];
    let world = World::new(Scheme::Http).await;
    for (given, expected) in table {
        let mut parts = get("/?a=b&c=slw_0123456789abcdef", given).into_parts().0;
        assert!(world.gate.strip(&mut parts));
        assert_eq!(
            (&parts.headers, parts.uri.to_string()),
            (get("/", expected).headers(), "/?a=b".into()),
            "{given:?}"
        );
    }
    let mut parts = get("/login/slw_0123456789abcdef", &[]).into_parts().0;
    assert!(!world.gate.strip(&mut parts), "it cannot be taken out of a path");
}
