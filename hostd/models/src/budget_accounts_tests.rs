use super::*;
use hostd_store::fixture::label;

const DAY_MS: u64 = 24 * 3_600_000;

fn tokens(tokens: u64) -> Spend {
    Spend { tokens, ..Spend::default() }
}

fn budget(per: BudgetPeriod, used: u64) -> BudgetRecord {
    let bounds = BudgetBounds { tokens: Some(100), ..BudgetBounds::default() };
    BudgetRecord { tenant: label("acme"), bounds, per, used: tokens(used) }
}

/// Adds to the reservations and the usage of the tenant, and returns both.
fn add(accounts: &mut BudgetAccounts, now_ms: u64, (aside, used): (u64, u64)) -> (u64, u64) {
    accounts.with(AccountKey { task: 1, tenant: &label("acme") }, now_ms, |accounts| {
        accounts[1].reserved = accounts[1].reserved.plus(tokens(aside));
        accounts[1].used = accounts[1].used.plus(tokens(used));
        (accounts[1].reserved.tokens, accounts[1].used.tokens)
    })
}

#[test]
fn a_period_begins_when_it_comes_and_not_when_the_clock_goes_back() {
    for (per, long_ms) in [(BudgetPeriod::Day, DAY_MS), (BudgetPeriod::Month, 31 * DAY_MS)] {
        let mut accounts = BudgetAccounts::default();
        let now_ms = 400 * DAY_MS;
        accounts.set_budget(&budget(per, 7), now_ms);
        assert_eq!(add(&mut accounts, now_ms, (0, 1)), (0, 8));
        assert_eq!(add(&mut accounts, now_ms - long_ms, (0, 1)), (0, 9), "{per:?}");
        assert_eq!(add(&mut accounts, now_ms, (0, 1)), (0, 10), "and forth again");
        assert_eq!(add(&mut accounts, now_ms + long_ms, (0, 1)), (0, 1));
    }
}

#[test]
fn a_budget_that_is_set_or_changes_while_calls_run_counts_them() {
    let mut accounts = BudgetAccounts::default();
    assert_eq!(add(&mut accounts, 1, (30, 0)), (30, 0));
    accounts.set_budget(&budget(BudgetPeriod::Total, 5), 1);
    assert_eq!(add(&mut accounts, 1, (0, 10)), (30, 15), "what it set aside before counts");
    // The stored usage lags behind.
    accounts.set_budget(&budget(BudgetPeriod::Total, 5), 1);
    assert_eq!(add(&mut accounts, 1, (0, 0)), (30, 15));
    // Another period has another sum.
    accounts.set_budget(&budget(BudgetPeriod::Day, 6), 1);
    assert_eq!(add(&mut accounts, 1, (0, 0)), (30, 6));
    accounts.remove_budget(&label("acme"));
    assert_eq!(accounts.bounds_of(&label("acme")), Some(BudgetBounds::default()));
    assert_eq!(add(&mut accounts, 1, (0, 0)), (30, 6), "the call goes on");
}

#[test]
fn a_tenant_without_budget_and_without_calls_is_dropped() {
    let mut accounts = BudgetAccounts::default();
    add(&mut accounts, 1, (0, 10));
    assert!(accounts.tenants.is_empty());
}
