//! `slipway logs`: output of a service.

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
    /// Id, prefix of an id, or name of the sandbox
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
    /// Name of the service; needed when the sandbox has several
    #[arg(value_parser = service::name)]
    service: Option<ServiceName>,
    /// Follow the log until Ctrl-C; reconnects when hostd restarts
    #[arg(long, short)]
    follow: bool,
    /// Start this many lines before the end; default: everything that is kept
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

/// Returns the only service of the sandbox.
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

/// Prints a log to its end or until a signal; returns the exit code.
pub async fn print(context: &Context, follow: OutputStream, raw: RawFlag) -> Result<u8, Failure> {
    let mut signals = Signals::listen(false).map_err(|error| Failure::io("listen for signals", error))?;
    // On its own task, because printing blocks its thread.
    let mut printing = tokio::spawn(exec_session::print(follow, Printer::new(context.output, raw)));
    loop {
        tokio::select! {
            // Safe to cancel: dropping the borrow does not stop the task.
            printed = &mut printing => {
                let broke = |error| Failure::new(format!("internal error of slipway: {error}"));
                return printed.map_err(broke)?.map(|()| 0);
            }
            // Safe to cancel: a received signal is kept.
            signal = signals.next() => match signal {
                UserSignal::Interrupt => return Ok(130),
                UserSignal::Terminate => return Ok(143),
                UserSignal::HangUp => return Ok(129),
                // Not subscribed to.
                UserSignal::Resize => {}
            },
        }
    }
}
