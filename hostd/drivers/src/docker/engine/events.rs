//! The event stream of the engine, for containers.

use super::{
    EngineError, EngineEvent,
    client::{Engine, EngineRequest, parse_json},
    limits::LIST_DEADLINE,
    line_reader::LineReader,
    request_path,
};
use futures_util::{Stream, stream};
use hyper::Method;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    pin::Pin,
    time::{SystemTime, UNIX_EPOCH},
};

const WHAT: &str = "stream its events";

/// Container events as they arrive. Ends with the connection, or after the first error.
pub type Events = Pin<Box<dyn Stream<Item = Result<EngineEvent, EngineError>> + Send>>;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct EventLine {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    action: String,
    actor: Option<Actor>,
}

#[derive(Deserialize)]
struct Actor {
    #[serde(rename = "ID", default)]
    id: String,
    #[serde(rename = "Attributes", default)]
    attributes: Option<BTreeMap<String, String>>,
}

impl Engine {
    /// Subscribes to the events of containers with this label (`name=value`: Podman does not filter by a name
    /// alone). No event after this call is missed, even before the daemon has subscribed to itself: the
    /// request asks for all events since now.
    pub async fn events(&self, label: &str) -> Result<Events, EngineError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since = format!("{}.{:09}", now.as_secs(), now.subsec_nanos());
        let path = format!("/events?since={since}&{}", request_path::container_label_filter(label));
        let body = self.stream(EngineRequest::new(WHAT, Method::GET, path).deadline(LIST_DEADLINE)).await?;
        let lines = LineReader::of(self, WHAT, body, None);
        Ok(Box::pin(stream::unfold(Some(lines), |lines| async {
            let mut lines = lines?;
            match next(&mut lines).await {
                Ok(Some(event)) => Some((Ok(event), Some(lines))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })))
    }
}

async fn next(lines: &mut LineReader) -> Result<Option<EngineEvent>, EngineError> {
    while let Some(line) = lines.next().await? {
        if let Some(event) = event(&line)? {
            return Ok(Some(event));
        }
    }
    Ok(None)
}

/// Parses one event. `None` when it is not about a container.
fn event(line: &[u8]) -> Result<Option<EngineEvent>, EngineError> {
    let line: EventLine = parse_json(WHAT, line)?;
    let Some(actor) = line.actor.filter(|actor| line.r#type == "container" && !actor.id.is_empty()) else {
        return Ok(None);
    };
    // Podman's action names, mapped to Docker's.
    let action = match line.action.as_str() {
        "died" => "die".to_owned(),
        "remove" => "destroy".to_owned(),
        _ => line.action,
    };
    Ok(Some(EngineEvent { action, container: actor.id, attributes: actor.attributes.unwrap_or_default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_of_both_engines_have_the_same_names() {
        let line = |kind: &str, action: &str| {
            format!(
                r#"{{"status":"x","Type":"{kind}","Action":"{action}","Actor":{{"ID":"c1","Attributes":{{"exitCode":"137","a":"b"}}}},"time":1}}"#
            )
        };
        for (given, action) in
            [("die", "die"), ("died", "die"), ("remove", "destroy"), ("destroy", "destroy"), ("oom", "oom")]
        {
            let event = event(line("container", given).as_bytes()).unwrap().unwrap();
            assert_eq!((event.action.as_str(), event.container.as_str()), (action, "c1"));
            assert_eq!(event.attributes["exitCode"], "137");
        }
        assert_eq!(event(line("network", "connect").as_bytes()).unwrap(), None);
        assert_eq!(event(b"{}").unwrap(), None);
        assert!(matches!(event(b"not json"), Err(EngineError::InvalidResponse { .. })));
    }
}
