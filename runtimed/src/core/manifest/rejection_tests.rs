//! Documents and specs that are rejected, with the exact messages.

use super::tests::{name, spec};
use super::{Document, parse, validate, validate_all};
use crate::limits::{ARG_MAX_BYTES, ENV_MAX_COUNT, MANIFEST_MAX_BYTES, SERVICES_MAX, WATCH_PATHS_MAX};
use protocol::{EnvMap, Health, HealthCheck, ServiceSpec};

const NAME: &str = "a name is 1 to 64 of A-Z a-z 0-9 . _ - and starts with a letter or digit";
const PORT: &str = "must be a number from 1 to 65535, without quotes";
const PATH: &str = "must be a path that starts with /, such as /healthz";
const SCALAR: &str = "must be text, a number, true or false";
const TIME: &str = "must be a time such as 500ms, 10s or 2m, or a number of seconds";
const RELATIVE: &str = "must be relative to the app directory, without ..";
const VARIABLE: &str = "the name of a variable must not be empty and must not contain = or NUL";

fn refusal(document: &str) -> String {
    match parse(document.as_bytes()) {
        Ok(specs) => format!("taken: {specs:?}"),
        Err(error) => error.to_string(),
    }
}

/// Wraps the lines in a service `web`; the first of them is line 4 of the document.
fn check(table: &[(&str, u32, &str, &str)]) {
    for (lines, line, field, message) in table {
        let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
        let document = format!("services:\n  web:\n    command: x\n{lines}");
        assert_eq!(refusal(&document), format!("line {line}, services.web.{field}: {message}"), "{document}");
    }
}

#[test]
fn a_service_is_refused_with_its_line_its_field_and_what_it_may_be() {
    check(&[
        ("prot: 1", 4, "prot", "no such key; did you mean port?"),
        ("port: 0", 4, "port", PORT),
        ("port: 65536", 4, "port", PORT),
        ("port: '80'", 4, "port", PORT),
        ("port: 80.5", 4, "port", PORT),
        ("env: [A]", 4, "env", "must be a map of variables"),
        ("env:\n  A: 1\n  B: [1]", 6, "env.B", SCALAR),
        ("env:\n  A:", 5, "env.A", "must have a value; empty text is \"\""),
        ("env: { '': 1 }", 4, "env.", VARIABLE),
        ("env: { 'A=B': 1 }", 4, "env.A=B", VARIABLE),
        ("env:\n  a: 1\n  a.b: \"\\0\"", 6, "env.a.b", "must not contain a NUL byte"),
        ("cwd: ''", 4, "cwd", "must not be empty"),
        ("cwd: {}", 4, "cwd", SCALAR),
        ("cwd: \"a\\0\"", 4, "cwd", "must not contain a NUL byte"),
        ("watch: src", 4, "watch", "must be a list of files and directories, such as [package.json]"),
        ("watch:\n  - ok\n  - a/../b", 6, "watch[1]", RELATIVE),
        ("watch: [/etc]", 4, "watch[0]", RELATIVE),
        ("depends_on: db", 4, "depends_on", "must be a list of service names, such as [db]"),
        ("depends_on: [db]", 4, "depends_on", "web depends on db, and there is no such service"),
        ("depends_on: [web]", 4, "depends_on", "services wait for each other: web -> web"),
        ("depends_on: [-x]", 4, "depends_on[0]", NAME),
        ("restart: no", 4, "restart", "must be always, on-failure or never"),
        ("restart_after_task: yes", 4, "restart_after_task", "must be true or false"),
    ]);
}

