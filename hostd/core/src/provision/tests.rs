use super::*;
use crate::Defaults;
use protocol::api::{Network, SandboxSpec};
use serde_json::{Value, json};

fn resolve(spec: Value) -> Result<(Blueprint, Environment), ApiError> {
    let defaults = Defaults {
        driver: "oci".into(),
        image: "host".into(),
        memory_max_mb: 8192,
        cpus_max: 2.0,
        pids_max: 4096,
        network: Network::Proxy,
    };
    crate::blueprint(&serde_json::from_value::<SandboxSpec>(spec).expect("a spec"), &defaults)
}

fn sample() -> Blueprint {
    let steps = json!([{"name": "install", "run": "npm ci"}, {"run": "make\nmake test", "shell": "bash"}]);
    resolve(json!({"setup": {"steps": steps}})).expect("a good spec").0
}

#[test]
fn steps_are_defaulted() {
    let steps = sample().setup;
    assert_eq!(steps[0].name, "install");
    assert_eq!(steps[1].name, "make", "the first line is the name");
    assert_eq!(setup_argv(&steps[0]), ["/bin/sh", "-c", "npm ci"]);
    assert_eq!(setup_argv(&steps[1]), ["bash", "-c", "make\nmake test"]);
    assert_eq!(steps[0].timeout_ms, 600_000);
}

#[test]
fn the_environment_of_a_step_is_not_in_the_blueprint() {
    let steps = json!([{"run": "a"}, {"run": "b", "env": {"TOKEN": "secret1"}}]);
    let spec = json!({"env": {"A": "1", "TOKEN": "0"}, "setup": {"steps": steps}});
    let (blueprint, environment) = resolve(spec).expect("a good spec");
    assert!(!serde_json::to_string(&blueprint).expect("JSON").contains("secret1"));
    assert_eq!(setup_env(&environment, 0)["TOKEN"], "0");
    assert_eq!(setup_env(&environment, 1)["TOKEN"], "secret1");
    assert_eq!(setup_env(&environment, 1)["A"], "1");
    let stored = serde_json::to_string(&environment).expect("JSON");
    assert!(serde_json::from_str::<Environment>(&stored).expect("the same") == environment);
}

#[test]
fn invalid_steps_are_refused_by_field() {
    let table = [
        (json!({"run": ""}), "setup.steps.0.run"),
        (json!({"run": "a\u{0}b"}), "setup.steps.0.run"),
        (json!({"run": "x".repeat(20_000)}), "setup.steps.0.run"),
        (json!({"run": "a", "name": " "}), "setup.steps.0.name"),
        (json!({"run": "a", "name": "a\nb"}), "setup.steps.0.name"),
        (json!({"run": "a", "shell": "python3"}), "setup.steps.0.shell"),
        (json!({"run": "a", "shell": "../sh"}), "setup.steps.0.shell"),
        (json!({"run": "a", "dir": ""}), "setup.steps.0.dir"),
        (json!({"run": "a", "timeout": "2h"}), "setup.steps.0.timeout"),
        (json!({"run": "a", "timeout": "soon"}), "setup.steps.0.timeout"),
        (json!({"run": "a", "env": {"A=B": "c"}}), "setup.steps.0.env.A=B"),
    ];
    for (step, field) in table {
        let error = resolve(json!({"setup": {"steps": [step.clone()]}})).err().expect("refused");
        assert_eq!(error.detail.field.as_deref(), Some(field), "{step}");
    }
    let many: Vec<_> = (0..17).map(|_| json!({"run": "a"})).collect();
    let error = resolve(json!({"setup": {"steps": many}})).err().expect("refused");
    assert_eq!(error.detail.field.as_deref(), Some("setup.steps"));
}

#[test]
fn archives_are_told_by_their_first_bytes() {
    let of = |bytes: &[u8]| {
        let archive = Some(BASE64_STANDARD.encode(bytes));
        resolve_dotfiles(&DotfilesSpec { archive, ..DotfilesSpec::default() })
            .map(|(dotfiles, _)| dotfiles.from)
    };
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    assert_eq!(of(&tar), Ok(DotfilesFrom::Archive(DotfilesFormat::Tar)));
    assert_eq!(of(&[0x1f, 0x8b, 8, 0]), Ok(DotfilesFrom::Archive(DotfilesFormat::TarGz)));
    assert_eq!(of(b"PK\x03\x04"), Ok(DotfilesFrom::Archive(DotfilesFormat::Zip)));
    let large = vec![0x1f; limits::DOTFILES_ARCHIVE_MAX_BYTES + 1];
    for bytes in [b"#!/bin/sh".as_slice(), b"", &large] {
        let error = of(bytes).expect_err("refused");
        assert_eq!(error.detail.field.as_deref(), Some("dotfiles.archive"));
    }
}

