//! Budgets of tenants, which the administrator of the host sets.

use super::{Models, ModelsError, request::bounds_of, service::now_ms};
use hostd_store::BudgetRecord;
use protocol::api::{BudgetSpec, Label, TaskBudget};

impl Models {
    /// Sets a budget, also for running tasks.
    pub async fn put_budget(&self, tenant: Label, spec: &BudgetSpec) -> Result<BudgetRecord, ModelsError> {
        let BudgetSpec { tokens, cost_usd, requests, per } = *spec;
        let bounds = bounds_of(TaskBudget { tokens, cost_usd, requests })?;
        if bounds == hostd_core::BudgetBounds::default() {
            return Err(super::error::invalid("tokens", "give a bound of tokens, cost_usd or requests"));
        }
        let now_ms = now_ms();
        let budget = self.service.store.put_budget(tenant, bounds, per, now_ms).await?;
        let budget = budget.ok_or(ModelsError::TooMany("budgets"))?;
        self.service.accounts().set_budget(&budget, now_ms);
        Ok(budget)
    }

    pub async fn budget(&self, tenant: &Label) -> Result<BudgetRecord, ModelsError> {
        self.service.store.budget(tenant, now_ms()).await?.ok_or(ModelsError::NotFound)
    }

    pub async fn budgets(&self) -> Result<Vec<BudgetRecord>, ModelsError> {
        Ok(self.service.store.budgets(now_ms()).await?)
    }

    pub async fn remove_budget(&self, tenant: &Label) -> Result<(), ModelsError> {
        let there = self.service.store.remove_budget(tenant).await?;
        self.service.accounts().remove_budget(tenant);
        if there { Ok(()) } else { Err(ModelsError::NotFound) }
    }
}