#[test]
fn a_health_check_is_refused_with_its_line_its_field_and_what_it_may_be() {
    let needs_port = "needs the port of the service; give port, too";
    let one_of = "must have one of http, tcp, log and command";
    let only_one = "only one of http, tcp, log and command may be given";
    let ascii = "must be printable ASCII without spaces; write other characters as %20";
    let open = "must be a regular expression: found open group without closing ')'";
    let large = "must be a regular expression: compiled regex exceeded size limit";
    let known = "no such key; there are http, tcp, log, command, interval, timeout";
    let any = "must be a map with one of http, tcp, log and command, or a path such as /healthz";
    let long_pattern = format!("health: {{ log: {} }}", "a".repeat(513));
    check(&[
        ("health: /up", 4, "health.http", needs_port),
        ("port: 80\nhealth: up", 5, "health.http", PATH),
        ("port: 80\nhealth:\n  interval: 5s\n  http: up", 7, "health.http", PATH),
        ("port: 80\nhealth: /a b", 5, "health.http", ascii),
        ("health: { tcp: 0 }", 4, "health.tcp", PORT),
        ("health: {}", 4, "health", one_of),
        ("health: [a]", 4, "health", any),
        ("health: { tcp: 1, log: a }", 4, "health.log", only_one),
        ("health: { log: '(' }", 4, "health.log", open),
        ("health: { log: 'a{999}{999}' }", 4, "health.log", large),
        ("health: { log: '' }", 4, "health.log", "must not be empty"),
        (&long_pattern, 4, "health.log", "must be at most 512 bytes"),
        ("health: { command: [] }", 4, "health.command", "must not be empty"),
        ("health:\n  tcp: 1\n  interval: ten", 6, "health.interval", TIME),
        ("health:\n  tcp: 1\n  interval: 10ms", 6, "health.interval", "must be from 500ms to 3600s"),
        ("health: { tcp: 1, timeout: 2m }", 4, "health.timeout", "must be from 1ms to 60s"),
        ("health: { tcp: 1, timeout: 0 }", 4, "health.timeout", "must be from 1ms to 60s"),
        ("health: { tcp: 1, retries: 3 }", 4, "health.retries", known),
    ]);
}

#[test]
fn a_document_is_refused_with_its_line() {
    let service = "must be a map with at least the key command";
    let missing = "is missing; give a shell line or a list of arguments";
    let circle = "services wait for each other: a -> b -> a";
    let table = [
        ("[]", "line 1: must be a map with the key services".to_owned()),
        ("version: 2", "line 1, version: must be 1, the only version there is".into()),
        ("version: 1\nservice: {}", "line 2, service: no such key; did you mean services?".into()),
        ("x-base: 1", "line 1, x-base: no such key; there are version, services, build".into()),
        ("build: { comand: x }", "line 1, build.comand: no such key; did you mean command?".into()),
        ("build: { timeout: 1s }", format!("line 1, build.command: {missing}")),
        ("build: { command: x, timeout: 0 }", "line 1, build.timeout: must be from 1ms to 604800s".into()),
        ("services: []", "line 1, services: must be a map of names, each with what to run".into()),
        ("services:\n  web: npm run dev", format!("line 2, services.web: {service}")),
        ("services:\n  web:", format!("line 2, services.web: {service}")),
        ("services:\n  web: { port: 1 }", format!("line 2, services.web.command: {missing}")),
        ("services:\n  web: { command: }", format!("line 2, services.web.command: {missing}")),
        ("services:\n  web: { command: [] }", "line 2, services.web.command: must not be empty".into()),
        ("services:\n  a/b: { command: x }", format!("line 2, services.a/b: {NAME}")),
        ("services:\n  \"a\\nb\": 1", format!("line 2, services.a\\nb: {NAME}")),
        (
            "services:\n  a:\n    command: x\n    depends_on: [b]\n  b: { command: x, depends_on: [a] }",
            format!("line 4, services.a.depends_on: {circle}"),
        ),
    ];
    for (document, expected) in table {
        assert_eq!(refusal(document), expected, "{document}");
    }
}

#[test]
fn what_is_not_yaml_is_refused_with_its_line() {
    let colon = "mapping values are not allowed in this context; text with a colon needs quotes";
    let table = [
        ("services:\n  web:\n    command: echo a: b", format!("line 3: not valid YAML: {colon}")),
        (
            "services:\n\tweb: {}",
            "line 2: not valid YAML: tabs disallowed within this context (block indentation)".into(),
        ),
        ("services: *gone", "line 1: not valid YAML: reference to unknown value".into()),
        ("services: !foo x", "line 1: not valid YAML: unsupported tag `!foo`".into()),
        (
            "services: {}\n---\nservices: {}",
            "line 3: a manifest is one document, and --- starts another".into(),
        ),
        ("services:\n  web: {}\n  web: {}", "line 3, web: this key is there twice".into()),
        ("services:\n  web: { command: x, command: y }", "line 2, command: this key is there twice".into()),
    ];
    for (document, expected) in table {
        assert_eq!(refusal(document), expected, "{document}");
    }
}

