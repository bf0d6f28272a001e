//! `slipway files cat`: byte for byte into files and pipes, filtered on a terminal.

use super::open;
use crate::{
    client::ClientError,
    context::Context,
    failure::Failure,
    files::SandboxPath,
    printer::{RawFlag, StreamFilter},
};
use clap::Args;
use http_body_util::BodyExt as _;
use std::io;

#[derive(Debug, Args)]
pub struct CatArgs {
    /// Files, printed one after the other
    #[arg(value_name = "SANDBOX:PATH", required = true, value_parser = super::sandbox_path())]
    paths: Vec<SandboxPath>,
    #[command(flatten)]
    raw: RawFlag,
}

pub async fn run(context: &Context, args: CatArgs) -> Result<(), Failure> {
    for path in &args.paths {
        let api = open(context, path).await?;
        let mut body = api.read(&path.path).await?.into_body();
        let mut filter = StreamFilter::for_stream(&io::stdout(), args.raw);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(ClientError::ConnectionLost)?;
            if let Ok(bytes) = frame.into_data() {
                let shown = filter.filter(bytes.to_vec());
                tokio::task::block_in_place(|| context.output.bytes(&shown))?;
            }
        }
        context.output.bytes(&filter.rest())?;
    }
    Ok(())
}
