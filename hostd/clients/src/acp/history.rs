//! Which tasks of a session an editor has to be told of, and their events so far.

use super::{
    attached::Queued,
    events,
    feed::Feed,
    limits,
    outbox::Gone,
    rpc::RpcError,
    session_id::SessionId,
    translate::{self, Translated, Translator},
};
use crate::ApiClient;
use protocol::{
    TaskStatus,
    api::{Page, TaskAnswer},
};
use std::collections::VecDeque;
use tokio::time::sleep;

/// The tasks of a session, newest first, read page by page.
struct NewestTasks<'a> {
    api: &'a ApiClient,
    session: &'a SessionId,
    read: VecDeque<TaskAnswer>,
    /// The query of the next page; `None` after the last one.
    next_page: Option<String>,
    left: usize,
}

impl<'a> NewestTasks<'a> {
    fn new(api: &'a ApiClient, session: &'a SessionId) -> Self {
        let (next_page, left) = (Some(String::new()), limits::HISTORY_TASKS_MAX);
        Self { api, session, read: VecDeque::new(), next_page, left }
    }

    async fn next(&mut self) -> Result<Option<TaskAnswer>, RpcError> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if let Some(task) = self.read.pop_front() {
                self.left -= 1;
                return Ok(Some(task));
            }
            let Some(after) = self.next_page.take() else { return Ok(None) };
            let path = format!("{}?limit={}{after}", self.session.tasks_path(), limits::PAGE_MAX);
            let page: Page<TaskAnswer> = self.api.get(&path).await?;
            self.next_page = page.next.map(|next| format!("&after={next}"));
            let own = page.items.into_iter().filter(|task| self.session.has_task(&task.id));
            self.read = own.collect();
        }
    }
}

/// Returns the tasks that have events after this one, oldest first.
pub async fn tasks_after(
    api: &ApiClient,
    session: &SessionId,
    cursor: u64,
) -> Result<Vec<TaskAnswer>, RpcError> {
    let (mut newest, mut found) = (NewestTasks::new(api, session), Vec::new());
    let mut known = 0;
    while let Some(task) = newest.next().await? {
        if cursor == 0 || !task.status.is_final() || !is_known(api, session, &task, cursor).await? {
            found.push(task);
            continue;
        }
        // A task that was cancelled while it waited ended before older ones.
        known += 1;
        if known >= limits::WAITING_TASKS_MAX {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

/// Whether the end of a task that has ended lies before this event.
async fn is_known(
    api: &ApiClient,
    session: &SessionId,
    task: &TaskAnswer,
    cursor: u64,
) -> Result<bool, RpcError> {
    match events::page(api, &session.task_path(&task.id), cursor, "done").await {
        Ok(page) => Ok(page.items.is_empty()),
        Err(failure) if events::oldest_kept(&failure).is_some() => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

/// Returns the tasks that have not ended, oldest first.
pub async fn unfinished_tasks(api: &ApiClient, session: &SessionId) -> Result<Vec<TaskAnswer>, RpcError> {
    let (mut newest, mut found) = (NewestTasks::new(api, session), Vec::new());
    let mut ended = 0;
    while let Some(task) = newest.next().await? {
        if !task.status.is_final() {
            found.push(task);
            continue;
        }
        ended += 1;
        if ended >= limits::WAITING_TASKS_MAX {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

/// As the queue of a session has them; `cursor` is that of the editor.
pub fn queued(tasks: Vec<TaskAnswer>) -> Vec<Queued> {
    tasks.into_iter().map(|task| Queued { task: task.id, begun: true }).collect()
}

/// The number of the last event of a task.
pub async fn last_event(api: &ApiClient, session: &SessionId, task: &TaskAnswer) -> Result<u64, RpcError> {
    let (path, mut since) = (session.task_path(&task.id), 0);
    loop {
        let page = events::page(api, &path, since, translate::KINDS).await?;
        since = page.items.last().map_or(since, |last| last.seq);
        if page.next.is_none() {
            return Ok(since);
        }
    }
}

/// Why a replay ended early.
pub enum ReplayError {
    Gone,
    Failed(RpcError),
}

impl From<Gone> for ReplayError {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

impl From<RpcError> for ReplayError {
    fn from(error: RpcError) -> Self {
        Self::Failed(error)
    }
}

impl Feed {
    /// Tells of the events of a task so far, with its prompt. Neither of its end nor of permissions: the one is known
    /// from what follows, and the others are asked for afterwards, if they are open.
    pub async fn replay(&self, task: &TaskAnswer) -> Result<(), ReplayError> {
        let path = self.session.id.task_path(&task.id);
        let mut translator = Translator::new(task.id.clone());
        let mut prompt = Some(self.prompt_of(task).await?);
        loop {
            let since = self.session.cursor();
            let page = match events::page(&self.api, &path, since, translate::KINDS).await {
                Ok(page) => page,
                Err(failure) => {
                    self.survive(failure)?;
                    sleep(limits::RETRY).await;
                    continue;
                }
            };
            for event in &page.items {
                if let Some(prompt) = prompt.take() {
                    // Told of before the event.
                    let before = event.seq.saturating_sub(1);
                    self.update(&task.id, before, translate::user_message(&prompt)).await?;
                }
                match translator.translate(event) {
                    Translated::Update(update) => self.update(&task.id, event.seq, update).await?,
                    Translated::Nothing
                    | Translated::Asked { .. }
                    | Translated::Decided { .. }
                    | Translated::Done(_) => {}
                }
                self.session.advance(event.seq);
            }
            if page.next.is_none() {
                return Ok(());
            }
        }
    }

    /// Lists have the beginnings of prompts only.
    async fn prompt_of(&self, task: &TaskAnswer) -> Result<String, RpcError> {
        loop {
            match self.api.get::<TaskAnswer>(&self.session.id.task_path(&task.id)).await {
                Ok(whole) => return Ok(whole.prompt),
                Err(failure) => self.survive(failure)?,
            }
            sleep(limits::RETRY).await;
        }
    }
}

/// The session of the agent that a new prompt continues: that of the newest task of this session with the same agent.
pub enum Continues {
    Nothing,
    Session(String),
    /// The agent's last one: the task before has not ended.
    Last,
}

pub async fn continues(api: &ApiClient, session: &SessionId, agent: &str) -> Result<Continues, RpcError> {
    let mut newest = NewestTasks::new(api, session);
    while let Some(task) = newest.next().await? {
        if task.agent != agent {
            continue;
        }
        match task.status {
            TaskStatus::Queued | TaskStatus::Running => return Ok(Continues::Last),
            TaskStatus::Succeeded | TaskStatus::Failed | TaskStatus::Cancelled => {
                let whole: TaskAnswer = api.get(&session.task_path(&task.id)).await?;
                if let Some(session) = whole.result.and_then(|result| result.session) {
                    return Ok(Continues::Session(session));
                }
            }
        }
    }
    Ok(Continues::Nothing)
}
