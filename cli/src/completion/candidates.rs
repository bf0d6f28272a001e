//! Completion candidates from hostd and from the contexts. Errors and timeouts yield no candidates.

use super::{CompletionKind, typed_words::TypedWords};
use crate::{
    client::{ApiRequest, Client},
    context::{Context, parse_items},
    contexts::{ContextStore, LOCAL},
    limits::{COMPLETION_ITEMS, COMPLETION_TIMEOUT},
    output::Output,
    resolve,
    text::{truncate, wire_name},
};
use protocol::{
    ServiceView,
    api::{ExecAnswer, SandboxId, SandboxView, SnapshotView, TaskAnswer, WebhookView},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// Columns of the help text beside a candidate.
const HELP_COLUMNS: usize = 60;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub value: String,
    pub help: String,
    /// Whether a name already stands for this id: then the id is offered only when its prefix is typed.
    second: bool,
}

impl Candidate {
    /// Returns `None` for a value that a shell would not read as one plain word, because it is inserted unquoted.
    fn new(value: &str, help: &str) -> Option<Self> {
        let plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+' | b'@');
        let good = !value.is_empty() && !value.starts_with('-') && value.bytes().all(plain);
        good.then(|| Self { value: value.to_owned(), help: truncate(help, HELP_COLUMNS), second: false })
    }

    pub fn fits(&self, typed: &str) -> bool {
        self.value.starts_with(typed) && !(self.second && typed.is_empty())
    }
}

/// Queries hostd within the completion timeout, or reads the contexts.
pub fn find(kind: CompletionKind, words: &TypedWords) -> Vec<Candidate> {
    if kind == CompletionKind::Context {
        return contexts();
    }
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let found = runtime.block_on(async { timeout(COMPLETION_TIMEOUT, query(kind, words)).await });
    // Does not wait for a DNS lookup that is still running.
    runtime.shutdown_background();
    found.ok().flatten().unwrap_or_default()
}

/// Offers every context, and this machine.
fn contexts() -> Vec<Candidate> {
    let saved = ContextStore::locate().and_then(|store| store.load()).unwrap_or_default();
    let known = saved.contexts.iter().map(|(name, context)| (name.as_str(), context.url.to_string()));
    let local = std::iter::once((LOCAL, "this machine".to_owned()));
    known.chain(local).filter_map(|(name, help)| Candidate::new(name, &help)).collect()
}

async fn query(kind: CompletionKind, words: &TypedWords) -> Option<Vec<Candidate>> {
    let output = Output { json: false, colour: false };
    let client = Context::open_silently(output, &words.connection()).ok()?.client;
    let sandbox = words.sandbox();
    let id = match (kind, sandbox) {
        (CompletionKind::Sandbox, _) => {
            return Some(sandboxes(&page(&client, ApiRequest::get("/v1/sandboxes").long_pages()).await?));
        }
        (CompletionKind::Snapshot, _) => {
            return Some(snapshots(&page(&client, ApiRequest::get("/v1/snapshots").long_pages()).await?));
        }
        (CompletionKind::Webhook, _) => {
            return Some(webhooks(&page(&client, ApiRequest::get("/v1/webhooks").long_pages()).await?));
        }
        (_, sandbox) => resolve::sandbox(&client, &sandbox?).await.ok()?,
    };
    let path = format!("/v1/sandboxes/{id}");
    let few = |list: &str| ApiRequest::get(format!("{path}/{list}")).query("limit", COMPLETION_ITEMS);
    match kind {
        CompletionKind::Sandbox
        | CompletionKind::Snapshot
        | CompletionKind::Webhook
        | CompletionKind::Context => None,
        CompletionKind::Task => Some(tasks(&page(&client, few("tasks")).await?)),
        CompletionKind::Exec => Some(execs(&page(&client, few("execs")).await?)),
        CompletionKind::Service => services(&client, id).await,
    }
}

async fn page<T: DeserializeOwned>(client: &Client, request: ApiRequest) -> Option<Vec<T>> {
    parse_items(client.page(&request, None).await.ok()?.items).ok()
}

