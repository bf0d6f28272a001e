use super::*;
use crate::contexts::SavedContext;

fn contexts(current: Option<&str>) -> SavedContexts {
    let mut saved = SavedContexts::default();
    for (name, url) in [("prod", "https://prod:9090"), ("lab", "https://lab"), ("plain", "http://plain:9090")]
    {
        let trust = if name == "lab" { Trust::Pinned(Fingerprint::of(b"lab")) } else { Trust::System };
        let context = SavedContext::new(url.parse().expect("a URL"), &trust, Some(format!("{name}.1")));
        saved.add(&name.parse().expect("a name"), context, false).expect("added");
    }
    saved.set_current(current.map(|name| name.parse().expect("a name"))).expect("it exists");
    saved
}

/// Builds an environment from `NAME=value` words.
fn environment(words: &str) -> Environment {
    let get = |name: &str| {
        words.split_whitespace().find_map(|word| word.strip_prefix(&format!("{name}=")).map(str::to_owned))
    };
    Environment {
        url: get("URL"),
        token: get("TOKEN").map(Secret::new),
        ca_file: get("CA_FILE"),
        fingerprint: get("FINGERPRINT"),
        insecure: get("INSECURE"),
        context: get("CONTEXT"),
        data_dir: get("DATA_DIR"),
    }
}

fn flags(line: &str) -> ConnectionFlags {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: ConnectionFlags,
    }
    <Line as clap::Parser>::parse_from(std::iter::once("x").chain(line.split_whitespace())).flags
}

/// Describes a choice in one line.
fn chosen(line: &str, words: &str, current: Option<&str>) -> Result<String, String> {
    let choice = Connection::choose(&flags(line), &environment(words), || Ok(contexts(current)));
    let choice = choice.map_err(|failure| failure.lines().join(" "))?;
    let trust = match &choice.target {
        Target::Url { url, trust } if url.scheme == Scheme::Https => format!(", {trust}"),
        Target::Url { .. } | Target::Socket(_) => String::new(),
    };
    let token = match &choice.token {
        TokenSource::None => "no token".to_owned(),
        TokenSource::Given(token) => format!("token {}", token.reveal()),
        TokenSource::File(file) => format!("token in {file}"),
    };
    Ok(format!("{}: {}{trust}, {token}", choice.origin.describe(), choice.address()))
}

