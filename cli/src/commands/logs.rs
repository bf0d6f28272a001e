//! `slipway logs`.

use crate::{
    client::ApiRequest,
    commands::service,
    context::Context,
    exec_session,
    failure::Failure,
    output_stream::OutputStream,
    printer::{Printer, RawFlag},
    signals::{Signals, UserSignal},
    text::plain,
};
use clap::Args;
use protocol::{ServiceName, ServiceView, api::SandboxId};
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Id, beginning of an id, or name of the sandbox
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Name of the service; needed when the sandbox has several
    #[arg(value_parser = service::name)]
    service: Option<ServiceName>,
    /// Go on until Ctrl-C; reconnects when hostd restarts
    #[arg(long, short)]
    follow: bool,
    /// Begin this many lines before the end; everything that is kept when not given
    #[arg(long, short = 'n', value_name = "LINES")]
    tail: Option<u64>,
    #[command(flatten)]
    raw: RawFlag,
}

pub async fn run(context: &Context, args: LogsArgs) -> Result<u8, Failure> {
    let id = context.sandbox(&args.sandbox).await?;
    let service = match args.service {
        Some(service) => service,
        None => only_service(context, id, &args.sandbox).await?,
    };
    let path = format!("/v1/sandboxes/{id}/services/{service}/logs");
    let follow = OutputStream::new(Arc::clone(&context.client), &path, args.follow, args.tail);
    print(context, follow, args.raw).await
}

/// The service that is meant where none is named.
async fn only_service(context: &Context, id: SandboxId, sandbox: &str) -> Result<ServiceName, Failure> {
    let items = context.client.list(ApiRequest::get(format!("/v1/sandboxes/{id}/services"))).await?;
    let views: Vec<ServiceView> = crate::context::parse_items(items)?;
    let sandbox = plain(sandbox);
    match views.as_slice() {
        [only] => Ok(only.name.clone()),
        [] => Err(Failure::new(format!("sandbox {sandbox} has no services")).hint(format!(
            "`slipway ps {sandbox}` shows its commands, `slipway task ls {sandbox}` its tasks"
        ))),
        several => {
            let names: Vec<&str> = several.iter().map(|view| view.name.as_str()).collect();
            Err(Failure::new(format!("sandbox {sandbox} has several services: {}", names.join(", ")))
                .hint(format!("`slipway logs {sandbox} {}`", names[0])))
        }
    }
}

/// Prints a log to its end, or until it is interrupted; gives the exit code.
pub async fn print(context: &Context, follow: OutputStream, raw: RawFlag) -> Result<u8, Failure> {
    let mut signals = Signals::listen(false).map_err(|error| Failure::io("listen for signals", error))?;
    // On a task, because printing blocks the thread it is on.
    let mut printing = tokio::spawn(exec_session::print(follow, Printer::new(context.output, raw)));
    loop {
        tokio::select! {
            // A task is not cancelled by not being looked at.
            printed = &mut printing => {
                let broke = |error| Failure::new(format!("a part of slipway broke: {error}"));
                return printed.map_err(broke)?.map(|()| 0);
            }
            // A signal that came is kept until it is asked for.
            signal = signals.next() => match signal {
                UserSignal::Interrupt => return Ok(130),
                UserSignal::Terminate => return Ok(143),
                UserSignal::HangUp => return Ok(129),
                // Not listened to.
                UserSignal::Resize => {}
            },
        }
    }
}
