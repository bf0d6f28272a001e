//! Chooses the default model of a provider from its list of models. Knows how vendors name their models, not
//! what those cost or can do.

use protocol::Dialect;

/// A model as its provider lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedModel {
    pub name: String,
    /// A time that sorts as text; empty where the provider gives none.
    pub created_at: String,
    /// The model cannot chat, for example because it makes embeddings.
    pub no_chat: bool,
}

/// Parts of the names of models that cannot chat, for lists that do not say so.
const NO_CHAT: [&str; 6] = ["embed", "rerank", "whisper", "tts", "dall-e", "moderation"];

/// The model for tasks that name none: one of `allowed_names`, where there are any.
pub fn choose_default_model(
    dialect: Dialect,
    allowed_names: &[&str],
    listed: &[ListedModel],
) -> Option<String> {
    let chat_models: Vec<ListedModel> = listed.iter().filter(|model| can_chat(model)).cloned().collect();
    if allowed_names.is_empty() {
        return best(dialect, &chat_models);
    }
    let allowed = allowed_names.iter().filter_map(|name| {
        let found = chat_models.iter().find(|model| is_called(&model.name, name))?;
        Some(ListedModel { name: (*name).to_owned(), ..found.clone() })
    });
    best(dialect, &allowed.collect::<Vec<_>>())
}

/// Returns the names that the provider does not list.
pub fn missing_models<'a>(names: &[&'a str], listed: &[ListedModel]) -> Vec<&'a str> {
    let is_listed = |name: &str| listed.iter().any(|model| is_called(&model.name, name));
    names.iter().copied().filter(|name| !is_listed(name)).collect()
}

fn can_chat(model: &ListedModel) -> bool {
    !model.no_chat && !NO_CHAT.iter().any(|part| model.name.contains(part))
}

/// Many providers accept a shorter name than the one they list: without its date, or with `latest` in its
/// place.
fn is_called(listed: &str, name: &str) -> bool {
    let dated = |rest: &str| {
        let date = rest.strip_prefix('-').unwrap_or_default();
        date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())
    };
    let short = name.strip_suffix("-latest").unwrap_or(name);
    let rest = listed.strip_prefix(short);
    listed == name || rest.is_some_and(|rest| dated(rest) || rest == ":latest")
}

fn best(dialect: Dialect, models: &[ListedModel]) -> Option<String> {
    let made = match dialect {
        Dialect::Anthropic => newest(models, "claude-sonnet-").or_else(|| newest(models, "claude-")),
        Dialect::Openai => highest(models, gpt),
        Dialect::Gemini => highest(models, gemini_pro),
    };
    made.or(models.first()).map(|model| model.name.clone())
}

/// The newest model whose name has this prefix, the first of those that are equally new.
fn newest<'a>(models: &'a [ListedModel], prefix: &str) -> Option<&'a ListedModel> {
    let named = models.iter().rev().filter(|model| model.name.starts_with(prefix));
    named.max_by(|one, other| one.created_at.cmp(&other.created_at))
}

fn highest<R: Ord>(models: &[ListedModel], rank: fn(&str) -> Option<R>) -> Option<&ListedModel> {
    let ranked = models.iter().rev().filter_map(|model| Some((rank(&model.name)?, model)));
    ranked.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, model)| model)
}

/// Ranks `gpt-5`, `gpt-5.1`, `gpt-5.1-codex`: of one version the one made for code. Any other suffix means
/// smaller, dated, or for something else.
fn gpt(name: &str) -> Option<((u32, u32), bool)> {
    let rest = name.strip_prefix("gpt-")?;
    match rest.strip_suffix("-codex") {
        Some(number) => Some((version(number)?, true)),
        None => Some((version(rest)?, false)),
    }
}

/// Ranks names such as `gemini-2.5-pro`.
fn gemini_pro(name: &str) -> Option<(u32, u32)> {
    version(name.strip_prefix("gemini-")?.strip_suffix("-pro")?)
}

