//! `slipway events`: the event log of hostd, once or as a stream.

use crate::{
    client::ApiRequest,
    context::{Context, parse_items},
    event_stream::EventStream,
    failure::{Failure, eprint_line},
    output::{Colour, Output},
    printer::RawFlag,
    sanitize::TerminalFilter,
    text::plain,
};
use clap::Args;
use protocol::api::{EventView, SandboxId};
use serde_json::{Map, Value};
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Id, prefix of an id, or name; all sandboxes when not given
    #[arg(value_name = "SANDBOX")]
    sandbox: Option<String>,
    /// Follow new events until Ctrl-C; reconnects without gaps when hostd restarts
    #[arg(long, short)]
    follow: bool,
    /// Only events after this sequence number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Only kinds with this prefix, as in exec or exec.ended,service
    #[arg(long)]
    kind: Option<String>,
    #[command(flatten)]
    raw: RawFlag,
}

pub async fn run(context: &Context, args: EventsArgs) -> Result<(), Failure> {
    let sandbox = match &args.sandbox {
        Some(text) => Some(context.sandbox(text).await?),
        None => None,
    };
    if args.follow { follow(context, sandbox, &args).await } else { list_past(context, sandbox, &args).await }
}

fn events_request(sandbox: Option<SandboxId>, args: &EventsArgs) -> ApiRequest {
    ApiRequest::get("/v1/events").query_if("sandbox", sandbox).query_if("kind", args.kind.as_deref())
}

async fn follow(context: &Context, sandbox: Option<SandboxId>, args: &EventsArgs) -> Result<(), Failure> {
    let client = Arc::clone(&context.client);
    let mut feed = EventStream::new(client, events_request(sandbox, args), args.after, Arc::new(eprint_line));
    while let Some(frame) = feed.next().await? {
        if context.output.json {
            context.output.document(frame.data.as_bytes())?;
        } else if let Ok(event) = serde_json::from_str(&frame.data) {
            print(context.output, &event, args.raw)?;
        }
    }
    Ok(())
}

async fn list_past(context: &Context, sandbox: Option<SandboxId>, args: &EventsArgs) -> Result<(), Failure> {
    let request = events_request(sandbox, args).long_pages().header("accept", "application/json");
    let mut after = args.after.map(|seq| seq.to_string());
    loop {
        // Printed page by page: the log may be larger than memory.
        let page = context.client.page(&request, after.as_deref()).await?;
        for json in page.items {
            if context.output.json {
                context.output.json(&json)?;
            } else {
                for event in &parse_items::<EventView>(vec![json])? {
                    print(context.output, event, args.raw)?;
                }
            }
        }
        if page.next.is_none() || page.next == after {
            return Ok(());
        }
        after = page.next;
    }
}

fn print(output: Output, event: &EventView, flag: RawFlag) -> Result<(), Failure> {
    if flag.raw {
        return output.bytes(format!("{}\n", line(event, output, &details_of(event))).as_bytes());
    }
    output.line(&line(event, output, &shown(&details_of(event), output)))
}

/// Makes one line of the details, keeping their colours where the output has colours.
fn shown(details: &str, output: Output) -> String {
    if !output.colour {
        return plain(details);
    }
    TerminalFilter::whole(details).replace(['\n', '\r', '\t'], " ")
}

fn line(event: &EventView, output: Output, details: &str) -> String {
    let time = output.paint(Colour::Dim, &event.time);
    format!("{time}  {}  {:<16}  {details}", event.sandbox, plain(&event.kind)).trim_end().to_owned()
}

/// Formats the details of an event: inline fields of a task event, `data` of any other.
fn details_of(event: &EventView) -> String {
    if event.data.is_null() {
        return details(&event.fact);
    }
    event.data.as_object().map_or_else(|| event.data.to_string(), details)
}

/// Formats fields as `name=value`, nested ones as JSON.
fn details(fields: &Map<String, Value>) -> String {
    let skipped = ["kind", "cursor", "time_ms"];
    let shown = fields.iter().filter(|(name, value)| !skipped.contains(&name.as_str()) && !value.is_null());
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    shown.map(|(name, value)| format!("{name}={}", text(value))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(json: &str, colour: bool) -> String {
        let event: EventView = serde_json::from_str(json).expect("an event");
        let output = Output { json: false, colour };
        line(&event, output, &shown(&details_of(&event), output))
    }

    #[test]
    fn an_event_of_a_task_is_one_line_too() {
        let json = r#"{"seq":7,"time":"2026-11-16T08:00:00.000Z","sandbox":"01jb9xyzabcdefghjkmnpqrstv","task":"t",
            "number":3,"kind":"message","text":"\u001b]0;t\u0007\u001b[31mhi\u001b[2J\nyou"}"#;
        assert!(
            line_of(json, false).ends_with("  message           number=3 text=hi you"),
            "{:?}",
            line_of(json, false)
        );
        let coloured = line_of(json, true);
        assert!(coloured.ends_with("  number=3 text=\u{1b}[31mhi you\u{1b}[0m"), "{coloured:?}");
    }

    #[test]
    fn an_event_is_one_line() {
        let json = r#"{"seq":7,"time":"2026-11-16T08:00:00.000Z","sandbox":"01jb9xyzabcdefghjkmnpqrstv","kind":"exec.ended",
            "data":{"exec":"a","exit":{"kind":"exited","code":2},"output_end":5,"note":"two\nlines"}}"#;
        insta::assert_snapshot!(line_of(json, false), @r#"2026-11-16T08:00:00.000Z  01jb9xyzabcdefghjkmnpqrstv  exec.ended        exec=a exit={"code":2,"kind":"exited"} note=two lines output_end=5"#);
    }
}
