//! Agents: the list, and requests that are refused before a task begins.

use super::ApiFixture;
use serde_json::{Value, json};

#[tokio::test]
async fn agents_report_what_they_lack_and_the_default_comes_first() {
    let fixture = ApiFixture::new().await;
    let page = fixture.get("/v1/agents").await;
    assert_eq!(page.status, 200, "{:?}", page.bytes);
    let agents = page.json()["items"].as_array().expect("a list").clone();
    let first = &agents[0];
    assert_eq!((&first["name"], &first["default"]), (&json!("opencode"), &json!(true)));
    assert_eq!((&first["installed"], &first["connected"]), (&json!(false), &json!(false)));
    assert_eq!(first["dialects"], json!(["anthropic", "openai", "gemini"]));
    let how: Vec<&str> =
        first["how_to_connect"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(
        how[0].contains("scripts/agents opencode") && how[1].contains("slipway model add anthropic"),
        "{how:?}"
    );
    let command = agents.iter().find(|agent| agent["name"] == "command").expect("always there");
    assert_eq!((&command["installed"], &command["connected"]), (&json!(true), &json!(true)));
    assert_eq!(fixture.get("/v1/agents?sandbox=01jb9xyzabcdefghjkmnpqrstv").await.code(), "not_found");
}

#[tokio::test]
async fn a_task_without_a_model_says_what_to_type() {
    let fixture = ApiFixture::new().await;
    let tasks = format!("/v1/sandboxes/{}/tasks", fixture.sandbox().await);
    let reply = fixture.post(&tasks, json!({"prompt": "do it"})).await;
    assert_eq!((reply.code().as_str(), reply.field().as_str()), ("no_model", "model"));
    assert!(reply.json()["error"]["message"].as_str().expect("text").contains("slipway model add"));
    let reply = fixture.post(&tasks, json!({"prompt": "do it", "agent": "unknown"})).await;
    assert_eq!((reply.code().as_str(), reply.field().as_str()), ("unsupported", "agent"));
    assert!(
        reply.json()["error"]["detail"]["supported"].as_array().expect("a list").contains(&json!("claude"))
    );
}

#[tokio::test]
async fn unknown_fields_of_permissions_are_refused_by_name() {
    let fixture = ApiFixture::new().await;
    let tasks = format!("/v1/sandboxes/{}/tasks", fixture.sandbox().await);
    let table = [
        (json!({"defualt": "ask"}), "permissions.defualt"),
        (json!({"rules": [{"tool": "edit", "then": "deny", "when": "now"}]}), "permissions.rules[0].when"),
        (json!({"default": "perhaps"}), "permissions.default"),
    ];
    for (permissions, field) in table {
        let reply = fixture.post(&tasks, json!({"prompt": "x", "permissions": permissions})).await;
        assert_eq!((reply.code().as_str(), reply.field().as_str()), ("invalid_request", field));
    }
}

#[tokio::test]
async fn only_pending_permissions_can_be_answered() {
    let fixture = ApiFixture::new().await;
    let sandbox = fixture.sandbox().await;
    let tasks = format!("/v1/sandboxes/{sandbox}/tasks");
    let answer = json!({"decision": "allow"});
    assert_eq!(
        fixture.post(&format!("{tasks}/nothing/permissions/p1"), answer.clone()).await.code(),
        "not_found"
    );
    let task = json!({"id": "t", "prompt": "x", "command": ["true"]});
    assert_eq!(fixture.post(&tasks, task).await.status, 202);
    let strange = format!("{tasks}/t/permissions/..%2F..%2Fexecs");
    assert_eq!(fixture.post(&strange, answer).await.code(), "not_found");
    for (body, field) in
        [(json!({"decision": "ask"}), "decision"), (json!({"decision": "allow", "x": 1}), "x")]
    {
        let reply = fixture.post(&format!("{tasks}/t/permissions/p1"), body).await;
        assert_eq!((reply.code().as_str(), reply.field().as_str()), ("invalid_request", field));
    }
}
