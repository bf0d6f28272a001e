//! Names of sandboxes: unique among the living ones of an owner.

use crate::limits::NAME_MAX_CHARS;
use protocol::api::SandboxId;

/// The random end of an id that names are made of.
const TAIL_BYTES: usize = 8;

/// Returns the name of a sandbox whose spec gives none.
pub fn generated_name(id: &SandboxId) -> String {
    format!("sandbox-{}", tail(id))
}

/// Returns names for a sandbox whose own is taken, the best first: with the end of its id, and with all of it.
pub fn alternative_names(name: &str, id: &SandboxId) -> [String; 2] {
    [tail(id), id.as_str()].map(|suffix| {
        let most = NAME_MAX_CHARS.saturating_sub(suffix.len() + 1);
        let kept: String = name.chars().take(most).collect();
        format!("{kept}-{suffix}")
    })
}

fn tail(id: &SandboxId) -> &str {
    let id = id.as_str();
    &id[id.len() - TAIL_BYTES..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_name;

    #[test]
    fn names_end_like_the_id_and_fit() {
        let id: SandboxId = "01jb9xyzabcdefghjkmnpqrstv".parse().expect("an id");
        assert_eq!(generated_name(&id), "sandbox-mnpqrstv");
        let long = "é".repeat(NAME_MAX_CHARS);
        for name in ["web", long.as_str()] {
            let [short, whole] = alternative_names(name, &id);
            assert!(
                short.ends_with("-mnpqrstv") && whole.ends_with("-01jb9xyzabcdefghjkmnpqrstv"),
                "{short}"
            );
            for name in [short, whole] {
                assert_eq!(check_name(&name), Ok(()), "{name}");
            }
        }
    }
}
