//! Tables of accepted and refused requests, with code and field.

use super::{ViolationKind::*, *};

fn exec(change: impl FnOnce(&mut ExecRequest)) -> ExecRequest {
    let mut request = ExecRequest { argv: Some(vec!["true".into()]), ..ExecRequest::default() };
    change(&mut request);
    request
}

fn env_of(name: &str, value: &str) -> EnvMap {
    EnvMap::from([(name.to_owned(), value.to_owned())])
}

#[test]
fn a_bad_exec_is_refused_by_the_name_of_its_field() {
    let words = |count: usize, bytes: usize| Some(vec!["x".repeat(bytes); count]);
    let many: EnvMap = (0..=ENV_MAX_COUNT).map(|n| (n.to_string(), String::new())).collect();
    let table: Vec<(ViolationKind, &str, ExecRequest)> = vec![
        (Invalid, "argv", exec(|r| r.argv = None)),
        (Invalid, "argv", exec(|r| r.argv = Some(vec![]))),
        (Invalid, "argv", exec(|r| r.argv = Some(vec![String::new()]))),
        (Invalid, "argv", exec(|r| r.argv = Some(vec!["a\0b".into()]))),
        (TooLarge, "argv", exec(|r| r.argv = words(ARGV_MAX_COUNT + 1, 1))),
        (TooLarge, "argv", exec(|r| r.argv = words(1, ARG_MAX_BYTES + 1))),
        (TooLarge, "argv", exec(|r| r.argv = words(9, ARG_MAX_BYTES))),
        (Invalid, "shell", exec(|r| r.shell = Some("true".into()))),
        (
            Invalid,
            "shell",
            exec(|r| {
                r.argv = None;
                r.shell = Some(String::new());
            }),
        ),
        (Invalid, "cwd", exec(|r| r.cwd = Some(String::new()))),
        (Invalid, "cwd", exec(|r| r.cwd = Some("a\0".into()))),
        (Invalid, "cwd", exec(|r| r.cwd = Some("x".repeat(PATH_MAX_BYTES + 1)))),
        (Invalid, "env.", exec(|r| r.env = env_of("", ""))),
        (Invalid, "env.A=B", exec(|r| r.env = env_of("A=B", ""))),
        (Invalid, "env.A", exec(|r| r.env = env_of("A", "\0"))),
        (TooLarge, "env.A", exec(|r| r.env = env_of("A", &"x".repeat(ARG_MAX_BYTES - 1)))),
        (TooLarge, "env", exec(|r| r.env = many)),
        (Invalid, "timeout_ms", exec(|r| r.timeout_ms = Some(0))),
        (Invalid, "timeout_ms", exec(|r| r.timeout_ms = Some(TIMEOUT_MAX_MS + 1))),
        (TooLarge, "stdin", exec(|r| r.stdin = Some("x".repeat(STDIN_INLINE_MAX_BYTES + 1)))),
        (Invalid, "tty", exec(|r| r.tty = Some(TtySize { cols: 0, rows: 24 }))),
        (Invalid, "tty", exec(|r| r.tty = Some(TtySize { cols: 80, rows: TTY_SIDE_MAX + 1 }))),
    ];
    for (kind, field, bad) in table {
        let violation = exec_request(&bad).expect_err(field);
        assert_eq!((violation.kind, violation.field.as_str()), (kind, field), "{}", violation.message);
    }
}

#[test]
fn what_just_fits_is_accepted() {
    let table = [
        exec(|_| ()),
        exec(|r| r.argv = Some(vec!["x".repeat(ARG_MAX_BYTES)])),
        exec(|r| r.argv = Some(vec!["x".into(); ARGV_MAX_COUNT])),
        exec(|r| r.env = env_of("A", &"x".repeat(ARG_MAX_BYTES - 2))),
        exec(|r| r.cwd = Some("x".repeat(PATH_MAX_BYTES))),
        exec(|r| r.timeout_ms = Some(TIMEOUT_MAX_MS)),
        exec(|r| r.stdin = Some("x".repeat(STDIN_INLINE_MAX_BYTES))),
        exec(|r| r.tty = Some(TtySize { cols: 1, rows: TTY_SIDE_MAX })),
    ];
    for good in table {
        assert_eq!(exec_request(&good), Ok(()));
    }
}

#[test]
fn only_allow_and_deny_decide() {
    let answer = |decision| permission_answer(&PermissionAnswer { decision, option: None });
    assert_eq!((answer(Decision::Allow), answer(Decision::Deny)), (Ok(()), Ok(())));
    assert_eq!(answer(Decision::Ask).expect_err("no decision").field, "decision");
}

#[test]
fn both_apis_report_the_same_code_and_field() {
    for (violation, code) in [
        (Violation::invalid("cwd", "why"), "invalid_request"),
        (Violation::too_large("cwd", "why"), "too_large"),
    ] {
        let public = serde_json::to_value(ApiError::from(violation.clone())).expect("JSON");
        let internal = serde_json::to_value(Box::<ErrorBody>::from(violation)).expect("JSON");
        for error in [&public, &internal["error"]] {
            assert_eq!((&error["code"], &error["detail"]["field"]), (&code.into(), &"cwd".into()));
            assert_eq!(error["message"], "why");
        }
    }
}
