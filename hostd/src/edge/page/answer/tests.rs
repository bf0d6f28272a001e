use super::*;
use crate::{
    core::{
        Cause, Facts, Scheme,
        cases::{self, SECRET},
        explain,
    },
    edge::page::Refusal,
};
use http_body_util::BodyExt;
use proptest::prelude::*;
use protocol::{
    Exit, Status,
    api::{ProblemCode, Visibility},
};

const BROWSER: Reader = Reader::Browser { waits: true };
/// Of a page or an answer with everything a sandbox can put into it.
const ANSWER_MAX_BYTES: usize = 128 << 10;

fn previews() -> Previews {
    Previews {
        domain: "localhost".to_owned(),
        scheme: Scheme::Http,
        port: 8080,
        visibility: Visibility::Public,
    }
}

fn answered(reader: Reader, explanation: &Explanation) -> (hyper::http::response::Parts, String) {
    let (parts, body) = answer(reader, explanation, &previews()).into_parts();
    let collected =
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(body.collect());
    let bytes = collected.expect("a body that is whole").to_bytes();
    (parts, String::from_utf8(bytes.to_vec()).expect("text"))
}

fn case(about: &str) -> cases::Case {
    cases::all().into_iter().rfind(|case| case.about == about).expect("a case")
}

#[test]
fn a_browser_gets_a_page_that_may_only_run_its_own_script() {
    let said = explain(&case("exited 1 twice").facts(true));
    let (parts, page) = answered(BROWSER, &said);
    assert_eq!(parts.status, 502);
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().expect("text").to_owned());
    assert_eq!(header("content-type").as_deref(), Some("text/html; charset=utf-8"));
    assert_eq!(header("x-slipway-error").as_deref(), Some("port_closed"));
    assert_eq!(header("cache-control").as_deref(), Some("no-store"));
    assert_eq!(header("x-content-type-options").as_deref(), Some("nosniff"));
    assert_eq!(header("retry-after").as_deref(), Some("4"));
    let policy = header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"),
        "{policy}"
    );
    let body = page.split_once("<body").expect("a body").1.split_once("<script>").expect("a script").0;
    insta::assert_snapshot!("page", format!("<body{body}"));
}

#[test]
fn a_program_gets_the_same_as_json() {
    let said = explain(&case("elsewhere").facts(true));
    let (parts, body) = answered(Reader::Program, &said);
    assert_eq!(
        (parts.status.as_u16(), &parts.headers["content-type"]),
        (502, &HeaderValue::from_static(JSON))
    );
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    insta::assert_json_snapshot!("json", body);
}

#[test]
fn a_page_waits_only_where_a_reload_does_no_harm() {
    let said = explain(&case("nothing at all").facts(true));
    let waits = |reader, said: &Explanation| answered(reader, said).1.contains("<script>");
    assert!(waits(BROWSER, &said));
    assert!(!waits(Reader::Browser { waits: false }, &said));
    assert!(!waits(BROWSER, &explain(&case("destroyed").facts(true))));

    let accept = |value| HeaderMap::from_iter([(hyper::header::ACCEPT, HeaderValue::from_static(value))]);
    let html = accept("text/html,*/*;q=0.8");
    assert_eq!(Reader::of(&Method::GET, &html), BROWSER);
    assert_eq!(Reader::of(&Method::POST, &html), Reader::Browser { waits: false });
    assert_eq!(Reader::of(&Method::GET, &accept("*/*")), Reader::Program);
}

#[test]
fn what_the_edge_refuses_has_a_status_and_words() {
    let table = [
        (Refusal::NoPreview, 404, "not_found"),
        (Refusal::Unknown, 404, "not_found"),
        (Refusal::Malformed("It has two Hosts."), 400, "invalid_request"),
        (Refusal::CredentialInPath, 400, "invalid_request"),
        (Refusal::TooMany, 503, "too_many"),
    ];
    let mut words = String::new();
    for ((refusal, status, code), known) in table.iter().flat_map(|row| [(*row, true), (*row, false)]) {
        let said = refusal.explanation(&previews(), known);
        let (parts, _) = answered(BROWSER, &said);
        assert_eq!(
            (parts.status.as_u16(), parts.headers["x-slipway-error"].to_str().expect("text")),
            (status, code)
        );
        let to = if known { "here" } else { "world" };
        words.push_str(&format!("{status} {to}: {}. {} {}\n", said.title, said.text, said.advice.join(" ")));
        assert!(known || !said.advice.join(" ").contains("`slipway "), "a visitor cannot run commands here");
    }
    insta::assert_snapshot!("refusals", words);
}

#[test]
fn the_world_sees_nothing_that_is_the_owners() {
    for case in cases::all() {
        for reader in [BROWSER, Reader::Program] {
            let (_, body) = answered(reader, &explain(&case.facts(false)));
            assert!(!body.contains(SECRET), "{}: {body}", case.about);
        }
    }
}

/// Every text that comes from inside, or from whoever named the sandbox, is this one.
fn hostile(case: cases::Case, text: &str) -> cases::Case {
    let words = || text.to_owned();
    let inner = case.inner.map(|mut inner| {
        for service in &mut inner.services {
            service.command = words();
            service.last_lines = vec![words(); 40];
            if let protocol::ServiceState::Unhealthy { reason, .. } = &mut service.state {
                *reason = words();
            }
            if let Some(Exit::SpawnFailed { message }) = &mut service.last_exit {
                *message = words();
            }
        }
        for listening in inner.ports.iter_mut().filter_map(|listening| listening.process.as_mut()) {
            listening.command = words();
        }
        Status { manifest_error: inner.manifest_error.map(|_| words()), ..inner }
    });
    let mut state = case.state;
    if state.problem.is_some() {
        let problem = cases::problem(ProblemCode::Died, text);
        state.problem = Some(protocol::api::Problem { output: vec![words(); 40], ..problem });
    }
    let cause = match case.cause {
        Cause::Failed { code, .. } => Cause::Failed { code, message: words() },
        other => other,
    };
    cases::Case { inner, state, cause, ..case }
}

/// The tags of a page, but for those that backquotes make.
fn tags(page: &str) -> Vec<&str> {
    let after = page.split('<').skip(1);
    let tags = after.map(|piece| piece.split('>').next().unwrap_or_default());
    tags.filter(|tag| !matches!(*tag, "code" | "/code")).collect()
}

proptest! {
    #[test]
    fn nothing_from_inside_becomes_a_tag(
        text in "(<|>|\"|'|&|`|/|=|\u{1b}\\[|x|script|[ -~]|\\PC){0,60}",
        index in any::<prop::sample::Index>(),
    ) {
        let all = cases::all().len();
        let harmless: String = text.chars().map(|c| if "<>&\"'".contains(c) { 'x' } else { c }).collect();
        let page = |text: &str| {
            let case = hostile(cases::all().swap_remove(index.index(all)), text);
            answered(BROWSER, &explain(&Facts { name: text, ..case.facts(true) })).1
        };
        let (with, without) = (page(&text), page(&harmless));
        prop_assert_eq!(tags(&with), tags(&without));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn answers_are_bounded(letter in any::<char>(), count in 0..20_000_usize, index in any::<prop::sample::Index>()) {
        let text = String::from(letter).repeat(count);
        let case = hostile(cases::all().swap_remove(index.index(cases::all().len())), &text);
        let said = explain(&Facts { name: &text, ..case.facts(true) });
        for reader in [BROWSER, Reader::Program] {
            let (_, body) = answered(reader, &said);
            prop_assert!(body.len() <= ANSWER_MAX_BYTES, "{}: {} bytes", case.about, body.len());
        }
    }
}
