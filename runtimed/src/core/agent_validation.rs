//! Validation of the agent part of requests.

use super::agent;
use super::validation::{Checked, check_ms, invalid, too_large};
use crate::limits::{
    AGENT_FILE_MAX_BYTES, AGENT_FILES_MAX, AGENT_OPTIONS_MAX, AGENT_WORD_MAX_BYTES, PATH_MAX_BYTES,
    PERMISSION_RULES_MAX, PROMPT_MAX_BYTES, WARM_KEEP_MAX_MS,
};
use protocol::{AcpAgent, Agent, PermissionAnswer, Permissions, WarmRequest, validate};
use std::collections::BTreeMap;
use std::path::{Component, Path};

pub fn check_agent(agent: &Agent) -> Checked {
    validate::argv("agent.argv", agent::argv(agent))?;
    match agent {
        Agent::Command { .. } => Ok(()),
        Agent::Acp(agent) => check_acp(agent),
        Agent::StreamJson(agent) => {
            check_word("agent.name", &agent.name)?;
            check_files(&agent.files)?;
            if !agent.argv_to_continue.is_empty() {
                validate::argv("agent.argv_to_continue", &agent.argv_to_continue)?;
            }
            let briefing = agent.briefing.as_ref();
            Ok(briefing.map_or(Ok(()), |text| validate::text("agent.briefing", text, PROMPT_MAX_BYTES))?)
        }
    }
}

fn check_acp(agent: &AcpAgent) -> Checked {
    check_word("agent.name", &agent.name)?;
    check_files(&agent.files)?;
    for (field, word) in [("agent.authenticate", &agent.authenticate), ("agent.mode", &agent.mode)] {
        word.as_ref().map_or(Ok(()), |word| check_word(field, word))?;
    }
    if agent.options.len() > AGENT_OPTIONS_MAX {
        return Err(too_large("agent.options", format!("more than {AGENT_OPTIONS_MAX} options")));
    }
    for (name, value) in &agent.options {
        check_word("agent.options", name)?;
        check_word(&format!("agent.options.{name}"), value)?;
    }
    if let Some(briefing) = &agent.briefing {
        validate::text("agent.briefing", briefing, PROMPT_MAX_BYTES)?;
    }
    check_permissions(&agent.permissions)
}

fn check_permissions(permissions: &Permissions) -> Checked {
    if permissions.rules.len() > PERMISSION_RULES_MAX {
        return Err(too_large("agent.permissions.rules", format!("more than {PERMISSION_RULES_MAX} rules")));
    }
    let patterns = permissions.rules.iter().flat_map(|rule| rule.tool.iter().chain(&rule.about));
    patterns.into_iter().try_for_each(|pattern| check_word("agent.permissions.rules", pattern))
}

fn check_files(files: &BTreeMap<String, String>) -> Checked {
    if files.len() > AGENT_FILES_MAX {
        return Err(too_large("agent.files", format!("more than {AGENT_FILES_MAX} files")));
    }
    for (path, text) in files {
        let field = format!("agent.files.{path}");
        if !is_below(path) {
            return Err(invalid(&field, "must be a path below the home, without . and .."));
        }
        if text.len() > AGENT_FILE_MAX_BYTES {
            return Err(too_large(&field, format!("longer than {AGENT_FILE_MAX_BYTES} bytes")));
        }
    }
    Ok(())
}

/// Whether a path stays below the directory it is resolved in, as long as no link is followed.
pub fn is_below(path: &str) -> bool {
    let normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    let sound =
        !path.is_empty() && path.len() <= PATH_MAX_BYTES && !path.contains('\0') && !path.ends_with('/');
    sound && Path::new(path).components().all(normal)
}

pub fn check_warm(request: &WarmRequest) -> Checked {
    check_agent(&request.agent)?;
    if !matches!(request.agent, Agent::Acp(_)) {
        return Err(invalid("agent", "only an agent that speaks ACP can be started in advance"));
    }
    validate::env(&request.env)?;
    if let Some(cwd) = &request.cwd {
        validate::path("cwd", cwd)?;
    }
    check_ms("keep_ms", Some(request.keep_ms), 1..=WARM_KEEP_MAX_MS)?;
    let bytes = validate::argv_env_bytes(agent::argv(&request.agent), &request.env);
    Ok(validate::argv_env_size("agent.argv", "argv and env", bytes)?)
}

pub fn check_permission(answer: &PermissionAnswer) -> Checked {
    validate::permission_answer(answer)?;
    answer.option.as_ref().map_or(Ok(()), |option| check_word("option", option))
}

fn check_word(field: &str, word: &str) -> Checked {
    if word.is_empty() {
        return Err(invalid(field, "must not be empty"));
    }
    Ok(validate::text(field, word, AGENT_WORD_MAX_BYTES)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Decision, PermissionRule};

    fn agent(change: impl FnOnce(&mut AcpAgent)) -> Agent {
        let mut agent: AcpAgent =
            serde_json::from_str(r#"{"name":"a","argv":["a"]}"#).expect("an agent needs no more");
        change(&mut agent);
        Agent::Acp(agent)
    }

    #[test]
    fn a_bad_agent_is_refused_by_the_name_of_its_field() {
        let file = |path: &str, bytes: usize| {
            let files = BTreeMap::from([(path.to_owned(), "x".repeat(bytes))]);
            agent(|agent| agent.files = files)
        };
        let rule = PermissionRule { tool: Some(String::new()), about: None, then: Decision::Deny };
        for (field, bad) in [
            ("agent.argv", agent(|agent| agent.argv.clear())),
            ("agent.name", agent(|agent| agent.name.clear())),
            ("agent.mode", agent(|agent| agent.mode = Some("x".repeat(AGENT_WORD_MAX_BYTES + 1)))),
            ("agent.options.model", agent(|agent| drop(agent.options.insert("model".into(), String::new())))),
            ("agent.briefing", agent(|agent| agent.briefing = Some("x".repeat(PROMPT_MAX_BYTES + 1)))),
            ("agent.permissions.rules", agent(|agent| agent.permissions.rules.push(rule))),
            ("agent.files./etc/x", file("/etc/x", 1)),
            ("agent.files.a/../b", file("a/../b", 1)),
            ("agent.files.a/", file("a/", 1)),
            ("agent.files.", file("", 1)),
            ("agent.files.a", file("a", AGENT_FILE_MAX_BYTES + 1)),
        ] {
            let error = check_agent(&bad).expect_err(field);
            assert_eq!(error.error.detail.field.as_deref(), Some(field));
        }
        assert!(check_agent(&agent(|_| ())).is_ok());
        assert!(check_agent(&file(".config/agent/settings.json", AGENT_FILE_MAX_BYTES)).is_ok());
    }

    #[test]
    fn only_some_agents_can_be_started_in_advance_and_not_for_ever() {
        let warm = |agent, keep_ms| WarmRequest { agent, env: BTreeMap::new(), cwd: None, keep_ms };
        let command = Agent::Command { argv: vec!["a".to_owned()] };
        for (field, bad) in [
            ("agent", warm(command, 1)),
            ("keep_ms", warm(agent(|_| ()), 0)),
            ("keep_ms", warm(agent(|_| ()), WARM_KEEP_MAX_MS + 1)),
        ] {
            assert_eq!(check_warm(&bad).expect_err(field).error.detail.field.as_deref(), Some(field));
        }
        assert!(check_warm(&warm(agent(|_| ()), 1)).is_ok());
    }
}
