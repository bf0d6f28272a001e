//! Requests that are refused: authentication, access, validation.

use super::{ADMIN, ApiFixture, TestRequest, TestResponse};
use crate::api::{Auth, peer::Peer};
use hostd_clients::{DelegatedIdentity, OnlySandbox};
use hostd_core::limits;
use hostd_store::token_auth::operator;
use hyper::Method;
use protocol::api::{SandboxId, TokenScope};
use serde_json::json;

#[tokio::test]
async fn a_wrong_host_or_origin_is_refused_before_the_token_is_checked() {
    let fixture = ApiFixture::new().await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        for path in ["/v1/sandboxes", "/healthz", "/nowhere"] {
            let reply = fixture.send(TestRequest::get(path).without("authorization").with(name, value)).await;
            assert_eq!(reply.code(), "forbidden", "{name} {path}");
        }
    }
    assert_eq!(fixture.send(TestRequest::get("/healthz").with("host", "slipway.example")).await.status, 200);
}

#[tokio::test]
async fn requests_without_a_valid_token_are_rejected() {
    let fixture = ApiFixture::new().await;
    let bare = || TestRequest::get("/v1/sandboxes").without("authorization");
    for request in [
        bare(),
        bare().token("slw_wrong"),
        bare().with("authorization", "Basic eDp5"),
        bare().token(&"x".repeat(5000)),
    ] {
        let reply = fixture.send(request).await;
        assert_eq!(reply.code(), "unauthorized");
        assert_eq!(reply.headers["www-authenticate"], "Bearer realm=\"slipway\"");
    }
    assert_eq!(fixture.send(bare().token(ADMIN)).await.status, 200);
    assert_eq!(fixture.send(TestRequest::get("/healthz").without("authorization")).await.status, 200);
    assert_eq!(fixture.send(TestRequest::get("/readyz").without("authorization")).await.status, 200);
}

#[tokio::test]
async fn the_socket_is_for_root() {
    let fixture = ApiFixture::new().await;
    let on_socket =
        |uid| TestRequest::get("/v1/host").without("authorization").without("host").peer(Peer::Unix { uid });
    assert_eq!(fixture.send(on_socket(0)).await.status, 200);
    assert_eq!(fixture.send(on_socket(54_321)).await.code(), "forbidden");
    assert_eq!(
        fixture.send(on_socket(0).token("slw_wrong")).await.code(),
        "unauthorized",
        "a token given counts"
    );
}

#[tokio::test]
async fn without_authentication_only_loopback_is_trusted() {
    let fixture = ApiFixture::with_auth(Auth::Off).await;
    let request = || TestRequest::get("/v1/host").without("authorization");
    assert_eq!(fixture.send(request()).await.status, 200);
    let far = Peer::Tcp {
        from: "10.0.0.9:1".parse().unwrap(),
        local: "127.0.0.1:9090".parse().unwrap(),
        encrypted: false,
    };
    assert_eq!(fixture.send(request().peer(far)).await.code(), "unauthorized");
}

#[tokio::test]
async fn a_revoked_token_does_not_work_once_more() {
    let fixture = ApiFixture::new().await;
    let token = fixture.token("acme", "ann", TokenScope::Run).await;
    let request = || TestRequest::get("/v1/sandboxes").token(&token);
    assert_eq!(fixture.send(request()).await.status, 200);
    let id = fixture.get("/v1/tokens").await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    let revoked = fixture.send(TestRequest::new(Method::DELETE, &format!("/v1/tokens/{id}"))).await;
    assert_eq!(revoked.status, 204);
    assert_eq!(fixture.send(request()).await.code(), "unauthorized");
}

