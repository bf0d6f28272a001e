//! Resolves a sandbox argument: an id, a unique prefix of an id, or a name.

use crate::{
    client::{ApiRequest, Client, ClientError},
    failure::Failure,
};
use protocol::api::SandboxId;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct SandboxName {
    id: SandboxId,
    name: String,
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

/// Picks the sandbox with this exact name, else the one whose id has this prefix.
fn pick(text: &str, known: &[SandboxName]) -> Result<Option<SandboxId>, Failure> {
    let prefix = text.to_ascii_lowercase();
    let named: Vec<&SandboxName> = known.iter().filter(|sandbox| sandbox.name == text).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<SandboxName> {
        let sandbox =
            |id: &str, name: &str| SandboxName { id: id.parse().expect("a good id"), name: name.to_owned() };
        vec![
            sandbox("01jb9xyzabcdefghjkmnpqrstv", "web"),
            sandbox("01jb9xyzabcdefghjkmnpqrst0", "twin"),
            sandbox("01kb9xyzabcdefghjkmnpqrstv", "twin"),
            sandbox("01mb9xyzabcdefghjkmnpqrstv", "01jb"),
        ]
    }

    #[test]
    fn a_name_is_whole_and_an_id_may_be_shortened() {
        let table = [
            ("web", Ok(Some("01jb9xyzabcdefghjkmnpqrstv"))),
            ("01k", Ok(Some("01kb9xyzabcdefghjkmnpqrstv"))),
            ("01K", Ok(Some("01kb9xyzabcdefghjkmnpqrstv"))),
            // A name wins over the beginning of an id.
            ("01jb", Ok(Some("01mb9xyzabcdefghjkmnpqrstv"))),
            ("01j", Err(())),
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
