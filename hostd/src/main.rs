//! The hostd program. Without arguments it serves in the foreground.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next();
    // The launcher process of a sandbox: runs before anything else, and without an async runtime.
    let word = arguments.next();
    if word.as_ref().is_some_and(|word| word == "launch") {
        hostd_drivers::launcher::main(arguments);
    }
    // Likewise the process that becomes the token hook.
    if word.is_some_and(|word| word == hostd::git::token_hook::SUBCOMMAND) {
        hostd::git::token_hook::main(arguments);
    }
    drop(program);
    hostd::command::run(std::env::args().skip(1))
}
