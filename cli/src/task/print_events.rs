//! Prints the events of a task until its end: as JSON lines, or rendered as text.

use super::{
    permission_prompt::PermissionPrompts,
    render::EventRenderer,
    screen::{Screen, style},
    submit::TaskRef,
};
use crate::{
    client::{ApiRequest, Client, ClientError},
    event_stream::EventStream,
    failure::Failure,
    output::Output,
    retry::Notify,
};
use protocol::{TaskResult, api::TaskAnswer};
use std::sync::Arc;
use tokio::task::block_in_place;

pub struct EventPrinter {
    pub client: Arc<Client>,
    pub output: Output,
    pub screen: Arc<Screen>,
    pub task: TaskRef,
    /// Sequence number to start after.
    pub since: Option<u64>,
}

impl EventPrinter {
    /// Prints events until the last one and returns the result.
    pub async fn run(self) -> Result<TaskResult, Failure> {
        let screen = self.screen;
        let notified = Arc::clone(&screen);
        let notify: Notify = Arc::new(move |text| notified.print_message(text));
        let request = ApiRequest::get(format!("{}/events", self.task.path()));
        let mut events = EventStream::new(Arc::clone(&self.client), request, self.since, notify);
        let prompts = PermissionPrompts::start(&self.client, self.output, &self.task, &screen);
        let mut render = EventRenderer::new(style(self.output)).answering(prompts.is_some());
        while let Some(frame) = events.next().await? {
            // A slow reader of our output must not block signal handling.
            if let Some(result) = block_in_place(|| screen.print_event(&mut render, &frame))? {
                return Ok(result);
            }
            if let Some(prompts) = &prompts {
                prompts.on_event(&frame);
            }
        }
        // There were no events after `since`.
        let response = self.client.send(ApiRequest::get(self.task.path())).await?;
        let task: TaskAnswer = response.parse()?;
        task.result.ok_or_else(|| {
            ClientError::UnexpectedResponse("a task that has not ended but has no more events".to_owned())
                .into()
        })
    }
}
