//! The list of a provider's models: requested with its key, bounded, and reported without it.

use super::{
    fake_provider::{Action, FakeProvider, send},
    fixture::{KEY, Setup, timeouts},
    recorder::Recorder,
};
use crate::{
    CallTarget, Dialect, Provider, ProviderKey,
    gateway::{Gateway, ListModelsError, ModelList, limits::LIST_MAX_BYTES},
};
use hostd_net::outbound::OutboundConnector;
use std::sync::Arc;

fn reply(head: &str, body: &str) -> Vec<Action> {
    let length = body.len();
    vec![send(&format!(
        "HTTP/1.1 {head}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    ))]
}

async fn list(dialect: Dialect, base_url: &str) -> Result<ModelList, ListModelsError> {
    let key = Some(ProviderKey(KEY.to_owned().into()));
    let (name, base_url) = ("fake".to_owned(), base_url.to_owned());
    let provider = Provider { name, dialect, base_url, key };
    let call_target = CallTarget { provider: Arc::new(provider.clone()), model: "m".to_owned(), price: None };
    let connector = OutboundConnector::from_host_config();
    let gateway = Gateway::with_authorizer(
        Arc::new(Recorder::new(call_target, &Setup::default())),
        connector,
        timeouts(),
    );
    gateway.list_models(&provider).await
}

#[tokio::test]
async fn a_list_is_requested_as_its_dialect_wants() {
    let table = [
        (Dialect::Anthropic, "GET /v9/models?limit=1000 HTTP/1.1", "x-api-key", KEY.to_owned()),
        (Dialect::Openai, "GET /v9/models HTTP/1.1", "authorization", format!("Bearer {KEY}")),
        (Dialect::Gemini, "GET /v9/models?pageSize=1000 HTTP/1.1", "x-goog-api-key", KEY.to_owned()),
    ];
    for (dialect, line, header, value) in table {
        let body = r#"{"data":[{"id":"a"}],"models":[{"name":"models/a"}]}"#;
        let provider = FakeProvider::start(vec![reply("200 OK", body)]).await;
        let found = list(dialect, &provider.url).await.expect("a list");
        assert_eq!(found.models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(), ["a"]);
        let request = &provider.received()[0];
        assert_eq!((request.line.as_str(), request.header(header)), (line, Some(value.as_str())));
        assert_eq!(request.header("anthropic-version").is_some(), dialect == Dialect::Anthropic);
    }
}

#[tokio::test]
async fn a_refused_key_is_reported_in_the_providers_words_and_other_failures_are_unavailable() {
    let no = |words: &str| format!(r#"{{"error":{{"message":"{words} {KEY}"}}}}"#);
    let long = format!(r#"{{"data":[{{"id":"a"}}],"x":"{}"}}"#, "x".repeat(LIST_MAX_BYTES));
    let elsewhere = "302 Found\r\nlocation: http://127.0.0.1:1/";
    let table = [
        ("401 Unauthorized", no("who is"), true, "who is [key]"),
        ("403 Forbidden", no("not for"), true, "not for [key]"),
        ("400 Bad Request", no("API key not valid:"), true, "API key not valid: [key]"),
        ("400 Bad Request", no("no such page"), false, "no such page [key]"),
        ("404 Not Found", String::new(), false, "answered 404"),
        ("500 Internal Server Error", no("oh"), false, "oh [key]"),
        (elsewhere, String::new(), false, "redirects (302 Found)"),
        ("200 OK", "<html>".to_owned(), false, "lists its models in an unknown format"),
        ("200 OK", long, false, "lists its models in an unknown format"),
    ];
    for (head, body, refused, words) in table {
        let provider = FakeProvider::start(vec![reply(head, &body)]).await;
        let none = list(Dialect::Openai, &provider.url).await.expect_err("no list");
        assert_eq!(matches!(none, ListModelsError::KeyRefused(_)), refused, "{head}: {none}");
        assert!(none.to_string().contains(words) && !none.to_string().contains(KEY), "{head}: {none}");
        assert_eq!(provider.received().len(), 1, "{head}: one request, and no redirect followed");
    }
    let closed = list(Dialect::Openai, "http://127.0.0.1:1/v1").await.expect_err("no server");
    assert!(
        matches!(&closed, ListModelsError::Unavailable(words) if words.contains("is unreachable: could not connect")),
        "{closed}"
    );
}
