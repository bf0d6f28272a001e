//! What a task is granted when it is submitted: a model, bounds, and a key that is worth nothing elsewhere.

use super::{Models, ModelsError, budget_accounts::AccountKey, limits, service::now_ms};
use crate::{
    core::{
        BudgetBounds, GrantTerms, GrantedModel, Spend,
        budget::{CallEstimate, ReserveError, reserve, settle},
    },
    store::TaskGrant,
    token_auth::token_hash,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use protocol::{
    Dialect,
    api::{Label, TaskBudget},
};

/// What every key of a task begins with, so that one that is found somewhere is known by its look.
const PREFIX: &str = "slw-";
const KEY_BYTES: usize = 32;
/// A task has no number before it is written down.
const NO_TASK: i64 = -1;

/// What a task asks for.
#[derive(Debug, Clone)]
pub struct GrantRequest<'a> {
    pub tenant: &'a Label,
    /// The default when absent.
    pub model: Option<String>,
    /// What the agent speaks.
    pub dialects: &'a [Dialect],
    /// What is absent in it is as configured.
    pub budget: Option<TaskBudget>,
}

/// What it gets. Not `Debug`: it has a key.
pub struct NewGrant {
    /// What the agent shows to the gateway. It is good from when the task that has `row` is taken until its end.
    pub key: String,
    pub model: GrantedModel,
    pub row: TaskGrant,
}

impl Models {
    /// Resolves the model and makes a key. Nothing is written down here: the key is good once a task with `row` runs.
    pub async fn grant(&self, request: GrantRequest<'_>) -> Result<NewGrant, ModelsError> {
        let catalogue = self.service.catalogue();
        let resolved = match &request.model {
            Some(name) => catalogue.resolve(request.tenant, name, request.dialects)?,
            None => catalogue.default_model(request.tenant, request.dialects)?,
        };
        let configured = resolved.configured;
        if let Some(source) = configured.problem.clone() {
            return Err(ModelsError::Key { provider: configured.record.name.clone(), source });
        }
        let bounds = self.bounds(request.budget)?;
        let of_tenant = self.service.accounts().bounds_of(request.tenant).unwrap_or_default();
        let cost_is_bounded = bounds.cost_micro_usd.is_some() || of_tenant.cost_micro_usd.is_some();
        if cost_is_bounded && resolved.price.is_none() {
            return Err(ModelsError::Unpriced { model: resolved.full_name() });
        }
        self.check_tenant_budget(request.tenant)?;
        let model = GrantedModel {
            dialect: configured.record.dialect,
            provider: configured.record.name.clone(),
            name: resolved.agent_name(),
            model: resolved.model,
        };
        let key = key()?;
        let terms = GrantTerms { model: model.clone(), bounds };
        Ok(NewGrant { row: TaskGrant { key_hash: token_hash(&key), terms }, key, model })
    }

    fn bounds(&self, requested: Option<TaskBudget>) -> Result<BudgetBounds, ModelsError> {
        let (requested, configured) = (bounds_of(requested.unwrap_or_default())?, self.service.task_bounds);
        Ok(BudgetBounds {
            tokens: requested.tokens.or(configured.tokens),
            cost_micro_usd: requested.cost_micro_usd.or(configured.cost_micro_usd),
            requests: requested.requests.or(configured.requests),
        })
    }

    /// A tenant that has used up its budget is told so before its agent starts.
    fn check_tenant_budget(&self, tenant: &Label) -> Result<(), ModelsError> {
        let account_key = AccountKey { task: NO_TASK, tenant };
        let input = Spend { requests: 1, ..Spend::default() };
        let wanted = CallEstimate { input, max_output_tokens: Some(1), ..CallEstimate::default() };
        let mut accounts = self.service.accounts();
        let tried = accounts.with(account_key, now_ms(), |accounts| {
            let admitted = reserve(accounts, wanted)?;
            settle(accounts, admitted.reserved, Spend::default());
            Ok(())
        });
        match tried {
            // Those under way may leave something.
            Ok(()) | Err(ReserveError::Busy) => Ok(()),
            Err(ReserveError::Exceeded(index, over)) => {
                Err(ModelsError::BudgetUsedUp(accounts.explain(account_key, (index, over))))
            }
        }
    }
}

/// From what people write to what is counted.
pub fn bounds_of(budget: TaskBudget) -> Result<BudgetBounds, ModelsError> {
    const MICRO: f64 = 1_000_000.0;
    let cost = budget.cost_usd;
    if cost.is_some_and(|usd| !(usd > 0.0 && usd <= limits::COST_MAX_USD)) {
        let message = format!("must be more than 0 and at most {} dollars", limits::COST_MAX_USD);
        return Err(super::error::invalid("cost_usd", message));
    }
    for (field, number) in [("tokens", budget.tokens), ("requests", budget.requests)] {
        if number == Some(0) {
            return Err(super::error::invalid(field, "must be at least 1"));
        }
    }
    Ok(BudgetBounds {
        tokens: budget.tokens,
        cost_micro_usd: cost.map(|usd| (usd * MICRO).round() as u64),
        requests: budget.requests,
    })
}

fn key() -> Result<String, ModelsError> {
    let mut secret = [0; KEY_BYTES];
    getrandom::fill(&mut secret).map_err(|error| ModelsError::Seal(std::io::Error::other(error).into()))?;
    Ok(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(secret)))
}