#[tokio::test]
async fn a_scope_is_a_limit() {
    let fixture = ApiFixture::new().await;
    let (read, run, admin) = (
        fixture.token("acme", "ann", TokenScope::Read).await,
        fixture.token("acme", "ann", TokenScope::Run).await,
        fixture.token("acme", "ann", TokenScope::Admin).await,
    );
    let table = [
        (&read, Method::GET, "/v1/sandboxes", true),
        (&read, Method::POST, "/v1/sandboxes", false),
        (&run, Method::POST, "/v1/sandboxes", true),
        (&run, Method::GET, "/v1/tokens", false),
        (&run, Method::GET, "/metrics", false),
        (&admin, Method::GET, "/v1/tokens", true),
        (&admin, Method::GET, "/v1/host", false),
        (&admin, Method::GET, "/v1/images", false),
    ];
    for (token, method, path, allowed) in table {
        let reply = fixture.send(TestRequest::new(method.clone(), path).token(token)).await;
        assert_eq!(reply.status != 403, allowed, "{method} {path}: {:?}", reply.bytes);
    }
    let other = TestRequest::post("/v1/tokens", json!({"tenant": "other", "principal": "x"}).to_string())
        .token(&admin);
    assert_eq!(fixture.send(other).await.code(), "forbidden", "tokens of another tenant");
}

#[tokio::test]
async fn a_foreign_sandbox_is_reported_as_not_found() {
    let fixture = ApiFixture::new().await;
    let id = fixture.sandbox().await;
    let stranger = fixture.token("acme", "ann", TokenScope::Admin).await;
    let body = |path: String| {
        let request = TestRequest::get(&path).token(&stranger);
        async { fixture.send(request).await }
    };
    let foreign = body(format!("/v1/sandboxes/{id}")).await;
    assert_eq!(foreign.code(), "not_found");
    // Except for the id itself, as the caller sent it.
    let answer = |reply: &TestResponse, id: &str| {
        let text = String::from_utf8_lossy(&reply.bytes).replace(id, "ID");
        (reply.status, text)
    };
    for (other, named) in [
        ("01jb9xyzabcdefghjkmnpqrstv", "01jb9xyzabcdefghjkmnpqrstv"),
        ("nonsense", "nonsense"),
        ("%2e%2e", ".."),
    ] {
        let unknown = body(format!("/v1/sandboxes/{other}")).await;
        assert_eq!(answer(&unknown, named), answer(&foreign, id.as_str()), "{other}");
    }
    assert_eq!(body("/v1/sandboxes/%ff".to_owned()).await.code(), "not_found");
    for path in [
        "execs/x",
        "execs/x/output",
        "services/web/logs",
        "events",
        "attempts",
        "stats",
        "activity",
        "ports",
        "tasks",
        "tasks/x",
        "tasks/x/events",
        "tasks/x/log",
        "preview-links",
    ] {
        let (own, unknown) = (id.as_str(), "01jb9xyzabcdefghjkmnpqrstv");
        let reply = body(format!("/v1/sandboxes/{own}/{path}")).await;
        assert_eq!(reply.code(), "not_found", "{path}");
        let other = body(format!("/v1/sandboxes/{unknown}/{path}")).await;
        assert_eq!(answer(&reply, own), answer(&other, unknown), "{path}");
    }
    let filtered = body(format!("/v1/events?sandbox={id}")).await;
    assert_eq!(filtered.code(), "not_found");
    assert_eq!(
        fixture.send(TestRequest::get("/v1/sandboxes").token(&stranger)).await.json()["items"],
        json!([])
    );
}

#[tokio::test]
async fn a_body_that_names_another_owner_is_refused() {
    let fixture = ApiFixture::new().await;
    for field in ["tenant", "principal"] {
        let reply = fixture.post("/v1/sandboxes", json!({field: "other"})).await;
        assert_eq!((reply.code().as_str(), reply.field().as_str()), ("forbidden", field));
    }
    let own = json!({"tenant": "default", "principal": "admin"});
    assert_eq!(fixture.post("/v1/sandboxes?wait=0", own).await.status, 201);
}

