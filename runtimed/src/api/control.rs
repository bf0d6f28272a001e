//! Requests on the control socket.

use super::format::Format;
use super::reply::{Answer, Refusal, no_content, ok, refuse};
use super::route::{self, Route};
use super::streams::Afterwards;
use super::{events, execs, follow, request, services, stdin, task_events, tasks, terminal, tunnel};
use crate::limits::{BODY_MAX_BYTES, HOLDS_MAX};
use crate::supervisor::{Command, Handle};
use hyper::Request;
use hyper::body::Incoming;
use protocol::ErrorCode;

pub async fn answer(
    handle: &Handle,
    mut http: Request<Incoming>,
    afterwards: &Afterwards,
) -> Result<Answer, Refusal> {
    let route = route::parse(http.method().as_str(), http.uri().path(), http.uri().query())?;
    let format = Format::of(http.headers());
    match route {
        Route::Health => Ok(ok(&"ok")),
        Route::Status => Ok(ok(&handle.ask(|reply| Command::Status { reply }).await?)),
        Route::Ports => Ok(ok(&handle.ask(|reply| Command::Ports { reply }).await?)),
        Route::StartExec { wait_ms } => execs::start(handle, http.into_body(), wait_ms).await,
        Route::Execs { after, limit } => {
            Ok(ok(&handle.ask(|reply| Command::Execs { after, limit, reply }).await?))
        }
        Route::Exec { id, wait_ms } => execs::view(handle, id, wait_ms).await,
        Route::ExecOutput { id, read } => {
            let read = follow::resumed(read, http.headers(), format)?;
            follow::answer(handle, execs::log(handle, &id).await?, read, format)
        }
        Route::ExecStdin { id, eof } => stdin::write(handle, id, http.into_body(), eof).await,
        Route::ExecSignal { id } => execs::signal(handle, id, http.into_body()).await,
        Route::ExecCancel { id } => execs::cancel(handle, id, http.into_body()).await,
        Route::ExecResize { id } => execs::resize(handle, id, http.into_body()).await,
        Route::Terminal { id, view } => terminal::attach(handle, &mut http, afterwards, id, view).await,
        Route::SubmitTask => tasks::submit(handle, http.into_body()).await,
        Route::Tasks { after, limit } => {
            Ok(ok(&handle.ask(|reply| Command::Tasks { after, limit, reply }).await?))
        }
        Route::Task { id, wait_ms } => tasks::view(handle, id, wait_ms).await,
        Route::TaskCancel { id } => tasks::cancel(handle, id, http.into_body()).await,
        Route::TaskEvents { id, after, follow } => {
            let after = task_events::resumed(after, http.headers(), format)?;
            task_events::answer(handle, id, task_events::Reading { after, follow, format }).await
        }
        Route::Services => services::list(handle).await,
        Route::PutServices => services::put(handle, http.into_body()).await,
        Route::Service { name } => services::get(handle, name).await,
        Route::DriveService { name, verb } => services::drive(handle, name, verb).await,
        Route::ServiceLogs { name, read } => {
            let read = follow::resumed(read, http.headers(), format)?;
            follow::answer(handle, services::log(handle, name).await?, read, format)
        }
        Route::Events { after, follow } => events::answer(handle, http.headers(), after, follow),
        Route::Holds => Ok(ok(&handle.ask(|reply| Command::Holds { reply }).await?)),
        Route::TakeHold { name } => {
            let request = request::read_or_default(http.into_body(), BODY_MAX_BYTES).await?;
            Ok(ok(&handle
                .ask(|reply| Command::TakeHold { name, request, at_most: HOLDS_MAX, reply })
                .await?))
        }
        Route::ReleaseHold { name } => {
            handle.ask(|reply| Command::ReleaseHold { name, reply }).await?;
            Ok(no_content())
        }
        Route::Tunnel { port } => tunnel::open(handle, &mut http, afterwards, port).await,
        Route::PanicHandler | Route::PanicSupervisor if !handle.shared().faults => {
            Err(refuse(ErrorCode::NotFound, "faults are not configured"))
        }
        Route::PanicHandler => panic!("asked to"),
        Route::PanicSupervisor => {
            handle.tell(Command::Panic).await;
            Ok(no_content())
        }
    }
}
