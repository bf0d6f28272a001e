use super::{
    test_cases::{self as cases, Case, SECRET, at_work, listening, running, service, state, status},
    *,
};
use protocol::{HOSTD_PORT_IN_SANDBOX, ServiceState, api::Phase};
use std::fmt::Write;

/// An error page as text, with the fields for programs in its first line.
fn as_text(case: &Case, trusted: bool) -> String {
    let facts = case.facts(trusted);
    let page = explain(&facts);
    let code = serde_json::to_value(page.code).expect("a word");
    let mut text = format!("== {}: {} {}", case.about, page.status, code.as_str().expect("a word"));
    if let Some(seconds) = page.retry_after_s {
        let _ = write!(text, ", again after {seconds} s");
    }
    let _ = write!(text, "\n{}\n{}\n", page.title, page.text);
    for link in &page.links {
        let _ = writeln!(text, "  [{} -> {}]", link.text, link.preview.port);
    }
    if let Some(lines) = &page.lines {
        let _ = writeln!(text, "  {}:", lines.of);
        lines.lines.iter().for_each(|line| text.push_str(&format!("  | {line}\n")));
    }
    for advice in &page.advice {
        let _ = writeln!(text, "  - {advice}");
    }
    if page.page_waits {
        let _ = writeln!(text, "  ... {}", page.step.as_deref().unwrap_or("waiting"));
    }
    let _ = writeln!(text, "  until trouble: {:?}", progress(&facts, WaitMode::UntilProblem));
    text
}

fn all_as_text(trusted: bool) -> String {
    cases::all().iter().map(|case| as_text(case, trusted) + "\n").collect()
}

#[test]
fn every_case_tells_its_owner_what_to_do() {
    insta::assert_snapshot!("trusted", all_as_text(true));
}

#[test]
fn every_case_tells_the_world_the_reason_only() {
    let text = all_as_text(false);
    insta::assert_snapshot!("untrusted", &text);
    assert!(!text.contains(SECRET));
    let words = text.split(|c: char| !c.is_alphanumeric());
    let named: Vec<&str> =
        words.filter(|word| ["shop", "web", "db", "worker", "node"].contains(word)).collect();
    assert!(named.is_empty(), "{named:?}");
}

/// A user with several previews open sees which one it is.
#[test]
fn every_heading_names_the_sandbox_to_its_owner() {
    for case in cases::all() {
        let title = explain(&case.facts(true)).title;
        // This page is about hostd itself.
        let of_hostd = title == "Slipway is restarting";
        assert!(title.split(' ').any(|word| word == "shop") || of_hostd, "{}: {title}", case.about);
    }
}

#[test]
fn what_programs_get_is_kept_from_the_world_too() {
    for case in cases::all() {
        let page = explain(&case.facts(false));
        assert!(!format!("{page:?}").contains(SECRET), "{}: {page:?}", case.about);
        assert_eq!((page.service, page.problem, page.lines), (None, None, None), "{}", case.about);
    }
}

/// A waiting page reloads at `ready`: a page that would be shown again must not wait.
#[test]
fn an_app_that_listens_and_does_not_answer_is_not_waited_for() {
    for reason in [NoResponse::TimedOut { after_ms: 1 }, NoResponse::Closed, NoResponse::NotHttp] {
        let status = Status { ports: vec![listening(3000, "127.0.0.1", "node")], ..status() };
        let case = Case { status: Some(status), reason, ..at_work("") };
        assert!(!explain(&case.facts(true)).page_waits, "{:?}", case.reason);
    }
}

/// A waiting page that is told at once to stop would reload for ever.
#[test]
fn what_is_said_to_come_is_waited_for() {
    for (case, trusted) in cases::all().iter().flat_map(|case| [(case, true), (case, false)]) {
        let (facts, page) = (case.facts(trusted), explain(&case.facts(trusted)));
        let shown = |mode| progress(&facts, mode);
        let only_waits = page.code == ApiErrorCode::Waking;
        assert!(
            !only_waits || shown(WaitMode::UntilProblem) != WaitProgress::Failed,
            "{} {trusted}",
            case.about
        );
        assert!(
            !page.page_waits || shown(WaitMode::WhileUp) != WaitProgress::Failed,
            "{} {trusted}",
            case.about
        );
        let opens = shown(WaitMode::WhileUp) == WaitProgress::Ready;
        assert!(!page.page_waits || only_waits || !opens, "{} {trusted}", case.about);
    }
}

