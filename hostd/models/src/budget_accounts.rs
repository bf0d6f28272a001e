//! Budget accounts in memory, since a call must be admitted or refused at once. Usage is stored when a call
//! ends, and read back when hostd starts.

use hostd_core::{Account, BudgetBounds, Spend, budget::BoundExceeded};
use hostd_store::{BudgetRecord, period};
use protocol::api::{BudgetPeriod, Label};
use std::collections::HashMap;

#[derive(Default)]
pub struct BudgetAccounts {
    /// By the row number of the task.
    tasks: HashMap<i64, Account>,
    /// Tenants with a budget or with calls in flight: the usage of those calls counts for a budget that is
    /// set meanwhile.
    tenants: HashMap<Label, Tenant>,
}

#[derive(Default)]
struct Tenant {
    budget: Option<CurrentPeriod>,
    account: Account,
}

/// The period that a budget counts at present.
struct CurrentPeriod {
    per: BudgetPeriod,
    /// The name of the current period. Names sort in the order of time.
    period: String,
}

/// Names the accounts that a call is charged to.
#[derive(Debug, Clone, Copy)]
pub struct AccountKey<'a> {
    pub task: i64,
    pub tenant: &'a Label,
}

impl BudgetAccounts {
    pub fn open(&mut self, task: i64, bounds: BudgetBounds, used: Spend) {
        self.tasks.insert(task, Account { bounds, used, reserved: Spend::default() });
    }

    pub fn close(&mut self, task: i64) {
        self.tasks.remove(&task);
    }

    /// Sets a budget. Reservations of calls in flight and usage of the same period are kept.
    pub fn set_budget(&mut self, budget: &BudgetRecord, now_ms: u64) {
        let tenant = self.tenants.entry(budget.tenant.clone()).or_default();
        let current = CurrentPeriod { per: budget.per, period: period(budget.per, now_ms) };
        tenant.account.bounds = budget.bounds;
        // Usage counted here may not be stored yet.
        let same = |before: &CurrentPeriod| before.per == current.per && before.period >= current.period;
        if !tenant.budget.as_ref().is_some_and(same) {
            tenant.account.used = budget.used;
            tenant.budget = Some(current);
        }
    }

    pub fn remove_budget(&mut self, tenant: &Label) {
        if let Some(of_tenant) = self.tenants.get_mut(tenant) {
            of_tenant.budget = None;
            of_tenant.account.bounds = BudgetBounds::default();
        }
        self.forget(tenant);
    }

    /// Drops the account of a tenant without a budget and without calls in flight.
    fn forget(&mut self, tenant: &Label) {
        let of_tenant = self.tenants.get(tenant);
        if of_tenant.is_some_and(|it| it.budget.is_none() && it.account.reserved == Spend::default()) {
            self.tenants.remove(tenant);
        }
    }

    pub fn bounds_of(&self, tenant: &Label) -> Option<BudgetBounds> {
        self.tenants.get(tenant).map(|tenant| tenant.account.bounds)
    }

    /// Runs `act` on the accounts of a call: of its task first, then of its tenant. An unknown task has no
    /// bounds.
    pub fn with<T>(
        &mut self,
        account_key: AccountKey<'_>,
        now_ms: u64,
        act: impl FnOnce(&mut [&mut Account]) -> T,
    ) -> T {
        let mut no_task = Account::default();
        let task = self.tasks.get_mut(&account_key.task).unwrap_or(&mut no_task);
        let tenant = self.tenants.entry(account_key.tenant.clone()).or_default();
        if let Some(current) = &mut tenant.budget {
            let now = period(current.per, now_ms);
            // A clock that goes back must not start a period again.
            if now > current.period {
                tenant.account.used = Spend::default();
                current.period = now;
            }
        }
        let done = act(&mut [task, &mut tenant.account]);
        self.forget(account_key.tenant);
        done
    }

    /// Explains why a call is refused. The index is that of the account in `with`.
    pub fn explain(&self, account_key: AccountKey<'_>, (index, over): (usize, BoundExceeded)) -> String {
        if index == 0 {
            return format!("the budget of this task does not allow more: {over}");
        }
        let during = match self
            .tenants
            .get(account_key.tenant)
            .and_then(|tenant| tenant.budget.as_ref())
            .map(|it| it.per)
        {
            Some(BudgetPeriod::Day) => " for today",
            Some(BudgetPeriod::Month) => " for this month",
            Some(BudgetPeriod::Total) | None => "",
        };
        format!("the budget of the tenant {}{during} does not allow more: {over}", account_key.tenant)
    }
}

#[cfg(test)]
#[path = "budget_accounts_tests.rs"]
mod tests;
