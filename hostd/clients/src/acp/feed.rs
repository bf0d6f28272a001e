//! Tells an editor of the tasks of a session, one after the other, from the log of events.
//!
//! ```text
//!  queue: task ─▶ prime (events the editor knows) ─▶ stream of its events ─▶ updates, permission requests ─▶ response
//!                     ▲                                     │ cut, hostd busy
//!                     └──── the cursor stays ◀──────────────┘
//! ```
//!
//! **Invariant:** an event is told of after all events before it, and the cursor moves when it was.

use super::{
    attached::{Attached, PromptOutcome, Queued},
    events::{self, EventStream},
    limits,
    outbox::{Gone, Outbox, Outgoing},
    rpc::{self, RpcError},
    session_id::PermissionRef,
    translate::{self, Translated, Translator},
};
use crate::{ApiClient, ApiFailure};
use hyper::StatusCode;
use protocol::{
    TaskId,
    api::{TaskAnswer, TaskEventView},
};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::sleep;

pub struct Feed {
    pub api: ApiClient,
    pub session: Arc<Attached>,
    pub to: Outbox,
}

/// Why a task is not told of any further.
enum Stop {
    Gone,
    Failed(RpcError),
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl Feed {
    /// Tells of tasks as they are queued, until the editor is gone. Safe to cancel: the cursor says how far it got.
    pub async fn run(self) {
        loop {
            let queued = self.session.next().await;
            if self.tell(&queued).await.is_err() {
                return;
            }
        }
    }

    /// Tells of the rest of one task, to its end.
    pub async fn tell(&self, queued: &Queued) -> Result<(), Gone> {
        let task = &queued.task;
        let mut translator = Translator::new(task.clone());
        let told = self.follow(queued, &mut translator).await;
        match told {
            Ok(()) => Ok(()),
            Err(Stop::Gone) => Err(Gone),
            Err(Stop::Failed(error)) => self.end(task, None, Err(error)).await,
        }
    }

    async fn follow(&self, queued: &Queued, translator: &mut Translator) -> Result<(), Stop> {
        let path = self.session.id.task_path(&queued.task);
        if queued.begun {
            self.prime(&queued.task, translator).await?;
        }
        loop {
            match events::open(&self.api, &path, self.session.cursor(), translate::KINDS).await {
                Ok(Some(stream)) => {
                    if self.relay(&queued.task, stream, translator).await? {
                        return Ok(());
                    }
                }
                // Its end lies before the cursor.
                Ok(None) => return self.repeat_end(&queued.task, translator).await,
                Err(failure) => self.survive(failure).map_err(Stop::Failed)?,
            }
            sleep(limits::RETRY).await;
        }
    }

    /// Whether to try again; history that was deleted is skipped.
    pub fn survive(&self, failure: ApiFailure) -> Result<(), RpcError> {
        if let Some(oldest) = events::oldest_kept(&failure) {
            self.session.advance(oldest);
            return Ok(());
        }
        if failure.error.retryable || failure.status == StatusCode::INTERNAL_SERVER_ERROR {
            return Ok(());
        }
        Err(failure.into())
    }

    /// Whether the stream had the end of the task.
    async fn relay(
        &self,
        task: &TaskId,
        mut stream: EventStream,
        translator: &mut Translator,
    ) -> Result<bool, Stop> {
        while let Some(event) = stream.next().await {
            if event.seq <= self.session.cursor() {
                continue;
            }
            let ended = self.deliver(task, &event, translator).await?;
            self.session.advance(event.seq);
            if ended {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sends what an event means; whether it was the end.
    async fn deliver(
        &self,
        task: &TaskId,
        event: &TaskEventView,
        translator: &mut Translator,
    ) -> Result<bool, Stop> {
        match translator.translate(event) {
            Translated::Nothing => {}
            Translated::Update(update) => self.update(task, event.seq, update).await?,
            Translated::Asked { permission, params } => {
                if self.is_open(task, &permission).await {
                    self.ask(task, Some(event.seq), &permission, params).await?;
                }
            }
            Translated::Decided { permission } => self.withdraw(task, event.seq, &permission).await?,
            Translated::Done(outcome) => {
                self.end(task, Some(event.seq), outcome).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub async fn update(&self, task: &TaskId, seq: u64, update: Value) -> Result<(), Gone> {
        let params = json!({
            "sessionId": self.session.id.to_string(), "update": update,
            "_meta": {"seq": seq, "task": task},
        });
        let message = rpc::notification("session/update", &params);
        self.to.send(Outgoing { seq: Some(seq), message }).await
    }

    async fn ask(
        &self,
        task: &TaskId,
        seq: Option<u64>,
        permission: &str,
        mut params: Value,
    ) -> Result<(), Gone> {
        let id = self.permission(task, permission).to_string();
        params["sessionId"] = json!(self.session.id.to_string());
        params["_meta"] = json!({"task": task});
        self.session.asked(id.clone());
        let message = rpc::request(&id, "session/request_permission", &params);
        self.to.send(Outgoing { seq, message }).await
    }

    /// Takes a permission request back that another caller, or a rule, decided.
    async fn withdraw(&self, task: &TaskId, seq: u64, permission: &str) -> Result<(), Gone> {
        let id = self.permission(task, permission).to_string();
        if !self.session.answered(&id) {
            return Ok(());
        }
        let message = rpc::notification("$/cancel_request", &json!({"requestId": id}));
        self.to.send(Outgoing { seq: Some(seq), message }).await
    }

    fn permission(&self, task: &TaskId, permission: &str) -> PermissionRef {
        let (session, task) = (self.session.id.clone(), task.clone());
        PermissionRef { session, task, permission: permission.to_owned() }
    }

    /// Sends the response to every request that waits for the task. An editor without one, since its connection was cut,
    /// is told of the end by an update.
    async fn end(&self, task: &TaskId, seq: Option<u64>, outcome: PromptOutcome) -> Result<(), Gone> {
        let outcome = outcome.map(|mut end| {
            end["_meta"] = json!({"seq": seq, "task": task});
            end
        });
        let waiting = self.session.waiting(task);
        if waiting.is_empty()
            && let Some(seq) = seq
        {
            self.update(task, seq, ended(&outcome)).await?;
        }
        for request in &waiting {
            self.to.send(Outgoing { seq, message: rpc::response(request, outcome.clone()) }).await?;
        }
        let late = self.session.finish(task, outcome.clone(), &waiting);
        for request in &late {
            self.to.send(Outgoing { seq, message: rpc::response(request, outcome.clone()) }).await?;
        }
        Ok(())
    }

    /// Answers requests for a task whose end the editor was told of on another connection.
    async fn repeat_end(&self, task: &TaskId, translator: &mut Translator) -> Result<(), Stop> {
        let path = self.session.id.task_path(task);
        let page = events::page(&self.api, &path, 0, "done").await.map_err(RpcError::from);
        let page = page.map_err(Stop::Failed)?;
        for event in &page.items {
            if let Translated::Done(outcome) = translator.translate(event) {
                if self.session.waiting(task).is_empty() {
                    self.session.finish(task, outcome, &[]);
                } else {
                    self.end(task, Some(event.seq), outcome).await?;
                }
                return Ok(());
            }
        }
        Err(Stop::Failed(RpcError::new(rpc::INTERNAL_ERROR, "the end of the task is not kept any more")))
    }

    /// Reads events that the editor was told of, for what later ones depend on, and asks again for open permissions.
    async fn prime(&self, task: &TaskId, translator: &mut Translator) -> Result<(), Stop> {
        let path = self.session.id.task_path(task);
        let (mut since, cursor) = (0, self.session.cursor());
        let mut asked: Vec<(String, Value)> = Vec::new();
        while since < cursor {
            let page = match events::page(&self.api, &path, since, translate::STATEFUL_KINDS).await {
                Ok(page) => page,
                Err(failure) => {
                    let oldest = events::oldest_kept(&failure);
                    self.survive(failure).map_err(Stop::Failed)?;
                    since = oldest.unwrap_or(since);
                    sleep(limits::RETRY).await;
                    continue;
                }
            };
            for event in page.items.iter().filter(|event| event.seq <= cursor) {
                match translator.translate(event) {
                    Translated::Asked { permission, params } => asked.push((permission, params)),
                    Translated::Decided { permission } => asked.retain(|(open, _)| *open != permission),
                    Translated::Nothing | Translated::Update(_) | Translated::Done(_) => {}
                }
            }
            since = match (page.items.last(), page.next) {
                (Some(last), Some(_)) => last.seq,
                _ => cursor,
            };
        }
        if self.session.asks_again() {
            for (permission, params) in asked {
                if self.is_open(task, &permission).await {
                    self.ask(task, None, &permission, params).await?;
                }
            }
        }
        Ok(())
    }

    /// Whether the agent still waits for this permission.
    async fn is_open(&self, task: &TaskId, permission: &str) -> bool {
        let known: Result<TaskAnswer, _> = self.api.get(&self.session.id.task_path(task)).await;
        match known {
            Ok(task) => task.open_permissions.iter().any(|open| open == permission),
            // The editor is asked, and an answer that comes too late is ignored.
            Err(_) => true,
        }
    }
}

/// The end of a task for an editor whose request for it is lost.
fn ended(outcome: &PromptOutcome) -> Value {
    let end = match outcome {
        Ok(end) => json!({"ended": {"stopReason": end["stopReason"]}}),
        Err(error) => json!({"ended": {"error": {"code": error.code, "message": error.message}}}),
    };
    json!({"sessionUpdate": "session_info_update", "_meta": end})
}
