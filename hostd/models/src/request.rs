//! Grant requests: when a task is submitted it gets a model, bounds, and a key that is valid for this task
//! only.

use super::{Models, ModelsError, budget_accounts::AccountKey, limits, service::now_ms};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hostd_core::{
    BudgetBounds, GrantTerms, GrantedModel, Spend,
    budget::{CallEstimate, ReserveError, reserve, settle},
    token_hash,
};
use hostd_store::TaskGrant;
use protocol::{
    Dialect,
    api::{Label, TaskBudget},
};

/// Prefix of task keys, so that a leaked key is recognised.
const PREFIX: &str = "slw-";
const KEY_BYTES: usize = 32;
/// Stands for the number of a task that is not stored yet.
const NO_TASK: i64 = -1;

/// The request of a task for a model.
#[derive(Debug, Clone)]
pub struct GrantRequest<'a> {
    pub tenant: &'a Label,
    /// The default model when absent.
    pub model: Option<String>,
    /// The dialects that the agent speaks.
    pub dialects: &'a [Dialect],
    /// Absent fields are as configured.
    pub budget: Option<TaskBudget>,
}

/// The grant of a new task. Not `Debug`, since it holds a key.
pub struct NewGrant {
    /// The key that the agent presents to the gateway, valid from the dispatch of the task with `row` until
    /// its end.
    pub key: String,
    pub model: GrantedModel,
    pub row: TaskGrant,
}

impl Models {
    /// Resolves the model and creates a key. Stores nothing: the key is valid once a task with `row` runs.
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

    /// Refuses a task whose tenant has used up its budget, before the agent starts.
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
            // Calls in flight may use less than they reserved.
            Ok(()) | Err(ReserveError::Busy) => Ok(()),
            Err(ReserveError::Exceeded(index, over)) => {
                Err(ModelsError::BudgetUsedUp(accounts.explain(account_key, (index, over))))
            }
        }
    }
}

/// Converts a budget from the API's units to those of the accounts.
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
    getrandom::fill(&mut secret).map_err(|error| ModelsError::Random(std::io::Error::other(error)))?;
    Ok(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(secret)))
}
