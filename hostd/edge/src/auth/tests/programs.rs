//! Tests of the headers that programs send instead of cookies, and of what apps get of them.

use super::{
    super::{AccessDenied, AuthDecision, HeaderAuthError, PORT, SANDBOX, TOKEN},
    TRUSTED,
    fixture::{ADMIN, AuthFixture, get, preview},
};
use futures_util::FutureExt;
use hostd_core::{Grantee, Scheme, Share};
use hostd_store::{ShareChange, access_watch::AccessEnd};
use protocol::api::{ShareAccess, TokenScope};

#[tokio::test]
async fn a_token_of_the_api_opens_what_it_may_drive() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let here = preview(1, 3000);
    let table = [
        (fixture.token("own", "ann", TokenScope::Run).await, TRUSTED),
        (fixture.token("admin", "carl", TokenScope::Admin).await, TRUSTED),
        (ADMIN.to_owned(), TRUSTED),
        (
            fixture.token("reader", "ann", TokenScope::Read).await,
            AuthDecision::Denied(AccessDenied::OtherPreview),
        ),
        (
            fixture.token("stranger", "bob", TokenScope::Run).await,
            AuthDecision::Denied(AccessDenied::OtherPreview),
        ),
        ("slw_unknown".to_owned(), AuthDecision::Denied(AccessDenied::InvalidPass)),
    ];
    for (token, expected) in &table {
        let entry = fixture.private(here, get("/", &[("x-slipway-token", token)])).await;
        assert_eq!(entry, *expected, "{token}");
    }
    fixture.store.revoke_token("own", 1).await.unwrap();
    let revoked = fixture.private(here, get("/", &[("x-slipway-token", "slw_own")])).await;
    assert_eq!(revoked, AuthDecision::Denied(AccessDenied::InvalidPass));
    let unknown = fixture.private(preview(9, 3000), get("/", &[("x-slipway-token", ADMIN)])).await;
    assert_eq!(unknown, AuthDecision::Denied(AccessDenied::OtherPreview), "there is no such sandbox");
}

#[tokio::test]
async fn a_program_names_a_sandbox_by_headers_with_a_token() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let own = fixture.token("own", "ann", TokenScope::Run).await;
    let reader = fixture.token("reader", "ann", TokenScope::Read).await;
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
        let found = match fixture.auth.preview_from_headers(&parts).await {
            Ok(None) => "none".to_owned(),
            Ok(Some((preview, _))) if preview == here => "here".to_owned(),
            Ok(Some((preview, _))) => format!("{preview:?}"),
            Err(denied) => format!("{denied:?}"),
        };
        assert_eq!(found, expected, "{parts:?}");
    }
    let pass = fixture.text(&fixture.link(here, 60_000).await);
    let by_pass = fixture.auth.preview_from_headers(&named(&id, "3000", TOKEN, &pass)).await;
    assert!(matches!(by_pass, Err(HeaderAuthError::Unauthorized)), "a pass is for its hostname");
}

#[tokio::test]
async fn what_a_token_opens_ends_with_the_share_or_the_token() {
    let fixture = AuthFixture::new(Scheme::Http).await;
    let (here, store) = (preview(1, 3000), &fixture.store);
    let change = || ShareChange { sandbox: here.sandbox, by: "ann".to_owned(), now_ms: 1 };
    let share = Share { grantee: Grantee::Tenant, access: ShareAccess::Read };
    store.put_share(change(), share).await.unwrap();
    for (name, principal) in [("own", "ann"), ("shared", "bob"), ("revoked", "bob")] {
        fixture.token(name, principal, TokenScope::Run).await;
    }
    let pass = fixture.text(&fixture.link(here, 60_000).await);
    let ended = async |private, token: &str| {
        let parts = get("/", &[(TOKEN, token)]).into_parts().0;
        let (decision, ended) = fixture.auth.admit(&here, private, &parts).await.unwrap();
        assert_eq!(decision, TRUSTED, "{token}");
        ended
    };
    for (private, token) in [(false, "slw_own"), (true, ADMIN), (true, pass.as_str())] {
        assert!(ended(private, token).await.is_none(), "{token}: nothing is watched");
    }
    let headers = [(SANDBOX, here.sandbox.as_str()), (PORT, "3000"), (TOKEN, "slw_shared")];
    let named = fixture.auth.preview_from_headers(&get("/", &headers).into_parts().0).await;
    let (_, named) = named.unwrap().expect("named");
    let [mut own, mut shared, revoked] =
        [ended(true, "slw_own").await, ended(true, "slw_shared").await, ended(true, "slw_revoked").await];
    for each in [&mut own, &mut shared] {
        assert!(each.as_mut().expect("a token").now_or_never().is_none());
    }
    store.revoke_token("revoked", 1).await.unwrap();
    assert_eq!(revoked.expect("a token").await, AccessEnd::TokenRevoked);
    store.remove_shares(change(), None).await.unwrap();
    for each in [shared, named] {
        assert_eq!(each.expect("a token").await, AccessEnd::Unshared);
    }
    assert!(own.expect("a token").now_or_never().is_none(), "it is her own");
}

/// Credentials that are recognised by their form alone are tested in `core::edge::strip_credentials`.
#[tokio::test]
async fn an_app_gets_nothing_that_was_for_us() {
    type Headers = &'static [(&'static str, &'static str)];
    let table: [(Headers, Headers); 8] = [
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
    let fixture = AuthFixture::new(Scheme::Http).await;
    for (given, expected) in table {
        let mut parts = get("/?a=b&c=slw_0123456789abcdef", given).into_parts().0;
        assert!(fixture.auth.strip_credentials(&mut parts));
        assert_eq!(
            (&parts.headers, parts.uri.to_string()),
            (get("/", expected).headers(), "/?a=b".into()),
            "{given:?}"
        );
    }
    let mut parts = get("/login/slw_0123456789abcdef", &[]).into_parts().0;
    assert!(!fixture.auth.strip_credentials(&mut parts), "it cannot be taken out of a path");
}
