use super::*;
use crate::error_page::Refusal;
use hostd_core::{
    NoResponse, PreviewFacts, Scheme,
    error_page_cases::{self as cases, SECRET},
    explain,
};
use http_body_util::BodyExt;
use proptest::prelude::*;
use protocol::{
    Exit, Status,
    api::{ProblemCode, Visibility},
};

const HTML_PAGE: Format = Format::Html { waits: true };
/// Limit of a response with everything a sandbox can put into it.
const RESPONSE_MAX_BYTES: usize = 128 << 10;

fn previews() -> Previews {
    Previews {
        domain: "localhost".to_owned(),
        scheme: Scheme::Http,
        port: 8080,
        visibility: Visibility::Public,
    }
}

fn rendered(format: Format, page: &ErrorPage) -> (hyper::http::response::Parts, String) {
    let (parts, body) = render(format, page, &previews()).into_parts();
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
    let page = explain(&case("exited 1 twice").facts(true));
    let (parts, html) = rendered(HTML_PAGE, &page);
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
    let body = html.split_once("<body").expect("a body").1.split_once("<script>").expect("a script").0;
    insta::assert_snapshot!("page", format!("<body{body}"));
}

#[test]
fn a_program_gets_the_same_as_json() {
    let page = explain(&case("elsewhere").facts(true));
    let (parts, body) = rendered(Format::Json, &page);
    assert_eq!(
        (parts.status.as_u16(), &parts.headers["content-type"]),
        (502, &HeaderValue::from_static(JSON))
    );
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    insta::assert_json_snapshot!("json", body);
}

#[test]
fn a_page_waits_only_where_a_reload_does_no_harm() {
    let page = explain(&case("nothing at all").facts(true));
    let waits = |format, page: &ErrorPage| rendered(format, page).1.contains("<script>");
    assert!(waits(HTML_PAGE, &page));
    assert!(!waits(Format::Html { waits: false }, &page));
    assert!(!waits(HTML_PAGE, &explain(&case("destroyed").facts(true))));

    let accept = |value| HeaderMap::from_iter([(hyper::header::ACCEPT, HeaderValue::from_static(value))]);
    let html = accept("text/html,*/*;q=0.8");
    assert_eq!(Format::of(&Method::GET, &html), HTML_PAGE);
    assert_eq!(Format::of(&Method::POST, &html), Format::Html { waits: false });
    assert_eq!(Format::of(&Method::GET, &accept("*/*")), Format::Json);
}

#[test]
fn what_the_edge_refuses_has_a_status_and_words() {
    let table = [
        (Refusal::NoPreview, 404, "not_found"),
        (Refusal::UnknownSandbox, 404, "not_found"),
        (Refusal::Malformed("It has two Hosts."), 400, "invalid_request"),
        (Refusal::CredentialInPath, 400, "invalid_request"),
        (Refusal::TooMany, 503, "too_many"),
    ];
    let mut words = String::new();
    for ((refusal, status, code), trusted) in table.iter().flat_map(|row| [(*row, true), (*row, false)]) {
        let page = refusal.error_page(&previews(), trusted);
        let (parts, _) = rendered(HTML_PAGE, &page);
        assert_eq!(
            (parts.status.as_u16(), parts.headers["x-slipway-error"].to_str().expect("text")),
            (status, code)
        );
        let to = if trusted { "here" } else { "world" };
        words.push_str(&format!("{status} {to}: {}. {} {}\n", page.title, page.text, page.advice.join(" ")));
        assert!(
            trusted || !page.advice.join(" ").contains("`slipway "),
            "a visitor cannot run commands here"
        );
    }
    insta::assert_snapshot!("refusals", words);
}

#[test]
fn the_world_sees_nothing_that_is_the_owners() {
    for case in cases::all() {
        for format in [HTML_PAGE, Format::Json] {
            let (_, body) = rendered(format, &explain(&case.facts(false)));
            assert!(!body.contains(SECRET), "{}: {body}", case.about);
        }
    }
}

/// Replaces every text that comes from inside the sandbox, or from its creator, by `text`.
fn hostile(case: cases::Case, text: &str) -> cases::Case {
    let words = || text.to_owned();
    let status = case.status.map(|mut status| {
        for service in &mut status.services {
            service.command = words();
            service.last_lines = vec![words(); 40];
            if let protocol::ServiceState::Unhealthy { reason, .. } = &mut service.state {
                *reason = words();
            }
            if let Some(Exit::SpawnFailed { message }) = &mut service.last_exit {
                *message = words();
            }
        }
        for listening in status.ports.iter_mut().filter_map(|listening| listening.process.as_mut()) {
            listening.command = words();
        }
        Status { manifest_error: status.manifest_error.map(|_| words()), ..status }
    });
    let mut state = case.state;
    if state.problem.is_some() {
        let problem = cases::problem(ProblemCode::Died, text);
        state.problem = Some(protocol::api::Problem { output: vec![words(); 40], ..problem });
    }
    let mut reason = case.reason;
    if let NoResponse::WakeFailed { message, .. } = &mut reason {
        *message = words();
    }
    cases::Case { status, state, reason, ..case }
}

/// The tags of a page, without those that backquotes make.
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
            rendered(HTML_PAGE, &explain(&PreviewFacts { name: text, ..case.facts(true) })).1
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
        let page = explain(&PreviewFacts { name: &text, ..case.facts(true) });
        for format in [HTML_PAGE, Format::Json] {
            let (_, body) = rendered(format, &page);
            prop_assert!(body.len() <= RESPONSE_MAX_BYTES, "{}: {} bytes", case.about, body.len());
        }
    }
}
