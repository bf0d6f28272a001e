use super::*;

fn task(fields: &str) -> TaskAnswer {
    let mut value = serde_json::json!({ "id": "t1", "sandbox_id": "01jb9xyzabcdefghjkmnpqrstv", "status": "queued",
        "phase": "queued", "agent": "command", "prompt": "make it\nwork", "events_url": "/v1/x", "created_at": "" });
    let more: serde_json::Value = serde_json::from_str(fields).expect("JSON");
    for (key, field) in more.as_object().expect("an object") {
        value[key] = field.clone();
    }
    serde_json::from_value(value).expect("a task")
}

const PLAIN: Output = Output { json: false, colour: false };

#[test]
fn a_list_shows_what_goes_on_and_how_it_ended() {
    let tasks = [
        task(r#"{"cancelling":true}"#),
        task(r#"{"status":"running","phase":"agent"}"#),
        task(r#"{"status":"running","phase":"build","cancelling":true}"#),
        task(r#"{"status":"running","phase":"agent","open_permissions":["p1","p3"]}"#),
        task(r#"{"status":"failed","phase":"done","failure_reason":"timed_out"}"#),
        task(r#"{"status":"succeeded","phase":"done","prompt":""}"#),
    ];
    insta::assert_snapshot!(table(&tasks, PLAIN), @r"
    ID  STATUS                         AGENT    AGE  PROMPT
    t1  queued (cancelling)            command  -    make it work
    t1  running (agent)                command  -    make it work
    t1  running (cancelling)           command  -    make it work
    t1  waiting for permission p1, p3  command  -    make it work
    t1  failed (timed_out)             command  -    make it work
    t1  succeeded                      command  -    -
    ");
}

#[test]
fn a_task_that_waits_says_for_what_and_how_to_answer() {
    let waits = task(r#"{"status":"running","phase":"agent","open_permissions":["p1"]}"#);
    insta::assert_snapshot!(describe(&waits, Style { output: PLAIN, terminal: true }), @r"
    id          t1
    sandbox     01jb9xyzabcdefghjkmnpqrstv
    status      waiting for permission p1
    answer      `slipway task allow 01jb9xyzabcdefghjkmnpqrstv t1 p1`, or `deny`; `task follow` shows what it is
    agent       command
    prompt      make it work
    created     - ago
    ");
}

#[test]
fn everything_about_a_task_is_shown() {
    let result = serde_json::to_string(&crate::task::tests::result(r#"{"final_message":{"data":"done"}}"#));
    let done =
        task(&format!(r#"{{"status":"succeeded","phase":"done","result":{}}}"#, result.expect("JSON")));
    insta::assert_snapshot!(describe(&done, Style { output: PLAIN, terminal: true }), @r"
    id          t1
    sandbox     01jb9xyzabcdefghjkmnpqrstv
    status      succeeded
    agent       command
    prompt      make it work
    created     - ago

    succeeded after 12.3s (agent 12.3s)
      files       not known
      said
      | done
    ");
}
