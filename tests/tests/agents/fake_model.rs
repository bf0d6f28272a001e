//! The fake model itself: whatever stands on it must be able to trust what it says.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use protocol::Usage;
use serde_json::{Value, json};
use std::time::Duration;
use tests::Caller;
use tests::model::{Dialect, FakeModel, Fault, Script, Turn};

const KEY: &str = "the-real-key";
const ALL: [Dialect; 4] = [Dialect::Messages, Dialect::Chat, Dialect::Responses, Dialect::Generate];

/// A conversation as each dialect has it: a prompt, and one answer with a tool's result for each of `results`.
struct ModelClient {
    speech: Dialect,
    streams: bool,
    prompt: &'static str,
    results: usize,
    tools: bool,
}

impl ModelClient {
    fn new(speech: Dialect, streams: bool) -> Self {
        Self { speech, streams, prompt: "do it", results: 0, tools: true }
    }

    fn path(&self) -> &'static str {
        match (self.speech, self.streams) {
            (Dialect::Messages, _) => "/v1/messages",
            (Dialect::Chat, _) => "/v1/chat/completions",
            (Dialect::Responses, _) => "/v1/responses",
            (Dialect::Generate, false) => "/v1beta/models/m:generateContent",
            (Dialect::Generate, true) => "/v1beta/models/m:streamGenerateContent?alt=sse",
        }
    }

    fn body(&self) -> Value {
        let (prompt, schema) = (self.prompt, json!({"properties": {"command": {"type": "string"}}}));
        let (mut items, tools) = match self.speech {
            Dialect::Generate => (
                vec![json!({"role": "user", "parts": [{"text": prompt}]})],
                json!([{"functionDeclarations": [{"name": "run_shell_command", "parameters": schema}]}]),
            ),
            Dialect::Messages => (
                vec![json!({"role": "user", "content": prompt})],
                json!([{"name": "Bash", "input_schema": schema}]),
            ),
            Dialect::Chat => (
                vec![json!({"role": "user", "content": prompt})],
                json!([{"type": "function", "function": {"name": "bash", "parameters": schema}}]),
            ),
            Dialect::Responses => (
                vec![json!({"role": "user", "content": [{"type": "input_text", "text": prompt}]})],
                json!([{"type": "function", "name": "shell", "parameters": schema}]),
            ),
        };
        for _ in 0..self.results {
            items.extend(self.result());
        }
        let name = match self.speech {
            Dialect::Generate => "contents",
            Dialect::Responses => "input",
            Dialect::Messages | Dialect::Chat => "messages",
        };
        let tools = if self.tools { tools } else { json!([]) };
        json!({"model": "m", "stream": self.streams, "stream_options": {"include_usage": true}, name: items, "tools": tools})
    }

    fn result(&self) -> Vec<Value> {
        match self.speech {
            Dialect::Generate => vec![
                json!({"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]}),
                json!({"role": "user", "parts": [{"functionResponse": {"response": {"output": "x"}}}]}),
            ],
            Dialect::Messages => vec![
                json!({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Bash", "input": {}}]}),
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]}),
            ],
            Dialect::Chat => {
                vec![json!({"role": "assistant", "content": "so"}), json!({"role": "tool", "content": "x"})]
            }
            Dialect::Responses => vec![
                json!({"type": "reasoning"}),
                json!({"type": "function_call", "name": "shell"}),
                json!({"type": "function_call_output", "output": "x"}),
            ],
        }
    }

    async fn ask(&self, model: &FakeModel) -> Result<(u16, String)> {
        let caller = Caller::tcp(&format!("http://{}", model.address()), Some(KEY));
        let reply = caller.post(self.path(), &self.body()).await?;
        Ok((reply.status, reply.text()))
    }
}

fn script() -> Script {
    let usage = Usage {
        input_tokens: 11,
        output_tokens: 22,
        cache_read_tokens: 5,
        reasoning_tokens: 2,
        ..Usage::default()
    };
    Script::new([Turn::shell("echo one"), Turn::think("hm").and_say("all is well").with_usage(usage)])
}

