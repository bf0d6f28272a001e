//! Starts a process.

use super::{
    Context, end, exec_id,
    messages::{ProcessConfig, StartRequest},
    output::{self, Follow},
};
use crate::e2b::{
    connect::{Code, ConnectError, Sink},
    envd::{
        paths::{CLIENT_HOME, ClientPath},
        user,
    },
};
use protocol::{
    ExecState, TtySize,
    api::{ExecAnswer, ExecCreate, TtyChoice},
};

pub async fn start(context: Context, request: StartRequest, sink: Sink) -> Result<(), ConnectError> {
    let api = &context.sandbox.api;
    let home = context.state.homes.of(api).await;
    let create = exec_of(&context, request, home)?;
    let exec: ExecAnswer = api.post("/execs", &create).await?;
    if let (ExecState::Ended, Some(failed @ protocol::Exit::SpawnFailed { .. })) = (exec.state, &exec.exit) {
        return end::event(failed).map(drop);
    }
    let pid =
        exec.pid.ok_or_else(|| ConnectError::new(Code::Internal, "the sandbox did not tell the pid"))?;
    output::follow(&context, &sink, Follow { id: exec.id, pid, after: 0 }).await
}

fn exec_of(context: &Context, request: StartRequest, home: &str) -> Result<ExecCreate, ConnectError> {
    let config = request.process.ok_or_else(|| ConnectError::invalid("the request has no process"))?;
    if config.cmd.is_empty() {
        return Err(ConnectError::invalid("the process has no cmd"));
    }
    let tty = match request.pty {
        None => None,
        Some(pty) => Some(size_of(pty)?),
    };
    let cwd = cwd_of(&config, home)?;
    let ProcessConfig { cmd, args, envs, .. } = config;
    let mut env: protocol::EnvMap = [
        ("HOME", home),
        ("PWD", &cwd),
        ("USER", user::USER),
        ("LOGNAME", user::USER),
        ("E2B_SANDBOX", "true"),
        ("E2B_SANDBOX_ID", context.sandbox.record.id.as_str()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    // Those of the sandbox are not given again: each exec has them.
    env.retain(|name, _| !context.sandbox.record.env.0.all.contains_key(name));
    env.extend(envs);
    Ok(ExecCreate {
        id: Some(exec_id::generate(request.tag.as_deref())?),
        argv: Some(std::iter::once(cmd).chain(args).collect()),
        cwd: Some(cwd),
        env,
        stdin_open: tty.is_none() && request.stdin.unwrap_or(true),
        timeout_s: context.options.timeout.map(|timeout| timeout.as_secs_f64()),
        tty: tty.map(TtyChoice::Size),
        wait: Some(false),
        ..ExecCreate::default()
    })
}

pub fn size_of(pty: super::messages::Pty) -> Result<TtySize, ConnectError> {
    let size = pty.size.unwrap_or_default();
    let side = |given: u32, otherwise| match given {
        0 => Ok(otherwise),
        given => u16::try_from(given).map_err(|_| ConnectError::invalid("the PTY is too large")),
    };
    Ok(TtySize { cols: side(size.cols.0, 80)?, rows: side(size.rows.0, 24)? })
}

/// The directory as programs find it; the home by default.
fn cwd_of(config: &ProcessConfig, home: &str) -> Result<String, ConnectError> {
    let given = config.cwd.as_deref().unwrap_or_default();
    let path = ClientPath::parse(given).map_err(|error| ConnectError::invalid(error.to_string()))?;
    // The name that the client wrote, where programs know it.
    let shown = home == CLIENT_HOME && path.as_str().starts_with(CLIENT_HOME);
    Ok(if shown { path.as_str().to_owned() } else { path.inside() })
}
