//! Handles requests on the control socket.

use super::response::{HttpResponse, Refusal, no_content, ok, refuse};
use super::route::{self, Route};
use super::stream_format::Format;
use super::upgrade::PendingUpgrade;
use super::{
    events, execs, files, follow_log, programs, request_body, services, stdin, task_events, tasks, terminal,
    tunnel, warm_agent,
};
use crate::files_process::VerbPlace;
use crate::limits::{BODY_MAX_BYTES, HOLDS_MAX};
use crate::supervisor::{Command, ExecCommand, Handle, HoldCommand, TaskCommand};
use hyper::Request;
use hyper::body::Incoming;
use protocol::{ErrorCode, HoldName};

pub async fn handle_request(
    handle: &Handle,
    mut http: Request<Incoming>,
    pending_upgrade: &PendingUpgrade,
) -> Result<HttpResponse, Refusal> {
    let route = route::parse(http.method().as_str(), http.uri().path(), http.uri().query())?;
    let format = Format::of(http.headers());
    match route {
        Route::Health => Ok(ok(&"ok")),
        Route::Status => Ok(ok(&handle.ask(|reply| Command::Status { reply }).await?)),
        Route::Ports => Ok(ok(&handle.ask(|reply| Command::Ports { reply }).await?)),
        Route::StartExec { wait_ms } => execs::start(handle, http, wait_ms).await,
        Route::Execs { pid, after, limit } => {
            Ok(ok(&handle.ask(|reply| ExecCommand::List { pid, after, limit, reply }).await?))
        }
        Route::Exec { id, wait_ms } => execs::view(handle, id, wait_ms).await,
        Route::ExecOutput { id, read } => {
            follow_log::respond(handle, execs::log(handle, &id).await?, read, http.headers())
        }
        Route::ExecStdin { id, at, eof } => {
            stdin::write(handle, id, http.into_body(), stdin::BodyPosition { at, eof }).await
        }
        Route::ExecSignal { id } => execs::signal(handle, id, http.into_body()).await,
        Route::ExecCancel { id } => execs::cancel(handle, id, http.into_body()).await,
        Route::ExecResize { id } => execs::resize(handle, id, http.into_body()).await,
        Route::Terminal { id, view } => terminal::attach(handle, &mut http, pending_upgrade, id, view).await,
        Route::SubmitTask => tasks::submit(handle, http).await,
        Route::Tasks { after, limit } => {
            Ok(ok(&handle.ask(|reply| TaskCommand::List { after, limit, reply }).await?))
        }
        Route::Task { id, wait_ms } => tasks::view(handle, id, wait_ms).await,
        Route::TaskCancel { id } => tasks::cancel(handle, id, http.into_body()).await,
        Route::TaskPermission { id, permission: p } => tasks::permit(handle, id, p, http.into_body()).await,
        Route::Warm { name, verb } => warm_agent::respond(handle, name, verb, http.into_body()).await,
        Route::TaskEvents { id, after, follow } => {
            let after = task_events::resumed(after, http.headers(), format)?;
            task_events::respond(handle, id, task_events::EventsRequest { after, follow, format }).await
        }
        Route::TaskOutput { id, read } => {
            follow_log::respond(handle, tasks::output(handle, id).await?, read, http.headers())
        }
        Route::TaskChanges { id } => tasks::changes(handle, id).await,
        Route::TaskDiff { id } => tasks::diff(handle, id, http.into_body()).await,
        Route::TaskRevert { id } => tasks::revert(handle, id, http.into_body()).await,
        Route::Programs => programs::find(handle, http.into_body()).await,
        Route::Services => services::list(handle).await,
        Route::PutServices => services::put(handle, http.into_body()).await,
        Route::Service { name } => services::get(handle, name).await,
        Route::DriveService { name, verb } => services::drive(handle, name, verb).await,
        Route::ServiceLogs { name, read } => {
            follow_log::respond(handle, services::log(handle, name).await?, read, http.headers())
        }
        Route::Events { after, follow } => events::respond(handle, http.headers(), after, follow),
        Route::Holds => Ok(ok(&handle.ask(|reply| HoldCommand::List { reply }).await?)),
        Route::TakeHold { name } => take_hold(handle, name, http.into_body()).await,
        Route::ReleaseHold { name } => {
            handle.ask(|reply| HoldCommand::Release { name, reply }).await?;
            Ok(no_content())
        }
        Route::Tunnel { port } => tunnel::open(handle, &mut http, pending_upgrade, port).await,
        Route::Files { sort, top } => {
            files::open(handle, &mut http, pending_upgrade, VerbPlace { sort, top })
        }
        Route::PanicHandler => {
            faults_configured(handle)?;
            panic!("asked to")
        }
        Route::PanicSupervisor => {
            faults_configured(handle)?;
            handle.send(Command::Panic).await;
            Ok(no_content())
        }
    }
}

async fn take_hold(handle: &Handle, name: HoldName, body: Incoming) -> Result<HttpResponse, Refusal> {
    let request = request_body::read_or_default(body, BODY_MAX_BYTES).await?;
    let take = |reply| HoldCommand::Take { name, request, at_most: HOLDS_MAX, reply };
    Ok(ok(&handle.ask(take).await?))
}

fn faults_configured(handle: &Handle) -> Result<(), Refusal> {
    match handle.shared().faults {
        true => Ok(()),
        false => Err(refuse(ErrorCode::NotFound, "faults are not configured")),
    }
}
