//! `slipway token`: API tokens.

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
use protocol::api::{Label, TokenCreate, TokenCreated, TokenScope, TokenView};

#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token and print it; it is not shown again
    Create {
        /// Principal that the token is for: a user, a backend
        #[arg(long, value_parser = label)]
        principal: Label,
        /// Tenant that the token belongs to
        #[arg(long, default_value = "default", value_parser = label)]
        tenant: Label,
        /// Scope: read-only; run, for resources of the principal; admin, for everything of the tenant
        #[arg(long, default_value = "run")]
        scope: ScopeFlag,
        /// Lifetime, as in 90s, 15m, 4h or 7d; default: does not expire
        #[arg(long, value_name = "TIME")]
        ttl: Option<String>,
        /// In the form of E2B's API keys, for clients made for E2B
        #[arg(long)]
        e2b: bool,
    },
    /// List tokens, without their secrets
    #[command(visible_alias = "list")]
    Ls,
    /// Revoke tokens at once
    Revoke {
        /// Ids, as `slipway token ls` shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeFlag {
    Read,
    Run,
    Admin,
}

fn label(text: &str) -> Result<Label, String> {
    Label::parse(text).map_err(|error| error.to_string())
}

pub async fn run(context: &Context, args: TokenArgs) -> Result<(), Failure> {
    match args.command {
        TokenCommand::Create { principal, tenant, scope, ttl, e2b } => {
            let scope = match scope {
                ScopeFlag::Read => TokenScope::Read,
                ScopeFlag::Run => TokenScope::Run,
                ScopeFlag::Admin => TokenScope::Admin,
            };
            create(context, &TokenCreate { tenant, principal, scope, ttl, e2b }).await
        }
        TokenCommand::Ls => {
            let output = context.output;
            context.show_list(ApiRequest::get("/v1/tokens"), |tokens| table(&tokens, output)).await
        }
        TokenCommand::Revoke { ids } => revoke(context, &ids).await,
    }
}

/// Prints only the token on standard output, for `export SLIPWAY_TOKEN=$(slipway token create --principal me)`.
async fn create(context: &Context, create: &TokenCreate) -> Result<(), Failure> {
    let format = |created: TokenCreated| {
        let view = &created.view;
        let scope = wire_name(&view.scope);
        eprint_line(&format!(
            "token {} for {}/{}, scope {scope}; keep it, it is not shown again",
            view.id, view.tenant, view.principal
        ));
        Ok(format!("{}\n", created.token))
    };
    context.show(ApiRequest::post("/v1/tokens").json(create), format).await
}

async fn revoke(context: &Context, ids: &[String]) -> Result<(), Failure> {
    for id in ids {
        context.client.send(ApiRequest::delete(format!("/v1/tokens/{}", encode(id)))).await?;
        if !context.output.json {
            context.output.line(&format!("{id} revoked"))?;
        }
    }
    Ok(())
}

fn table(tokens: &[TokenView], output: Output) -> String {
    let mut table = Table::new(["ID", "TENANT", "PRINCIPAL", "SCOPE", "AGE", "STATE"]);
    for token in tokens {
        let state = match (&token.revoked_at, &token.expires_at) {
            (Some(time), _) => Cell::painted(format!("revoked {} ago", age(time)), Colour::Dim),
            (None, Some(time)) => Cell::from(format!("expires {}", until(time))),
            (None, None) => Cell::from("good"),
        };
        table.row([
            token.id.clone().into(),
            token.tenant.as_str().into(),
            token.principal.as_str().into(),
            wire_name(&token.scope).into(),
            age(&token.created_at).into(),
            state,
        ]);
    }
    table.render(output)
}
