//! Tools for the web servers in a sandbox.

use super::{
    args::{DurationText, UlidText},
    registry::{Effect, ToolEntry, Words},
    result::{ToolAnswer, done},
};
use crate::mcp::call::Call;
use protocol::api::{PreviewLinkCreate, PreviewLinkCreated, SandboxId, SandboxView, Visibility};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

pub fn tools() -> Vec<ToolEntry> {
    vec![
        ToolEntry::new(PREVIEW_URL, Effect::Reads, preview_url),
        ToolEntry::new(CREATE_LINK, Effect::Adds, create_link),
    ]
}

const PREVIEW_URL: Words = Words {
    name: "preview_url",
    title: "Address of a web server",
    description: "Returns the URL at which a port of a sandbox is reached from outside. The sandbox wakes when it is \
        opened. A private one needs a link of create_preview_link, unless it is opened on the machine of Slipway itself.",
};
const CREATE_LINK: Words = Words {
    name: "create_preview_link",
    title: "Link to a private web server",
    description: "Returns a URL that opens a private port of a sandbox in a browser, for whoever has the URL, until it \
        expires.",
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PreviewArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Port that a server in the sandbox listens on.
    #[schemars(range(min = 1))]
    port: u16,
}

async fn preview_url(call: Call, args: PreviewArgs) -> ToolAnswer {
    let sandbox: SandboxView = call.api.get(&format!("/v1/sandboxes/{}", args.sandbox)).await?;
    let mut urls = call.clients.parts.previews.of(&sandbox.id, &[args.port]);
    let url = urls.remove(&args.port.to_string()).unwrap_or_default();
    let private = sandbox.visibility == Visibility::Private;
    let mut text = url.clone();
    if private {
        text.push_str("\n[private: create_preview_link makes a link for a browser]");
    }
    Ok(done(text, json!({"url": url, "port": args.port, "private": private, "status": sandbox.status})))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LinkArgs {
    /// Id of the sandbox.
    #[schemars(with = "UlidText")]
    sandbox: SandboxId,
    /// Port that a server in the sandbox listens on.
    #[schemars(range(min = 1))]
    port: u16,
    /// Path that the link opens; default /.
    #[schemars(length(min = 1, max = 2048))]
    path: Option<String>,
    /// How long the link is valid, as in `2h`; default one day.
    #[schemars(with = "Option<DurationText>")]
    ttl: Option<String>,
}

async fn create_link(call: Call, args: LinkArgs) -> ToolAnswer {
    let path = format!("/v1/sandboxes/{}/preview-links", args.sandbox);
    let create = PreviewLinkCreate { port: args.port, ttl: args.ttl, path: args.path };
    let link: PreviewLinkCreated = call.api.post(&path, &create).await?;
    let text = format!("{}\n[valid until {}]", link.url, link.view.expires_at);
    Ok(done(text, json!({"url": link.url, "expires_at": link.view.expires_at, "id": link.view.id})))
}
