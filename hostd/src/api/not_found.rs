//! Names the resource of a path for 404 errors: the one that its last parameter identifies. Pure.

use protocol::api::{Missing, MissingKind};

/// Returns the resource of a route, from its pattern and its parameters.
pub fn missing_resource(pattern: &str, params: &[(String, String)]) -> Option<Missing> {
    let value = |name: &str| params.iter().find(|(each, _)| each == name).map(|(_, value)| value.as_str());
    // A port is a number and no resource.
    let (name, id) = params.iter().rfind(|(name, _)| name != "port")?;
    let missing = Missing::new(kind(pattern, name)?, id);
    let missing = match value("task").filter(|_| name != "task") {
        Some(task) => missing.in_task(task),
        None => missing,
    };
    Some(match value("id").filter(|_| name != "id") {
        Some(sandbox) => missing.in_sandbox(sandbox),
        None => missing,
    })
}

fn kind(pattern: &str, parameter: &str) -> Option<MissingKind> {
    Some(match parameter {
        "id" => MissingKind::Sandbox,
        "task" => MissingKind::Task,
        "permission" => MissingKind::Permission,
        "exec" => MissingKind::Exec,
        "service" => MissingKind::Service,
        "link" => MissingKind::PreviewLink,
        "file_link" => MissingKind::FileLink,
        "snapshot" => MissingKind::Snapshot,
        "token" => MissingKind::Token,
        "provider" => MissingKind::ModelProvider,
        "tenant" | "principal" if pattern.starts_with("/v1/quotas/") => MissingKind::Quota,
        "principal" => MissingKind::Share,
        "tenant" => MissingKind::Budget,
        "pull" => MissingKind::ImagePull,
        "webhook" => MissingKind::Webhook,
        "name" if pattern.starts_with("/v1/images/") => MissingKind::Image,
        "name" if pattern.starts_with("/v1/secrets/") => MissingKind::Secret,
        "name" if pattern.starts_with("/v1/egress-profiles/") => MissingKind::EgressProfile,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes;

    /// Names and values, in the order of the path.
    fn params(pattern: &str) -> Vec<(String, String)> {
        let names = pattern.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        names.map(|name| (name.to_owned(), format!("a-{name}"))).collect()
    }

    #[test]
    fn every_route_with_a_parameter_names_its_resource() {
        let mut messages: Vec<String> = Vec::new();
        for route in routes::all().iter().filter(|route| !route.older && route.path.contains('{')) {
            let missing = missing_resource(route.path, &params(route.path));
            messages.push(missing.unwrap_or_else(|| panic!("{} names nothing", route.path)).to_string());
        }
        messages.sort();
        messages.dedup();
        insta::assert_snapshot!(messages.join("\n"), @r"
        no budget for tenant `a-tenant` (or this token may not read it)
        no egress profile `a-name`
        no exec `a-exec` in sandbox `a-id`
        no image `a-name`
        no image pull `a-pull`
        no model provider `a-provider`
        no open permission `a-permission` of task `a-task` in sandbox `a-id`
        no preview link `a-link` in sandbox `a-id`
        no quota of `a-principal` (or this token may not read it)
        no quota of `a-tenant` (or this token may not read it)
        no sandbox `a-id` (or it belongs to another tenant)
        no secret `a-name`
        no service `a-service` in sandbox `a-id`
        no share with `a-principal` in sandbox `a-id`
        no signed URL `a-file_link` in sandbox `a-id`
        no snapshot `a-snapshot` (or it belongs to another tenant)
        no task `a-task` in sandbox `a-id`
        no token `a-token` (or it belongs to another tenant)
        no webhook `a-webhook` (or it belongs to another tenant)
        ");
        assert_eq!(missing_resource("/v1/sandboxes", &[]), None);
    }

    #[test]
    fn a_hostile_name_is_sanitized() {
        let id = format!("\u{1b}]0;t\u{7}\u{1b}[2Ja\nb{}", "x".repeat(1_000));
        let missing = missing_resource("/v1/sandboxes/{id}", &[("id".to_owned(), id)]).expect("a sandbox");
        let text = missing.to_string();
        assert!(
            text.starts_with("no sandbox `a bxx") && text.len() < 200 && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
