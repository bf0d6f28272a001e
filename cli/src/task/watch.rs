//! Shows the events of a task until its end: as JSON lines, or as a person reads them.

use super::{
    question::Questions,
    render::Render,
    screen::{Screen, style},
    submit::TaskRef,
};
use crate::{
    client::{Ask, Client, ClientError},
    failure::Failure,
    feed::Feed,
    output::Output,
    patience::Tell,
};
use protocol::{TaskResult, api::TaskAnswer};
use std::sync::Arc;
use tokio::task::block_in_place;

pub struct View {
    pub client: Arc<Client>,
    pub output: Output,
    pub screen: Arc<Screen>,
    pub task: TaskRef,
    /// The number of the last event that was seen before.
    pub since: Option<u64>,
}

/// Gives the result when the last event was shown.
pub async fn watch(view: View) -> Result<TaskResult, Failure> {
    let screen = view.screen;
    let told = Arc::clone(&screen);
    let tell: Tell = Arc::new(move |text| told.tell(text));
    let ask = Ask::get(format!("{}/events", view.task.path()));
    let mut feed = Feed::new(Arc::clone(&view.client), ask, view.since, tell);
    let questions = Questions::start(&view.client, view.output, &view.task, &screen);
    let mut render = Render::new(style(view.output)).answering(questions.is_some());
    while let Some(frame) = feed.next().await? {
        // A slow reader of our output must not stop signals from being seen.
        if let Some(result) = block_in_place(|| screen.show(&mut render, &frame))? {
            return Ok(result);
        }
        if let Some(questions) = &questions {
            questions.see(&frame);
        }
    }
    // There was nothing after what was seen before.
    let answer = view.client.send(Ask::get(view.task.path())).await?;
    let task: TaskAnswer = answer.parse()?;
    task.result.ok_or_else(|| {
        ClientError::Strange("a task without an end that has no more events".to_owned()).into()
    })
}
