//! What tasks changed: recorded once, at the end of the task, and never changed after that.

use super::{
    columns::{ColumnReader, exact, json, word},
    error::Result,
    handle::Store,
    limits,
    query::{List, change, one},
    records::TaskRecord,
    tasks::by_number,
};
use hostd_core::{ChangesRecord, FileChangeRecord, TaskChanges};
use rusqlite::{Connection, Row, params, types::Value};

const WHAT: &str = "write the changes of a task";

/// One page of changed files, and the position of its last one where more follow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChangedFiles {
    pub files: Vec<FileChangeRecord>,
    pub next: Option<u64>,
}

impl Store {
    /// Records the changes of a task, unless they are recorded already: the first record stays.
    pub async fn record_task_changes(&self, number: i64, changes: TaskChanges) -> Result<()> {
        let bytes = changes.files.iter().map(|file| file.diff.as_ref().map_or(0, Vec::len)).sum();
        self.write("record_task_changes", move |conn| {
            let task = by_number(conn, number)?;
            if record_of(conn, number)?.is_none() {
                insert(conn, &task, &changes)?;
            }
            Ok(())
        })
        .await?;
        self.count_wal_bytes(bytes);
        Ok(())
    }

    pub async fn task_changes(&self, number: i64) -> Result<Option<ChangesRecord>> {
        self.read(move |conn| record_of(conn, number)).await
    }

    /// Returns changed files in the order of the list: at most `limit`, and as many as fit into a page.
    pub async fn changed_files(&self, number: i64, after: u64, limit: usize) -> Result<ChangedFiles> {
        let after = exact(after, "the position")?;
        self.read(move |conn| {
            let mut wanted = List::from("SELECT * FROM task_change_files");
            wanted.and_if("task = ?", Some(number));
            wanted.and_if("position > ?", Some(after));
            let (mut rows, mut bytes) = (0, 0);
            let (found, more) = wanted.run_while(conn, "position", parse, |(_, file)| {
                rows += 1;
                bytes += file.diff.as_ref().map_or(0, Vec::len);
                rows < limit && bytes < limits::CHANGES_PAGE_MAX_BYTES
            })?;
            let next = found.last().filter(|_| more).map(|(position, _)| *position);
            Ok(ChangedFiles { files: found.into_iter().map(|(_, file)| file).collect(), next })
        })
        .await
    }

    pub async fn changed_file(&self, number: i64, path: Vec<u8>) -> Result<Option<FileChangeRecord>> {
        self.read(move |conn| {
            let sql = "SELECT * FROM task_change_files WHERE task = ? AND path = ?";
            Ok(one(conn, sql, params![number, Value::Blob(path)], parse)?.map(|(_, file)| file))
        })
        .await
    }
}

fn record_of(conn: &Connection, number: i64) -> Result<Option<ChangesRecord>> {
    one(conn, "SELECT task, record FROM task_changes WHERE task = ?", params![number], |row| {
        ColumnReader { row, table: "task_changes", key: "task" }.json("record")
    })
}

fn insert(conn: &Connection, task: &TaskRecord, changes: &TaskChanges) -> Result<()> {
    let owner = &task.owner;
    let (tenant, principal, project) =
        (owner.tenant.as_str(), owner.principal.as_str(), owner.project.as_str());
    let record = json(&changes.record, "the changes")?;
    let sql = "INSERT INTO task_changes (task, tenant, principal, project, record) VALUES (?, ?, ?, ?, ?)";
    change(conn, sql, params![task.number, tenant, principal, project, record], WHAT)?;
    let sql = "INSERT INTO task_change_files (task, tenant, principal, project, position, path, change,
            added_lines, deleted_lines, is_binary, diff)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let lines = |lines: Option<u64>| lines.map(|lines| exact(lines, "the lines")).transpose();
    for (position, file) in (1_i64..).zip(&changes.files) {
        let values = params![
            task.number,
            tenant,
            principal,
            project,
            position,
            file.path,
            word(&file.change, "the change")?,
            lines(file.added_lines)?,
            lines(file.deleted_lines)?,
            file.binary,
            file.diff,
        ];
        change(conn, sql, values, WHAT)?;
    }
    Ok(())
}

fn parse(row: &Row<'_>) -> Result<(u64, FileChangeRecord)> {
    let fields = ColumnReader { row, table: "task_change_files", key: "number" };
    let file = FileChangeRecord {
        path: fields.get("path")?,
        change: fields.parsed("change")?,
        added_lines: fields.maybe_number("added_lines")?,
        deleted_lines: fields.maybe_number("deleted_lines")?,
        binary: fields.get("is_binary")?,
        diff: fields.get("diff")?,
    };
    Ok((fields.number("position")?, file))
}
