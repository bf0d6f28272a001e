//! Provisioning: what a new sandbox gets before it runs, and how far that is.
//!
//! ```text
//!              begin ┌──────────────┐ succeeded: done + 1
//!  done, idle ─────▶ │ done, running│ ─────────────────▶ done, idle ─▶ … ─▶ all done
//!       ▲            └──────────────┘
//!       └── failed; the run of the sandbox ended: the step is begun anew, under another number
//! ```
//!
//! Steps run one at a time and once in the life of a workspace. The number of a step that runs is recorded before its
//! exec is started, and names that exec: a hostd that was killed finds the exec by it, or starts it if it was never
//! started. Emptying the workspace begins anew.

use crate::{
    Blueprint, DOTFILES_DIR, Environment, Source, limits, parse_duration_ms, source::resolve_repository,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use protocol::{
    EnvMap, Exit,
    api::{
        ApiError, DotfilesInstall, DotfilesSpec, FailedStep, Problem, ProblemCode, SetupSpec, SetupStepSpec,
    },
    sanitize::one_line,
    validate,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Shells that may be given by their name, which the `PATH` of the sandbox resolves.
pub const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish"];
const SHELL_DEFAULT: &str = "/bin/sh";

/// A step of the setup, without its environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupStep {
    pub name: String,
    pub run: String,
    pub shell: String,
    /// Absent: the app directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    pub timeout_ms: u64,
}

/// Dotfiles, without their content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dotfiles {
    pub from: DotfilesFrom,
    pub install: DotfilesInstall,
}

/// Where dotfiles come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DotfilesFrom {
    /// An archive, whose content is kept apart.
    Archive(DotfilesFormat),
    Repository(Source),
}

/// What a repository is cloned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClonePurpose {
    App,
    Dotfiles,
}

/// The format of an archive, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DotfilesFormat {
    Tar,
    TarGz,
    Zip,
}

/// One thing that provisioning does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProvisionStep<'a> {
    Clone(ClonePurpose, &'a Source),
    Dotfiles(&'a Dotfiles),
    /// With its index among the steps of the setup.
    Setup(usize, &'a SetupStep),
}

impl ProvisionStep<'_> {
    pub fn name(&self) -> &str {
        match self {
            Self::Clone(ClonePurpose::App, _) => "source",
            Self::Clone(ClonePurpose::Dotfiles, _) => "dotfiles repository",
            Self::Dotfiles(_) => "dotfiles",
            Self::Setup(_, step) => &step.name,
        }
    }

    pub fn timeout_ms(&self) -> u64 {
        match self {
            Self::Clone(..) => limits::SOURCE_MAX_MS,
            Self::Dotfiles(_) => limits::DOTFILES_MAX_MS,
            Self::Setup(_, step) => step.timeout_ms,
        }
    }

    /// The code of the problem of a sandbox whose step failed.
    pub fn problem_code(&self) -> ProblemCode {
        match self {
            Self::Clone(..) => ProblemCode::SourceFailed,
            Self::Dotfiles(_) => ProblemCode::DotfilesFailed,
            Self::Setup(..) => ProblemCode::SetupFailed,
        }
    }
}

/// All steps of a blueprint, in order.
pub fn provision_steps(blueprint: &Blueprint) -> Vec<ProvisionStep<'_>> {
    let source = blueprint.source.iter().map(|source| ProvisionStep::Clone(ClonePurpose::App, source));
    let dotfiles = blueprint.dotfiles.iter().flat_map(|dotfiles| {
        let repository = match &dotfiles.from {
            DotfilesFrom::Repository(source) => Some(ProvisionStep::Clone(ClonePurpose::Dotfiles, source)),
            DotfilesFrom::Archive(_) => None,
        };
        repository.into_iter().chain([ProvisionStep::Dotfiles(dotfiles)])
    });
    let setup = blueprint.setup.iter().enumerate().map(|(index, step)| ProvisionStep::Setup(index, step));
    source.chain(dotfiles).chain(setup).collect()
}

