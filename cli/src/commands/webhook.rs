//! `slipway webhook`: endpoints that are told of events, and their deliveries.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::{Failure, eprint_line},
    humanize::{age, until},
    output::{Colour, Output},
    table::{Cell, Table},
    text::wire_name,
};
use clap::{Args, Subcommand, ValueEnum};
use protocol::api::{
    DeliveryState, DeliveryView, Label, RedeliverRequest, Redelivered, WebhookChange, WebhookCreate,
    WebhookCreated, WebhookEvents, WebhookStatus, WebhookTest, WebhookView,
};

#[derive(Debug, Args)]
pub struct WebhookArgs {
    #[command(subcommand)]
    command: WebhookCommand,
}

const ADD_EXAMPLES: &str = "\
Prints the secret with which deliveries are verified, as the Standard Webhooks specification says; it is not shown again.

Examples:
  slipway webhook add https://hooks.example.com/slipway --events 'task.*,permission.asked'
  slipway webhook add https://hooks.example.com/web --sandbox web --events sandbox.error,limit.reached";

const REDELIVER_EXAMPLES: &str = "\
Examples:
  slipway webhook redeliver 01k… --dead
  slipway webhook redeliver 01k… --delivery msg_01k…_4711_task-done
  slipway webhook redeliver 01k… --since 4700";

