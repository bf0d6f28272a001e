//! The table of docs/conformance.md: rows are what is tried, columns are drivers.

use super::rows::{self, Row};
use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;

const COLUMNS: [&str; 4] = ["oci, crun", "oci, runc", "docker", "podman"];
const VARIABLE: &str = "UPDATE_CONFORMANCE";
const HEAD: &str = "\
# Conformance

One suite, `tests/tests/engines/conformance`, runs every driver through hostd's public API: `oci` with crun and with
runc, a real dockerd and a real Podman, as Debian packages them. Each test checks its column of this table, so the
table shows what was observed. `UPDATE_CONFORMANCE=1` rewrites it.

✓ works. *refused*: the driver refuses with a typed error. – does not apply to this driver.

";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    Passed,
    Refused(String),
    Meaningless,
    Failed,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("✓"),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Meaningless => f.write_str("–"),
            Self::Failed => f.write_str("**fails**"),
        }
    }
}

/// Texts of the cells, by words of the row and name of the column.
type Cells = BTreeMap<(String, String), String>;

/// Holds the column in the document to what was seen, or writes it. Prints the table either way.
pub fn settle(column: &str, seen: &[(Row, Cell)]) -> Result<()> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md");
    let update = std::env::var_os(VARIABLE).is_some();
    let file = OpenOptions::new().read(true).write(true).create(update).truncate(false).open(&path);
    let file = file.with_context(|| format!("open {}; {VARIABLE}=1 makes it", path.display()))?;
    // Columns may be tried side by side, by processes that know nothing of each other.
    let mut file = Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut cells = parse(&text);
    let differences: Vec<String> =
        seen.iter().filter_map(|(row, cell)| difference(&cells, column, row, cell)).collect();
    for (row, cell) in seen {
        cells.insert((row.words.to_owned(), column.to_owned()), cell.to_string());
    }
    let now = render(&cells);
    eprintln!("{now}");
    if update {
        file.rewind()?;
        file.set_len(0)?;
        return file.write_all(now.as_bytes()).context("write docs/conformance.md");
    }
    if !differences.is_empty() {
        bail!("docs/conformance.md says something else; {VARIABLE}=1 writes it\n{}", differences.join("\n"));
    }
    Ok(())
}

fn difference(cells: &Cells, column: &str, row: &Row, seen: &Cell) -> Option<String> {
    let told = cells.get(&(row.words.to_owned(), column.to_owned())).map_or("", String::as_str);
    (told != seen.to_string()).then(|| format!("{column}: {}: {told:?}, seen {seen}", row.words))
}

fn parse(text: &str) -> Cells {
    let mut cells = Cells::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let fields: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let Some((words, outcomes)) = fields.split_first() else { continue };
        for (column, outcome) in COLUMNS.iter().zip(outcomes) {
            cells.insert(((*words).to_owned(), (*column).to_owned()), (*outcome).to_owned());
        }
    }
    cells
}

/// Rows in the order of the suite; what is not in it any more is left out.
fn render(cells: &Cells) -> String {
    let mut text = HEAD.to_owned();
    let mut area = "";
    for row in rows::all() {
        if row.area != area {
            area = row.area;
            text += &format!(
                "\n## {area}\n\n| | {} |\n|---|{}\n",
                COLUMNS.join(" | "),
                "---|".repeat(COLUMNS.len())
            );
        }
        let of = |column: &&str| cells.get(&(row.words.to_owned(), (*column).to_owned())).cloned();
        let outcomes: Vec<String> = COLUMNS.iter().map(|column| of(column).unwrap_or_default()).collect();
        text += &format!("| {} | {} |\n", row.words, outcomes.join(" | "));
    }
    text
}
