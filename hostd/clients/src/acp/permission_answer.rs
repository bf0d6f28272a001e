//! The editor's answer to a permission request, as an answer to the agent.

use super::{
    events,
    rpc::RpcError,
    session_id::PermissionRef,
    translate::{Translated, Translator},
};
use crate::ApiClient;
use hyper::Method;
use protocol::{Decision, PermissionAnswer};
use serde_json::Value;

/// Gives the answer. An editor that failed to ask, or closed its question, denies.
pub async fn give(
    api: &ApiClient,
    asked: &PermissionRef,
    outcome: Result<Value, Value>,
) -> Result<(), RpcError> {
    let chosen = outcome.ok().and_then(|result| chosen_option(&result).map(str::to_owned));
    let answer = match chosen {
        None => PermissionAnswer { decision: Decision::Deny, option: None },
        Some(option) => {
            let decision = match option_kind(api, asked, &option).await? {
                Some(kind) if kind.starts_with("allow") => Decision::Allow,
                Some(_) | None => Decision::Deny,
            };
            PermissionAnswer { decision, option: Some(option) }
        }
    };
    let path = format!("{}/permissions/{}", asked.session.task_path(&asked.task), asked.permission);
    let _: Value = api.json(Method::POST, &path, Some(&answer)).await?;
    Ok(())
}

fn chosen_option(result: &Value) -> Option<&str> {
    let outcome = &result["outcome"];
    (outcome["outcome"] == "selected").then(|| outcome["optionId"].as_str()).flatten()
}

/// The kind of an option that the agent offered.
async fn option_kind(
    api: &ApiClient,
    asked: &PermissionRef,
    option: &str,
) -> Result<Option<String>, RpcError> {
    let path = asked.session.task_path(&asked.task);
    let mut translator = Translator::new(asked.task.clone());
    let mut since = 0;
    loop {
        let page = events::page(api, &path, since, "permission").await?;
        for event in &page.items {
            match translator.translate(event) {
                Translated::Asked { permission, params } if permission == asked.permission => {
                    return Ok(kind_of(&params, option));
                }
                Translated::Asked { .. }
                | Translated::Decided { .. }
                | Translated::Nothing
                | Translated::Update(_)
                | Translated::Done(_) => {}
            }
        }
        match (page.items.last(), page.next) {
            (Some(last), Some(_)) => since = last.seq,
            _ => return Ok(None),
        }
    }
}

fn kind_of(params: &Value, option: &str) -> Option<String> {
    let options = params["options"].as_array()?;
    let found = options.iter().find(|offered| offered["optionId"] == option)?;
    found["kind"].as_str().map(str::to_owned)
}
