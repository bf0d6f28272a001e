//! The runtimed binary: PID 1, the shim of a job, the checkpoint process, or a verb on files.

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        None => runtimed::boot::main(),
        Some("shim") => runtimed::shim::main(),
        Some("checkpoint") => runtimed::checkpoint::main(std::env::args().nth(2).as_deref()),
        Some("files") => runtimed::files_process::main(std::env::args().nth(2).as_deref()),
        Some("--version" | "-V") => runtimed::boot::print_version(),
        Some("--help" | "-h") => runtimed::boot::print_help(),
        Some(other) => runtimed::boot::refuse_argument(other),
    }
}
