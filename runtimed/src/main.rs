//! The runtimed binary: PID 1, or the shim of a job.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => runtimed::boot::main(),
        Some("shim") => runtimed::shim::main(),
        Some("--version" | "-V") => runtimed::boot::print_version(),
        Some("--help" | "-h") => runtimed::boot::print_help(),
        Some(other) => runtimed::boot::refuse_argument(other),
    }
}