/// How far the provisioning of a sandbox is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provisioning {
    /// Steps that succeeded.
    pub done: u32,
    /// Steps that were ever begun.
    pub begun: u32,
    /// When the newest of them was begun. Its exec is named by both: runtimed remembers execs that a database which was
    /// lost or restored does not know.
    #[serde(default)]
    pub begun_ms: u64,
    /// Whether the newest of them has not ended yet, as far as is recorded.
    pub running: bool,
}

/// The step that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    AllDone,
    /// To be begun.
    Begin {
        index: usize,
    },
    /// It was begun, and runs, ended, or was never started: its number tells.
    Resume {
        index: usize,
    },
}

impl Provisioning {
    /// The record of a sandbox that needs no provisioning any more.
    pub fn done(blueprint: &Blueprint) -> Self {
        let done = u32::try_from(provision_steps(blueprint).len()).unwrap_or(u32::MAX);
        Self { done, ..Self::default() }
    }

    pub fn is_done(&self, blueprint: &Blueprint) -> bool {
        self.done as usize >= provision_steps(blueprint).len()
    }

    pub fn next(&self, blueprint: &Blueprint) -> NextStep {
        let index = self.done as usize;
        match self.running {
            _ if self.is_done(blueprint) => NextStep::AllDone,
            true => NextStep::Resume { index },
            false => NextStep::Begin { index },
        }
    }

    #[must_use]
    pub fn begin(self, now_ms: u64) -> Self {
        Self { begun: self.begun.saturating_add(1), begun_ms: now_ms, running: true, ..self }
    }

    #[must_use]
    pub fn succeeded(self) -> Self {
        Self { done: self.done.saturating_add(1), running: false, ..self }
    }

    /// The step failed, or what ran it is gone.
    #[must_use]
    pub fn interrupted(self) -> Self {
        Self { running: false, ..self }
    }

    /// The workspace was emptied.
    #[must_use]
    pub fn reset(self) -> Self {
        Self { done: 0, running: false, ..self }
    }

    /// The id of the exec of the step that runs.
    pub fn exec_id(&self) -> String {
        format!("setup-{}-{:x}", self.begun, self.begun_ms)
    }
}

/// The line that is shown while a step runs, as in `setup 2/3: npm install`.
pub fn progress_line(blueprint: &Blueprint, index: usize) -> String {
    let steps = provision_steps(blueprint);
    let name = steps.get(index).map_or("", ProvisionStep::name);
    format!("setup {}/{}: {name}", index + 1, steps.len())
}

/// Why a sandbox is in error after a step failed. `output` is foreign text.
pub fn step_problem(
    blueprint: &Blueprint,
    index: usize,
    exec: Option<String>,
    exit: Option<Exit>,
    output: &[String],
) -> Problem {
    let steps = provision_steps(blueprint);
    let (name, code) =
        steps.get(index).map_or(("", ProblemCode::SetupFailed), |step| (step.name(), step.problem_code()));
    let (number, of) = (index + 1, steps.len());
    let how = how_it_ended(exit.as_ref(), steps.get(index).map_or(0, ProvisionStep::timeout_ms));
    let message = format!(
        "setup step {number} of {of} ({name}) {how}; correct the files and start the sandbox to go on with this \
         step, or destroy it"
    );
    let step = FailedStep {
        name: name.to_owned(),
        number: u32::try_from(number).unwrap_or(u32::MAX),
        of: u32::try_from(of).unwrap_or(u32::MAX),
        exec,
        exit,
    };
    let skipped = output.len().saturating_sub(limits::SETUP_LINES_MAX);
    let output = output[skipped..].iter().map(|line| one_line(line, limits::SETUP_LINE_MAX_CHARS)).collect();
    Problem { code, message, output, step: Some(step) }
}

