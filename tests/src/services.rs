//! The services of one sandbox: what they are asked, and waiting for what is told of them.

use crate::{
    Client, ClientReply, Sandbox,
    events::EventStream,
    output::{Follower, bytes_of},
    sandbox::PATIENCE,
};
use anyhow::{Context, Result, ensure};
use protocol::{Chunk, ErrorInner, Event, Fact, ServiceName, ServiceState, ServiceView};
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Makes a check for every row of a table, all at once, each in a sandbox of its own: what takes a second by
/// its nature takes a second for the table, too.
pub async fn for_each<R, F>(rows: impl IntoIterator<Item = R>, check: impl Fn(R, Sandbox) -> F) -> Result<()>
where
    F: Future<Output = Result<Sandbox>> + Send + 'static,
{
    let mut checks = JoinSet::new();
    for row in rows {
        checks.spawn(check(row, Sandbox::start().await?));
    }
    while let Some(checked) = checks.join_next().await {
        checked??.stop().await?;
    }
    Ok(())
}

/// The key for events of the manifest; no service has this name.
pub const MANIFEST: &str = "-";

pub struct Services {
    client: Client,
    stream: EventStream,
    seen: Vec<Event>,
    /// How far the story of each service, and that of the manifest, has been read.
    read: HashMap<String, usize>,
}

impl Services {
    pub async fn of(sandbox: &Sandbox) -> Result<Self> {
        Self::at(sandbox.client().clone()).await
    }

    pub async fn at(client: Client) -> Result<Self> {
        let stream = EventStream::open(&client).await?;
        Ok(Self { client, stream, seen: Vec::new(), read: HashMap::new() })
    }

    /// Asks for these services, which must be taken.
    pub async fn put(&self, specs: Value) -> Result<Vec<ServiceView>> {
        let answer = self.ask(specs).await?;
        ensure!(answer.status == 200, "services answered {} {}", answer.status, answer.text());
        answer.json()
    }

    /// Asks for these services, which must be refused.
    pub async fn refused(&self, specs: Value) -> Result<ErrorInner> {
        Ok(self.ask(specs).await?.error()?.error)
    }

    async fn ask(&self, specs: Value) -> Result<ClientReply> {
        self.client.put("/v1/services", &json!({ "services": specs })).await
    }

    pub async fn views(&self) -> Result<Vec<ServiceView>> {
        self.client.get("/v1/services").await?.json()
    }

    pub async fn view(&self, name: &str) -> Result<ServiceView> {
        self.client.get(&format!("/v1/services/{name}")).await?.json()
    }

    /// Starts, stops or restarts a service; how it stands right after that.
    pub async fn drive(&self, name: &str, verb: &str) -> Result<ServiceView> {
        let answer = self.client.post(&format!("/v1/services/{name}/{verb}"), &Value::Null).await?;
        ensure!(answer.status == 200, "{verb} {name} answered {} {}", answer.status, answer.text());
        answer.json()
    }

    /// Reads on in the story of one service until something wanted is told; what comes next in that story
    /// is for the next call.
    pub async fn until(&mut self, whose: &str, wanted: impl Fn(&Fact) -> bool) -> Result<Event> {
        let from = self.read.get(whose).copied().unwrap_or_default();
        let mut at = from;
        loop {
            if at == self.seen.len() {
                let event = self.stream.next().await.with_context(|| self.story(whose, from))?;
                self.seen.push(event.context("the stream ended")?);
            }
            let event = &self.seen[at];
            at += 1;
            if subject(&event.fact) == whose && wanted(&event.fact) {
                self.read.insert(whose.to_owned(), at);
                return Ok(event.clone());
            }
        }
    }

    /// Looks at a service whenever something is told of it, until it is as wanted.
    pub async fn view_until(
        &mut self,
        name: &str,
        wanted: impl Fn(&ServiceView) -> bool,
    ) -> Result<ServiceView> {
        loop {
            let view = self.view(name).await?;
            if wanted(&view) {
                return Ok(view);
            }
            self.until(name, |_| true).await.with_context(|| format!("{view:?}"))?;
        }
    }

    fn story(&self, whose: &str, from: usize) -> String {
        let told =
            self.seen[from.min(self.seen.len())..].iter().filter(|event| subject(&event.fact) == whose);
        told.fold(format!("{whose} was only told:"), |text, event| format!("{text}\n  {:?}", event.fact))
    }