#[test]
fn steps_run_in_order_and_a_step_that_runs_is_resumed() {
    let blueprint = sample();
    let fresh = Provisioning::default();
    assert_eq!(fresh.next(&blueprint), NextStep::Begin { index: 0 });
    let begun = fresh.begin(1_000);
    assert_eq!(
        (begun.next(&blueprint), begun.exec_id().as_str()),
        (NextStep::Resume { index: 0 }, "setup-1-3e8")
    );
    let failed = begun.interrupted();
    assert_eq!(failed.next(&blueprint), NextStep::Begin { index: 0 });
    let again = failed.begin(1_000);
    assert_eq!(again.exec_id(), "setup-2-3e8", "another exec than the one that failed");
    let adopted = Provisioning::done(&blueprint).reset().begin(2_000);
    assert_ne!(adopted.exec_id(), begun.exec_id(), "an exec that only runtimed remembers");
    let one = again.succeeded();
    assert_eq!(one.next(&blueprint), NextStep::Begin { index: 1 });
    let all = one.begin(1_000).succeeded();
    assert_eq!((all.next(&blueprint), all.is_done(&blueprint)), (NextStep::AllDone, true));
    let reset = all.reset();
    assert_eq!((reset.next(&blueprint), reset.begun), (NextStep::Begin { index: 0 }, 3));
    assert_eq!(Provisioning::done(&blueprint).next(&blueprint), NextStep::AllDone);
}

#[test]
fn a_problem_names_the_step_and_bounds_its_output() {
    let blueprint = sample();
    assert_eq!(progress_line(&blueprint, 1), "setup 2/2: make");
    let lines: Vec<String> =
        (0..50).map(|line| format!("line {line}\u{1b}[31m{}", "x".repeat(500))).collect();
    let exit = Exit::Exited { code: 3 };
    let problem = step_problem(&blueprint, 1, Some("setup-2".to_owned()), Some(exit.clone()), &lines);
    assert_eq!(problem.code, ProblemCode::SetupFailed);
    assert!(
        problem.message.starts_with("setup step 2 of 2 (make) exited with code 3;"),
        "{}",
        problem.message
    );
    assert_eq!(problem.output.len(), limits::SETUP_LINES_MAX);
    assert!(problem.output[0].starts_with("line 30x"), "{}", problem.output[0]);
    assert!(problem.output.iter().all(|line| line.chars().count() <= limits::SETUP_LINE_MAX_CHARS));
    let step = problem.step.expect("a step");
    assert_eq!((step.name.as_str(), step.number, step.of, step.exit), ("make", 2, 2, Some(exit)));
}

#[test]
fn secrets_are_redacted_line_by_line_and_the_longest_first() {
    let redacted = |secrets: &[&str], line: &str| {
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        redact_lines(&[line.to_owned()], &secrets).remove(0)
    };
    let pem = "-----BEGIN KEY-----\nMIIEvAIBADANBg\r\n  indented-line\nshort\n-----END KEY-----\n";
    let table: [(&[&str], &str, &str); 9] = [
        (&["geheim"], "it is geheim, geheim", "it is [redacted], [redacted]"),
        (&["short"], "short words stay", "short words stay"),
        (&[pem], "-----BEGIN KEY-----", "[redacted]"),
        (&[pem], "key: MIIEvAIBADANBg", "key: [redacted]"),
        (&[pem], "an indented-line", "an [redacted]"),
        (&[pem], "short", "short"),
        (&["geheim", "geheim-token"], "geheim-token", "[redacted]"),
        (&["geheim-token", "geheim"], "geheim-token geheim", "[redacted] [redacted]"),
        (&["", "\n\n"], "nothing", "nothing"),
    ];
    for (secrets, line, expected) in table {
        assert_eq!(redacted(secrets, line), expected, "{secrets:?}");
    }
}
