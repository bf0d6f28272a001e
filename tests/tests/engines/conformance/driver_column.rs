//! A driver with its backend, and the results of every row.

use super::rows::{self, Row};
use super::table::{self, Cell};
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tests::engines::{Engine, Registry};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Rows that are tried at the same time: each has a hostd of its own.
const AT_ONCE: usize = 3;
/// A bound on hanging.
const ROW_MAX: Duration = Duration::from_secs(240);

/// How a row turned out.
pub enum Outcome {
    Passed,
    /// The driver says that it cannot, with this reason.
    Refused(String),
    /// There is nothing like that with this driver.
    Meaningless,
}

pub type Verdict = Result<Outcome>;

pub struct Column {
    pub name: &'static str,
    /// Of the engine, once a row needs one; before it, so that it ends first.
    registry: Mutex<Option<Registry>>,
    back: Back,
    /// Why no further row is tried: the shared engine does not run containers any more.
    broken: OnceLock<String>,
}

enum Back {
    Oci { runtime: &'static str },
    Engine(Box<Engine>),
}

impl Column {
    pub fn oci(runtime: &'static str) -> Self {
        let name = if runtime == "crun" { "oci, crun" } else { "oci, runc" };
        Self { name, registry: Mutex::new(None), back: Back::Oci { runtime }, broken: OnceLock::new() }
    }

    pub fn of(name: &'static str, engine: Engine) -> Self {
        Self {
            name,
            registry: Mutex::new(None),
            back: Back::Engine(Box::new(engine)),
            broken: OnceLock::new(),
        }
    }

    /// The engine behind it; the embedded driver has none.
    pub fn engine(&self) -> Option<&Engine> {
        match &self.back {
            Back::Oci { .. } => None,
            Back::Engine(engine) => Some(engine),
        }
    }

    /// Does something with the registry that the engine can fetch from.
    pub fn with_registry<T>(&self, work: impl FnOnce(&Engine, &Registry) -> Result<T>) -> Result<T> {
        let engine = engine(self)?;
        let mut registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if registry.is_none() {
            *registry = Some(Registry::start(engine)?);
        }
        work(engine, registry.as_ref().context("just started")?)
    }

    pub fn driver(&self) -> &'static str {
        if self.engine().is_some() { "docker" } else { "oci" }
    }

    /// The environment variables that make a hostd use it.
    pub fn variables(&self) -> Vec<(String, String)> {
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let driver = text("SLIPWAY_DRIVER", self.driver());
        match &self.back {
            Back::Oci { runtime } => vec![driver, text("SLIPWAY_OCI_RUNTIME", runtime)],
            Back::Engine(engine) => {
                let socket = engine.socket().display().to_string();
                let registry = text("SLIPWAY_IMAGE_REGISTRIES", tests::engines::ADDRESS);
                vec![driver, text("SLIPWAY_DOCKER_SOCKET", &socket), registry]
            }
        }
    }

    /// Ends the column when the engine that others use too is why a row failed: each further row would wait for it.
    fn check_shared_engine(&self) {
        if let Some(Err(error)) = self.engine().filter(|engine| engine.is_shared()).map(Engine::probe) {
            let _ = self.broken.set(format!("{error:#}"));
        }
    }

    /// Tries every row and holds the table to it.
    pub fn check(self) -> Result<()> {
        self.check_rows(|_| true)
    }

    /// The rows that leave the engine alone, so that others may use it too.
    pub fn check_undisturbed(self) -> Result<()> {
        self.check_rows(|row| !row.alone)
    }

    /// The rows that stop, kill or freeze the engine.
    pub fn check_outages(self) -> Result<()> {
        self.check_rows(|row| row.alone)
    }

    fn check_rows(self, of: fn(&Row) -> bool) -> Result<()> {
        let column = Arc::new(self);
        let wanted = std::env::var("CONFORMANCE_ROW").ok();
        let is_wanted = |row: &Row| wanted.as_ref().is_none_or(|part| row.words.contains(part.as_str()));
        let all = rows::all();
        ensure!(all.iter().any(is_wanted), "no row is called {wanted:?}");
        // Rows that disturb the engine run alone, after the others.
        let (alone, beside): (Vec<Row>, Vec<Row>) =
            all.into_iter().filter(of).filter(is_wanted).partition(|row| row.alone);
        let mut cells = tried_all(&column, beside, AT_ONCE);
        cells.extend(tried_all(&column, alone, 1));
        let failed = cells.iter().filter(|(_, cell)| *cell == Cell::Failed).count();
        let told = if wanted.is_none() { table::settle(column.name, &cells) } else { Ok(()) };
        ensure!(failed == 0, "{failed} of {} rows fail for {}", cells.len(), column.name);
        told
    }
}

/// Each row has a thread, and so many have one at once.
fn tried_all(column: &Arc<Column>, rows: Vec<Row>, at_once: usize) -> Vec<(Row, Cell)> {
    let (queue, cells) = (Mutex::new(rows.into_iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().ok().and_then(|mut rows| rows.next());
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(row) = next() {
                    let cell = tried(column, row);
                    cells.lock().expect("no holder panics").push((row, cell));
                }
            });
        }
    });
    cells.into_inner().expect("no holder panics")
}

fn tried(column: &Arc<Column>, row: Row) -> Cell {
    if let Some(why) = column.broken.get() {
        eprintln!("{}: {}: not tried: {why}", column.name, row.words);
        return Cell::Failed;
    }
    if let (true, Some(Err(error))) = (row.alone, column.engine().map(Engine::revive)) {
        eprintln!("{}: the engine does not come back: {error:#}", column.name);
    }
    let (started, shared) = (Instant::now(), Arc::clone(column));
    // A thread of its own: a panic is a failure of this row only.
    let trying = std::thread::spawn(move || {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.block_on(async { timeout(ROW_MAX, (row.run)(shared)).await.context("it hangs")? })
    });
    let verdict = trying.join().unwrap_or_else(|_| Err(anyhow!("it panics")));
    let cell = match verdict {
        Ok(Outcome::Passed) => Cell::Passed,
        Ok(Outcome::Refused(reason)) => Cell::Refused(reason),
        Ok(Outcome::Meaningless) => Cell::Meaningless,
        Err(error) => {
            eprintln!("{}: {}: {error:#}", column.name, row.words);
            column.check_shared_engine();
            Cell::Failed
        }
    };
    eprintln!("{}: {}: {cell} ({:.1} s)", column.name, row.words, started.elapsed().as_secs_f32());
    cell
}

/// Where only an engine has what the row is about.
pub fn engine(column: &Column) -> Result<&Engine> {
    column.engine().context("there is no engine behind this driver")
}

/// A refusal that is expected to be one, with what it is about.
pub fn refused(reply: &tests::Reply, field: &str) -> Verdict {
    let error = reply.error()?;
    let code = serde_json::to_value(error.code)?;
    let Some(code) = code.as_str() else { bail!("a code that is no text: {code}") };
    ensure!(code == "unsupported" && error.detail.field.as_deref() == Some(field), "{}", reply.text());
    Ok(Outcome::Refused(format!("`{code}`")))
}