/// Offers each sandbox by its id, and by its name where that is unique.
fn sandboxes(views: &[SandboxView]) -> Vec<Candidate> {
    let unique = |name: &str| views.iter().filter(|view| view.name == name).count() == 1;
    let mut found = Vec::new();
    for view in views {
        let status = wire_name(&view.status);
        let named = Candidate::new(&view.name, &status).filter(|_| unique(&view.name));
        let second = named.is_some();
        found.extend(named);
        let by_id = Candidate::new(view.id.as_str(), &format!("{} {status}", view.name));
        found.extend(by_id.map(|candidate| Candidate { second, ..candidate }));
    }
    found
}

/// Offers each snapshot by its name, or by its id.
fn snapshots(views: &[SnapshotView]) -> Vec<Candidate> {
    let candidate = |view: &SnapshotView| {
        let id = view.id.to_string();
        Candidate::new(view.name.as_deref().unwrap_or(&id), &view.created_at)
    };
    views.iter().filter_map(candidate).collect()
}

fn webhooks(views: &[WebhookView]) -> Vec<Candidate> {
    views.iter().filter_map(|view| Candidate::new(&view.id, &view.url)).collect()
}

fn tasks(tasks: &[TaskAnswer]) -> Vec<Candidate> {
    let candidate = |task: &TaskAnswer| {
        Candidate::new(task.id.as_str(), &format!("{}: {}", wire_name(&task.status), task.prompt))
    };
    tasks.iter().filter_map(candidate).collect()
}

fn execs(execs: &[ExecAnswer]) -> Vec<Candidate> {
    let candidate = |exec: &ExecAnswer| {
        Candidate::new(exec.id.as_str(), &format!("{}: {}", wire_name(&exec.state), exec.argv.join(" ")))
    };
    execs.iter().filter_map(candidate).collect()
}

/// Offers the services of a running sandbox; of a sleeping one, which is not woken, those of its spec.
async fn services(client: &Client, id: SandboxId) -> Option<Vec<Candidate>> {
    let path = format!("/v1/sandboxes/{id}");
    let running =
        page::<ServiceView>(client, ApiRequest::get(format!("{path}/services")).query("wake", 0)).await;
    if let Some(views) = running {
        let candidate = |view: &ServiceView| Candidate::new(view.name.as_str(), &view.command);
        return Some(views.iter().filter_map(candidate).collect());
    }
    let view: SandboxView = client.send(ApiRequest::get(path)).await.ok()?.parse().ok()?;
    Some(view.services.iter().filter_map(|name| Candidate::new(name, "")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::ls::tests::view;

    #[test]
    fn a_sandbox_is_offered_by_name_and_by_its_id_to_those_who_type_it() {
        let views = [
            view(r#"{"id":"01aaaaaaaaaaaaaaaaaaaaaaaa"}"#),
            view(r#"{"id":"01bbbbbbbbbbbbbbbbbbbbbbbb","name":"twin"}"#),
            view(r#"{"id":"01cccccccccccccccccccccccc","name":"twin"}"#),
            view(r#"{"id":"01dddddddddddddddddddddddd","name":"$(reboot)"}"#),
            view(r#"{"id":"01eeeeeeeeeeeeeeeeeeeeeeee","name":"--all"}"#),
        ];
        let offered = |typed: &str| {
            let all = sandboxes(&views).into_iter().filter(|candidate| candidate.fits(typed));
            all.map(|candidate| candidate.value[..candidate.value.len().min(4)].to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(offered(""), ["web", "01bb", "01cc", "01dd", "01ee"]);
        assert_eq!(offered("w"), ["web"]);
        assert_eq!(offered("01"), ["01aa", "01bb", "01cc", "01dd", "01ee"]);
        assert_eq!(offered("$"), Vec::<String>::new());
    }

    #[test]
    fn what_is_said_beside_one_is_short_and_plain() {
        let help = format!("running: \u{1b}]0;t\u{7}two\nlines {}", "x".repeat(200));
        let candidate = Candidate::new("t1", &help).expect("a plain word");
        assert!(candidate.help.starts_with("running: two lines xx") && candidate.help.chars().count() <= 60);
        assert!(
            ["a b", "a;b", "`x`", "a\nb", "é", "", "a:b", "a'b"]
                .iter()
                .all(|bad| Candidate::new(bad, "").is_none())
        );
    }
}
