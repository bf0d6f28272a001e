//! The list of resources, a page of sandboxes at a time, and the templates of all addresses.

use super::uri::{ResourceUri, Target};
use crate::{
    ApiFailure,
    mcp::{address::Address, call::Call, limits},
};
use protocol::{
    ServiceName,
    api::{ApiErrorCode, ExecAnswer, FilePage, Page, SandboxId, SandboxView},
    files::FileType,
};
use rmcp::model::{ErrorData, ListResourceTemplatesResult, ListResourcesResult, Resource, ResourceTemplate};

const APP_DIR: &str = "workspace/app";
/// Entries of the app directory that are listed.
const LISTED_FILES: &str = "50";

pub fn templates() -> ListResourceTemplatesResult {
    let template = |rest: &str, name: &str, title: &str, description: &str| {
        ResourceTemplate::new(format!("slipway://{{sandbox}}/{rest}"), name)
            .with_title(title)
            .with_description(description)
    };
    let templates = vec![
        template(
            "files/{+path}",
            "file",
            "File or directory",
            "A file of a sandbox, by its path from /home/sandbox; a directory as a list of its entries",
        ),
        template(
            "services/{service}/logs",
            "service-log",
            "Log of a service",
            "The end of the log of a service",
        )
        .with_mime_type("text/plain"),
        template(
            "execs/{exec_id}/output",
            "exec-output",
            "Output of a command",
            "The end of the output of a command",
        )
        .with_mime_type("text/plain"),
        template(
            "tasks/{task}/log",
            "task-log",
            "Log of a task",
            "The end of what the agent of a task printed",
        )
        .with_mime_type("text/plain"),
    ];
    let mut list = ListResourceTemplatesResult::with_all_items(templates);
    list.result_type = None;
    list
}

/// Lists, for each sandbox of the page: its directories and files at the top of the app, its services, and its newest
/// commands. The cursor is the last sandbox of the page before.
pub async fn list(call: &Call, cursor: Option<&str>) -> Result<ListResourcesResult, ErrorData> {
    let after = cursor.map(str::parse::<SandboxId>).transpose();
    let after = after.map_err(|_| ErrorData::invalid_params("no page of this list has this cursor", None))?;
    let address = Address::new("/v1/sandboxes")
        .query("limit", &limits::RESOURCE_PAGE_SANDBOXES.to_string())
        .query_if("after", after);
    let page: Page<SandboxView> = call.api.get(&address.build()).await.map_err(error)?;
    let mut resources = Vec::new();
    for sandbox in &page.items {
        resources.extend(of_sandbox(call, sandbox).await.map_err(error)?);
    }
    let mut list = ListResourcesResult::with_all_items(resources);
    list.result_type = None;
    list.next_cursor = page.next;
    Ok(list)
}

/// A failure of the API as an error of this protocol.
pub fn error(failure: ApiFailure) -> ErrorData {
    let detail = serde_json::to_value(&*failure.error).ok();
    ErrorData::internal_error(failure.error.message, detail)
}

async fn of_sandbox(call: &Call, sandbox: &SandboxView) -> Result<Vec<Resource>, ApiFailure> {
    let (id, name) = (sandbox.id, &sandbox.name);
    let resource = |target: Target, shown: String| {
        let uri = ResourceUri { sandbox: id, target }.text();
        Resource::new(uri, format!("{name}: {shown}"))
    };
    let mut found = vec![resource(Target::File(Vec::new()), "/home/sandbox".to_owned())];
    for file in app_files(call, &id).await? {
        let kind = mime_guess::from_path(&file.path).first_raw();
        let mut entry =
            resource(Target::File(file.path.clone().into_bytes()), file.path).with_size(file.size);
        entry.mime_type = kind.map(str::to_owned);
        found.push(entry);
    }
    let services = sandbox.services.iter().filter_map(|service| ServiceName::parse(service).ok());
    found.extend(services.map(|service| {
        let shown = format!("log of {service}");
        resource(Target::Service(service), shown).with_mime_type("text/plain")
    }));
    let address = format!("/v1/sandboxes/{id}/execs?limit={}", limits::RESOURCE_EXECS);
    let execs: Page<ExecAnswer> = call.api.get(&address).await?;
    found.extend(execs.items.into_iter().map(|exec| {
        let command: String = exec.argv.join(" ").chars().take(80).collect();
        resource(Target::Exec(exec.id), format!("output of {command}")).with_mime_type("text/plain")
    }));
    Ok(found)
}

/// Returns the regular files at the top of the app directory. A sandbox that was not started yet, or whose files are
/// within reach only while it runs, has none to list.
async fn app_files(call: &Call, id: &SandboxId) -> Result<Vec<protocol::api::FileView>, ApiFailure> {
    let address = Address::new(format!("/v1/sandboxes/{id}/files")).query("path", APP_DIR);
    match call.api.get::<FilePage>(&address.query("limit", LISTED_FILES).build()).await {
        Ok(page) => {
            let shown =
                |file: &protocol::api::FileView| file.kind == FileType::File && file.path_base64.is_none();
            Ok(page.items.into_iter().filter(shown).collect())
        }
        Err(failure) if failure.error.code == ApiErrorCode::ShuttingDown => Err(failure),
        Err(_) => Ok(Vec::new()),
    }
}
