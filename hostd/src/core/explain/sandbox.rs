//! The sandbox is not there, not up, or failed.

use super::{
    Explanation, Lines, State,
    inside::{self, text_line},
    teller::Teller,
};
use protocol::api::{ApiErrorCode, Phase, PostMortem, Problem, ProblemCode};

/// When a program may ask again for what is on its way.
const WAKING_RETRY_S: u64 = 1;
const BUSY_RETRY_S: u64 = 5;

pub fn destroyed(teller: &Teller) -> Explanation {
    let title = format!("{} was destroyed", teller.sandbox());
    let gone = Explanation::new(ApiErrorCode::Gone, title, "Its preview is gone and will not come back.");
    teller.advised(gone, &["Make a new one with `slipway create`.".to_owned()])
}

pub fn destroying(teller: &Teller) -> Explanation {
    let title = format!("{} is being destroyed", teller.sandbox());
    let gone = Explanation::new(ApiErrorCode::Gone, title, "Its preview is gone and will not come back.");
    teller.advised(gone, &[])
}

pub fn failed(teller: &Teller, problem: Option<&Problem>, death: Option<&PostMortem>) -> Explanation {
    let title = format!("{} has failed", teller.sandbox());
    let Some(problem) = problem else {
        return Explanation::new(ApiErrorCode::SandboxFailed, title, "Nobody saw why.");
    };
    // An older death does not explain what went wrong since.
    let death = death.filter(|_| matches!(problem.code, ProblemCode::Died | ProblemCode::Oom));
    let mut problem = inside::problem(problem, teller.known);
    let post_mortem = death.map(|death| inside::post_mortem(death, teller.known));
    if let Some(death) = &post_mortem {
        problem.message.clone_from(&death.message);
    }
    let target = teller.target();
    let mut advice = vec![format!("Start it again: `slipway start {target}`")];
    advice.extend(remedy(problem.code).map(str::to_owned));
    advice.push(format!("See what was tried: `slipway attempts {target}`"));
    let explanation = Explanation::new(ApiErrorCode::SandboxFailed, title, sentence(&problem.message));
    let output = problem.output.clone();
    let lines = Lines::of("The last lines it printed", &output);
    let problem = teller.known.then_some(problem);
    let post_mortem = post_mortem.filter(|_| teller.known);
    teller.advised(Explanation { lines, problem, post_mortem, ..explanation }, &advice)
}

fn remedy(code: ProblemCode) -> Option<&'static str> {
    match code {
        ProblemCode::Oom => {
            Some("If it happens again, make it with more memory: `slipway create --memory 2g`")
        }
        ProblemCode::ImageMissing => Some("See which images there are: `slipway image ls`"),
        ProblemCode::DiskFull => Some("Make room on the disk of the host first."),
        ProblemCode::DriverUnavailable => Some("Look at the host: `slipway doctor`"),
        ProblemCode::Refused
        | ProblemCode::LaunchFailed
        | ProblemCode::NotReady
        | ProblemCode::DeadlinePassed
        | ProblemCode::Died
        | ProblemCode::NameTaken
        | ProblemCode::Damaged => None,
    }
}

/// It could not be woken, and it is not its own fault.
pub fn not_woken(teller: &Teller, code: ApiErrorCode, message: &str) -> Explanation {
    let title = match code {
        ApiErrorCode::ShuttingDown => {
            let text = "It takes a moment; sandboxes keep running meanwhile.";
            return Explanation::new(code, "Slipway is restarting", text).hopeful(WAKING_RETRY_S);
        }
        ApiErrorCode::NoCapacity => format!("This host has no room left for {}", teller.the_sandbox()),
        ApiErrorCode::DiskFull => {
            format!("The disk of this host has no room left for {}", teller.the_sandbox())
        }
        ApiErrorCode::TooMany => format!("This host is too busy to wake {}", teller.the_sandbox()),
        _ => format!("{} could not be woken", teller.sandbox()),
    };
    let text = if teller.known { sentence(&text_line(message)) } else { "It is asleep.".to_owned() };
    let explanation = Explanation::new(code, title, text);
    let retry_after_s = code.retryable().then_some(BUSY_RETRY_S);
    let advice = [format!("Look at it: `slipway get {}`", teller.target())];
    teller.advised(Explanation { retry_after_s, ..explanation }, &advice)
}

pub fn on_its_way(teller: &Teller, state: &State) -> Explanation {
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
    let title = format!("{} {does}", teller.sandbox());
    let before = state.problem.as_ref().map(|problem| inside::problem(problem, teller.known));
    let text = match &before {
        Some(problem) => format!("{text} Before, it failed: {}", problem.message),
        None => text.to_owned(),
    };
    let explanation = Explanation::new(ApiErrorCode::Waking, title, text).hopeful(WAKING_RETRY_S);
    Explanation { problem: before.filter(|_| teller.known), ..explanation }
}

/// PID 1 does not say what goes on inside.
pub fn silent(teller: &Teller) -> Explanation {
    let title = format!("{} does not answer", teller.sandbox());
    let text = format!("Nothing listens on port {}, and its PID 1 did not say why in time.", teller.port());
    let explanation = Explanation::new(ApiErrorCode::TimedOut, title, text);
    let target = teller.target();
    let advice = [
        "It may be very busy: try again in a moment.".to_owned(),
        format!("See what it uses: `slipway top`; bring it up anew: `slipway recreate {target}`"),
    ];
    teller.advised(Explanation { retry_after_s: Some(BUSY_RETRY_S), ..explanation }, &advice)
}

/// A message, which begins small and has no full stop, as a sentence.
pub fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let stop = if message.ends_with(['.', '!', '?', '…']) { "" } else { "." };
    first.chain(letters).chain(stop.chars()).collect()
}
