//! `slipway image`: imports, lists and removes images.

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::Failure,
    humanize::{age, bytes},
    limits,
    progress::Progress,
    table::Table,
};
use clap::{Args, Subcommand};
use protocol::api::Image;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ImageArgs {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Make an image of files of the host
    ///
    /// Takes an OCI image layout or an archive of one, an archive of `docker save` or `podman save`, a root directory or a
    /// tarball of one. Archives may be compressed with gzip or zstd.
    Import {
        /// Name for `create --image`
        name: String,
        /// Directory or archive, on the machine that hostd runs on
        path: PathBuf,
    },
    /// List images
    #[command(visible_alias = "list")]
    Ls,
    /// Remove images
    Rm {
        /// Names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

pub async fn run(context: &Context, args: ImageArgs) -> Result<(), Failure> {
    match args.command {
        ImageCommand::Import { name, path } => import(context, &name, path).await,
        ImageCommand::Ls => list(context).await,
        ImageCommand::Rm { names } => remove(context, &names).await,
    }
}

async fn import(context: &Context, name: &str, path: PathBuf) -> Result<(), Failure> {
    let path =
        std::path::absolute(&path).map_err(|error| Failure::io(format!("find {}", path.display()), error))?;
    let body = serde_json::json!({ "name": name, "path": path });
    let progress = Progress::start(context.output, format!("importing {name}"));
    let response = context
        .client
        .send(ApiRequest::post("/v1/images").json(&body).timeout(limits::SETTLE_TIMEOUT))
        .await?;
    drop(progress);
    context
        .show_response(&response, |image: Image| Ok(format!("{} {}\n", image.name, bytes(image.size_bytes))))
}

async fn list(context: &Context) -> Result<(), Failure> {
    let format = |images: Vec<Image>| {
        let mut table = Table::new(["NAME", "SIZE", "AGE"]);
        for image in images {
            table.row([image.name.into(), bytes(image.size_bytes).into(), age(&image.created_at).into()]);
        }
        table.render(context.output)
    };
    context.show_list(ApiRequest::get("/v1/images"), format).await
}

async fn remove(context: &Context, names: &[String]) -> Result<(), Failure> {
    for name in names {
        context.client.send(ApiRequest::delete(format!("/v1/images/{}", encode(name)))).await?;
        if !context.output.json {
            context.output.line(&format!("{name} removed"))?;
        }
    }
    Ok(())
}
