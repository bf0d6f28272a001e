use super::*;

fn parse(file: Option<&str>, env: &[(&str, &str)]) -> Result<Config, String> {
    let find = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Config::parse(file, find).map_err(|error| error.to_string())
}

#[test]
fn everything_has_a_default_and_the_environment_wins() {
    let config = parse(None, &[]).expect("defaults");
    assert_eq!(config.data_dir, PathBuf::from("/var/lib/slipway"));
    assert_eq!((config.idle_s, config.auth), (limits::IDLE_DEFAULT_S, Auth::Required));
    assert_eq!(config.model_idle_s, limits::MODEL_IDLE_DEFAULT_S);
    let config = parse(Some("task_budget = \"tokens=9, cost_usd=0.5\""), &[]).expect("a budget");
    let expected = BudgetBounds { tokens: Some(9), cost_micro_usd: Some(500_000), requests: None };
    assert_eq!(config.task_budget, expected);
    for (given, path) in
        [("unix:///run/x.sock", Some("/run/x.sock")), ("/y.sock", Some("/y.sock")), ("", None)]
    {
        let config = parse(None, &[("SLIPWAY_DOCKER_SOCKET", given)]).expect("a socket");
        assert_eq!(config.docker_socket, path.map(PathBuf::from));
    }
    let file = "idle_seconds = 5\napi_bind = \"127.0.0.1:0\"";
    let config = parse(Some(file), &[("SLIPWAY_IDLE_SECONDS", "7")]).expect("both");
    assert_eq!((config.idle_s, config.api_bind.port()), (7, 0));
}

/// A file, a variable, and the error.
const WRONG: &[(Option<&str>, (&str, &str), &str)] = &[
    (
        None,
        ("SLIPWAY_API_BIND", "nine"),
        "SLIPWAY_API_BIND: must be an address and a port, as in 127.0.0.1:9090, not \"nine\"",
    ),
    (None, ("SLIPWAY_DATA_DIR", "data"), "SLIPWAY_DATA_DIR: must be an absolute path, not \"data\""),
    (
        None,
        ("SLIPWAY_DRIVER", "lima"),
        "SLIPWAY_DRIVER: must be auto, oci or docker: there is no driver \"lima\"; hostd does not start virtual machines: run hostd inside the Linux machine, with the driver oci or docker",
    ),
    (
        None,
        ("SLIPWAY_DRIVER", "dokcer"),
        "SLIPWAY_DRIVER: must be auto, oci or docker: there is no driver \"dokcer\"",
    ),
    (
        None,
        ("SLIPWAY_DOCKER_SOCKET", "tcp://10.0.0.1:2375"),
        "SLIPWAY_DOCKER_SOCKET: must be the path of a Unix socket on this machine, as in /var/run/docker.sock, not \"tcp://10.0.0.1:2375\"",
    ),
    (None, ("SLIPWAY_AUTH", "on"), "SLIPWAY_AUTH: must be required or off, not \"on\""),
    (None, ("SLIPWAY_IDLE_SECONDS", "x"), "SLIPWAY_IDLE_SECONDS: must be a number, not \"x\""),
    (
        None,
        ("SLIPWAY_IDLE_SECONDS", "0"),
        "SLIPWAY_IDLE_SECONDS: must be at least 1; a sandbox stays up with idle_policy always_on",
    ),
    (None, ("SLIPWAY_MODEL_IDLE_SECONDS", "0"), "SLIPWAY_MODEL_IDLE_SECONDS: must be at least 1"),
    (
        None,
        ("SLIPWAY_TASK_BUDGET", "tokens=0"),
        "SLIPWAY_TASK_BUDGET: must be as in tokens=2000000,cost_usd=5,requests=500, not \"tokens=0\"",
    ),
    (
        None,
        ("SLIPWAY_PREVIEW_DOMAIN", "a b"),
        "SLIPWAY_PREVIEW_DOMAIN: must be a domain name, as in example.com, not \"a b\"",
    ),
    (
        None,
        ("SLIPWAY_PREVIEW_PUBLIC", "ftp"),
        "SLIPWAY_PREVIEW_PUBLIC: must be http or https, with a port if it is another, as in https:8443, not \"ftp\"",
    ),
    (
        None,
        ("SLIPWAY_PREVIEW_TLS_CERT", "/cert.pem"),
        "SLIPWAY_PREVIEW_TLS_KEY: must be given with SLIPWAY_PREVIEW_TLS_CERT",
    ),
    (
        None,
        ("SLIPWAY_API_TLS_CERT", "/cert.pem"),
        "SLIPWAY_API_TLS_KEY: must be given with SLIPWAY_API_TLS_CERT",
    ),
    (
        None,
        ("SLIPWAY_API_TLS_KEY", "/key.pem"),
        "SLIPWAY_API_TLS_CERT: must be given with SLIPWAY_API_TLS_KEY",
    ),
    (
        Some("api_tls_key = \"/key.pem\""),
        ("SLIPWAY_API_TLS_CERT", "cert.pem"),
        "SLIPWAY_API_TLS_CERT: must be an absolute path, not \"cert.pem\"",
    ),
    (
        None,
        ("SLIPWAY_IMAGE_REGISTRIES", "a.example, 10.0.0.5:5000/app"),
        "SLIPWAY_IMAGE_REGISTRIES: must be hosts, with a port if it is written, as in 10.0.0.5:5000, not \"10.0.0.5:5000/app\"",
    ),
    (
        None,
        ("SLIPWAY_METRICS_BIND", "9464"),
        "SLIPWAY_METRICS_BIND: must be an address and a port, as in 127.0.0.1:9090, not \"9464\"",
    ),
    (None, ("SLIPWAY_METRICS_SANDBOXES", "1001"), "SLIPWAY_METRICS_SANDBOXES: must be at most 1000"),
    (
        None,
        ("SLIPWAY_EGRESS_PRIVATE", "10.0.0.5:x"),
        "SLIPWAY_EGRESS_PRIVATE: must be hosts and ports, as in 10.0.0.5:443: \"10.0.0.5:x\" has no good port: write 443, or 80,443, or 8000-8999",
    ),
    (
        Some("auth = \"off\""),
        ("SLIPWAY_API_BIND", "0.0.0.0:9090"),
        "SLIPWAY_AUTH: may be off only when SLIPWAY_API_BIND is a loopback address",
    ),
];

