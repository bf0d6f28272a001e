//! `slipway budget`: model budgets of tenants.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::Failure,
    output::Output,
    table::Table,
    text::wire_name,
};
use clap::{Args, Subcommand, ValueEnum};
use protocol::api::{BudgetPeriod, BudgetSpec, BudgetView};

#[derive(Debug, Args)]
pub struct BudgetArgs {
    #[command(subcommand)]
    command: BudgetCommand,
}

const EXAMPLES: &str = "\
Examples:
  slipway budget set default --cost 20 --per day
  slipway budget set acme --tokens 50000000 --requests 10000 --per month";

#[derive(Debug, Subcommand)]
enum BudgetCommand {
    /// Limit the model use of all tasks of a tenant
    #[command(after_help = EXAMPLES)]
    Set {
        /// Tenant whose tasks are limited
        tenant: String,
        /// Tokens of every kind, including cached ones
        #[arg(long)]
        tokens: Option<u64>,
        /// Dollars; every model in use needs a price
        #[arg(long, value_name = "USD")]
        cost: Option<f64>,
        /// Model calls
        #[arg(long)]
        requests: Option<u64>,
        /// When the budget is reset; days and months are UTC
        #[arg(long, default_value = "month")]
        per: PeriodFlag,
    },
    /// List budgets and their use
    #[command(visible_alias = "list")]
    Ls,
    /// Remove the budget of a tenant
    Rm {
        /// Tenant
        tenant: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PeriodFlag {
    Day,
    Month,
    Total,
}

impl From<PeriodFlag> for BudgetPeriod {
    fn from(flag: PeriodFlag) -> Self {
        match flag {
            PeriodFlag::Day => Self::Day,
            PeriodFlag::Month => Self::Month,
            PeriodFlag::Total => Self::Total,
        }
    }
}

pub async fn run(context: &Context, args: BudgetArgs) -> Result<(), Failure> {
    let output = context.output;
    let path = |tenant: &str| format!("/v1/budgets/{}", encode(tenant));
    match args.command {
        BudgetCommand::Set { tenant, tokens, cost, requests, per } => {
            let spec = BudgetSpec { tokens, cost_usd: cost, requests, per: per.into() };
            let request = ApiRequest::put(path(&tenant)).json(&spec);
            context.show(request, |budget: BudgetView| Ok(table(&[budget], output))).await
        }
        BudgetCommand::Ls => {
            context.show_list(ApiRequest::get("/v1/budgets"), |all| table(&all, output)).await
        }
        BudgetCommand::Rm { tenant } => {
            context.client.send(ApiRequest::delete(path(&tenant))).await?;
            if output.json { Ok(()) } else { output.line(&format!("budget of {tenant} removed")) }
        }
    }
}

fn table(budgets: &[BudgetView], output: Output) -> String {
    if budgets.is_empty() {
        return "no budgets; create one with `slipway budget set TENANT --cost USD --per day`\n".to_owned();
    }
    let mut table = Table::new(["TENANT", "PER", "TOKENS", "COST", "REQUESTS"]);
    for budget in budgets {
        let of = |used: String, bound: Option<String>| match bound {
            Some(bound) => format!("{used} of {bound}"),
            None => used,
        };
        let used = &budget.used;
        let usd = |usd: f64| format!("${usd:.2}");
        table.row([
            budget.tenant.as_str().into(),
            wire_name(&budget.per).into(),
            of(used.tokens.to_string(), budget.tokens.map(|tokens| tokens.to_string())).into(),
            of(usd(used.cost_usd), budget.cost_usd.map(usd)).into(),
            of(used.requests.to_string(), budget.requests.map(|requests| requests.to_string())).into(),
        ]);
    }
    table.render(output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::{BudgetUse, Label};

    #[test]
    fn a_budget_is_shown_with_what_is_used() {
        let budget = BudgetView {
            tenant: Label::parse("acme").expect("a label"),
            tokens: None,
            cost_usd: Some(20.0),
            requests: Some(100),
            per: BudgetPeriod::Day,
            used: BudgetUse { tokens: 12_345, cost_usd: 1.239, requests: 7 },
        };
        insta::assert_snapshot!(table(&[budget], Output { json: false, colour: false }), @r"
        TENANT  PER  TOKENS  COST             REQUESTS
        acme    day  12345   $1.24 of $20.00  7 of 100
        ");
    }
}
