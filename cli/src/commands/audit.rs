//! `slipway audit`: the audit log, as a list and whole.

use crate::{
    client::{ApiRequest, ClientError},
    context::Context,
    context::parse_items,
    failure::Failure,
    output::{Colour, Output},
    table::{Cell, Table},
};
use clap::{Args, Subcommand, ValueEnum};
use http_body_util::BodyExt as _;
use protocol::api::AuditView;

const EXAMPLES: &str = "\
Examples:
  slipway audit --since 1h --outcome refused
  slipway audit --sandbox 01k… --operation deleteSandbox
  slipway audit export --since 30d > audit.ndjson";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct AuditArgs {
    #[command(flatten)]
    filter: FilterFlags,
    /// Rows at most, the newest ones
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1000))]
    limit: u64,
    #[command(subcommand)]
    command: Option<AuditCommand>,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Print all rows as NDJSON, oldest first
    Export {
        #[command(flatten)]
        filter: FilterFlags,
    },
}

#[derive(Debug, Args)]
struct FilterFlags {
    /// Only callers of this tenant, for the operator
    #[arg(long)]
    tenant: Option<String>,
    /// Only this principal
    #[arg(long)]
    principal: Option<String>,
    /// Only this token, by its id
    #[arg(long, value_name = "ID")]
    token: Option<String>,
    /// Only this operation of the API, as in deleteSandbox
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Only calls that ended so
    #[arg(long)]
    outcome: Option<OutcomeFlag>,
    /// Only calls about the object with this id or name
    #[arg(long, value_name = "ID")]
    object: Option<String>,
    /// Only calls about this sandbox, by its id
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,
    /// Only calls from this address; unix for the local socket
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// Only the call with this request id
    #[arg(long, value_name = "ID")]
    request: Option<String>,
    /// Only calls since this time, as in 2026-01-31T00:00:00Z, or how long ago, as in 4h
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only calls before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OutcomeFlag {
    Succeeded,
    Refused,
    Failed,
}

impl FilterFlags {
    fn apply(self, request: ApiRequest) -> ApiRequest {
        let outcome = self.outcome.map(|outcome| match outcome {
            OutcomeFlag::Succeeded => "succeeded",
            OutcomeFlag::Refused => "refused",
            OutcomeFlag::Failed => "failed",
        });
        request
            .query_if("tenant", self.tenant)
            .query_if("principal", self.principal)
            .query_if("token", self.token)
            .query_if("operation", self.operation)
            .query_if("outcome", outcome)
            .query_if("object", self.object)
            .query_if("sandbox", self.sandbox)
            .query_if("from", self.from)
            .query_if("request", self.request)
            .query_if("since", self.since)
            .query_if("until", self.until)
    }
}

pub async fn run(context: &Context, args: AuditArgs) -> Result<(), Failure> {
    match args.command {
        Some(AuditCommand::Export { filter }) => export(context, filter).await,
        None => {
            let request = args.filter.apply(ApiRequest::get("/v1/audit")).query("limit", args.limit);
            // One page: the log may be long.
            let page = context.client.page(&request, None).await?;
            if context.output.json {
                return context.output.items(&page.items);
            }
            context.output.text(&table(&parse_items(page.items)?, context.output))
        }
    }
}

async fn export(context: &Context, filter: FilterFlags) -> Result<(), Failure> {
    let request = filter.apply(ApiRequest::get("/v1/audit/export"));
    let mut body = context.client.open(request).await?.into_body();
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.map_err(ClientError::ConnectionLost)?.into_data() else { continue };
        tokio::task::block_in_place(|| context.output.bytes(&bytes))?;
    }
    Ok(())
}

fn table(rows: &[AuditView], output: Output) -> String {
    let mut table =
        Table::new(["TIME", "TENANT", "PRINCIPAL", "VIA", "OPERATION", "OBJECT", "STATUS", "FROM"]);
    for row in rows {
        let status = match &row.code {
            Some(code) => Cell::painted(format!("{} {code}", row.status), Colour::Red),
            None => Cell::from(row.status.to_string()),
        };
        let operation = match row.operation.as_str() {
            "" => format!("{} {}", row.method, row.path),
            operation => operation.to_owned(),
        };
        table.row([
            row.time.clone().into(),
            row.tenant.clone().into(),
            row.principal.clone().into(),
            row.via.clone().into(),
            operation.into(),
            row.object.clone().into(),
            status,
            row.from.clone().into(),
        ]);
    }
    table.render(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_who_did_what_and_what_came_of_it() {
        let rows: Vec<AuditView> = serde_json::from_str(
            r#"[{"number":2,"time":"2026-01-31T00:00:00.000Z","tenant":"a","principal":"ann","via":"t1","request_id":"r",
                "method":"DELETE","path":"/v1/sandboxes/s1","status":404,"code":"not_found","operation":"deleteSandbox",
                "object":"s1","sandbox":"s1","from":"127.0.0.1"},
               {"number":1,"time":"2026-01-30T00:00:00.000Z","tenant":"","principal":"","via":"","request_id":"q",
                "method":"POST","path":"/nowhere","status":401}]"#,
        )
        .expect("rows");
        insta::assert_snapshot!(table(&rows, Output { json: false, colour: false }), @r"
        TIME                      TENANT  PRINCIPAL  VIA  OPERATION      OBJECT  STATUS         FROM
        2026-01-31T00:00:00.000Z  a       ann        t1   deleteSandbox  s1      404 not_found  127.0.0.1
        2026-01-30T00:00:00.000Z  -       -          -    POST /nowhere  -       401            -
        ");
    }
}
