//! Budgets of tenants for models, and their recorded usage.

use super::{
    columns::{ColumnReader, int, json, word},
    error::Result,
    handle::Store,
    limits,
    query::{all, change, one},
    records::BudgetRecord,
};
use hostd_core::{BudgetBounds, Spend, rfc3339};
use protocol::api::{BudgetPeriod, Label};
use rusqlite::{Connection, Row, params};

const WHAT: &str = "write a budget";

impl Store {
    /// Creates or replaces the budget of a tenant; `None` when there are too many budgets.
    pub async fn put_budget(
        &self,
        tenant: Label,
        bounds: BudgetBounds,
        per: BudgetPeriod,
        now_ms: u64,
    ) -> Result<Option<BudgetRecord>> {
        self.write("put_budget", move |conn| {
            let count = "SELECT count(*) AS rows FROM model_budgets WHERE tenant <> ?";
            let others = one(conn, count, params![tenant.as_str()], |row| {
                ColumnReader { row, table: "model_budgets", key: "rows" }.number("rows")
            })?;
            if others.unwrap_or(0) >= limits::BUDGETS_MAX {
                return Ok(None);
            }
            let sql = "INSERT INTO model_budgets (tenant, bounds, per) VALUES (?1, ?2, ?3)
                ON CONFLICT (tenant) DO UPDATE SET bounds = ?2, per = ?3";
            let values = params![tenant.as_str(), json(&bounds, "the budget")?, word(&per, "the period")?];
            change(conn, sql, values, WHAT)?;
            find(conn, &tenant, now_ms)
        })
        .await
    }

    pub async fn budget(&self, tenant: &Label, now_ms: u64) -> Result<Option<BudgetRecord>> {
        let tenant = tenant.clone();
        self.read(move |conn| find(conn, &tenant, now_ms)).await
    }

    pub async fn budgets(&self, now_ms: u64) -> Result<Vec<BudgetRecord>> {
        self.read(move |conn| {
            let found = all(conn, "SELECT * FROM model_budgets ORDER BY tenant", [], parse)?;
            found.into_iter().map(|budget| with_use(conn, budget, now_ms)).collect()
        })
        .await
    }

    /// Deletes a budget; returns whether it existed.
    pub async fn remove_budget(&self, tenant: &Label) -> Result<bool> {
        let tenant = tenant.clone();
        self.write("remove_budget", move |conn| {
            let sql = "DELETE FROM model_budgets WHERE tenant = ?";
            Ok(change(conn, sql, params![tenant.as_str()], WHAT)? > 0)
        })
        .await
    }
}

/// Returns the name of the current period: the prefix that all its days share.
pub fn period(per: BudgetPeriod, now_ms: u64) -> String {
    const MONTH: usize = "2026-11".len();
    let day = day(now_ms);
    match per {
        BudgetPeriod::Day => day,
        BudgetPeriod::Month => day[..MONTH].to_owned(),
        BudgetPeriod::Total => String::new(),
    }
}

fn day(now_ms: u64) -> String {
    const DAY: usize = "2026-11-16".len();
    rfc3339(now_ms)[..DAY].to_owned()
}

/// Adds the usage of a call to the day on which it ended.
pub(super) fn count(conn: &Connection, tenant: &Label, used: Spend, now_ms: u64) -> Result<()> {
    let sql = "INSERT INTO model_usage (tenant, day, tokens, cost_micro_usd, requests)
        VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (tenant, day) DO UPDATE SET tokens = MIN(tokens + ?3, ?6),
            cost_micro_usd = MIN(cost_micro_usd + ?4, ?6), requests = MIN(requests + ?5, ?6)";
    let most = |sum: u64| int(sum.min(limits::USED_MAX));
    let values = params![
        tenant.as_str(),
        day(now_ms),
        most(used.tokens),
        most(used.cost_micro_usd),
        most(used.requests),
        int(limits::USED_MAX)
    ];
    change(conn, sql, values, "write model usage").map(|_| ())
}

fn find(conn: &Connection, tenant: &Label, now_ms: u64) -> Result<Option<BudgetRecord>> {
    let sql = "SELECT * FROM model_budgets WHERE tenant = ?";
    let found = one(conn, sql, params![tenant.as_str()], parse)?;
    found.map(|budget| with_use(conn, budget, now_ms)).transpose()
}

fn with_use(conn: &Connection, budget: BudgetRecord, now_ms: u64) -> Result<BudgetRecord> {
    let sql =
        "SELECT tenant, total(tokens) AS tokens, total(cost_micro_usd) AS cost, total(requests) AS requests
        FROM model_usage WHERE tenant = ?1 AND substr(day, 1, length(?2)) = ?2";
    let period = period(budget.per, now_ms);
    let used = one(conn, sql, params![budget.tenant.as_str(), period], |row| {
        let fields = ColumnReader { row, table: "model_usage", key: "tenant" };
        // `total` returns a float, since `sum` fails when integers overflow.
        let number = |column| fields.get::<f64>(column).map(|sum| sum as u64);
        Ok(Spend {
            tokens: number("tokens")?,
            cost_micro_usd: number("cost")?,
            requests: number("requests")?,
        })
    })?;
    Ok(BudgetRecord { used: used.unwrap_or_default(), ..budget })
}

fn parse(row: &Row<'_>) -> Result<BudgetRecord> {
    let fields = ColumnReader { row, table: "model_budgets", key: "tenant" };
    Ok(BudgetRecord {
        tenant: fields.parsed("tenant")?,
        bounds: fields.json("bounds")?,
        per: fields.parsed("per")?,
        used: Spend::default(),
    })
}
