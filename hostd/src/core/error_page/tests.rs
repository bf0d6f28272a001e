use super::{
    cases::{self, Case, SECRET, at_work, listening, running, service, state, status},
    *,
};
use protocol::{HOSTD_PORT_IN_SANDBOX, ServiceState, api::Phase};
use std::fmt::Write;

/// An explanation as a person would read it, with what programs get in its first line.
fn told(case: &Case, trusted: bool) -> String {
    let facts = case.facts(trusted);
    let said = explain(&facts);
    let code = serde_json::to_value(said.code).expect("a word");
    let mut text = format!("== {}: {} {}", case.about, said.status, code.as_str().expect("a word"));
    if let Some(seconds) = said.retry_after_s {
        let _ = write!(text, ", again after {seconds} s");
    }
    let _ = write!(text, "\n{}\n{}\n", said.title, said.text);
    for link in &said.links {
        let _ = writeln!(text, "  [{} -> {}]", link.text, link.preview.port);
    }
    if let Some(lines) = &said.lines {
        let _ = writeln!(text, "  {}:", lines.of);
        lines.lines.iter().for_each(|line| text.push_str(&format!("  | {line}\n")));
    }
    for advice in &said.advice {
        let _ = writeln!(text, "  - {advice}");
    }
    if said.page_waits {
        let _ = writeln!(text, "  ... {}", said.step.as_deref().unwrap_or("waiting"));
    }
    let _ = writeln!(text, "  until trouble: {:?}", progress(&facts, WaitMode::UntilProblem));
    text
}

fn all_told(trusted: bool) -> String {
    cases::all().iter().map(|case| told(case, trusted) + "\n").collect()
}

#[test]
fn every_case_tells_its_owner_what_to_do() {
    insta::assert_snapshot!("trusted", all_told(true));
}

#[test]
fn every_case_tells_the_world_the_reason_only() {
    let told = all_told(false);
    insta::assert_snapshot!("untrusted", &told);
    assert!(!told.contains(SECRET));
    let words = told.split(|c: char| !c.is_alphanumeric());
    let named: Vec<&str> =
        words.filter(|word| ["shop", "web", "db", "worker", "node"].contains(word)).collect();
    assert!(named.is_empty(), "{named:?}");
}

/// A person with several previews open knows which one it is.
#[test]
fn every_heading_names_the_sandbox_to_its_owner() {
    for case in cases::all() {
        let title = explain(&case.facts(true)).title;
        // Of hostd itself, whatever the sandbox.
        let of_hostd = title == "Slipway is restarting";
        assert!(title.split(' ').any(|word| word == "shop") || of_hostd, "{}: {title}", case.about);
    }
}

#[test]
fn what_programs_get_is_kept_from_the_world_too() {
    for case in cases::all() {
        let said = explain(&case.facts(false));
        assert!(!format!("{said:?}").contains(SECRET), "{}: {said:?}", case.about);
        assert_eq!((said.service, said.problem, said.lines), (None, None, None), "{}", case.about);
    }
}

/// A page that waits reloads when the stream says `ready`: one that would be shown again must not wait.
#[test]
fn an_app_that_listens_and_does_not_answer_is_not_waited_for() {
    for reason in [NoResponse::TimedOut { after_ms: 1 }, NoResponse::Closed, NoResponse::NotHttp] {
        let status = Status { ports: vec![listening(3000, "127.0.0.1", "node")], ..status() };
        let case = Case { status: Some(status), reason, ..at_work("") };
        assert!(!explain(&case.facts(true)).page_waits, "{:?}", case.reason);
    }
}

/// A page that waits and is told at once that it should not would load itself again and again.
#[test]
fn what_is_said_to_come_is_waited_for() {
    for (case, trusted) in cases::all().iter().flat_map(|case| [(case, true), (case, false)]) {
        let (facts, said) = (case.facts(trusted), explain(&case.facts(trusted)));
        let told = |patience| progress(&facts, patience);
        let warms = said.code == ApiErrorCode::Waking;
        assert!(!warms || told(WaitMode::UntilProblem) != WaitProgress::Failed, "{} {trusted}", case.about);
        assert!(
            !said.page_waits || told(WaitMode::WhileUp) != WaitProgress::Failed,
            "{} {trusted}",
            case.about
        );
        let opens = told(WaitMode::WhileUp) == WaitProgress::Ready;
        assert!(!said.page_waits || warms || !opens, "{} {trusted}", case.about);
    }
}

#[test]
fn what_comes_soon_may_be_asked_for_again_and_what_is_gone_may_not() {
    for case in cases::all() {
        let said = explain(&case.facts(true));
        assert!(!said.page_waits || said.retry_after_s.is_some(), "{}", case.about);
        assert!(said.code != ApiErrorCode::Gone || said.retry_after_s.is_none(), "{}", case.about);
        assert!(
            said.listening.iter().all(|listening| listening.port != HOSTD_PORT_IN_SANDBOX),
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
        let said = explain(&PreviewFacts { name, ..case.facts(true) });
        let last = said.advice.last().expect("advice");
        assert_eq!(last, &format!("See what runs: `slipway services {expected}`"), "{name}");
    }
}

#[test]
fn long_and_steering_text_of_a_sandbox_is_cut_and_tamed() {
    let line = format!("\u{1b}]0;title\u{7}{}", "é".repeat(10_000));
    let mut view = service("web", Some(3000), ServiceState::Starting);
    // No two alike, which would be counted instead.
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
    let said = explain(&case.facts(true));
    assert_eq!(said.lines.expect("lines").lines, ["Error: no such module ×10"]);
    assert_eq!(said.service.expect("the service").last_lines.len(), 10);
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
