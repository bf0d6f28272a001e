//! `slipway preview-link`.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::{Failure, eprint_line},
    humanize::{age, has_passed, until},
    output::{Colour, Output},
    table::{Cell, Table},
};
use clap::Args;
use protocol::api::{PreviewLinkCreate, PreviewLinkCreated, PreviewLinkView, SandboxId, SandboxView};

#[derive(Debug, Args)]
pub struct PreviewLinkArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// The port of the app; needed when the sandbox advertises none or several
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// How long it is good, as in 90s, 15m, 4h or 7d, at most 30d; a day when not given
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
    /// Where it leads to, as in /login?next=1
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// List the links of the sandbox, without the secret
    #[arg(long, conflicts_with_all = ["port", "ttl", "path", "revoke"])]
    list: bool,
    /// Make links useless, at once: ids as --list shows them
    #[arg(long, value_name = "ID", num_args = 1.., conflicts_with_all = ["ttl", "path"])]
    revoke: Vec<String>,
}

pub async fn run(context: &Context, args: PreviewLinkArgs) -> Result<(), Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let links = format!("/v1/sandboxes/{id}/preview-links");
    if args.list {
        let output = context.output;
        return context.show_list(ApiRequest::get(links).long_pages(), |links| table(&links, output)).await;
    }
    if !args.revoke.is_empty() {
        return revoke(context, &links, &args.revoke).await;
    }
    let port = match args.port {
        Some(port) => port,
        None => only_port(context, id).await?,
    };
    let create = PreviewLinkCreate { port, ttl: args.ttl, path: args.path };
    context.show(ApiRequest::post(links).json(&create), |created| Ok(format(&created))).await
}

/// Prints only the URL on standard output, for `xdg-open "$(slipway preview-link web)"`.
fn format(created: &PreviewLinkCreated) -> String {
    let view = &created.view;
    let expires = until(&view.expires_at);
    eprint_line(&format!(
        "link {} to port {}, expires {expires}; anyone with the link can open the app",
        view.id, view.port
    ));
    format!("{}\n", created.url)
}

async fn only_port(context: &Context, id: SandboxId) -> Result<u16, Failure> {
    let sandbox: SandboxView =
        context.client.send(ApiRequest::get(format!("/v1/sandboxes/{id}"))).await?.parse()?;
    match sandbox.ports.as_slice() {
        [port] => Ok(*port),
        [] => Err(Failure::Usage(
            "the sandbox advertises no port; name one, as in `slipway preview-link web 3000`".into(),
        )),
        several => {
            let all: Vec<String> = several.iter().map(u16::to_string).collect();
            Err(Failure::Usage(format!(
                "the sandbox advertises several ports; name one of {}",
                all.join(", ")
            )))
        }
    }
}

async fn revoke(context: &Context, links: &str, ids: &[String]) -> Result<(), Failure> {
    for id in ids {
        context.client.send(ApiRequest::delete(format!("{links}/{}", encode(id)))).await?;
        if !context.output.json {
            context.output.line(&format!("{id} revoked"))?;
        }
    }
    Ok(())
}

fn table(links: &[PreviewLinkView], output: Output) -> String {
    let mut table = Table::new(["ID", "PORT", "BY", "AGE", "STATE"]);
    for link in links {
        let state = match &link.revoked_at {
            Some(time) => Cell::painted(format!("revoked {} ago", age(time)), Colour::Dim),
            None if has_passed(&link.expires_at) => {
                Cell::painted(format!("expired {} ago", age(&link.expires_at)), Colour::Dim)
            }
            None => Cell::from(format!("expires {}", until(&link.expires_at))),
        };
        table.row([
            link.id.clone().into(),
            link.port.to_string().into(),
            link.created_by.clone().into(),
            age(&link.created_at).into(),
            state,
        ]);
    }
    table.render(output)
}
