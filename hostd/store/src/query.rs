//! Query helpers: parsed rows, and `SELECT`s whose conditions depend on a filter.

use super::{
    columns::int,
    error::{During, Result},
    limits,
};
use protocol::api::Label;
use rusqlite::{Connection, Params, Row, params_from_iter, types::Value};

const WHAT: &str = "read from the database";

/// Returns the first row, if there is one.
pub(super) fn one<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    parse: fn(&Row<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let mut statement = conn.prepare_cached(sql).during(WHAT)?;
    let mut rows = statement.query(params).during(WHAT)?;
    rows.next().during(WHAT)?.map(parse).transpose()
}

pub(super) fn all<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    parse: fn(&Row<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let mut statement = conn.prepare_cached(sql).during(WHAT)?;
    let mut rows = statement.query(params).during(WHAT)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().during(WHAT)? {
        found.push(parse(row)?);
    }
    Ok(found)
}

/// Executes a statement; returns the number of changed rows.
pub(super) fn change(conn: &Connection, sql: &str, params: impl Params, what: &'static str) -> Result<usize> {
    conn.prepare_cached(sql).during(what)?.execute(params).during(what)
}

/// A `SELECT` with only the conditions that are needed, so that SQLite can pick an index for them. Only text
/// of this program becomes SQL; values are bound.
pub(super) struct List {
    sql: String,
    values: Vec<Value>,
}

impl List {
    pub(super) fn from(select: &str) -> Self {
        Self { sql: format!("{select} WHERE 1"), values: Vec::new() }
    }

    pub(super) fn and(&mut self, condition: &'static str) {
        self.sql.push_str(" AND ");
        self.sql.push_str(condition);
    }

    /// Adds a condition with one `?`, if there is a value for it.
    pub(super) fn and_if(&mut self, condition: &'static str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.and(condition);
            self.values.push(value.into());
        }
    }

    /// Adds a condition with several `?`, and their values.
    pub(super) fn and_all(&mut self, condition: &'static str, values: impl IntoIterator<Item = Label>) {
        self.and(condition);
        self.values.extend(values.into_iter().map(|label| Value::Text(label.into())));
    }

    /// Adds a condition with one `?` that any of the texts must satisfy; none without texts.
    pub(super) fn and_any(&mut self, condition: &'static str, texts: &[String]) {
        if !texts.is_empty() {
            let either = vec![condition; texts.len()].join(" OR ");
            self.sql.push_str(&format!(" AND ({either})"));
            self.values.extend(texts.iter().cloned().map(Value::Text));
        }
    }

    pub(super) fn run<T>(
        mut self,
        conn: &Connection,
        order: &'static str,
        limit: usize,
        parse: fn(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        self.sql.push_str(&format!(" ORDER BY {order} LIMIT ?"));
        let limit = limit.min(limits::LIST_MAX_ROWS);
        self.values.push(Value::Integer(int(limit as u64)));
        all(conn, &self.sql, params_from_iter(self.values), parse)
    }

    /// Returns rows until `go_on` declines one; the flag says whether rows may be left.
    pub(super) fn run_while<T>(
        mut self,
        conn: &Connection,
        order: &'static str,
        parse: fn(&Row<'_>) -> Result<T>,
        mut go_on: impl FnMut(&T) -> bool,
    ) -> Result<(Vec<T>, bool)> {
        self.sql.push_str(&format!(" ORDER BY {order}"));
        let mut statement = conn.prepare_cached(&self.sql).during(WHAT)?;
        let mut rows = statement.query(params_from_iter(self.values)).during(WHAT)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().during(WHAT)? {
            found.push(parse(row)?);
            let enough = found.len() >= limits::LIST_MAX_ROWS;
            if enough || found.last().is_some_and(|last| !go_on(last)) {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }
}
