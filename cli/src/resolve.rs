//! Resolves a sandbox argument: an id, a unique prefix of an id, or a name. A name of the caller's own sandbox wins
//! over that of one which a colleague shares.

use crate::{
    client::{ApiRequest, Client, ClientError},
    failure::Failure,
};
use protocol::api::{Phase, SandboxId, SharedView};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct SandboxName {
    id: SandboxId,
    name: String,
    /// Set for the sandbox of a colleague.
    #[serde(default)]
    shared: Option<SharedView>,
    #[serde(default)]
    phase: Option<Phase>,
    #[serde(default)]
    replaced_by: Option<SandboxId>,
}

impl SandboxName {
    /// Whether the sandbox is on its way out: another one may have its name.
    fn is_leaving(&self) -> bool {
        self.replaced_by.is_some() || self.phase == Some(Phase::Destroying)
    }
}

/// Resolves an argument. A complete id needs no request; otherwise live sandboxes are searched before destroyed ones.
pub async fn sandbox(client: &Client, text: &str) -> Result<SandboxId, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    if let Some(id) = pick(text, &list_names(client, false).await?)? {
        return Ok(id);
    }
    let found = pick(text, &list_names(client, true).await?)?;
    found.ok_or_else(|| {
        Failure::new(format!("no sandbox with the id or name {text:?}"))
            .hint("`slipway ls` shows what exists")
    })
}

async fn list_names(client: &Client, all: bool) -> Result<Vec<SandboxName>, ClientError> {
    let items =
        client.list(ApiRequest::get("/v1/sandboxes").long_pages().query_if("all", all.then_some(1))).await?;
    items
        .into_iter()
        .map(|item| {
            serde_json::from_value(item).map_err(|error| ClientError::UnexpectedResponse(error.to_string()))
        })
        .collect()
}

/// Picks the sandbox with this exact name, else the one whose id has this prefix. Of several with the name, those that are
/// not being destroyed go first, then own ones before shared ones.
fn pick(text: &str, known: &[SandboxName]) -> Result<Option<SandboxId>, Failure> {
    let prefix = text.to_ascii_lowercase();
    let named: Vec<&SandboxName> = known.iter().filter(|sandbox| sandbox.name == text).collect();
    let named = those_or_all(named, |sandbox| !sandbox.is_leaving());
    let named = those_or_all(named, |sandbox| sandbox.shared.is_none());
    let by_prefix = || known.iter().filter(|sandbox| sandbox.id.as_str().starts_with(&prefix)).collect();
    let matches = if named.is_empty() && !text.is_empty() { by_prefix() } else { named };
    match matches.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.id)),
        several => {
            let ids: Vec<&str> = several.iter().map(|sandbox| sandbox.id.as_str()).take(5).collect();
            let message = format!("{text:?} matches {} sandboxes: {}", several.len(), ids.join(", "));
            Err(Failure::new(message).hint("give a longer prefix of the id"))
        }
    }
}

/// Returns the sandboxes for which the condition holds, or all where there is none.
fn those_or_all(all: Vec<&SandboxName>, holds: fn(&SandboxName) -> bool) -> Vec<&SandboxName> {
    let those: Vec<&SandboxName> = all.iter().copied().filter(|sandbox| holds(sandbox)).collect();
    if those.is_empty() { all } else { those }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<SandboxName> {
        let sandbox = |id: &str, name: &str| SandboxName {
            id: id.parse().expect("a good id"),
            name: name.to_owned(),
            shared: None,
            phase: None,
            replaced_by: None,
        };
        let shared = |id: &str, name: &str| SandboxName {
            shared: serde_json::from_str(r#"{"access":"run","owner":"ann"}"#).expect("a share"),
            ..sandbox(id, name)
        };
        let leaving =
            |id: &str, name: &str| SandboxName { phase: Some(Phase::Destroying), ..sandbox(id, name) };
        let replaced = |id: &str, name: &str| SandboxName {
            replaced_by: Some("01jb9xyzabcdefghjkmnpqrst1".parse().expect("a good id")),
            ..sandbox(id, name)
        };
        vec![
            sandbox("01jb9xyzabcdefghjkmnpqrst1", "shop"),
            leaving("01jb9xyzabcdefghjkmnpqrst2", "shop"),
            replaced("01jb9xyzabcdefghjkmnpqrst3", "shop"),
            leaving("01jb9xyzabcdefghjkmnpqrst4", "gone"),
            sandbox("01jb9xyzabcdefghjkmnpqrstv", "web"),
            sandbox("01jb9xyzabcdefghjkmnpqrst0", "twin"),
            sandbox("01kb9xyzabcdefghjkmnpqrstv", "twin"),
            sandbox("01mb9xyzabcdefghjkmnpqrstv", "01jb"),
            shared("01nb9xyzabcdefghjkmnpqrstv", "web"),
            shared("01pb9xyzabcdefghjkmnpqrstv", "api"),
            shared("01qb9xyzabcdefghjkmnpqrstv", "docs"),
            shared("01rb9xyzabcdefghjkmnpqrstv", "docs"),
        ]
    }

    #[test]
    fn a_name_is_whole_and_an_id_may_be_shortened() {
        let table = [
            ("web", Ok(Some("01jb9xyzabcdefghjkmnpqrstv"))),
            ("shop", Ok(Some("01jb9xyzabcdefghjkmnpqrst1"))),
            ("gone", Ok(Some("01jb9xyzabcdefghjkmnpqrst4"))),
            ("01k", Ok(Some("01kb9xyzabcdefghjkmnpqrstv"))),
            ("01K", Ok(Some("01kb9xyzabcdefghjkmnpqrstv"))),
            // A name wins over the beginning of an id.
            ("01jb", Ok(Some("01mb9xyzabcdefghjkmnpqrstv"))),
            ("01j", Err(())),
            // A colleague's, unless the caller has one of that name.
            ("api", Ok(Some("01pb9xyzabcdefghjkmnpqrstv"))),
            ("01p", Ok(Some("01pb9xyzabcdefghjkmnpqrstv"))),
            ("docs", Err(())),
            ("twin", Err(())),
            ("we", Ok(None)),
            ("", Ok(None)),
        ];
        for (text, expected) in table {
            let picked = pick(text, &names()).map(|id| id.map(|id| id.to_string())).map_err(|_| ());
            assert_eq!(picked, expected.map(|id| id.map(ToOwned::to_owned)), "{text}");
        }
    }
}
