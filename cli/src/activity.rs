//! Formats the activity of a sandbox: why it is awake and when it will sleep.

use crate::humanize::{age, duration, until};
use protocol::{
    Reason,
    api::{ActivityView, SleepsTo},
};

/// Formats an activity as one line.
pub fn activity_line(view: &ActivityView) -> String {
    let state = match (view.busy, view.dozing) {
        (true, _) => "busy",
        (false, true) => "dozing, idle",
        (false, false) => "idle",
    };
    let mut line = format!("{state} for {}", age(&view.since));
    if !view.reasons.is_empty() {
        let reasons: Vec<String> = view.reasons.iter().map(why).collect();
        line.push_str(&format!(": {}", reasons.join(", ")));
    }
    if let (Some(time), Some(to)) = (&view.sleeps_at, view.sleeps_to) {
        let word = match to {
            SleepsTo::Paused => "pauses",
            SleepsTo::Stopped => "stops",
        };
        line.push_str(&format!("; {word} {} if nothing happens", until(time)));
    }
    line
}

fn why(reason: &Reason) -> String {
    match reason {
        Reason::Exec { exec } => format!("exec {exec}"),
        Reason::Task { task } => format!("task {task}"),
        Reason::Viewers { count } => format!("{count} at its terminals"),
        Reason::Tunnels { count } => format!("{count} tunnels"),
        Reason::Files { count } => format!("{count} transfers of files"),
        Reason::Hold { hold } => format!("hold {hold}"),
        Reason::ServiceStarting { service } => format!("service {service} starts"),
        Reason::Cpu { percent } => format!("{percent} % CPU"),
        Reason::Preview { streams: 0, silent_ms } => {
            format!("a preview was used {} ago", duration(*silent_ms))
        }
        Reason::Preview { streams, silent_ms } => {
            format!("{streams} open preview streams, silent for {}", duration(*silent_ms))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(json: &str) -> String {
        activity_line(&serde_json::from_str(json).expect("an activity"))
    }

    #[test]
    fn it_says_why_it_is_awake_and_what_happens_next() {
        let lines = [
            line(
                r#"{"busy":true,"since":"","idle_policy":"sleep","reasons":[{"kind":"exec","exec":"e1"},
                {"kind":"preview","streams":0,"silent_ms":900}]}"#,
            ),
            line(
                r#"{"busy":false,"since":"","idle_policy":"sleep","sleeps_at":"","sleeps_to":"paused",
                "reasons":[{"kind":"preview","streams":2,"silent_ms":65000}]}"#,
            ),
            line(
                r#"{"busy":false,"since":"","idle_policy":"sleep","dozing":true,"sleeps_at":"",
                "sleeps_to":"stopped","reasons":[]}"#,
            ),
            line(r#"{"busy":false,"since":"","idle_policy":"always_on","reasons":[]}"#),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r"
        busy for -: exec e1, a preview was used 900ms ago
        idle for -: 2 open preview streams, silent for 1m; pauses - if nothing happens
        dozing, idle for -; stops - if nothing happens
        idle for -
        ");
    }
}
