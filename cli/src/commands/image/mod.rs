//! `slipway image`: pulls, imports, lists, inspects and removes images, and chooses the default.

mod pull;

use crate::{
    client::{ApiRequest, encode},
    context::Context,
    failure::Failure,
    humanize::{age, bytes},
    limits,
    progress::Progress,
    table::{Cell, Table},
    text::{plain, wire_name},
};
use clap::{Args, Subcommand};
use protocol::api::{DefaultImage, Image, ImageCollection, ImageDetails};
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
    /// Pull an image from its registry, also if it is here: its tag may mean another version by now
    ///
    /// `create --image REFERENCE` pulls by itself what is not here. A private registry takes the login in the secret
    /// `registry.HOST` of the tenant, with a value USER:PASSWORD.
    Pull(pull::PullArgs),
    /// List images
    #[command(visible_alias = "list")]
    Ls,
    /// Show an image, its configuration and the sandboxes that use it
    Inspect {
        /// Name or reference
        name: String,
    },
    /// Show or choose the image of sandboxes that name none
    Default {
        /// Name or reference of an image that is here, or `host`
        name: Option<String>,
        /// Leave the choice to the configuration of hostd
        #[arg(long, conflicts_with = "name")]
        unset: bool,
    },
    /// List pulled images that are not used, and what they take; with --apply, remove them
    Gc {
        /// Remove what is listed; without it nothing is changed
        #[arg(long)]
        apply: bool,
        /// How long no new sandbox got an image, as in 12h or 30d
        #[arg(long, value_name = "DURATION", default_value = "14d")]
        unused_for: String,
    },
    /// Remove images
    Rm {
        /// Names or references
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

pub async fn run(context: &Context, args: ImageArgs) -> Result<(), Failure> {
    match args.command {
        ImageCommand::Import { name, path } => import(context, &name, path).await,
        ImageCommand::Pull(args) => pull::run(context, args).await,
        ImageCommand::Ls => list(context).await,
        ImageCommand::Inspect { name } => inspect(context, &name).await,
        ImageCommand::Default { name, unset } => default_image(context, name, unset).await,
        ImageCommand::Gc { apply, unused_for } => collect(context, apply, &unused_for).await,
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
        let mut table = Table::new(["NAME", "SOURCE", "LAYERS", "SIZE", "USED", "DEFAULT"]);
        for image in images {
            let mark = if image.is_default { "yes" } else { "" };
            table.row([
                image.name.into(),
                wire_name(&image.source).into(),
                Cell::from(image.layers.to_string()),
                bytes(image.size_bytes).into(),
                age(&image.used_at).into(),
                mark.into(),
            ]);
        }
        table.render(context.output)
    };
    context.show_list(ApiRequest::get("/v1/images"), format).await
}

async fn inspect(context: &Context, name: &str) -> Result<(), Failure> {
    let request = ApiRequest::get(format!("/v1/images/{}", encode(name)));
    context.show(request, |details: ImageDetails| Ok(format_details(&details))).await
}

fn format_details(details: &ImageDetails) -> String {
    let ImageDetails { image, env, user, working_dir, labels, volumes, layer_digests, sandboxes } = details;
    let digest = image.digest.clone().unwrap_or_default();
    let reference = image.reference.clone().unwrap_or_default();
    let mut rows = vec![
        ("name", image.name.clone()),
        ("reference", reference),
        ("digest", digest),
        ("size", bytes(image.size_bytes)),
        ("used", age(&image.used_at)),
        ("user", user.clone()),
        ("directory", working_dir.clone()),
    ];
    rows.extend(volumes.iter().map(|path| ("volume", path.clone())));
    rows.extend(env.iter().map(|pair| ("variable", pair.clone())));
    rows.extend(labels.iter().map(|(name, value)| ("label", format!("{name}={value}"))));
    rows.extend(layer_digests.iter().map(|digest| ("layer", digest.clone())));
    rows.extend(sandboxes.iter().map(|id| ("sandbox", id.to_string())));
    let shown = rows.iter().filter(|(_, value)| !value.is_empty());
    // The configuration is a stranger's text.
    shown.map(|(name, value)| format!("{name:<10} {}\n", plain(value))).collect()
}

async fn default_image(context: &Context, name: Option<String>, unset: bool) -> Result<(), Failure> {
    const PATH: &str = "/v1/default-image";
    if unset {
        context.client.send(ApiRequest::delete(PATH)).await?;
    }
    let request = match name {
        Some(image) => ApiRequest::put(PATH).json(&DefaultImage { image }),
        None => ApiRequest::get(PATH),
    };
    context.show(request, |default: DefaultImage| Ok(format!("{}\n", default.image))).await
}

async fn collect(context: &Context, apply: bool, unused_for: &str) -> Result<(), Failure> {
    let request =
        ApiRequest::post("/v1/images/collect").query("apply", apply).query("unused_for", unused_for);
    let request = request.timeout(limits::SETTLE_TIMEOUT);
    context.show(request, |found: ImageCollection| Ok(format_collection(&found))).await
}

fn format_collection(found: &ImageCollection) -> String {
    let ImageCollection { applied, images, layers, bytes: size } = found;
    if images.is_empty() && *layers == 0 {
        return "no unused image or layer was found\n".to_owned();
    }
    let names: String = images.iter().map(|name| format!("{}\n", plain(name))).collect();
    let what = format!("{} images and {layers} layers, {}", images.len(), bytes(*size));
    let end = if *applied { "removed" } else { "can be removed with --apply" };
    format!("{names}{what}, {end}\n")
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