#[tokio::test]
async fn invalid_requests_get_a_json_error() {
    let fixture = ApiFixture::new().await;
    let post = |body: &'static [u8]| TestRequest::post("/v1/sandboxes", body);
    let table = [
        (TestRequest::get("/nowhere"), "not_found", ""),
        (TestRequest::get("/v1/sandboxes/x/y/z"), "not_found", ""),
        (TestRequest::new(Method::PUT, "/v1/sandboxes"), "method_not_allowed", ""),
        (post(b"{"), "invalid_request", ""),
        (post(b"{\"name\": \"\xff\"}"), "invalid_request", ""),
        (post(b"{\"nmae\": 1}"), "invalid_request", "nmae"),
        (post(b"{\"limits\": {\"cpu\": 1}}"), "invalid_request", "limits.cpu"),
        (post(b"{\"limits\": {\"memory_mb\": 99999999}}"), "invalid_request", "limits.memory_mb"),
        (
            post(b"{\"services\": [{\"name\": \"a\", \"command\": \"b\", \"prot\": 1}]}"),
            "invalid_request",
            "services[0].prot",
        ),
        (TestRequest::post("/v1/sandboxes", vec![b' '; limits::BODY_MAX_BYTES + 1]), "too_large", ""),
        (TestRequest::get("/v1/sandboxes?lmiit=1"), "invalid_request", "lmiit"),
        (TestRequest::get("/v1/sandboxes?limit=0"), "invalid_request", "limit"),
        (TestRequest::get("/v1/sandboxes?status=asleep"), "invalid_request", "status"),
        (TestRequest::get("/v1/sandboxes?after=%ff"), "invalid_request", "after"),
        (TestRequest::post("/v1/sandboxes?wait=soon", "{}"), "invalid_request", "wait"),
        (post(b"{}").with("idempotency-key", "two words"), "invalid_request", "Idempotency-Key"),
        (post(b"{\"driver\": \"docker\"}"), "unsupported", "driver"),
    ];
    for (request, code, field) in table {
        let what = format!("{} {}", request.inner.method(), request.inner.uri());
        let reply = fixture.send(request).await;
        assert_eq!(
            (reply.code().as_str(), reply.field().as_str()),
            (code, field),
            "{what}: {:?}",
            reply.bytes
        );
        assert_eq!(reply.headers["content-type"], "application/json", "{what}");
    }
}

#[tokio::test]
async fn a_request_keeps_its_own_id_if_it_is_well_formed() {
    let fixture = ApiFixture::new().await;
    let request = |id: &str| TestRequest::get("/healthz").with("x-request-id", id);
    assert_eq!(fixture.send(request("my-id.1")).await.headers["x-request-id"], "my-id.1");
    for bad in ["a b", "", "x\"y", &"x".repeat(65)] {
        let given = fixture.send(request(bad)).await.headers["x-request-id"].to_str().unwrap().to_owned();
        assert_eq!(given.len(), 26, "{bad:?} became {given}");
    }
}

#[tokio::test]
async fn a_credential_for_one_sandbox_reaches_no_other_route() {
    let fixture = ApiFixture::new().await;
    let (mine, other) = (fixture.sandbox().await, fixture.sandbox().await);
    let only = mine.parse::<SandboxId>().expect("an id");
    let identity = || DelegatedIdentity(operator("test".to_owned()));
    for (method, path, expected) in [
        (Method::GET, format!("/v1/sandboxes/{mine}"), 200),
        (Method::GET, format!("/v1/sandboxes/{}", mine.to_ascii_uppercase()), 200),
        (Method::GET, format!("/v1/sandboxes/{mine}/execs"), 200),
        (Method::GET, format!("/v1/sandboxes/{other}"), 403),
        (Method::GET, format!("/v1/sandboxes/{other}/execs"), 403),
        (Method::GET, format!("/v1/sandboxes/{other}%2F..%2F{mine}"), 403),
        (Method::GET, "/v1/sandboxes".to_owned(), 403),
        (Method::GET, "/v1/tokens".to_owned(), 403),
        (Method::GET, "/v1/images/host".to_owned(), 403),
    ] {
        // As an operator: the restriction is the only one.
        let mut request = TestRequest::new(method, &path).without("authorization");
        request.inner.extensions_mut().insert(identity());
        request.inner.extensions_mut().insert(OnlySandbox(only));
        assert_eq!(fixture.send(request).await.status, expected, "{path}");
    }
}
