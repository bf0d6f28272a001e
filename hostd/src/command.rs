//! The command line of hostd.

use crate::{api, backup, boot, config, config::Config};
use std::{fs, io, path::PathBuf, process::ExitCode};

/// Exit status for wrong configuration or usage.
const EXIT_USAGE: u8 = 64;
/// Exit status when hostd could not start or go on.
const EXIT_FAILED: u8 = 1;

const USAGE: &str = "hostd: keeps Slipway's sandboxes and serves their API

usage: hostd             serve in the foreground
       hostd repair      move a corrupt database aside; sandboxes that run are found again
       hostd restore FILE [--data-dir DIR] --passphrase-file FILE | --identity FILE [--verify-only] [--revoke-tokens]
                         restore a backup into a data directory that is not there yet; as `slipway restore` does
       hostd openapi     print the API as OpenAPI 3.1
       hostd --version, hostd --help

Configured by the TOML file $SLIPWAY_CONFIG (/etc/slipway/slipway.toml if that exists) and, above it, by the
environment variables below; the variable SLIPWAY_IDLE_SECONDS is the key idle_seconds of the file. SLIPWAY_LOG is
info, debug or warn; OTEL_EXPORTER_OTLP_ENDPOINT is where traces go. docs/configuration.md says more about each key.
";

const EXITS: &str =
    "Exit: 0 after SIGTERM or SIGINT (sandboxes keep running), 64 for wrong configuration, 1 otherwise.";

/// The error with which hostd exits: one line for the operator.
#[derive(Debug)]
pub enum Failure {
    Usage(String),
    Failed(String),
}

pub fn run(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let word = arguments.next();
    if word.as_deref() == Some("restore") {
        return exit(backup::restore_command(arguments, || configured().map(|config| config.data_dir)));
    }
    let extra = arguments.next();
    let result = match (word.as_deref(), extra) {
        (_, Some(extra)) => Err(Failure::Usage(format!("one word too many: {extra} (see --help)"))),
        (None, None) => configured().and_then(boot::serve),
        (Some("repair"), None) => configured().and_then(|config| repair(&config)),
        (Some("openapi"), None) => print(api::openapi_json()),
        (Some("--version" | "-V"), None) => print(concat!("hostd ", env!("CARGO_PKG_VERSION"))),
        (Some("--help" | "-h" | "help"), None) => {
            print(&format!("{USAGE}\n{}\n{EXITS}", config::keys::help()))
        }
        (Some(other), None) => Err(Failure::Usage(format!("unknown command {other} (see --help)"))),
    };
    exit(result)
}

fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(line)) => exit_with(&line, EXIT_USAGE),
        Err(Failure::Failed(line)) => exit_with(&line, EXIT_FAILED),
    }
}

fn exit_with(line: &str, code: u8) -> ExitCode {
    eprintln!("hostd: {line}");
    ExitCode::from(code)
}

pub fn print(text: &str) -> Result<(), Failure> {
    use io::Write;
    // A closed stdout is not an error.
    let _ = writeln!(io::stdout(), "{}", text.trim_end());
    Ok(())
}

fn configured() -> Result<Config, Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::Usage("must run as root: it makes namespaces and control groups".to_owned()));
    }
    let env = |name: &str| std::env::var(name).ok();
    let file = configuration_file(env("SLIPWAY_CONFIG").as_deref())?;
    Config::parse(file.as_deref(), env).map_err(|error| Failure::Usage(error.to_string()))
}

/// Reads the configuration file. A file that was named must exist; the default one need not.
fn configuration_file(named: Option<&str>) -> Result<Option<String>, Failure> {
    let path = PathBuf::from(named.unwrap_or(config::DEFAULT_FILE));
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(None),
        Err(error) => {
            Err(Failure::Usage(format!("SLIPWAY_CONFIG: could not read {}: {error}", path.display())))
        }
    }
}

fn repair(config: &Config) -> Result<(), Failure> {
    let _lock = boot::lock(&config.data_dir)?;
    match hostd_store::repair(&config.data_dir.join(boot::DATABASE)) {
        Ok(repaired) => print(&repaired.to_string()),
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}