#[test]
fn what_comes_soon_may_be_asked_for_again_and_what_is_gone_may_not() {
    for case in cases::all() {
        let page = explain(&case.facts(true));
        assert!(!page.page_waits || page.retry_after_s.is_some(), "{}", case.about);
        assert!(page.code != ApiErrorCode::Gone || page.retry_after_s.is_none(), "{}", case.about);
        assert!(
            page.listening.iter().all(|listening| listening.port != HOSTD_PORT_IN_SANDBOX),
            "{}",
            case.about
        );
    }
}

#[test]
fn commands_name_the_sandbox_in_a_way_that_a_shell_takes_as_one_word() {
    let case = Case { status: Some(status()), reason: NoResponse::PortClosed, ..at_work("") };
    let id = "01jb9xyzabcdefghjkmnpqrstv";
    for (name, expected) in
        [("shop", "shop"), ("$(reboot)", id), ("a b", id), ("-rf", id), ("a`b", id), ("büro", id), ("", id)]
    {
        let page = explain(&PreviewFacts { name, ..case.facts(true) });
        let last = page.advice.last().expect("advice");
        assert_eq!(last, &format!("See what runs: `slipway services {expected}`"), "{name}");
    }
}

#[test]
fn long_and_steering_text_of_a_sandbox_is_cut_and_tamed() {
    let line = format!("\u{1b}]0;title\u{7}{}", "é".repeat(10_000));
    let mut view = service("web", Some(3000), ServiceState::Starting);
    // All lines differ, or they would be collapsed.
    view.last_lines = (0..100).map(|n| line.replacen('é', &format!("é{n}"), 1)).collect();
    let status = Status { services: vec![view], ..status() };
    let case = Case { status: Some(status), reason: NoResponse::PortClosed, ..at_work("") };
    let lines = explain(&case.facts(true)).lines.expect("lines").lines;
    assert_eq!(lines.len(), 20);
    assert!(lines.iter().all(|line| line.starts_with('é') && line.ends_with('…')), "{}", lines[0]);
    assert!(lines.iter().all(|line| line.chars().count() == 400));
}

#[test]
fn lines_that_repeat_are_counted_for_people_and_told_to_programs_as_they_are() {
    let mut view = service("web", Some(3000), ServiceState::Backoff { next_try_ms: 0, failures: 10 });
    view.last_lines = vec!["Error: no such module".to_owned(); 10];
    let status = Status { services: vec![view], ..status() };
    let case = Case { status: Some(status), reason: NoResponse::PortClosed, ..at_work("") };
    let page = explain(&case.facts(true));
    assert_eq!(page.lines.expect("lines").lines, ["Error: no such module ×10"]);
    assert_eq!(page.service.expect("the service").last_lines.len(), 10);
}

#[test]
fn a_page_is_told_the_step_until_the_port_is_open() {
    let starting = state(SandboxStatus::Stopped, Goal::Running, Some(Phase::Starting));
    let web = |state| Status { services: vec![service("web", Some(3000), state)], ..status() };
    let open = Status { ports: vec![listening(3000, "::", "node")], ..web(ServiceState::Starting) };
    let step = |word, text: &str| WaitProgress::Step { word, text: text.to_owned() };
    let table = [
        (starting, None, step("starting", "starting the sandbox")),
        (running(), None, step("sandbox", "waiting for the sandbox to answer")),
        (running(), Some(web(ServiceState::Starting)), step("service", "waiting for web to listen on 3000")),
        (running(), Some(open), WaitProgress::Ready),
        (running(), Some(web(ServiceState::Stopped)), WaitProgress::Failed),
        (running(), Some(status()), WaitProgress::Failed),
        (state(SandboxStatus::Paused, Goal::Paused, None), None, WaitProgress::Asleep),
        (state(SandboxStatus::Error, Goal::Stopped, None), None, WaitProgress::Failed),
    ];
    for (state, status, expected) in table {
        let case = Case { state, status, ..at_work("") };
        assert_eq!(progress(&case.facts(true), WaitMode::UntilProblem), expected);
    }
}
