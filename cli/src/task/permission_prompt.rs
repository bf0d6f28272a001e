//! Prompts for permissions on a terminal, one after the other, answered by a letter. Without a terminal the events say
//! how to answer.

use super::{
    parse_event::{ParsedFact, parse_fact},
    permission::{choices, parse_answer},
    screen::Screen,
    submit::TaskRef,
};
use crate::{
    client::{ApiRequest, Client, ClientError},
    event_stream::EventFrame,
    failure::Failure,
    output::Output,
};
use protocol::{Permission, PermissionAnswer, PermissionState, TaskFact, api::ApiErrorCode};
use std::{
    io::{IsTerminal as _, stdin, stdout},
    sync::Arc,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

/// Permissions that wait for their prompt.
const WAITING_MAX: usize = 64;

/// Prompts until dropped.
pub struct PermissionPrompts {
    asked: mpsc::Sender<Permission>,
    /// Ids of decided permissions, from any client.
    decided: watch::Sender<Vec<String>>,
    asking: JoinHandle<()>,
}

impl Drop for PermissionPrompts {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

impl PermissionPrompts {
    /// Starts prompting; `None` where input or output is not a terminal.
    pub fn start(client: &Arc<Client>, output: Output, task: &TaskRef, screen: &Arc<Screen>) -> Option<Self> {
        if output.json || !stdin().is_terminal() || !stdout().is_terminal() {
            return None;
        }
        let (asked, questions) = mpsc::channel(WAITING_MAX);
        let (decided, decisions) = watch::channel(Vec::new());
        let prompt_loop = PromptLoop {
            client: Arc::clone(client),
            task: task.clone(),
            screen: Arc::clone(screen),
            decisions,
            lines: TypedLines::default(),
        };
        let asking = tokio::spawn(prompt_loop.run(questions));
        Some(Self { asked, decided, asking })
    }

    /// Handles an event that asks for a permission or reports a decision.
    pub fn on_event(&self, frame: &EventFrame) {
        let Ok(event) = serde_json::from_str(&frame.data) else { return };
        let ParsedFact::Known(TaskFact::Permission(permission)) = parse_fact(&event) else { return };
        if permission.state == PermissionState::Asked {
            // Above the limit permissions are answered with `slipway task allow`.
            let _ = self.asked.try_send(*permission);
        } else {
            self.decided.send_modify(|decided| decided.push(permission.id.clone()));
        }
    }
}

struct PromptLoop {
    client: Arc<Client>,
    task: TaskRef,
    screen: Arc<Screen>,
    decisions: watch::Receiver<Vec<String>>,
    lines: TypedLines,
}

impl PromptLoop {
    async fn run(mut self, mut questions: mpsc::Receiver<Permission>) {
        while let Some(permission) = questions.recv().await {
            self.ask(&permission).await;
            self.screen.prompt_done();
        }
    }

    async fn ask(&mut self, permission: &Permission) {
        loop {
            let is_decided = |decided: &Vec<String>| decided.contains(&permission.id);
            if is_decided(&self.decisions.borrow()) {
                return;
            }
            self.screen.show_prompt(&format!("  {}?", choices(permission)));
            let line = tokio::select! {
                // Safe to cancel: a partially typed line is kept for the next prompt.
                line = self.lines.next() => line,
                // Safe to cancel: only waits.
                _ = self.decisions.wait_for(is_decided) => {
                    self.screen.print_message("");
                    return;
                }
            };
            // End of input: no more answers.
            let Some(line) = line else { return };
            let Some(answer) = parse_answer(&line, permission) else { continue };
            if let Err(error) = send(&self.client, &self.task, &permission.id, &answer).await {
                self.screen.print_message(&format!("slipway: {error}"));
            }
            return;
        }
    }
}

/// Answers a permission of a task.
pub async fn answer_permission(
    client: &Client,
    task: &TaskRef,
    permission: &str,
    answer: &PermissionAnswer,
) -> Result<(), Failure> {
    Ok(send(client, task, permission, answer).await?)
}

async fn send(
    client: &Client,
    task: &TaskRef,
    permission: &str,
    answer: &PermissionAnswer,
) -> Result<(), ClientError> {
    let path = format!("{}/permissions/{}", task.path(), crate::client::encode(permission));
    match client.send(ApiRequest::post(path).json(answer)).await {
        Ok(_) => Ok(()),
        // Already decided by another client, or the agent continued: the events report it.
        Err(error) if error.is(ApiErrorCode::NotRunning) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Typed lines, read from the first prompt on.
#[derive(Default)]
struct TypedLines {
    typed: Option<mpsc::Receiver<String>>,
}

impl TypedLines {
    async fn next(&mut self) -> Option<String> {
        self.typed.get_or_insert_with(read_lines).recv().await
    }
}

/// Reads on a detached thread, because a read of a terminal cannot be cancelled.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in stdin().lines() {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}
