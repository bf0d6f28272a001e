use super::*;
use crate::{output::Output, task::tests::result};

fn text(fields: &str, listing: Listing) -> String {
    summary(&result(fields), Style { output: Output { json: false, colour: false }, terminal: true }, listing)
}

const FULL: &str = r#"{"status":"failed","failure_reason":"build_failed","exit":{"kind":"exited","code":0},
    "message":"the build exited 2","hints":[{"kind":"disk_full"}],"final_message":{"data":"All\ndone."},
    "files_changed":{"added":1,"modified":1,"deleted":1,"added_lines":12,"deleted_lines":3,"truncated":true,
        "files":[{"path":{"data":"new.rs"},"change":"added","added_lines":12},{"path":{"data":"old"},"change":"deleted"}]},
    "build":{"status":"failed","exit":{"kind":"exited","code":2},"output":{"data":"error: no\n"},"duration_ms":2100},
    "health":{"status":"unhealthy","unready":["web","db"]},"usage":{"input_tokens":1200,"output_tokens":30}}"#;

#[test]
fn a_summary_after_the_events_is_short() {
    insta::assert_snapshot!(text(FULL, Listing::AfterEvents { files: 3 }), @r"
    failed after 12.3s (agent 12.3s): the build failed after the agent succeeded
      note        the disk of the workspace is full
      files       1 added, 1 modified, 1 deleted +12 -3
      build       exited 2 after 2.1s
      health      not ready: web, db
      usage       1,200 tokens in, 30 out
    ");
}

#[test]
fn a_summary_alone_has_everything() {
    insta::assert_snapshot!(text(FULL, Listing::Whole), @r"
    failed after 12.3s (agent 12.3s): the build failed after the agent succeeded
      note        the disk of the workspace is full
      files       1 added, 1 modified, 1 deleted +12 -3
        A new.rs +12
        D old
        … and 1 more
      build       exited 2 after 2.1s
      | error: no
      health      not ready: web, db
      usage       1,200 tokens in, 30 out
      said
      | All
      | done.
    ");
}

#[test]
fn a_success_is_short() {
    insta::assert_snapshot!(text(
        r#"{"files_changed":{"added":0,"modified":0,"deleted":0,"added_lines":0,"deleted_lines":0,"files":[]},
            "health":{"status":"healthy"},"build":{"status":"passed","duration_ms":900}}"#,
        Listing::AfterEvents { files: 0 },
    ), @r"
    succeeded after 12.3s (agent 12.3s)
      files       none changed
      build       passed in 900ms
      health      every service is ready
    ");
}

#[test]
fn what_an_agent_printed_is_shown_where_it_failed_and_the_end_of_it() {
    let printed: String = (0..12).map(|n| format!("{n}\\n")).collect();
    let of = |reason: &str| {
        let fields = format!(
            r#"{{"status":"failed","failure_reason":"{reason}","exit":{{"kind":"exited","code":1}},"models":["p/large-4"],
                "agent_stderr":{{"data":"{printed}\u001b[2J{}\nError: no key\n"}}}}"#,
            "x".repeat(500)
        );
        text(&fields, Listing::AfterEvents { files: 0 })
    };
    insta::assert_snapshot!(of("agent_failed").replace(&"x".repeat(200), "(x…)"), @r"
    failed after 12.3s (agent 12.3s): the agent exited 1
      printed     last lines of stderr; `slipway task log` has everything
      | 4
      | 5
      | 6
      | 7
      | 8
      | 9
      | 10
      | 11
      | (x…)…
      | Error: no key
      files       not known
      model       p/large-4
    ");
    assert!(!of("model_failed").contains("printed"), "the provider's words say why");
}

#[test]
fn every_failure_has_its_words() {
    let table = [
        (r#"{"failure_reason":"agent_failed","exit":{"kind":"exited","code":3}}"#, "the agent exited 3"),
        (
            r#"{"failure_reason":"agent_failed","exit":{"kind":"signalled","signal":9}}"#,
            "the agent was killed by signal 9",
        ),
        (
            r#"{"failure_reason":"agent_failed","exit":{"kind":"oom"}}"#,
            "the agent was killed by the kernel: the sandbox ran out of memory",
        ),
        (r#"{"failure_reason":"timed_out"}"#, "the time limit was exceeded"),
        (
            r#"{"failure_reason":"idle_timed_out"}"#,
            "the agent printed nothing for longer than the idle timeout",
        ),
        (r#"{"failure_reason":"spawn_failed"}"#, "the agent could not be started"),
        (r#"{"failure_reason":"lost"}"#, "the sandbox stopped or died"),
        (r#"{"failure_reason":"internal"}"#, "internal error of slipway"),
        ("{}", "unknown reason"),
    ];
    for (fields, expected) in table {
        assert_eq!(why(&result(fields)), expected);
    }
}

#[test]
fn many_files_are_counted_and_the_first_are_named() {
    let files: Vec<String> =
        (0..30).map(|n| format!(r#"{{"path":{{"data":"f{n}"}},"change":"added"}}"#)).collect();
    let fields = format!(
        r#"{{"files_changed":{{"added":100,"modified":0,"deleted":0,"added_lines":100,"deleted_lines":0,"truncated":true,"files":[{}]}}}}"#,
        files.join(",")
    );
    let short = text(&fields, Listing::AfterEvents { files: 0 });
    assert!(short.contains("    A f19\n    … and 80 more\n"), "{short}");
    let whole = text(&fields, Listing::Whole);
    assert!(whole.contains("    A f29\n    … and 70 more\n"), "{whole}");
}
