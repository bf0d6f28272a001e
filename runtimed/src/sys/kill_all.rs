//! Last resort without a supervisor: kills and reaps every process below us.

use super::{procfs, reap};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};
use std::time::{Duration, Instant};

/// Processes in uninterruptible sleep may outlast this; the kernel ends them with the namespace.
const KILL_MAX: Duration = Duration::from_secs(5);

pub fn kill_everything() {
    let until = Instant::now() + KILL_MAX;
    while Instant::now() < until {
        if getpid().as_raw() == 1 {
            // As PID 1 this reaches every process of the namespace but ourselves.
            let _ = kill(Pid::from_raw(-1), Signal::SIGKILL);
        } else {
            // Otherwise it would reach the whole machine.
            for pid in procfs::descendants(getpid().as_raw()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
        if reap::sweep().empty {
            return;
        }
        std::thread::yield_now();
    }
}
