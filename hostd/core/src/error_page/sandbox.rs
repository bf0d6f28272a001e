//! Error pages for a sandbox that is gone, not up, or failed.

use super::{
    ErrorPage, LogExcerpt, State,
    context::PageContext,
    sanitized_status::{self, text_line},
};
use protocol::api::{ApiErrorCode, Phase, PostMortem, Problem, ProblemCode};

/// When a program may retry while the sandbox is waking, and while the host is busy.
const WAKING_RETRY_S: u64 = 1;
const BUSY_RETRY_S: u64 = 5;

pub fn destroyed(context: &PageContext) -> ErrorPage {
    let title = format!("{} was destroyed", context.sandbox());
    let gone = ErrorPage::new(ApiErrorCode::Gone, title, "Its preview is gone and will not come back.");
    context.advised(gone, &["Make a new one with `slipway create`.".to_owned()])
}

pub fn destroying(context: &PageContext) -> ErrorPage {
    let title = format!("{} is being destroyed", context.sandbox());
    let gone = ErrorPage::new(ApiErrorCode::Gone, title, "Its preview is gone and will not come back.");
    context.advised(gone, &[])
}

pub fn failed(context: &PageContext, problem: Option<&Problem>, death: Option<&PostMortem>) -> ErrorPage {
    let title = format!("{} has failed", context.sandbox());
    let Some(problem) = problem else {
        return ErrorPage::new(ApiErrorCode::SandboxFailed, title, "The reason was not recorded.");
    };
    // An older death does not explain what went wrong since.
    let death = death.filter(|_| matches!(problem.code, ProblemCode::Died | ProblemCode::Oom));
    let mut problem = sanitized_status::problem(problem, context.trusted);
    let post_mortem = death.map(|death| sanitized_status::post_mortem(death, context.trusted));
    if let Some(death) = &post_mortem {
        problem.message.clone_from(&death.message);
    }
    let target = context.target();
    let mut advice = vec![format!("Start it again: `slipway start {target}`")];
    advice.extend(remedy(problem.code).map(str::to_owned));
    advice.push(format!("See what was tried: `slipway attempts {target}`"));
    let explanation = ErrorPage::new(ApiErrorCode::SandboxFailed, title, sentence(&problem.message));
    let output = problem.output.clone();
    let lines = LogExcerpt::of("The last lines it printed", &output);
    let problem = context.trusted.then_some(problem);
    let post_mortem = post_mortem.filter(|_| context.trusted);
    context.advised(ErrorPage { lines, problem, post_mortem, ..explanation }, &advice)
}

fn remedy(code: ProblemCode) -> Option<&'static str> {
    match code {
        ProblemCode::Oom => {
            Some("If it happens again, make it with more memory: `slipway create --memory 2g`")
        }
        ProblemCode::ImageMissing => Some("See which images there are: `slipway image ls`"),
        ProblemCode::DiskFull => Some("Make room on the disk of the host first."),
        ProblemCode::MemoryPressure => Some("Free memory of the host first: `slipway host`"),
        ProblemCode::DriverUnavailable => Some("Look at the host: `slipway doctor`"),
        ProblemCode::Refused
        | ProblemCode::LaunchFailed
        | ProblemCode::NotReady
        | ProblemCode::DeadlinePassed
        | ProblemCode::Died
        | ProblemCode::NameTaken
        | ProblemCode::Damaged => None,
        ProblemCode::SetupFailed
        | ProblemCode::DotfilesFailed
        | ProblemCode::SourceAuthFailed
        | ProblemCode::SourceNotFound
        | ProblemCode::SourceRefUnknown
        | ProblemCode::SourceTooLarge
        | ProblemCode::SourceUnreachable
        | ProblemCode::SourceFailed => Some("Go on with the step that failed: `slipway start`"),
    }
}

/// The sandbox could not be woken, for a reason outside of it.
pub fn not_woken(context: &PageContext, code: ApiErrorCode, message: &str) -> ErrorPage {
    if code == ApiErrorCode::ShuttingDown {
        let text = "It takes a moment; sandboxes keep running meanwhile.";
        return ErrorPage::new(code, "Slipway is restarting", text).page_waits(WAKING_RETRY_S);
    }
    let title = if code == ApiErrorCode::Capacity {
        format!("This host has no memory left for {}", context.the_sandbox())
    } else if code == ApiErrorCode::DiskFull {
        format!("The disk of this host has no room left for {}", context.the_sandbox())
    } else if code == ApiErrorCode::QuotaExceeded {
        format!("The quota has no room left for {}", context.the_sandbox())
    } else if code == ApiErrorCode::TooMany {
        format!("This host is too busy to wake {}", context.the_sandbox())
    } else {
        format!("{} could not be woken", context.sandbox())
    };
    let text = if context.trusted { sentence(&text_line(message)) } else { "It is asleep.".to_owned() };
    let explanation = ErrorPage::new(code, title, text);
    let retry_after_s = code.retryable().then_some(BUSY_RETRY_S);
    let advice = [format!("Look at it: `slipway get {}`", context.target())];
    context.advised(ErrorPage { retry_after_s, ..explanation }, &advice)
}

pub fn on_its_way(context: &PageContext, state: &State) -> ErrorPage {
    let (does, text) = match state.operation.as_ref().map(|operation| operation.phase) {
        Some(Phase::Queued | Phase::Building | Phase::Provisioning) => {
            ("is being created", "The page opens as soon as it is there.")
        }
        Some(Phase::Starting) => ("is starting", "The page opens as soon as it is up."),
        Some(Phase::Pausing | Phase::Stopping | Phase::Destroying) => {
            ("is going to sleep", "It is woken as soon as it sleeps.")
        }
        Some(Phase::Resuming) | None => ("is waking up", "The page opens as soon as it is up."),
    };
    let title = format!("{} {does}", context.sandbox());
    let before = state.problem.as_ref().map(|problem| sanitized_status::problem(problem, context.trusted));
    let text = match &before {
        Some(problem) => format!("{text} Before, it failed: {}", problem.message),
        None => text.to_owned(),
    };
    let explanation = ErrorPage::new(ApiErrorCode::Waking, title, text).page_waits(WAKING_RETRY_S);
    ErrorPage { problem: before.filter(|_| context.trusted), ..explanation }
}

/// PID 1 does not report its status.
pub fn silent(context: &PageContext) -> ErrorPage {
    let title = format!("{} does not answer", context.sandbox());
    let text = format!("Nothing listens on port {}, and its PID 1 did not say why in time.", context.port());
    let explanation = ErrorPage::new(ApiErrorCode::TimedOut, title, text);
    let target = context.target();
    let advice = [
        "It may be very busy: try again in a moment.".to_owned(),
        format!("See what it uses: `slipway top`; bring it up anew: `slipway recreate {target}`"),
    ];
    context.advised(ErrorPage { retry_after_s: Some(BUSY_RETRY_S), ..explanation }, &advice)
}

/// Turns a message, which is lowercase without a full stop, into a sentence.
pub fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let stop = if message.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    first.chain(letters).chain(stop.chars()).collect()
}
