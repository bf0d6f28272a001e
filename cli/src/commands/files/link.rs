//! `slipway files link`.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::{Failure, eprint_line},
    files::SandboxPath,
    humanize::{age, has_passed, until},
    output::{Colour, Output},
    table::{Cell, Table},
};
use clap::Args;
use protocol::api::{FileLinkCreate, FileLinkCreated, FileLinkMethod, FileLinkView};
use std::ffi::OsStr;

#[derive(Debug, Args)]
pub struct LinkArgs {
    /// The file; with --list and --revoke the sandbox is enough
    #[arg(value_name = "SANDBOX:PATH")]
    path: String,
    /// A URL that writes the file, instead of reading it
    #[arg(long)]
    upload: bool,
    /// How long it is good, as in 90s, 15m, 4h or 7d, at most 7d; 15 minutes when not given
    #[arg(long, value_name = "TIME")]
    ttl: Option<String>,
    /// The largest upload in bytes; 1 GiB when not given
    #[arg(long, value_name = "BYTES", requires = "upload")]
    max_bytes: Option<u64>,
    /// List the signed URLs of the sandbox, without their signatures
    #[arg(long, conflicts_with_all = ["upload", "ttl", "revoke"])]
    list: bool,
    /// Make URLs useless, at once: ids as --list shows them
    #[arg(long, value_name = "ID", num_args = 1.., conflicts_with_all = ["upload", "ttl"])]
    revoke: Vec<String>,
}

pub async fn run(context: &Context, args: LinkArgs) -> Result<(), Failure> {
    let sandbox = args.path.split(':').next().unwrap_or_default();
    let links = format!("/v1/sandboxes/{}/file-links", context.sandbox(sandbox).await?);
    if args.list {
        let output = context.output;
        return context.show_list(ApiRequest::get(links).long_pages(), |links| table(&links, output)).await;
    }
    if !args.revoke.is_empty() {
        return revoke(context, &links, &args.revoke).await;
    }
    let path = SandboxPath::parse(OsStr::new(&args.path)).map_err(Failure::Usage)?.path;
    let create = FileLinkCreate {
        method: if args.upload { FileLinkMethod::Put } else { FileLinkMethod::Get },
        path: path.to_string(),
        ttl: args.ttl,
        max_bytes: args.max_bytes,
    };
    context.show(ApiRequest::post(links).json(&create), |created| Ok(format(&created))).await
}

/// Prints only the URL on standard output, for `curl -T FILE "$(slipway files link --upload web:FILE)"`.
fn format(created: &FileLinkCreated) -> String {
    let FileLinkView { id, method, path, expires_at, .. } = &created.view;
    let does = match method {
        FileLinkMethod::Get => "reads",
        FileLinkMethod::Put => "writes",
    };
    eprint_line(&format!(
        "signed URL {id} {does} {path}, expires {}; anyone with the URL can use it",
        until(expires_at)
    ));
    format!("{}\n", created.url)
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

fn table(links: &[FileLinkView], output: Output) -> String {
    let mut table = Table::new(["ID", "METHOD", "PATH", "BY", "AGE", "STATE"]);
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
            link.method.as_str().to_owned().into(),
            link.path.clone().into(),
            link.created_by.clone().into(),
            age(&link.created_at).into(),
            state,
        ]);
    }
    table.render(output)
}