/// The tokens that an answer tells: input, all of the input that was cached, output, and thoughts of it.
fn told(speech: Dialect, usage: &Value) -> [Option<u64>; 4] {
    let number = |pointer: &str| usage.pointer(pointer).and_then(Value::as_u64);
    match speech {
        Dialect::Messages => {
            [number("/input_tokens"), number("/cache_read_input_tokens"), number("/output_tokens"), Some(2)]
        }
        Dialect::Chat => [
            number("/prompt_tokens").map(|all| all - 5),
            number("/prompt_tokens_details/cached_tokens"),
            number("/completion_tokens"),
            number("/completion_tokens_details/reasoning_tokens"),
        ],
        Dialect::Responses => [
            number("/input_tokens").map(|all| all - 5),
            number("/input_tokens_details/cached_tokens"),
            number("/output_tokens"),
            number("/output_tokens_details/reasoning_tokens"),
        ],
        Dialect::Generate => [
            number("/promptTokenCount").map(|all| all - 5),
            number("/cachedContentTokenCount"),
            number("/candidatesTokenCount").map(|shown| shown + 2),
            number("/thoughtsTokenCount"),
        ],
    }
}

#[tokio::test]
async fn a_script_goes_on_with_the_conversation_in_each_dialect() -> Result<()> {
    let model = FakeModel::start(Some(KEY)).await?;
    model.script(script());
    for speech in ALL {
        for streams in [false, true] {
            let (status, first) = ModelClient::new(speech, streams).ask(&model).await?;
            assert!(status == 200 && first.contains("echo one"), "{speech:?}: {first}");
            let (status, second) =
                ModelClient { results: 1, ..ModelClient::new(speech, streams) }.ask(&model).await?;
            assert_eq!(status, 200);
            for word in ["all ", "is ", "well", "hm"] {
                assert!(second.contains(word), "{speech:?}: {second}");
            }
            assert!(!second.contains("echo one"), "{second}");
            assert_eq!(second.contains("data: "), streams, "{second}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_tells_the_tokens_of_the_script_in_the_dialects_own_words() -> Result<()> {
    let model = FakeModel::start(Some(KEY)).await?;
    model.script(script());
    for speech in ALL {
        let (_, whole) = ModelClient { results: 1, ..ModelClient::new(speech, false) }.ask(&model).await?;
        let whole: Value = serde_json::from_str(&whole)?;
        let usage = if speech == Dialect::Generate { &whole["usageMetadata"] } else { &whole["usage"] };
        assert_eq!(told(speech, usage), [Some(11), Some(5), Some(22), Some(2)], "{speech:?}: {whole}");
    }
    let told = model.told();
    assert_eq!((told.calls, told.input_tokens, told.output_tokens), (4, 44, 88));
    Ok(())
}

#[tokio::test]
async fn who_offers_no_tools_gets_a_short_answer_and_uses_up_no_turn() -> Result<()> {
    let model = FakeModel::start(Some(KEY)).await?;
    model.script(Script::new([Turn::say("first").after(Fault::status(500, "no"))]));
    for speech in ALL {
        let (status, small) =
            ModelClient { tools: false, ..ModelClient::new(speech, true) }.ask(&model).await?;
        assert!(status == 200 && small.contains("A small job"), "{small}");
    }
    assert_eq!(ModelClient::new(Dialect::Chat, true).ask(&model).await?.0, 500);
    assert_eq!((model.heard().len(), model.calls().len()), (5, 1));
    Ok(())
}

#[tokio::test]
async fn the_script_of_the_mark_that_was_said_last_answers() -> Result<()> {
    let model = FakeModel::start(Some(KEY)).await?;
    model.script(Script::new([Turn::say("whatever")]));
    model.on("do the one", Script::new([Turn::say("one")]));
    let other = ModelClient { prompt: "do the other", ..ModelClient::new(Dialect::Messages, false) };
    assert!(other.ask(&model).await?.1.contains("whatever"));
    let marked = ModelClient { prompt: "please do the one", ..ModelClient::new(Dialect::Messages, false) };
    assert!(marked.ask(&model).await?.1.contains("\"one\""));
    Ok(())
}

#[tokio::test]
async fn a_key_that_is_not_the_one_is_refused_wherever_it_stands() -> Result<()> {
    let model = FakeModel::start(Some(KEY)).await?;
    let talk = ModelClient::new(Dialect::Generate, false);
    let caller = Caller::tcp(&format!("http://{}", model.address()), None);
    for (header, value, status) in [
        ("authorization", format!("Bearer {KEY}"), 200),
        ("x-api-key", KEY.to_owned(), 200),
        ("x-goog-api-key", KEY.to_owned(), 200),
        ("x-api-key", "another".to_owned(), 401),
        ("x-nothing", KEY.to_owned(), 401),
    ] {
        let body = Full::new(Bytes::from(talk.body().to_string()));
        let reply = caller.call(Request::post(talk.path()).header(header, value).body(body)?).await?;
        assert_eq!(reply.status, status, "{header}: {}", reply.text());
    }
    Ok(())
}

#[tokio::test]
async fn each_fault_spoils_one_try_and_then_the_answer_comes() -> Result<()> {
    let model = FakeModel::start(Some(KEY)).await?;
    let faults =
        [Fault::busy(3), Fault::status(529, "overloaded"), Fault::EchoKey { code: 401 }, Fault::Garbage];
    let turn = faults.into_iter().fold(Turn::say("at last"), Turn::after);
    model.script(Script::new([turn]));
    let talk = ModelClient::new(Dialect::Messages, true);
    let caller = Caller::tcp(&format!("http://{}", model.address()), Some(KEY));
    let busy = caller.post(talk.path(), &talk.body()).await?;
    assert_eq!((busy.status, busy.headers["retry-after"].as_bytes()), (429, &b"3"[..]));
    assert_eq!(talk.ask(&model).await?.0, 529);
    let (status, echo) = talk.ask(&model).await?;
    assert!(status == 401 && echo.contains(KEY), "{echo}");
    assert!(!talk.ask(&model).await?.1.contains("event:"));
    assert!(talk.ask(&model).await?.1.contains("at "));
    Ok(())
}

#[tokio::test]
async fn streams_are_cut_stalled_and_slowed_down_where_the_script_says() -> Result<()> {
    let model = FakeModel::start(Some(KEY)).await?;
    let slow = Fault::Slow { every: Duration::from_millis(20) };
    let turn = Turn::say("one two three").after(Fault::Cut { after: 2 }).after(Fault::Stall { after: 3 });
    model.script(Script::new([turn.after(slow)]));
    let talk = ModelClient::new(Dialect::Messages, true);
    let open = async || {
        let caller = Caller::tcp(&format!("http://{}", model.address()), Some(KEY));
        let body = Full::new(Bytes::from(talk.body().to_string()));
        Ok::<_, anyhow::Error>(caller.open(Request::post(talk.path()).body(body)?).await?.into_body())
    };
    let mut cut = open().await?;
    let mut got = String::new();
    let end = loop {
        match cut.frame().await {
            Some(Ok(frame)) => got += std::str::from_utf8(frame.data_ref().context("data")?)?,
            end => break end,
        }
    };
    ensure!(matches!(end, Some(Err(_))), "a cut stream must not end well");
    assert_eq!(got.matches("event: ").count(), 2);
    let mut stalled = open().await?;
    let mut got = String::new();
    while got.matches("event: ").count() < 3 {
        got += std::str::from_utf8(stalled.frame().await.context("a frame")??.data_ref().context("data")?)?;
    }
    let more = tokio::time::timeout(Duration::from_millis(200), stalled.frame()).await;
    ensure!(more.is_err(), "something comes after the stall");
    let begun = std::time::Instant::now();
    let whole = open().await?.collect().await?.to_bytes();
    assert!(String::from_utf8_lossy(&whole).contains("message_stop"));
    assert!(begun.elapsed() >= Duration::from_millis(100));
    Ok(())
}
