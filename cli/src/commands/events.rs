//! `slipway events`.

use crate::{
    client::Ask,
    context::{Context, typed},
    failure::{Failure, eprint_line},
    feed::Feed,
    output::{Colour, Output},
    text::plain,
};
use clap::Args;
use protocol::api::{EventView, SandboxId};
use serde_json::{Map, Value};
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Id, beginning of an id, or name; all sandboxes when not given
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,
    /// Go on with what happens, after what happened, until Ctrl-C; reconnects without a gap when hostd restarts
    #[arg(long, short)]
    follow: bool,
    /// Only what came after the event with this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Only kinds that begin with this, as in exec or exec.ended,service
    #[arg(long)]
    kind: Option<String>,
}

pub async fn run(context: &Context, args: EventsArgs) -> Result<(), Failure> {
    let sandbox = match &args.sandbox {
        Some(text) => Some(context.sandbox(text).await?),
        None => None,
    };
    if args.follow { follow(context, sandbox, &args).await } else { past(context, sandbox, &args).await }
}

fn wanted(sandbox: Option<SandboxId>, args: &EventsArgs) -> Ask {
    Ask::get("/v1/events").query_if("sandbox", sandbox).query_if("kind", args.kind.as_deref())
}

async fn follow(context: &Context, sandbox: Option<SandboxId>, args: &EventsArgs) -> Result<(), Failure> {
    let client = Arc::clone(&context.client);
    let mut feed = Feed::new(client, wanted(sandbox, args), args.after, Arc::new(eprint_line));
    while let Some(frame) = feed.next().await? {
        if context.output.json {
            context.output.line(&frame.data)?;
        } else if let Ok(event) = serde_json::from_str(&frame.data) {
            context.output.line(&line(&event, context.output))?;
        }
    }
    Ok(())
}

async fn past(context: &Context, sandbox: Option<SandboxId>, args: &EventsArgs) -> Result<(), Failure> {
    let ask = wanted(sandbox, args).long_pages().header("accept", "application/json");
    let mut after = args.after.map(|seq| seq.to_string());
    loop {
        // Printed as it comes: the log may be larger than the memory.
        let page = context.client.page(&ask, after.as_deref()).await?;
        for json in page.items {
            if context.output.json {
                context.output.json(&json)?;
            } else {
                for event in &typed::<EventView>(vec![json])? {
                    context.output.line(&line(event, context.output))?;
                }
            }
        }
        if page.next.is_none() || page.next == after {
            return Ok(());
        }
        after = page.next;
    }
}

fn line(event: &EventView, output: Output) -> String {
    let time = output.paint(Colour::Dim, &event.time);
    let line = format!("{time}  {}  {:<16}  {}", event.sandbox, event.kind, plain(&told(event)));
    line.trim_end().to_owned()
}

/// What an event tells: of a task beside its other fields, of anything else in `data`.
fn told(event: &EventView) -> String {
    match &event.data {
        Value::Null => details(&event.fact),
        Value::Object(data) => details(data),
        other => other.to_string(),
    }
}

/// Fields as `name=value`, nested ones as JSON.
fn details(fields: &Map<String, Value>) -> String {
    let skipped = ["kind", "cursor", "time_ms"];
    let shown = fields.iter().filter(|(name, value)| !skipped.contains(&name.as_str()) && !value.is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    shown.map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_task_is_one_line_too() {
        let json = r#"{"seq":7,"time":"2026-11-16T08:00:00.000Z","sandbox":"01jb9xyzabcdefghjkmnpqrstv","task":"t",
            "number":3,"kind":"message","text":"hi\u001b[2J"}"#;
        let event: EventView = serde_json::from_str(json).expect("an event");
        let line = line(&event, Output { json: false, colour: false });
        assert!(line.ends_with("  message           number=3 text=hi[2J"), "{line:?}");
    }

    #[test]
    fn an_event_is_one_line() {
        let json = r#"{"seq":7,"time":"2026-11-16T08:00:00.000Z","sandbox":"01jb9xyzabcdefghjkmnpqrstv","kind":"exec.ended",
            "data":{"exec":"a","exit":{"kind":"exited","code":2},"output_end":5,"note":"two\nlines"}}"#;
        let event: EventView = serde_json::from_str(json).expect("an event");
        insta::assert_snapshot!(line(&event, Output { json: false, colour: false }), @r#"2026-11-16T08:00:00.000Z  01jb9xyzabcdefghjkmnpqrstv  exec.ended        exec=a exit={"code":2,"kind":"exited"} note=twolines output_end=5"#);
    }
}