#[test]
fn what_is_wrong_is_named() {
    for (file, variable, expected) in WRONG {
        assert_eq!(parse(*file, &[*variable]).expect_err("refused"), *expected);
    }
    let agent = parse(Some("[agents.mine]\nspeaks = \"acp\""), &[]).expect_err("refused");
    assert!(agent.starts_with("agents.mine.find: must be "), "{agent}");
    let unknown = parse(None, &[("SLIPWAY_AGENT", "unknown")]).expect_err("refused");
    assert!(unknown.starts_with("SLIPWAY_AGENT: there is no agent \"unknown\"; there are: "), "{unknown}");
}

#[test]
fn values_of_the_file_have_the_type_of_their_key() {
    for (file, expected) in [
        ("idle_seconds = \"x\"", "idle_seconds: must be a number, not \"x\""),
        ("idle_seconds = -1", "idle_seconds: must be a number, not -1"),
        ("api_bind = 9090", "api_bind: must be a text, not 9090"),
        ("api_hosts = \"a.example\"", "api_hosts: must be a list of texts, not \"a.example\""),
        ("agents = 1", "agents: must be a table, not 1"),
        ("idle = 3", "configuration file: unknown key `idle` (hostd --help lists the keys there are)"),
    ] {
        assert_eq!(parse(Some(file), &[]).expect_err("refused"), expected);
    }
    let config = parse(Some("cpus_max = 2"), &[]).expect("a whole number of cores");
    assert_eq!(config.cpus_max, Some(2.0));
}

#[test]
fn the_parser_reads_every_key_of_the_table() {
    let asked = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let note = |name: &str| {
        asked.borrow_mut().insert(name.to_owned());
        None
    };
    Config::parse(None, note).expect("defaults");
    let variables = keys::KEYS.iter().filter(|key| key.source == keys::Source::FileOrEnvironment);
    let table: std::collections::BTreeSet<_> = variables.map(|key| keys::variable(key.name)).collect();
    assert_eq!(asked.into_inner(), table);
}

#[test]
fn the_page_has_the_table() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
    let page = std::fs::read_to_string(page).expect("docs/configuration.md");
    let table = keys::markdown();
    assert!(page.contains(&table), "docs/configuration.md must contain this table:\n{table}");
}

#[test]
fn the_manual_page_has_the_list() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/man/hostd.8");
    let page = std::fs::read_to_string(page).expect("docs/man/hostd.8");
    let list = keys::roff();
    assert!(page.contains(&list), "docs/man/hostd.8 must contain this list:\n{list}");
}
