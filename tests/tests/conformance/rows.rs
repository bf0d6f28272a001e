//! Everything that is tried, in the order of the table.

use crate::column::{Column, Verdict};
use crate::{drift, identity, images, life, limits, trouble, walls, work};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

type Run = fn(Arc<Column>) -> Pin<Box<dyn Future<Output = Verdict>>>;

#[derive(Clone, Copy)]
pub struct Row {
    pub area: &'static str,
    pub words: &'static str,
    pub run: Run,
    /// It disturbs the engine, and with that whoever uses it.
    pub alone: bool,
}

const TROUBLE: &str = "Trouble";

macro_rules! rows {
    ($($area:literal { $($words:literal => $run:path;)+ })+) => {
        vec![$($(Row {
            area: $area,
            words: $words,
            run: |column| Box::pin($run(column)),
            alone: $area == TROUBLE,
        },)+)+]
    };
}

pub fn all() -> Vec<Row> {
    [of_sandboxes(), of_backends()].concat()
}

fn of_sandboxes() -> Vec<Row> {
    rows! {
        "Life cycle" {
            "made, looked at and used" => life::made;
            "stopped and woken, with its files" => life::stopped_and_woken;
            "woken by an exec, once for all who ask" => life::woken_by_execs;
            "paused and resumed, with its memory" => life::paused;
            "made anew, with its files or without" => life::recreated;
            "destroyed, with its files or without" => life::destroyed;
            "verbs of several callers at once" => life::raced;
        }
        "Limits" {
            "memory, processes and CPU are as asked for" => limits::configured;
            "memory runs out: the job ends as `oom`, the sandbox lives" => limits::job_out_of_memory;
            "memory runs out for PID 1: `oom`, with a post-mortem" => limits::init_out_of_memory;
            "processes run out: told, and only its own affair" => limits::out_of_processes;
            "/tmp counts as its memory and has a size" => limits::full_tmp;
            "open files are limited, and there are no core dumps" => limits::files;
        }
        "Walls" {
            "only its own places can be written, nothing of the host can be read" => walls::places;
            "the kernel's own files and devices are hidden" => walls::hidden;
            "calls that only the powerful may make are refused" => walls::calls;
            "PID 1 has three capabilities, jobs none; seccomp and no new privileges" => walls::capabilities;
            "ids of its own on the host" => walls::own_ids;
            "set-id programs give nothing" => walls::set_id;
            "nobody else on the host gets to its files" => walls::files;
            "the port of hostd inside cannot be taken" => walls::own_port;
            "no network but loopback; the host's API is out of reach" => walls::network;
            "an open network leads out, and not to neighbours" => walls::open_network;
            "neighbours are not seen" => walls::neighbours;
            "links in the workspace are not followed" => walls::links;
        }
        "Work" {
            "execs: exit codes, input, output, deadlines, signals" => work::execs;
            "an exec and its output across a kill of hostd" => work::exec_across_restart;
            "terminals" => work::terminals;
            "services, also after a wake" => work::services;
            "tasks, with every event across a kill of hostd" => work::tasks;
            "previews: waking, HTTP, WebSocket" => work::previews;
            "the status page inside" => work::status_page;
            "the way out is guarded" => work::egress;
        }
    }
}

fn of_backends() -> Vec<Row> {
    rows! {
        "Images" {
            "an image without anything in it" => images::scratch;
            "an image with its own user, entry point, volumes and health check" => images::opinionated;
            "an image that is not there" => images::missing;
            "an image is fetched, and that is told" => images::pulled;
        }
        "Identity" {
            "the database is lost: taken in again, with owner and files" => identity::adopted;
            "the database is lost: tasks and their events are there again" => identity::adopted_tasks;
            "forged marks: listed as stale, never touched" => identity::forged;
            "copied, inherited and incomplete labels: listed as stale, never touched" => identity::copied;
            "two hostd on one backend ignore each other" => identity::two;
        }
        "Drift" {
            "stopped behind our back" => drift::stopped;
            "killed behind our back: `error` with a post-mortem that names the task" => drift::killed;
            "killed behind our back while it should always run" => drift::always_on;
            "paused behind our back" => drift::paused;
            "removed behind our back: made again, with its files" => drift::removed;
            "removed while hostd is dead: found when it starts" => drift::removed_meanwhile;
            "started behind our back" => drift::started;
            "the post-mortem outlives the sandbox" => drift::outlives;
            "its name is taken by somebody else's container" => drift::name_taken;
        }
        "Trouble" {
            "hostd killed in the middle of a verb" => trouble::hostd_killed;
            "the engine hangs in the middle of a verb: 503, then it goes on" => trouble::hangs;
            "PID 1 is killed while the engine hangs" => trouble::killed_meanwhile;
            "the engine is slow" => trouble::slow;
            "the engine is killed in the middle of a verb" => trouble::engine_killed;
            "the engine is away when hostd starts" => trouble::away_at_start;
            "the engine is away: records, events and what runs go on" => trouble::away;
        }
    }
}
