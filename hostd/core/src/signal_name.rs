//! Names of signals, as Linux numbers them on the machines that Slipway runs on.

/// `NAMES[n]` is the name of signal n + 1.
const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

/// `SIGTERM` for 15; `signal 40` for one without a name.
pub fn signal_name(signal: i32) -> String {
    let index = usize::try_from(signal).ok().and_then(|number| number.checked_sub(1));
    let name = index.and_then(|index| NAMES.get(index));
    name.map_or_else(|| format!("signal {signal}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::signal_name;

    #[test]
    fn signals_have_their_names() {
        let table = [
            (1, "SIGHUP"),
            (9, "SIGKILL"),
            (11, "SIGSEGV"),
            (15, "SIGTERM"),
            (31, "SIGSYS"),
            (0, "signal 0"),
            (32, "signal 32"),
            (-1, "signal -1"),
            (i32::MIN, "signal -2147483648"),
        ];
        for (signal, name) in table {
            assert_eq!(signal_name(signal), name);
        }
    }
}
