//! `slipway image pull`: follows a pull to its end.

use crate::{
    client::{ApiRequest, ClientError, encode},
    context::Context,
    failure::Failure,
    humanize::bytes,
    progress::Progress,
};
use clap::Args;
use protocol::api::{ImagePull, ImagePullCreate, ImagePullState};
use std::time::Duration;

/// Between two questions about a pull.
const ASK_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub struct PullArgs {
    /// As in `alpine:3.20` or `registry.example/team/app@sha256:…`
    reference: String,
    /// A name under which every tenant may use the image, without asking its registry
    #[arg(long)]
    name: Option<String>,
}

pub async fn run(context: &Context, args: PullArgs) -> Result<(), Failure> {
    let PullArgs { reference, name } = args;
    let progress = Progress::timed(context.output, format!("pulling {reference}"));
    let create = ImagePullCreate { reference, name };
    let mut response = context.client.send(ApiRequest::post("/v1/image-pulls").json(&create)).await?;
    loop {
        let pull: ImagePull = response.parse()?;
        match pull.state {
            ImagePullState::Running => progress.set_text(pull.message.as_str()),
            ImagePullState::Done => break,
            ImagePullState::Failed => {
                drop(progress);
                let error = pull.error.ok_or_else(|| Failure::new("the pull failed, for no known reason"))?;
                return Err(ClientError::Api(Box::new(error)).into());
            }
        }
        tokio::time::sleep(ASK_EVERY).await;
        let path = format!("/v1/image-pulls/{}", encode(&pull.id));
        response = context.client.send(ApiRequest::get(path)).await?;
    }
    drop(progress);
    context.show_response(&response, |pull: ImagePull| {
        let image = pull.image.ok_or_else(|| Failure::new("the pull is done, but has no image"))?;
        let (name, size) = (&image.name, bytes(image.size_bytes));
        let digest = image.digest.as_deref().unwrap_or_default();
        Ok(format!(
            "{name} {size} in {} layers, {} downloaded, {digest}\n",
            image.layers,
            bytes(pull.downloaded_bytes)
        ))
    })
}
