//! The sandbox of `slipway run`: created and destroyed, created and kept, or an existing one.

use crate::{
    client::{ApiRequest, ClientError},
    context::Context,
    failure::{Failure, eprint_line, problem_lines},
    limits,
    progress::Progress,
    retry::Retry,
    sandbox_wait,
    signals::{Signals, WaitOutcome},
};
use protocol::api::{
    ApiErrorCode, Page, PortView, Problem, SandboxId, SandboxSpec, SandboxStatus, SandboxView,
};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSandbox {
    pub id: SandboxId,
    retention: Retention,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retention {
    /// Created for the task, destroyed after it.
    DestroyAfterTask,
    /// Created for the task and kept.
    Kept,
    /// Existed before.
    Existing,
}

impl RunSandbox {
    pub fn existing(id: SandboxId) -> Self {
        Self { id, retention: Retention::Existing }
    }

    /// Creates a sandbox; the inner `Err` is the exit code when the user interrupted.
    pub async fn create(
        context: &Context,
        spec: &SandboxSpec,
        keep: bool,
        signals: &mut Signals,
    ) -> Result<Result<Self, u8>, Failure> {
        let retention = if keep { Retention::Kept } else { Retention::DestroyAfterTask };
        let progress = Progress::timed(context.output, "creating a sandbox");
        let first = "slipway: destroying the sandbox when it is created; Ctrl-C again leaves";
        let waited = signals
            .wait_interruptible(send_create(context, spec, &progress), || {
                progress.interrupt(|| eprint_line(first));
            })
            .await;
        drop(progress);
        let (made, pressed) = match waited {
            WaitOutcome::Done { value, pressed } => (value, pressed),
            WaitOutcome::Left(code) => {
                eprint_line("slipway: a sandbox is still being created; `slipway ls` shows it");
                return Ok(Err(code));
            }
        };
        let (id, problem) = match made {
            Ok(view) if view.status == SandboxStatus::Error => (view.id, view.problem),
            Ok(view) if !pressed => return Ok(Ok(Self { id: view.id, retention })),
            Ok(view) => {
                Self { id: view.id, retention }.release(context, signals).await;
                return Ok(Err(crate::task::CANCELLED));
            }
            Err(failure) => failed_create(failure)?,
        };
        eprint_line(&format!("slipway: the sandbox {id} failed to start"));
        problem.iter().flat_map(problem_lines).for_each(|line| eprint_line(&line));
        eprint_line(&format!("  next: `slipway attempts {id}` shows why"));
        Self { id, retention }.release(context, signals).await;
        Err(Failure::Reported)
    }

    /// Destroys the sandbox after the task, or prints its previews where it stays.
    pub async fn release(self, context: &Context, signals: &mut Signals) {
        match self.retention {
            Retention::Existing => self.show_previews(context).await,
            Retention::Kept => {
                self.show_previews(context).await;
                let id = self.id;
                eprint_line(&format!(
                    "slipway: kept {id}; continue with `slipway run --sandbox {id} …`, destroy with `slipway rm {id}`"
                ));
            }
            Retention::DestroyAfterTask => self.destroy(context, signals).await,
        }
    }

    /// Tells the user that the sandbox still exists; the task may still run in it.
    pub fn report_left_running(self) {
        if self.retention != Retention::Existing {
            eprint_line(&format!(
                "slipway: the sandbox {0} still exists; destroy it with `slipway rm {0}`",
                self.id
            ));
        }
    }

    async fn show_previews(self, context: &Context) {
        if context.output.json {
            return;
        }
        for (port, url) in self.previews(context).await.unwrap_or_default() {
            let _ = context.output.line(&format!("  port {port:<5}  {url}"));
        }
    }

    /// Returns previews of advertised and of listening ports. Errors are ignored: `slipway get` and `slipway ports` show
    /// the same.
    async fn previews(self, context: &Context) -> Option<BTreeMap<u16, String>> {
        let path = format!("/v1/sandboxes/{}", self.id);
        let view: SandboxView =
            context.client.send(ApiRequest::get(path.clone())).await.ok()?.parse().ok()?;
        let advertised = view.previews.into_iter().filter_map(|(port, url)| Some((port.parse().ok()?, url)));
        let mut all: BTreeMap<u16, String> = advertised.collect();
        if let Ok(response) = context.client.send(ApiRequest::get(format!("{path}/ports"))).await
            && let Ok(page) = response.parse::<Page<PortView>>()
        {
            let listens =
                page.items.into_iter().filter_map(|port| Some((port.listening.port, port.preview?)));
            all.extend(listens);
        }
        Some(all)
    }

    async fn destroy(self, context: &Context, signals: &mut Signals) {
        let progress = Progress::timed(context.output, "destroying the sandbox");
        let request = ApiRequest::delete(format!("/v1/sandboxes/{}", self.id)).query("workspace", "remove");
        let mut retry = Retry::new();
        let destroying = async {
            loop {
                match sandbox_wait::send_and_wait(context, self.id, request.clone(), &progress).await {
                    Ok(_) => return Ok(()),
                    Err(Failure::Client(error)) if gone(&error) => return Ok(()),
                    Err(Failure::Client(error)) => retry.backoff(error).await?,
                    Err(failure) => return Err(failure),
                }
            }
        };
        let waited = signals
            .wait_interruptible(destroying, || {
                progress.interrupt(|| {
                    eprint_line("slipway: destroying the sandbox; Ctrl-C again leaves without waiting");
                });
            })
            .await;
        drop(progress);
        match waited {
            WaitOutcome::Done { value: Ok(()), .. } => {}
            WaitOutcome::Done { value: Err(failure), .. } => {
                failure.report(context.output.json);
                self.report_left_running();
            }
            WaitOutcome::Left(_) => self.report_left_running(),
        }
    }
}

fn gone(error: &ClientError) -> bool {
    error.is(ApiErrorCode::Gone) || error.is(ApiErrorCode::NotFound)
}

/// Creates the sandbox. The idempotency key makes retries safe when hostd restarts meanwhile.
async fn send_create(
    context: &Context,
    spec: &SandboxSpec,
    progress: &Progress,
) -> Result<SandboxView, Failure> {
    let request = ApiRequest::post("/v1/sandboxes")
        .query("wait", format!("{}s", limits::CREATE_WAIT_S))
        .header("idempotency-key", ulid::Ulid::generate().to_string())
        .json(spec)
        .timeout(limits::SETTLE_TIMEOUT);
    let mut retry = Retry::new();
    let response = loop {
        match context.client.send(request.clone()).await {
            Ok(response) => break response,
            Err(error @ (ClientError::NotServing { .. } | ClientError::Tls(_)))
                if !context.client.has_answered() =>
            {
                return Err(error.into());
            }
            // A create that was begun continues; a retry gets its result.
            Err(error) if error.api().is_some() && !error.is(ApiErrorCode::ShuttingDown) => {
                return Err(error.into());
            }
            Err(error) => retry.backoff(error).await?,
        }
    };
    Ok(sandbox_wait::until_settled(context, response, progress).await?.parse()?)
}

/// Returns the sandbox that a failed create left, and its problem; passes on any other failure.
fn failed_create(failure: Failure) -> Result<(SandboxId, Option<Problem>), Failure> {
    let Failure::Client(ClientError::Api(error)) = &failure else { return Err(failure) };
    match error.detail.existing {
        Some(id) if matches!(error.code, ApiErrorCode::SandboxFailed | ApiErrorCode::DriverUnavailable) => {
            Ok((id, error.detail.problem.as_deref().cloned()))
        }
        _ => Err(failure),
    }
}
