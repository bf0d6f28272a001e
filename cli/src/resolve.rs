//! From what a person types to the sandbox that is meant: an id, the beginning of one, or a name.

use crate::{
    client::{Ask, Client, ClientError},
    failure::Failure,
};
use protocol::api::SandboxId;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Known {
    id: SandboxId,
    name: String,
}

/// A whole id is believed without asking. Else the live sandboxes are looked at first, then the others.
pub async fn sandbox(client: &Client, text: &str) -> Result<SandboxId, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    if let Some(id) = pick(text, &known(client, false).await?)? {
        return Ok(id);
    }
    let found = pick(text, &known(client, true).await?)?;
    found.ok_or_else(|| {
        Failure::refused(format!("no sandbox has the id or name {text:?}"))
            .or("`slipway ls` shows what there is")
    })
}

async fn known(client: &Client, all: bool) -> Result<Vec<Known>, ClientError> {
    let items = client.list(Ask::get("/v1/sandboxes").long_pages().query_if("all", all.then_some(1))).await?;
    items
        .into_iter()
        .map(|item| serde_json::from_value(item).map_err(|error| ClientError::Strange(error.to_string())))
        .collect()
}

/// A name is matched whole, an id by its beginning. A name wins: it was chosen, an id was not.
fn pick(text: &str, known: &[Known]) -> Result<Option<SandboxId>, Failure> {
    let prefix = text.to_ascii_lowercase();
    let named: Vec<&Known> = known.iter().filter(|sandbox| sandbox.name == text).collect();
    let begun = || known.iter().filter(|sandbox| sandbox.id.as_str().starts_with(&prefix)).collect();
    let matches = if named.is_empty() && !text.is_empty() { begun() } else { named };
    match matches.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(one.id)),
        several => {
            let ids: Vec<&str> = several.iter().map(|sandbox| sandbox.id.as_str()).take(5).collect();
            let message = format!("{text:?} may mean {} sandboxes: {}", several.len(), ids.join(", "));
            Err(Failure::refused(message).or("give more of the id"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Known> {
        let sandbox =
            |id: &str, name: &str| Known { id: id.parse().expect("a good id"), name: name.to_owned() };
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
            let picked = pick(text, &known()).map(|id| id.map(|id| id.to_string())).map_err(|_| ());
            assert_eq!(picked, expected.map(|id| id.map(ToOwned::to_owned)), "{text}");
        }
    }
}