#[test]
fn the_first_that_is_given_counts() {
    let all = "URL=https://url TOKEN=t CONTEXT=lab DATA_DIR=/data";
    let table = [
        ("--context lab", all, Some("prod")),
        ("--context local", all, Some("prod")),
        ("", all, Some("prod")),
        ("", "TOKEN=t CONTEXT=plain DATA_DIR=/data", Some("prod")),
        ("", "CONTEXT=local", Some("prod")),
        ("", "TOKEN=t DATA_DIR=/data", Some("prod")),
        ("", "TOKEN=t", Some("prod")),
        ("", "TOKEN=t CA_FILE=/ca INSECURE=1", None),
        ("", "", None),
    ];
    let lines = table.map(|(line, words, current)| chosen(line, words, current).expect("a choice"));
    insta::assert_snapshot!(lines.join("\n").replace(&Fingerprint::of(b"lab").to_string(), "PIN"), @r"
    context lab (--context): https://lab, fingerprint PIN, token in lab.1
    context local (--context): the socket /data/hostd.sock, no token
    SLIPWAY_URL: https://url, system roots, token t
    context plain (SLIPWAY_CONTEXT): http://plain:9090, token in plain.1
    context local (SLIPWAY_CONTEXT): the socket /var/lib/slipway/hostd.sock, no token
    context local (SLIPWAY_DATA_DIR): the socket /data/hostd.sock, no token
    context prod (current): https://prod:9090, system roots, token in prod.1
    context local (no other is current): the socket /var/lib/slipway/hostd.sock, no token
    context local (no other is current): the socket /var/lib/slipway/hostd.sock, no token
    ");
}

#[test]
fn variables_verify_their_url_and_flags_verify_any() {
    let pin = Fingerprint::of(b"pin");
    let pinned = format!("--fingerprint {}", pin.to_string().to_lowercase());
    let with_pin = format!("URL=https://url FINGERPRINT={pin}");
    let table = [
        ("", "URL=https://url CA_FILE=/ca", "CA file /ca"),
        ("", "URL=https://url INSECURE=1", "not verified"),
        ("", "URL=https://url INSECURE=0", "system roots"),
        ("", with_pin.as_str(), "fingerprint PIN"),
        ("--ca-file other.pem", "URL=https://url INSECURE=1", "CA file other.pem"),
        ("--insecure", "URL=https://url CA_FILE=/ca", "not verified"),
        (pinned.as_str(), "CONTEXT=prod", "fingerprint PIN"),
        // Not those of another address.
        ("", "CONTEXT=prod CA_FILE=/ca INSECURE=1", "system roots"),
    ];
    for (line, words, expected) in table {
        let choice = chosen(line, words, None).expect(words).replace(&pin.to_string(), "PIN");
        assert!(choice.contains(&format!(", {expected}, ")), "{line} {words}: {choice}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let table = [
        ("--context nope", "", "no context nope"),
        ("--context ../x", "", "--context must be"),
        ("", "CONTEXT=nope", "no context nope"),
        ("", "URL=box:9090", "SLIPWAY_URL is \"box:9090\": must be https://host:port"),
        ("--insecure --ca-file x", "URL=https://url", "give one of"),
        ("--insecure", "URL=http://url", "are for https://"),
        ("--ca-file x", "", "are for https://"),
        ("", "URL=https://url INSECURE=yes", "SLIPWAY_INSECURE must be 1 or 0"),
        ("", "URL=https://url INSECURE=1 CA_FILE=/ca", "only one may be set"),
        ("", "URL=https://url FINGERPRINT=AB", "SLIPWAY_FINGERPRINT must be"),
    ];
    for (line, words, why) in table {
        let error = chosen(line, words, None).expect_err(words);
        assert!(error.contains(why), "{line} {words}: {error}");
    }
}

#[test]
fn contexts_are_read_only_where_they_count() {
    let broken = || Err(ContextsError::Invalid { path: "contexts.toml".into(), why: "broken".to_owned() });
    for (line, words, works) in [
        ("--context local", "", true),
        ("", "URL=https://url", true),
        ("", "CONTEXT=local", true),
        ("", "DATA_DIR=/data", true),
        ("", "", false),
        ("--context prod", "URL=https://url", false),
    ] {
        let choice = Connection::choose(&flags(line), &environment(words), broken);
        assert_eq!(choice.is_ok(), works, "{line} {words}");
    }
    let homeless = || Err(ContextsError::NoHome);
    assert!(Connection::choose(&flags(""), &environment(""), homeless).is_ok());
    assert!(Connection::choose(&flags("--context prod"), &environment(""), homeless).is_err());
}

#[test]
fn a_token_in_the_open_and_a_server_that_is_not_verified_are_warned_of() {
    let table = [
        ("", "URL=http://box TOKEN=t", Some("unencrypted to http://box")),
        ("", "URL=http://box", None),
        ("", "URL=http://127.0.0.1:9090 TOKEN=t", None),
        ("", "URL=https://box TOKEN=t", None),
        ("--insecure", "URL=https://box TOKEN=t", Some("and take the token")),
        ("--insecure", "URL=https://127.0.0.1", Some("not verified")),
        ("", "CONTEXT=plain", Some("unencrypted to http://plain:9090")),
        ("", "", None),
    ];
    for (line, words, expected) in table {
        let choice =
            Connection::choose(&flags(line), &environment(words), || Ok(contexts(None))).expect(words);
        let warning = choice.warning();
        let right = match (&warning, expected) {
            (Some(warning), Some(words)) => warning.contains(words),
            (warning, expected) => warning.is_none() && expected.is_none(),
        };
        assert!(right, "{line} {words}: {warning:?}");
    }
}