    /// Follows the log of a service from its beginning until it is enough; what it held until then.
    pub async fn prints(&self, name: &str, enough: impl Fn(&str) -> bool) -> Result<String> {
        let reading = async {
            let mut follower =
                Follower::open(&self.client, &format!("/v1/services/{name}/logs?follow=1")).await?;
            let mut text = String::new();
            while !enough(&text) {
                match follower.next().await?.with_context(|| format!("{name} only printed {text:?}"))? {
                    Chunk::Output { payload, .. } => text += &String::from_utf8_lossy(&bytes_of(&payload)?),
                    Chunk::Gap { .. } | Chunk::End { .. } => {}
                }
            }
            Ok(text)
        };
        timeout(PATIENCE, reading).await.with_context(|| format!("{name} does not print enough"))?
    }

    /// Waits until the service is told to be in this state.
    pub async fn state(&mut self, name: &str, state: &str) -> Result<ServiceState> {
        let told = self.until(name, |fact| state_of(fact).is_some_and(|told| kind(told) == state)).await?;
        state_of(&told.fact).cloned().context("a state")
    }

    /// Waits until the service is told to have started; its process id.
    pub async fn started(&mut self, name: &str) -> Result<i32> {
        match self.until(name, |fact| matches!(fact, Fact::ServiceStarted { .. })).await?.fact {
            Fact::ServiceStarted { pid, .. } => Ok(pid),
            other => anyhow::bail!("{other:?}"),
        }
    }

    pub async fn removed(&mut self, name: &str) -> Result<()> {
        self.until(name, |fact| matches!(fact, Fact::ServiceRemoved { .. })).await.map(drop)
    }

    /// Waits for the next manifest to be taken; the names in it.
    pub async fn loaded(&mut self) -> Result<Vec<ServiceName>> {
        match self.until(MANIFEST, |_| true).await?.fact {
            Fact::ManifestLoaded { services } => Ok(services),
            other => anyhow::bail!("expected a manifest that is taken, got {other:?}"),
        }
    }

    /// Everything told of one service that was not read yet, up to now.
    pub async fn told(&mut self, whose: &str) -> Result<Vec<Fact>> {
        let now = crate::events::events_after(&self.client, self.stream.cursor).await?;
        while let Some(last) = now.last()
            && self.stream.cursor < last.cursor
        {
            self.seen.push(self.stream.next().await?.context("the stream ended")?);
        }
        let from = self.read.insert(whose.to_owned(), self.seen.len()).unwrap_or_default();
        let own = self.seen[from..].iter().filter(|event| subject(&event.fact) == whose);
        Ok(own.map(|event| event.fact.clone()).collect())
    }
}

fn subject(fact: &Fact) -> &str {
    match fact {
        Fact::ServiceState { service, .. }
        | Fact::ServiceStarted { service, .. }
        | Fact::ServiceEnded { service, .. }
        | Fact::ServiceRemoved { service } => service.as_str(),
        Fact::ManifestLoaded { .. } | Fact::ManifestRejected { .. } => MANIFEST,
        _ => "",
    }
}

fn state_of(fact: &Fact) -> Option<&ServiceState> {
    match fact {
        Fact::ServiceState { state, .. } => Some(state),
        _ => None,
    }
}

/// The word for a state, as it stands in `state` on the wire.
pub fn kind(state: &ServiceState) -> &'static str {
    match state {
        ServiceState::Waiting { .. } => "waiting",
        ServiceState::Starting => "starting",
        ServiceState::Ready { .. } => "ready",
        ServiceState::Unhealthy { .. } => "unhealthy",
        ServiceState::Backoff { .. } => "backoff",
        ServiceState::Stopping => "stopping",
        ServiceState::Stopped => "stopped",
        ServiceState::FailedDependency { .. } => "failed_dependency",
    }
}

/// A spec with these fields more, or others.
pub fn with(mut spec: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    spec
}

/// A fact in few words, for tables: the state, or what happened.
pub fn word(fact: &Fact) -> String {
    match fact {
        Fact::ServiceState { state, .. } => kind(state).to_owned(),
        other => other.kind().trim_start_matches("service.").to_owned(),
    }
}
