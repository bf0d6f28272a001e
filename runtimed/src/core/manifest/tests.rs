//! Documents that are accepted, and what they mean.

use super::{Document, parse};
use protocol::{BuildSpec, EnvMap, Health, HealthCheck, RestartPolicy, ServiceName, ServiceSpec};

pub const FULL: &str = r#"# what this workspace runs
version: 1
services:
  web:
    command: npm run dev
    port: 5173
    env: { NODE_ENV: development, WORKERS: 2, DEBUG: true, VERSION: 1.10, NO: no, EMPTY: "" }
    cwd: packages/web
    depends_on: [db, 1]
    health: { http: /healthz, interval: 10s, timeout: 500ms }
    restart: on-failure
    restart_after_task: true
    watch: [package.json, src/config]
  db:
    command: [postgres, -c, "log_line_prefix=%m it's"]
    health:
      command: [pg_isready, -q]
      interval: 2m
  "1": { command: "true", health: { log: 'ready in \d+ms', timeout: 3 }, restart: never }
build: { command: npm run build, timeout: 2m }
"#;

pub fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("a good name")
}

pub fn spec(own: &str, command: &str) -> ServiceSpec {
    ServiceSpec {
        name: name(own),
        command: command.into(),
        port: None,
        env: EnvMap::new(),
        cwd: None,
        depends_on: vec![],
        health: None,
        restart: RestartPolicy::Always,
        restart_after_task: false,
        watch: vec![],
    }
}

#[test]
fn every_key_of_a_manifest_is_read_in_the_order_of_the_document() {
    let env = [("NODE_ENV", "development"), ("WORKERS", "2"), ("DEBUG", "true")];
    let env = env.into_iter().chain([("VERSION", "1.10"), ("NO", "no"), ("EMPTY", "")]);
    let web = ServiceSpec {
        port: Some(5173),
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        cwd: Some("packages/web".into()),
        depends_on: vec![name("db"), name("1")],
        health: Some(Health {
            check: HealthCheck::Http("/healthz".into()),
            interval_ms: 10_000,
            timeout_ms: 500,
        }),
        restart: RestartPolicy::OnFailure,
        restart_after_task: true,
        watch: vec!["package.json".into(), "src/config".into()],
        ..spec("web", "npm run dev")
    };
    let ready = HealthCheck::Command("pg_isready -q".into());
    let db = ServiceSpec {
        health: Some(Health { interval_ms: 120_000, ..Health::of(ready) }),
        ..spec("db", r"postgres -c 'log_line_prefix=%m it'\''s'")
    };
    let one = ServiceSpec {
        health: Some(Health { timeout_ms: 3_000, ..Health::of(HealthCheck::Log(r"ready in \d+ms".into())) }),
        restart: RestartPolicy::Never,
        ..spec("1", "true")
    };
    let services = vec![web, db, one];
    let build = Some(BuildSpec { command: "npm run build".into(), timeout_ms: Some(120_000) });
    assert_eq!(parse(FULL.as_bytes()), Ok(Document { services, build }));
}

#[test]
fn short_forms_and_empty_documents_are_taken() {
    let web = || spec("web", "x");
    let health = |check| Some(Health::of(check));
    let table: [(&str, Vec<ServiceSpec>); 14] = [
        ("", vec![]),
        ("# nothing yet\n", vec![]),
        ("---\n", vec![]),
        ("version: 1\n", vec![]),
        ("services:\n", vec![]),
        ("services: {}\n", vec![]),
        ("\u{feff}services: { web: { command: x } }", vec![web()]),
        ("services:\r\n  web:\r\n    command: x\r\n", vec![web()]),
        ("services: { web: { command: true } }", vec![spec("web", "true")]),
        ("services: { web: { command: x, port: , env: , health: , watch: } }", vec![web()]),
        (
            "services: { web: { command: x, health: { tcp: 5432 } } }",
            vec![ServiceSpec { health: health(HealthCheck::Tcp(5432)), ..web() }],
        ),
        (
            "services: { web: { command: x, port: 80, health: /up } }",
            vec![ServiceSpec { port: Some(80), health: health(HealthCheck::Http("/up".into())), ..web() }],
        ),
        (
            "services:\n  a: &a\n    command: x\n    cwd: d\n  web:\n    <<: *a\n    command: y\n",
            vec![
                ServiceSpec { cwd: Some("d".into()), ..spec("a", "x") },
                ServiceSpec { cwd: Some("d".into()), ..spec("web", "y") },
            ],
        ),
        ("services:\n  web:\n    command: |\n      a\n      b\n", vec![spec("web", "a\nb\n")]),
    ];
    for (document, expected) in table {
        let services = parse(document.as_bytes()).map(|document| document.services);
        assert_eq!(services, Ok(expected), "{document}");
    }
}

#[test]
fn a_build_is_a_line_or_a_map() {
    for (document, command, timeout_ms) in [
        ("build: make", "make", None),
        ("build: { command: [make, all], timeout: 30 }", "make all", Some(30_000)),
    ] {
        let build = Some(BuildSpec { command: command.into(), timeout_ms });
        assert_eq!(parse(document.as_bytes()), Ok(Document { build, ..Document::default() }), "{document}");
    }
}

#[test]
fn the_value_of_a_variable_is_the_text_that_was_written() {
    for written in ["1.10", "0x1F", "007", "1_000", "1e5", "1e999", ".nan", "-4", "True", "yes", "12:30", "é"]
    {
        let document = format!("services: {{ web: {{ command: x, env: {{ V: {written} }} }} }}");
        let specs = parse(document.as_bytes()).expect("a good document");
        assert_eq!(specs.services[0].env["V"], written);
    }
}