#[derive(Debug, Subcommand)]
enum WebhookCommand {
    /// Add a webhook, and print its secret
    #[command(after_help = ADD_EXAMPLES)]
    Add {
        /// https address of the endpoint
        url: String,
        /// Types of events, families as in `task.*`, or `*`; separated by commas. Default: all
        #[arg(long, value_delimiter = ',', value_parser = events)]
        events: Vec<WebhookEvents>,
        /// Only events of this sandbox
        #[arg(long, value_name = "SANDBOX")]
        sandbox: Option<String>,
        /// Only events of sandboxes of this project
        #[arg(long, value_parser = label)]
        project: Option<Label>,
        /// What it is for
        #[arg(long)]
        description: Option<String>,
        /// Tenant of the webhook, for the operator; default: your own
        #[arg(long, value_parser = label, conflicts_with = "all_tenants")]
        tenant: Option<Label>,
        /// Events of all tenants, for the operator
        #[arg(long)]
        all_tenants: bool,
    },
    /// List webhooks
    #[command(visible_alias = "list")]
    Ls {
        /// Only those of this tenant, for the operator
        #[arg(long, value_parser = label)]
        tenant: Option<Label>,
    },
    /// Show a webhook: what waits, and the last failure
    Show {
        /// Its id
        #[arg(value_name = "WEBHOOK")]
        webhook: String,
    },
    /// Change a webhook, disable or enable it
    ///
    /// Once it is enabled again, everything since is delivered.
    Set {
        /// Its id
        #[arg(value_name = "WEBHOOK")]
        webhook: String,
        /// The new address
        #[arg(long)]
        url: Option<String>,
        /// The new selection of events
        #[arg(long, value_delimiter = ',', value_parser = events)]
        events: Vec<WebhookEvents>,
        /// What it is for
        #[arg(long)]
        description: Option<String>,
        /// Deliver nothing until it is enabled
        #[arg(long, conflicts_with = "enable")]
        disable: bool,
        /// Deliver again
        #[arg(long)]
        enable: bool,
    },
    /// Give a webhook a new secret, and print it; for a day the one before signs too
    Rotate {
        /// Its id
        #[arg(value_name = "WEBHOOK")]
        webhook: String,
    },
    /// Remove webhooks with their deliveries
    Rm {
        /// Their ids
        #[arg(required = true, value_name = "WEBHOOK")]
        webhooks: Vec<String>,
    },
    /// Send a test message, and show the answer; exits 1 where it is no success
    Test {
        /// Its id
        #[arg(value_name = "WEBHOOK")]
        webhook: String,
    },
    /// List deliveries, newest first
    Deliveries {
        /// Its id
        #[arg(value_name = "WEBHOOK")]
        webhook: String,
        /// Only deliveries in this state
        #[arg(long)]
        state: Option<StateFlag>,
    },
    /// Deliver again what was given up, one delivery, or everything since an event
    #[command(after_help = REDELIVER_EXAMPLES)]
    Redeliver {
        /// Its id
        #[arg(value_name = "WEBHOOK")]
        webhook: String,
        #[command(flatten)]
        what: RedeliverFlags,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct RedeliverFlags {
    /// The delivery with this id
    #[arg(long, value_name = "ID")]
    delivery: Option<String>,
    /// All that were given up
    #[arg(long)]
    dead: bool,
    /// All events after the one with this number
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum StateFlag {
    Waiting,
    Delivered,
    Dead,
}

impl From<StateFlag> for DeliveryState {
    fn from(flag: StateFlag) -> Self {
        match flag {
            StateFlag::Waiting => Self::Waiting,
            StateFlag::Delivered => Self::Delivered,
            StateFlag::Dead => Self::Dead,
        }
    }
}

fn events(text: &str) -> Result<WebhookEvents, String> {
    text.parse::<WebhookEvents>().map_err(|error| error.to_string())
}

fn label(text: &str) -> Result<Label, String> {
    Label::parse(text).map_err(|error| error.to_string())
}

fn path(webhook: &str, below: &str) -> String {
    format!("/v1/webhooks/{}{below}", encode(webhook))
}

pub async fn run(context: &Context, args: WebhookArgs) -> Result<(), Failure> {
    let output = context.output;
    match args.command {
        WebhookCommand::Add { url, events, sandbox, project, description, tenant, all_tenants } => {
            let sandbox = match &sandbox {
                Some(text) => Some(context.sandbox(text).await?),
                None => None,
            };
            let events = Some(events).filter(|events| !events.is_empty());
            let spec = WebhookCreate { url, events, sandbox, project, description, tenant, all_tenants };
            show_secret(context, ApiRequest::post("/v1/webhooks").json(&spec)).await
        }
        WebhookCommand::Ls { tenant } => {
            let request = ApiRequest::get("/v1/webhooks").query_if("tenant", tenant);
            context.show_list(request, |all| table(&all, output)).await
        }
        WebhookCommand::Show { webhook } => {
            context.show(ApiRequest::get(path(&webhook, "")), |view| Ok(details(&view))).await
        }
        WebhookCommand::Set { webhook, url, events, description, disable, enable } => {
            let events = Some(events).filter(|events| !events.is_empty());
            let enabled = (disable || enable).then_some(enable);
            let change = WebhookChange { url, events, description, enabled };
            let request = ApiRequest::patch(path(&webhook, "")).json(&change);
            context.show(request, |view| Ok(details(&view))).await
        }
        WebhookCommand::Rotate { webhook } => {
            show_secret(context, ApiRequest::post(path(&webhook, "/secret"))).await
        }
        WebhookCommand::Rm { webhooks } => {
            for webhook in &webhooks {
                context.client.send(ApiRequest::delete(path(webhook, ""))).await?;
                if !output.json {
                    output.line(&format!("{webhook} removed"))?;
                }
            }
            Ok(())
        }
        WebhookCommand::Test { webhook } => test(context, &webhook).await,
        WebhookCommand::Deliveries { webhook, state } => {
            let state = state.map(|state| wire_name(&DeliveryState::from(state)));
            let request =
                ApiRequest::get(path(&webhook, "/deliveries")).long_pages().query_if("state", state);
            context.show_list(request, |all| deliveries(&all, output)).await
        }
        WebhookCommand::Redeliver { webhook, what } => redeliver(context, &webhook, what).await,
    }
}

/// Prints only the secret on standard output.
async fn show_secret(context: &Context, request: ApiRequest) -> Result<(), Failure> {
    let format = |created: WebhookCreated| {
        let WebhookView { id, url, .. } = &created.view;
        eprint_line(&format!("webhook {id} for {url}; keep its secret, it is not shown again"));
        Ok(format!("{}\n", created.secret))
    };
    context.show(request, format).await
}

async fn test(context: &Context, webhook: &str) -> Result<(), Failure> {
    let response = context.client.send(ApiRequest::post(path(webhook, "/test"))).await?;
    let tested: WebhookTest = response.parse()?;
    let WebhookTest { delivered, status, error, duration_ms, .. } = &tested;
    let answer = status.map_or_else(|| "no answer".to_owned(), |status| format!("status {status}"));
    context.show_response(&response, |_: WebhookTest| Ok(format!("{answer} after {duration_ms} ms\n")))?;
    match (delivered, error) {
        (true, _) => Ok(()),
        (false, error) => Err(Failure::new(error.clone().unwrap_or_else(|| "the test failed".to_owned()))),
    }
}

async fn redeliver(context: &Context, webhook: &str, what: RedeliverFlags) -> Result<(), Failure> {
    let RedeliverFlags { delivery, dead, since } = what;
    let body = RedeliverRequest { delivery, dead: dead.then_some(true), since };
    let format = |answer: Redelivered| match answer.cursor {
        Some(cursor) => Ok(format!("events after {cursor} are delivered again\n")),
        None => Ok(format!("deliveries to be sent again: {}\n", answer.deliveries)),
    };
    context.show(ApiRequest::post(path(webhook, "/redeliver")).json(&body), format).await
}

fn status(view: &WebhookView) -> Cell {
    match (view.status, &view.disabled_reason) {
        (WebhookStatus::Enabled, _) => Cell::from("enabled"),
        (WebhookStatus::Disabled, Some(reason)) => {
            Cell::painted(format!("disabled: {}", wire_name(reason)), Colour::Red)
        }
        (WebhookStatus::Disabled, None) => Cell::painted("disabled", Colour::Red),
    }
}

fn selection(view: &WebhookView) -> String {
    view.events.iter().map(WebhookEvents::as_str).collect::<Vec<_>>().join(",")
}

fn table(webhooks: &[WebhookView], output: Output) -> String {
    let mut table = Table::new(["ID", "TENANT", "URL", "EVENTS", "STATUS", "WAITING", "DEAD", "LAST"]);
    for view in webhooks {
        table.row([
            view.id.clone().into(),
            view.tenant.as_ref().map_or("*", Label::as_str).into(),
            view.url.clone().into(),
            selection(view).into(),
            status(view),
            view.waiting.to_string().into(),
            view.dead.to_string().into(),
            view.last_delivery_at.as_ref().map_or("never".to_owned(), |at| format!("{} ago", age(at))).into(),
        ]);
    }
    table.render(output)
}

fn details(view: &WebhookView) -> String {
    let mut table = Table::new(["WEBHOOK", &view.id]);
    let mut row = |name: &str, value: String| table.row([name.into(), value.into()]);
    row("url", view.url.clone());
    row("tenant", view.tenant.as_ref().map_or("all", Label::as_str).to_owned());
    row("events", selection(view));
    if let Some(sandbox) = &view.sandbox {
        row("sandbox", sandbox.to_string());
    }
    if let Some(project) = &view.project {
        row("project", project.to_string());
    }
    if let Some(description) = &view.description {
        row("description", description.clone());
    }
    let state = match &view.disabled_reason {
        Some(reason) => format!("{}: {}", wire_name(&view.status), wire_name(reason)),
        None => wire_name(&view.status),
    };
    row("status", state);
    row("created", format!("{} ago by {}", age(&view.created_at), view.created_by));
    row("cursor", view.cursor.to_string());
    row("waiting", view.waiting.to_string());
    row("dead", view.dead.to_string());
    row("dropped", view.dropped.to_string());
    if let Some(at) = &view.last_delivery_at {
        row("last delivery", format!("{} ago", age(at)));
    }
    if let Some(failure) = &view.last_failure {
        row("last failure", format!("{} ago: {}", age(&failure.at), failure.error));
    }
    if let Some(at) = &view.previous_secret_until {
        row("previous secret", format!("ends {}", until(at)));
    }
    table.render(Output { json: false, colour: false })
}

fn deliveries(rows: &[DeliveryView], output: Output) -> String {
    let mut table = Table::new(["ID", "TYPE", "STATE", "ATTEMPTS", "AGE", "NEXT", "LAST ERROR"]);
    for row in rows {
        let state = match row.state {
            DeliveryState::Waiting => Cell::from("waiting"),
            DeliveryState::Delivered => Cell::from("delivered"),
            DeliveryState::Dead => Cell::painted("dead", Colour::Red),
        };
        table.row([
            row.id.clone().into(),
            row.kind.clone().into(),
            state,
            row.attempts.to_string().into(),
            age(&row.created_at).into(),
            row.next_attempt_at.as_ref().map_or(String::new(), |at| until(at)).into(),
            row.last_error.clone().unwrap_or_default().into(),
        ]);
    }
    table.render(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: Output = Output { json: false, colour: false };

    fn view() -> WebhookView {
        serde_json::from_str(
            r#"{"id":"01k","tenant":"acme","url":"https://h.example/","events":["task.*","limit.reached"],
                "status":"disabled","disabled_reason":"gone","created_by":"ann","created_at":"","updated_at":"","cursor":7,
                "waiting":2,"dead":1,"dropped":0,"last_failure":{"at":"","error":"status 410"}}"#,
        )
        .expect("a view")
    }

    #[test]
    fn a_list_shows_what_waits_and_why_nothing_is_delivered() {
        insta::assert_snapshot!(table(&[view()], OUTPUT), @r"
        ID   TENANT  URL                 EVENTS                STATUS          WAITING  DEAD  LAST
        01k  acme    https://h.example/  task.*,limit.reached  disabled: gone  2        1     never
        ");
        insta::assert_snapshot!(details(&view()), @r"
        WEBHOOK       01k
        url           https://h.example/
        tenant        acme
        events        task.*,limit.reached
        status        disabled: gone
        created       - ago by ann
        cursor        7
        waiting       2
        dead          1
        dropped       0
        last failure  - ago: status 410
        ");
    }

    #[test]
    fn a_delivery_shows_its_last_error() {
        let row: DeliveryView = serde_json::from_str(
            r#"{"id":"msg_1","seq":7,"type":"task.done","state":"dead","attempts":20,"created_at":"",
                "last_status":500,"last_error":"status 500: oops"}"#,
        )
        .expect("a view");
        insta::assert_snapshot!(deliveries(&[row], OUTPUT), @r"
        ID     TYPE       STATE  ATTEMPTS  AGE  NEXT  LAST ERROR
        msg_1  task.done  dead   20        -    -     status 500: oops
        ");
    }
}
