//! Budgets of tenants for models, and what is used of them.

use super::{
    call::Call,
    error::{CallError, CallResult},
    views::{no_content, ok},
};
use hostd_store::BudgetRecord;
use protocol::api::{BudgetSpec, BudgetUse, BudgetView, Label, Page};

const MICRO: f64 = 1_000_000.0;

pub async fn put(call: Call) -> CallResult {
    let spec: BudgetSpec = call.json()?;
    let tenant = Label::parse(call.param("tenant")?);
    let tenant = tenant.map_err(|error| CallError::invalid("tenant", error.to_string()))?;
    Ok(ok(&view(&call.api.models.put_budget(tenant, &spec).await?)))
}

pub async fn list(call: Call) -> CallResult {
    let all = call.api.models.budgets().await?;
    let seen = |budget: &&BudgetRecord| call.caller.operator || budget.tenant == call.caller.tenant;
    Ok(ok(&Page { items: all.iter().filter(seen).map(view).collect(), next: None }))
}

pub async fn get(call: Call) -> CallResult {
    let tenant = Label::parse(call.param("tenant")?).map_err(|_| CallError::not_found())?;
    if !call.caller.operator && tenant != call.caller.tenant {
        return Err(CallError::foreign());
    }
    Ok(ok(&view(&call.api.models.budget(&tenant).await?)))
}

pub async fn remove(call: Call) -> CallResult {
    let tenant = Label::parse(call.param("tenant")?).map_err(|_| CallError::not_found())?;
    call.api.models.remove_budget(&tenant).await?;
    Ok(no_content())
}

fn view(budget: &BudgetRecord) -> BudgetView {
    let BudgetRecord { tenant, bounds, per, used } = budget;
    BudgetView {
        tenant: tenant.clone(),
        tokens: bounds.tokens,
        cost_usd: bounds.cost_micro_usd.map(|micro| micro as f64 / MICRO),
        requests: bounds.requests,
        per: *per,
        used: BudgetUse {
            tokens: used.tokens,
            cost_usd: used.cost_micro_usd as f64 / MICRO,
            requests: used.requests,
        },
    }
}
