//! Chooses the default model of a provider from its list of models, by their names. How a vendor names its
//! models is an argument.

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

/// The model for tasks that name none: one of `allowed_names`, where there are any. `preferred` finds the
/// best of the vendor's own models; where there is none of these, the first is taken.
pub fn choose_default_model(
    preferred: impl Fn(&[ListedModel]) -> Option<&ListedModel>,
    allowed_names: &[&str],
    listed: &[ListedModel],
) -> Option<String> {
    let chat_models: Vec<ListedModel> = listed.iter().filter(|model| can_chat(model)).cloned().collect();
    let best = |models: &[ListedModel]| preferred(models).or(models.first()).map(|model| model.name.clone());
    if allowed_names.is_empty() {
        return best(&chat_models);
    }
    let allowed = allowed_names.iter().filter_map(|name| {
        let found = chat_models.iter().find(|model| is_called(&model.name, name))?;
        Some(ListedModel { name: (*name).to_owned(), ..found.clone() })
    });
    best(&allowed.collect::<Vec<_>>())
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

/// The newest model whose name has this prefix, the first of those that are equally new.
pub fn newest_model<'a>(models: &'a [ListedModel], prefix: &str) -> Option<&'a ListedModel> {
    let named = models.iter().rev().filter(|model| model.name.starts_with(prefix));
    named.max_by(|one, other| one.created_at.cmp(&other.created_at))
}

/// The model whose name ranks highest, the first of those that rank the same.
pub fn highest_model<R: Ord>(models: &[ListedModel], rank: fn(&str) -> Option<R>) -> Option<&ListedModel> {
    let ranked = models.iter().rev().filter_map(|model| Some((rank(&model.name)?, model)));
    ranked.max_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, model)| model)
}

/// Parses `5` or `5.1`.
pub fn model_version(text: &str) -> Option<(u32, u32)> {
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

    /// Written `name@created`, with a `!` before one that cannot chat.
    fn listed(names: &[&str]) -> Vec<ListedModel> {
        let one = |text: &&str| {
            let (name, created) = text.split_once('@').unwrap_or((text, ""));
            let (name, no_chat) = name.strip_prefix('!').map_or((name, false), |name| (name, true));
            ListedModel { name: name.to_owned(), created_at: created.to_owned(), no_chat }
        };
        names.iter().map(one).collect()
    }

    fn newest_claude(models: &[ListedModel]) -> Option<&ListedModel> {
        newest_model(models, "claude-sonnet-").or_else(|| newest_model(models, "claude-"))
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
                choose_default_model(newest_claude, allowed_names, &there).as_deref(),
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