#[test]
fn what_is_not_text_or_too_large_is_refused() {
    let not_text = parse(b"a: 1\nb: \xff\n").expect_err("not UTF-8").to_string();
    assert_eq!(not_text, "line 2: a manifest is UTF-8 text, and this line is not");
    let large = vec![b'#'; MANIFEST_MAX_BYTES as usize + 1];
    assert_eq!(parse(&large).expect_err("too large").to_string(), "a manifest is at most 256 KiB");
    assert_eq!(parse(&large[1..]), Ok(Document::default()));
}

/// Changes one field of a valid spec and returns the error.
fn changed(change: impl FnOnce(&mut ServiceSpec)) -> String {
    let mut spec = spec("web", "x");
    change(&mut spec);
    validate(&spec).map_or_else(|invalid| invalid.to_string(), |()| "taken".into())
}

#[test]
fn specs_from_the_api_are_held_to_the_same() {
    let long_env = || EnvMap::from([("A".to_owned(), "v".repeat(ARG_MAX_BYTES))]);
    let many_env = || (0..=ENV_MAX_COUNT).map(|number| (format!("V{number}"), String::new())).collect();
    let much_env = || (0..20).map(|number| (format!("V{number}"), "v".repeat(100_000))).collect();
    let fast = || Health { interval_ms: 1, ..Health::of(HealthCheck::Tcp(1)) };
    let table = [
        (changed(|_| {}), "taken".to_owned()),
        (changed(|spec| spec.command = " ".into()), "command: must not be empty".into()),
        (changed(|spec| spec.port = Some(0)), "port: must be a number from 1 to 65535".into()),
        (
            changed(|spec| spec.health = Some(Health::of(HealthCheck::Tcp(0)))),
            "health.tcp: must be a number from 1 to 65535".into(),
        ),
        (
            changed(|spec| spec.health = Some(fast())),
            "health.interval_ms: must be from 500ms to 3600s".into(),
        ),
        (
            changed(|spec| spec.env = long_env()),
            format!("env.A: must be at most {ARG_MAX_BYTES} bytes with its name"),
        ),
        (changed(|spec| spec.env = many_env()), "env: must be at most 1024 variables".into()),
        (changed(|spec| spec.env = much_env()), "env: must be at most 1048576 bytes in all".into()),
        (
            changed(|spec| spec.watch = vec!["a".into(); WATCH_PATHS_MAX + 1]),
            "watch: must be at most 32 paths".into(),
        ),
        (changed(|spec| spec.cwd = Some("/".repeat(4096))), "cwd: must be at most 4095 bytes".into()),
    ];
    for (found, expected) in table {
        assert_eq!(found, expected);
    }
}

#[test]
fn specs_are_checked_together() {
    let many: Vec<_> = (0..=SERVICES_MAX).map(|number| spec(&format!("s{number}"), "x")).collect();
    let bad = ServiceSpec { port: Some(0), ..spec("web", "x") };
    let lost = ServiceSpec { depends_on: vec![name("db")], ..spec("web", "x") };
    let table = [
        (vec![], "taken"),
        (many, "services: must be at most 64 services"),
        (vec![spec("a", "x"), bad], "services.web.port: must be a number from 1 to 65535"),
        (vec![lost], "services.web.depends_on: web depends on db, and there is no such service"),
        (vec![spec("a", "x"), spec("a", "y")], "services.a: there are two services with the name a"),
    ];
    for (specs, expected) in table {
        let found = validate_all(&specs).map_or_else(|invalid| invalid.to_string(), |()| "taken".into());
        assert_eq!(found, expected);
    }
}