/// Parses `5` or `5.1`.
fn version(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    match text.split_once('.') {
        Some((major, minor)) => Some((number(major)?, number(minor)?)),
        None => Some((number(text)?, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Dialect::{Anthropic, Gemini, Openai};

    /// Written `name@created`, with a `!` before one that cannot chat.
    fn listed(names: &[&str]) -> Vec<ListedModel> {
        let one = |text: &&str| {
            let (name, created) = text.split_once('@').unwrap_or((text, ""));
            let (name, no_chat) = name.strip_prefix('!').map_or((name, false), |name| (name, true));
            ListedModel { name: name.to_owned(), created_at: created.to_owned(), no_chat }
        };
        names.iter().map(one).collect()
    }

    #[test]
    fn a_default_is_chosen_by_how_vendors_name_their_models() {
        let table: [(Dialect, &[&str], Option<&str>); 17] = [
            (Anthropic, &[], None),
            (
                Anthropic,
                &["claude-opus-4-5@2025-11", "claude-sonnet-4@2025-05", "claude-sonnet-4-5@2025-09"],
                Some("claude-sonnet-4-5"),
            ),
            (Anthropic, &["claude-sonnet-5", "claude-sonnet-4-5"], Some("claude-sonnet-5")),
            (Anthropic, &["other", "claude-3-haiku@2024", "claude-opus-4@2025"], Some("claude-opus-4")),
            (Anthropic, &["other", "another@2025"], Some("other")),
            (Openai, &["gpt-4.1", "gpt-5", "gpt-5-codex", "gpt-5-mini"], Some("gpt-5-codex")),
            (Openai, &["gpt-5-codex", "gpt-5.1", "gpt-4o"], Some("gpt-5.1")),
            (Openai, &["gpt-5.2", "gpt-5.10"], Some("gpt-5.10")),
            (
                Openai,
                &[
                    "gpt-9-mini",
                    "gpt-9-nano",
                    "gpt-9-audio",
                    "gpt-9-realtime",
                    "gpt-image-9",
                    "gpt-9-search-api",
                    "gpt-9-preview",
                    "gpt-9-2026-01-01",
                    "gpt-9-codex-mini",
                    "gpt-+9",
                    "gpt-9.",
                    "gpt-4",
                ],
                Some("gpt-4"),
            ),
            (Openai, &["text-embedding-3-large", "llama3:8b", "qwen"], Some("llama3:8b")),
            (Openai, &["text-embedding-3-large", "whisper-1"], None),
            (Gemini, &["gemini-2.5-pro", "gemini-3-pro", "gemini-2.5-flash"], Some("gemini-3-pro")),
            (Gemini, &["gemini-3-pro-preview", "gemini-2.5-pro"], Some("gemini-2.5-pro")),
            (Gemini, &["!gemini-3-pro", "gemini-2.5-pro"], Some("gemini-2.5-pro")),
            (Gemini, &["gemini-9-pro-exp", "gemini-pro-vision", "gemini-1.5-pro"], Some("gemini-1.5-pro")),
            (Gemini, &["!embedding-001", "gemini-2.5-flash"], Some("gemini-2.5-flash")),
            (Gemini, &["!embedding-001"], None),
        ];
        for (dialect, names, expected) in table {
            assert_eq!(choose_default_model(dialect, &[], &listed(names)).as_deref(), expected, "{names:?}");
        }
    }

    #[test]
    fn of_models_that_tasks_may_use_one_that_is_there_is_chosen() {
        let there =
            listed(&["claude-sonnet-4-5-20250929@2025-09", "claude-opus-4-5-20251101@2025-11", "other"]);
        let table: [(&[&str], Option<&str>); 4] = [
            (&["claude-opus-4-5", "other"], Some("claude-opus-4-5")),
            (&["claude-opus-4-5", "claude-sonnet-4-5"], Some("claude-sonnet-4-5")),
            (&["gone", "other"], Some("other")),
            (&["gone", "lost"], None),
        ];
        for (allowed_names, expected) in table {
            assert_eq!(
                choose_default_model(Anthropic, allowed_names, &there).as_deref(),
                expected,
                "{allowed_names:?}"
            );
        }
    }

    #[test]
    fn a_name_is_missing_unless_it_is_listed_or_short_for_one_that_is() {
        let there = listed(&["claude-sonnet-4-5-20250929", "gpt-5-mini", "llama3:latest"]);
        for (name, is_missing) in [
            ("claude-sonnet-4-5-20250929", false),
            ("claude-sonnet-4-5", false),
            ("claude-sonnet-4-5-latest", false),
            ("llama3", false),
            ("gpt-5-mini", false),
            ("gpt-5", true),
            ("claude-sonnet-4", true),
            ("claude-sonnet-4-5-2025092", true),
            ("", true),
        ] {
            assert_eq!(missing_models(&[name], &there).is_empty(), !is_missing, "{name}");
        }
    }
}