fn how_it_ended(exit: Option<&Exit>, timeout_ms: u64) -> String {
    match exit {
        None => "could not be performed".to_owned(),
        Some(Exit::Exited { code }) => format!("exited with code {code}"),
        Some(Exit::Signalled { signal }) => format!("was killed by signal {signal}"),
        Some(Exit::Oom) => "ran out of memory".to_owned(),
        Some(Exit::TimedOut) => format!("took longer than its {} s", timeout_ms.div_ceil(1000)),
        Some(Exit::Cancelled) => "was cancelled".to_owned(),
        Some(Exit::SpawnFailed { message }) => {
            format!("could not be started: {}", one_line(message, limits::SETUP_LINE_MAX_CHARS))
        }
        Some(Exit::Lost) => "did not end before the sandbox died".to_owned(),
    }
}

/// Resolves the steps of a spec, and separates them from their environment, which is kept by index.
pub fn resolve_setup(
    spec: Option<&SetupSpec>,
    environment: &mut Environment,
) -> Result<Vec<SetupStep>, ApiError> {
    let specs = spec.map(|spec| spec.steps.as_slice()).unwrap_or_default();
    if specs.len() > limits::SETUP_STEPS_MAX {
        return Err(ApiError::invalid("setup.steps", format!("at most {} steps", limits::SETUP_STEPS_MAX)));
    }
    let mut by_index = BTreeMap::new();
    let mut steps = Vec::with_capacity(specs.len());
    for (index, spec) in specs.iter().enumerate() {
        steps.push(resolve_step(&format!("setup.steps.{index}"), spec)?);
        if !spec.env.is_empty() {
            by_index.insert(index, spec.env.clone());
        }
    }
    environment.setup = by_index;
    Ok(steps)
}

fn resolve_step(field: &str, spec: &SetupStepSpec) -> Result<SetupStep, ApiError> {
    let at = |name: &str| format!("{field}.{name}");
    let good = !spec.run.trim().is_empty() && spec.run.len() <= limits::SETUP_RUN_MAX_BYTES;
    let most = format!("must be 1 to {} bytes of a command line", limits::SETUP_RUN_MAX_BYTES);
    crate::blueprint::require(&at("run"), good, &most)?;
    validate::no_nul(&at("run"), &spec.run)?;
    if let Some(name) = &spec.name {
        let good = !name.trim().is_empty()
            && name.chars().count() <= limits::SETUP_NAME_MAX_CHARS
            && !name.chars().any(char::is_control);
        let most = limits::SETUP_NAME_MAX_CHARS;
        let must = format!("must be 1 to {most} characters without control characters");
        crate::blueprint::require(&at("name"), good, &must)?;
    }
    let shell = spec.shell.as_deref().unwrap_or(SHELL_DEFAULT);
    let plain = shell.len() <= limits::SETUP_PATH_MAX_BYTES && !shell.chars().any(char::is_control);
    let must = format!("must be an absolute path or one of {}", SHELLS.join(", "));
    crate::blueprint::require(
        &at("shell"),
        plain && (shell.starts_with('/') || SHELLS.contains(&shell)),
        &must,
    )?;
    if let Some(dir) = &spec.dir {
        let good = !dir.is_empty() && dir.len() <= limits::SETUP_PATH_MAX_BYTES;
        let must = format!("must be a path of 1 to {} bytes", limits::SETUP_PATH_MAX_BYTES);
        crate::blueprint::require(&at("dir"), good, &must)?;
        validate::no_nul(&at("dir"), dir)?;
    }
    crate::blueprint::check_env(&at("env"), &spec.env)?;
    Ok(SetupStep {
        name: spec.name.clone().unwrap_or_else(|| first_line(&spec.run)),
        run: spec.run.clone(),
        shell: shell.to_owned(),
        dir: spec.dir.clone(),
        timeout_ms: timeout_ms(&at("timeout"), spec.timeout.as_deref())?,
    })
}

fn timeout_ms(field: &str, text: Option<&str>) -> Result<u64, ApiError> {
    let Some(text) = text else { return Ok(limits::SETUP_TIMEOUT_DEFAULT_MS) };
    let ms = parse_duration_ms(text).map_err(|why| ApiError::invalid(field, why))?;
    crate::blueprint::require(field, (1..=limits::SETUP_TIMEOUT_MAX_MS).contains(&ms), "must be at most 1h")?;
    Ok(ms)
}

