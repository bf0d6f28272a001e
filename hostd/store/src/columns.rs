//! Conversion of values to columns and back. A row that cannot be parsed is an error that names table, row
//! and column.

use super::error::{Result, StoreError};
use protocol::api::{Label, Owner, SandboxId};
use rusqlite::{
    Row,
    types::{FromSql, ValueRef},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Converts a time or a count; values beyond the range of SQLite's integers become the largest of them.
pub(super) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Converts a number that must be read back unchanged, and fails where it does not fit.
pub(super) fn exact(value: u64, what: &'static str) -> Result<i64> {
    i64::try_from(value).map_err(|_| StoreError::Unfit { what })
}

pub(super) fn json<T: Serialize>(value: &T, what: &'static str) -> Result<String> {
    serde_json::to_string(value).map_err(|_| StoreError::Unfit { what })
}

/// Returns the name of a fieldless enum variant, spelled as in the API.
pub(super) fn word<T: Serialize>(value: &T, what: &'static str) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => Ok(word),
        Ok(_) | Err(_) => Err(StoreError::Unfit { what }),
    }
}

/// Reads the columns of one row into typed values.
pub(super) struct ColumnReader<'a> {
    pub row: &'a Row<'a>,
    pub table: &'static str,
    /// The column that names the row in an error.
    pub key: &'static str,
}

impl ColumnReader<'_> {
    pub(super) fn get<T: FromSql>(&self, column: &str) -> Result<T> {
        self.row.get(column).map_err(|error| self.wrong(column, &error))
    }

    pub(super) fn number(&self, column: &str) -> Result<u64> {
        let number: i64 = self.get(column)?;
        u64::try_from(number).map_err(|error| self.wrong(column, &error))
    }

    pub(super) fn maybe_number(&self, column: &str) -> Result<Option<u64>> {
        let number: Option<i64> = self.get(column)?;
        number.map(u64::try_from).transpose().map_err(|error| self.wrong(column, &error))
    }

    /// Parses a text column that is one value, such as an id or the name of an enum variant.
    pub(super) fn parsed<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        let text: String = self.get(column)?;
        serde_json::from_value(Value::String(text)).map_err(|error| self.wrong(column, &error))
    }

    pub(super) fn maybe_parsed<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>> {
        let text: Option<String> = self.get(column)?;
        let parsed = text.map(|text| serde_json::from_value(Value::String(text))).transpose();
        parsed.map_err(|error| self.wrong(column, &error))
    }

    pub(super) fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        let text: String = self.get(column)?;
        serde_json::from_str(&text).map_err(|error| self.wrong(column, &error))
    }

    pub(super) fn maybe_json<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>> {
        let text: Option<String> = self.get(column)?;
        let parsed = text.map(|text| serde_json::from_str(&text)).transpose();
        parsed.map_err(|error| self.wrong(column, &error))
    }

    /// Parses JSON whose content must not appear in an error.
    pub(super) fn secret_json<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        let text: String = self.get(column)?;
        serde_json::from_str(&text).map_err(|_| self.wrong(column, &"is not what was written"))
    }

    pub(super) fn owner(&self) -> Result<Owner> {
        let label = |column| self.parsed::<Label>(column);
        Ok(Owner { tenant: label("tenant")?, principal: label("principal")?, project: label("project")? })
    }

    pub(super) fn sandbox(&self, column: &str) -> Result<SandboxId> {
        self.parsed(column)
    }

    pub(super) fn wrong(&self, column: &str, why: &dyn std::fmt::Display) -> StoreError {
        let id = match self.row.get_ref(self.key) {
            Ok(ValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            Ok(ValueRef::Integer(number)) => number.to_string(),
            Ok(ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_)) | Err(_) => "?".to_owned(),
        };
        StoreError::Row { table: self.table, id, detail: format!("{column}: {why}") }
    }
}
