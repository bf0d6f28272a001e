//! Everything that is tried, in the order of the table.

use super::driver_column::{Column, Verdict};
use super::{drift, identity, images, isolation, life, limits, outages, snapshots, work};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type Run = fn(Arc<Column>) -> Pin<Box<dyn Future<Output = Verdict>>>;

#[derive(Clone, Copy)]
pub struct Row {
    pub area: &'static str,
    pub words: &'static str,
    pub run: Run,
    /// The row disturbs the engine, and with it all other rows that use it.
    pub alone: bool,
}

const OUTAGES: &str = "Outages";

macro_rules! rows {
    ($($area:literal { $($words:literal => $run:path;)+ })+) => {
        vec![$($(Row {
            area: $area,
            words: $words,
            run: |column| Box::pin($run(column)),
            alone: $area == OUTAGES,
        },)+)+]
    };
}

pub fn all() -> Vec<Row> {
    [of_sandboxes(), of_backends()].concat()
}

fn of_sandboxes() -> Vec<Row> {
    rows! {
        "Life cycle" {
            "create, get and use" => life::made;
            "stop and wake, files kept" => life::stopped_and_woken;
            "wake by an exec, once for all callers" => life::woken_by_execs;
            "pause and resume, memory kept" => life::paused;
            "recreate, with and without files" => life::recreated;
            "destroy, with and without files" => life::destroyed;
            "concurrent verbs of several callers" => life::raced;
        }
        "Limits" {
            "memory, process and CPU limits are as requested" => limits::configured;
            "limits are changed while it runs, is paused or stopped" => limits::changed;
            "job out of memory: it ends as `oom`, the sandbox lives" => limits::job_out_of_memory;
            "PID 1 out of memory: `oom`, with a post-mortem" => limits::init_out_of_memory;
            "process limit reached: reported, other sandboxes unaffected" => limits::out_of_processes;
            "/tmp counts as memory and is limited" => limits::full_tmp;
            "open files are limited, no core dumps" => limits::files;
            "disk limit reached: writes fail or it is stopped, other sandboxes unaffected" => limits::full_workspace;
        }
        "Isolation" {
            "only its own directories are writable, no host file is readable" => isolation::places;
            "kernel files and devices are hidden" => isolation::hidden;
            "privileged system calls are refused" => isolation::calls;
            "PID 1 has three capabilities, jobs none; seccomp and `no_new_privs`" => isolation::capabilities;
            "separate ids on the host" => isolation::own_ids;
            "set-id programs gain nothing" => isolation::set_id;
            "no other user of the host reaches its files" => isolation::files;
            "hostd's port inside cannot be taken" => isolation::own_port;
            "loopback only; the host's API is unreachable" => isolation::network;
            "an open network reaches the outside, not other sandboxes" => isolation::open_network;
            "other sandboxes are invisible" => isolation::neighbours;
            "links in the workspace are not followed" => isolation::links;
        }
        "Use" {
            "execs: exit codes, input, output, deadlines, signals" => work::execs;
            "an exec and its output across a kill of hostd" => work::exec_across_restart;
            "terminals" => work::terminals;
            "services, also after a wake" => work::services;
            "tasks, with every event across a kill of hostd" => work::tasks;
            "previews: wake, HTTP, WebSocket" => work::previews;
            "the status page inside" => work::status_page;
            "egress rules apply" => work::egress;
            "setup steps and dotfiles, across a kill of hostd and a failed step" => snapshots::provisioned;
            "snapshots of all states, forks and restores" => snapshots::snapshots;
        }
    }
}

fn of_backends() -> Vec<Row> {
    rows! {
        "Images" {
            "an empty image" => images::scratch;
            "an image with its own user, entry point, volumes and health check" => images::opinionated;
            "a missing image" => images::missing;
            "an image is pulled, with progress" => images::pulled;
            "the tree of an image of Docker is the same on the embedded driver" => images::same_tree;
        }
        "Identity" {
            "database lost: adopted with owner and files" => identity::adopted;
            "database lost: tasks and their events are recovered" => identity::adopted_tasks;
            "forged labels: listed as stale, never touched" => identity::forged;
            "copied, inherited and incomplete labels: listed as stale, never touched" => identity::copied;
            "two hostds on one backend ignore each other" => identity::two;
        }
        "Drift" {
            "stopped by another program" => drift::stopped;
            "killed by another program: `error` with a post-mortem that names the task" => drift::killed;
            "killed by another program, `always_on`: restarted" => drift::always_on;
            "paused by another program" => drift::paused;
            "removed by another program: recreated with its files" => drift::removed;
            "removed while hostd is down: detected at start" => drift::removed_meanwhile;
            "started by another program" => drift::started;
            "the post-mortem outlives the sandbox" => drift::outlives;
            "its name is taken by a foreign container" => drift::name_taken;
        }
        "Outages" {
            "hostd is killed during a verb" => outages::hostd_killed;
            "the engine hangs during a verb: 503, then it continues" => outages::hangs;
            "PID 1 is killed while the engine hangs" => outages::killed_meanwhile;
            "the engine is slow" => outages::slow;
            "the engine is killed during a verb" => outages::engine_killed;
            "the engine is down when hostd starts" => outages::away_at_start;
            "the engine is down: records, events and running sandboxes continue" => outages::away;
        }
    }
}