fn first_line(run: &str) -> String {
    one_line(run.trim().lines().next().unwrap_or_default(), limits::SETUP_NAME_MAX_CHARS)
}

/// Resolves dotfiles; the content of an archive is returned apart.
pub fn resolve_dotfiles(spec: &DotfilesSpec) -> Result<(Dotfiles, Option<Vec<u8>>), ApiError> {
    let install = spec.install.unwrap_or_default();
    match (&spec.url, &spec.archive) {
        (Some(url), None) => {
            let named = (url.as_str(), spec.reference.as_deref());
            let dir = format!("/home/sandbox/{DOTFILES_DIR}");
            let source = resolve_repository("dotfiles", named, spec.auth.as_ref(), dir)?;
            Ok((Dotfiles { from: DotfilesFrom::Repository(source), install }, None))
        }
        (None, Some(_)) if spec.reference.is_some() || spec.auth.is_some() => Err(ApiError::invalid(
            "dotfiles.ref",
            "belongs to a repository: an archive has neither ref nor auth",
        )),
        (None, Some(archive)) => {
            let (format, bytes) = decode_archive(archive)?;
            Ok((Dotfiles { from: DotfilesFrom::Archive(format), install }, Some(bytes)))
        }
        (Some(_), Some(_)) | (None, None) => {
            Err(ApiError::invalid("dotfiles.url", "give either url or archive"))
        }
    }
}

fn decode_archive(text: &str) -> Result<(DotfilesFormat, Vec<u8>), ApiError> {
    let most = limits::DOTFILES_ARCHIVE_MAX_BYTES;
    let too_large = || ApiError::invalid("dotfiles.archive", format!("must be at most {most} bytes"));
    if text.len() > most.div_ceil(3) * 4 {
        return Err(too_large());
    }
    let bytes = BASE64_STANDARD
        .decode(text)
        .map_err(|_| ApiError::invalid("dotfiles.archive", "is not base64 (standard alphabet, padded)"))?;
    if bytes.len() > most {
        return Err(too_large());
    }
    let format = archive_format(&bytes)
        .ok_or_else(|| ApiError::invalid("dotfiles.archive", "is no tar, tar.gz or zip archive"))?;
    Ok((format, bytes))
}

/// The format of an archive. A tar has its magic in the first header.
fn archive_format(bytes: &[u8]) -> Option<DotfilesFormat> {
    match bytes {
        [0x1f, 0x8b, ..] => Some(DotfilesFormat::TarGz),
        [b'P', b'K', 3 | 5, 4 | 6, ..] => Some(DotfilesFormat::Zip),
        bytes if bytes.get(257..262) == Some(b"ustar") => Some(DotfilesFormat::Tar),
        _ => None,
    }
}

/// Replaces secret values in foreign text: a step may print them. Each line of a value counts by itself, as a line of the
/// text can hold no more of it. Short ones are left: they are no secrets, and part of many words.
pub fn redact_lines(lines: &[String], secrets: &[String]) -> Vec<String> {
    let mut parts: Vec<&str> = secrets.iter().flat_map(|secret| secret.lines().map(str::trim)).collect();
    parts.retain(|part| part.len() >= limits::REDACTED_MIN_BYTES);
    // The longest first: a value may be a part of another one, whose rest would be left.
    parts.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    parts.dedup();
    let redact =
        |line: &String| parts.iter().fold(line.clone(), |line, part| line.replace(part, "[redacted]"));
    lines.iter().map(redact).collect()
}

/// The program and arguments of a step of the setup.
pub fn setup_argv(step: &SetupStep) -> Vec<String> {
    vec![step.shell.clone(), "-c".to_owned(), step.run.clone()]
}

/// The environment of a step of the setup: the sandbox's, overridden by its own.
pub fn setup_env(environment: &Environment, index: usize) -> EnvMap {
    let mut env = environment.all.clone();
    env.extend(environment.setup.get(&index).cloned().unwrap_or_default());
    env
}

#[cfg(test)]
mod tests;
