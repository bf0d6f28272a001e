//! Who is not let in, and what is not understood.

use super::{ADMIN, Ask, Reply, World};
use crate::{
    api::{Auth, hosts::Peer},
    limits,
};
use hyper::Method;
use protocol::api::TokenScope;
use serde_json::json;

#[tokio::test]
async fn a_wrong_name_or_site_is_refused_before_any_token_is_looked_at() {
    let world = World::new().await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example")] {
        for path in ["/v1/sandboxes", "/healthz", "/nowhere"] {
            let reply = world.send(Ask::get(path).without("authorization").with(name, value)).await;
            assert_eq!(reply.code(), "forbidden", "{name} {path}");
        }
    }
    assert_eq!(world.send(Ask::get("/healthz").with("host", "slipway.example")).await.status, 200);
}

#[tokio::test]
async fn without_a_good_token_nobody_is_let_in() {
    let world = World::new().await;
    let bare = || Ask::get("/v1/sandboxes").without("authorization");
    for ask in [
        bare(),
        bare().token("slw_wrong"),
        bare().with("authorization", "Basic eDp5"),
        bare().token(&"x".repeat(5000)),
    ] {
        let reply = world.send(ask).await;
        assert_eq!(reply.code(), "unauthorized");
        assert_eq!(reply.headers["www-authenticate"], "Bearer realm=\"slipway\"");
    }
    assert_eq!(world.send(bare().token(ADMIN)).await.status, 200);
    assert_eq!(world.send(Ask::get("/healthz").without("authorization")).await.status, 200);
    assert_eq!(world.send(Ask::get("/readyz").without("authorization")).await.status, 200);
}

#[tokio::test]
async fn the_socket_is_for_root() {
    let world = World::new().await;
    let on_socket =
        |uid| Ask::get("/v1/host").without("authorization").without("host").peer(Peer::Unix { uid });
    assert_eq!(world.send(on_socket(0)).await.status, 200);
    assert_eq!(world.send(on_socket(54_321)).await.code(), "forbidden");
    assert_eq!(
        world.send(on_socket(0).token("slw_wrong")).await.code(),
        "unauthorized",
        "a token given counts"
    );
}

#[tokio::test]
async fn without_authentication_only_loopback_is_trusted() {
    let world = World::with_auth(Auth::Off).await;
    let ask = || Ask::get("/v1/host").without("authorization");
    assert_eq!(world.send(ask()).await.status, 200);
    let far = Peer::Tcp { from: "10.0.0.9:1".parse().unwrap(), local: "127.0.0.1:9090".parse().unwrap() };
    assert_eq!(world.send(ask().peer(far)).await.code(), "unauthorized");
}

#[tokio::test]
async fn a_revoked_token_does_not_work_once_more() {
    let world = World::new().await;
    let token = world.token("acme", "ann", TokenScope::Run).await;
    let ask = || Ask::get("/v1/sandboxes").token(&token);
    assert_eq!(world.send(ask()).await.status, 200);
    let id = world.get("/v1/tokens").await.json()["items"][0]["id"].as_str().unwrap().to_owned();
    let revoked = world.send(Ask::new(Method::DELETE, &format!("/v1/tokens/{id}"))).await;
    assert_eq!(revoked.status, 204);
    assert_eq!(world.send(ask()).await.code(), "unauthorized");
}

#[tokio::test]
async fn a_scope_is_a_limit() {
    let world = World::new().await;
    let (read, run, admin) = (
        world.token("acme", "ann", TokenScope::Read).await,
        world.token("acme", "ann", TokenScope::Run).await,
        world.token("acme", "ann", TokenScope::Admin).await,
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
        let reply = world.send(Ask::new(method.clone(), path).token(token)).await;
        assert_eq!(reply.status != 403, allowed, "{method} {path}: {:?}", reply.bytes);
    }
    let other =
        Ask::post("/v1/tokens", json!({"tenant": "other", "principal": "x"}).to_string()).token(&admin);
    assert_eq!(world.send(other).await.code(), "forbidden", "tokens of another tenant");
}

#[tokio::test]
async fn somebody_elses_is_as_if_it_were_not() {
    let world = World::new().await;
    let id = world.sandbox().await;
    let stranger = world.token("acme", "ann", TokenScope::Admin).await;
    let body = |path: String| {
        let ask = Ask::get(&path).token(&stranger);
        async { world.send(ask).await }
    };
    let foreign = body(format!("/v1/sandboxes/{id}")).await;
    assert_eq!(foreign.code(), "not_found");
    // But for the id itself, as the caller gave it.
    let answer = |reply: &Reply, id: &str| {
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
    assert_eq!(world.send(Ask::get("/v1/sandboxes").token(&stranger)).await.json()["items"], json!([]));
}

#[tokio::test]
async fn a_body_that_names_another_owner_is_refused() {
    let world = World::new().await;
    for field in ["tenant", "principal"] {
        let reply = world.post("/v1/sandboxes", json!({field: "other"})).await;
        assert_eq!((reply.code().as_str(), reply.field().as_str()), ("forbidden", field));
    }
    let own = json!({"tenant": "default", "principal": "admin"});
    assert_eq!(world.post("/v1/sandboxes?wait=0", own).await.status, 201);
}

#[tokio::test]
async fn what_is_not_understood_is_said_in_json() {
    let world = World::new().await;
    let post = |body: &'static [u8]| Ask::post("/v1/sandboxes", body);
    let table = [
        (Ask::get("/nowhere"), "not_found", ""),
        (Ask::get("/v1/sandboxes/x/y/z"), "not_found", ""),
        (Ask::new(Method::PUT, "/v1/sandboxes"), "method_not_allowed", ""),
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
        (Ask::post("/v1/sandboxes", vec![b' '; limits::BODY_MAX_BYTES + 1]), "too_large", ""),
        (Ask::get("/v1/sandboxes?lmiit=1"), "invalid_request", "lmiit"),
        (Ask::get("/v1/sandboxes?limit=0"), "invalid_request", "limit"),
        (Ask::get("/v1/sandboxes?status=asleep"), "invalid_request", "status"),
        (Ask::get("/v1/sandboxes?after=%ff"), "invalid_request", "after"),
        (Ask::post("/v1/sandboxes?wait=soon", "{}"), "invalid_request", "wait"),
        (post(b"{}").with("idempotency-key", "two words"), "invalid_request", "Idempotency-Key"),
        (post(b"{\"driver\": \"docker\"}"), "unsupported", "driver"),
    ];
    for (ask, code, field) in table {
        let what = format!("{} {}", ask.request.method(), ask.request.uri());
        let reply = world.send(ask).await;
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
async fn a_request_keeps_its_own_id_if_it_is_sane() {
    let world = World::new().await;
    let ask = |id: &str| Ask::get("/healthz").with("x-request-id", id);
    assert_eq!(world.send(ask("my-id.1")).await.headers["x-request-id"], "my-id.1");
    for bad in ["a b", "", "x\"y", &"x".repeat(65)] {
        let given = world.send(ask(bad)).await.headers["x-request-id"].to_str().unwrap().to_owned();
        assert_eq!(given.len(), 26, "{bad:?} became {given}");
    }
}
