//! Errors of requests to hostd, and what the user can do about each.

use super::TlsError;
use crate::text::plain;
use protocol::api::{ApiError, ApiErrorCode, Missing, MissingKind};
use std::{io, path::PathBuf, time::Duration};

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("{0}")]
    BadUrl(String),
    #[error("hostd is not running: no connection to {address}")]
    NotServing {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Tls(Box<TlsError>),
    #[error("permission denied for {}", .0.display())]
    PermissionDenied(PathBuf),
    #[error("the connection to hostd was lost")]
    ConnectionLost(#[source] hyper::Error),
    /// A stream ended before its last message.
    #[error("hostd closed the connection before the end of the response")]
    Incomplete,
    #[error("hostd did not respond within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("{}", .0.message)]
    Api(Box<ApiError>),
    /// A proxy in front of hostd answered, as it does while hostd restarts.
    #[error("a proxy responded instead of hostd: {0}")]
    Intermediary(String),
    #[error("unexpected response from hostd: {0}")]
    UnexpectedResponse(String),
}

impl From<TlsError> for ClientError {
    fn from(error: TlsError) -> Self {
        Self::Tls(Box::new(error))
    }
}

impl ClientError {
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(error) => Some(error),
            Self::BadUrl(_)
            | Self::NotServing { .. }
            | Self::Tls(_)
            | Self::PermissionDenied(_)
            | Self::ConnectionLost(_)
            | Self::Incomplete
            | Self::TimedOut(_)
            | Self::Intermediary(_)
            | Self::UnexpectedResponse(_) => None,
        }
    }

    pub fn is(&self, code: ApiErrorCode) -> bool {
        self.api().is_some_and(|error| error.code == code)
    }

    /// Returns whether a retry may succeed: hostd may be restarting, or marked the error as retryable.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::NotServing { .. }
            | Self::ConnectionLost(_)
            | Self::Incomplete
            | Self::TimedOut(_)
            | Self::Intermediary(_) => true,
            Self::Api(error) => error.retryable,
            Self::Tls(error) => error.is_transient(),
            Self::BadUrl(_) | Self::PermissionDenied(_) | Self::UnexpectedResponse(_) => false,
        }
    }

    /// Returns what the user can do about the error.
    pub fn next_step(&self) -> Option<String> {
        match self {
            Self::NotServing { address, .. } if address.starts_with("http") => {
                Some("check the URL (`slipway context show`), or start hostd on that machine".to_owned())
            }
            Self::NotServing { .. } => Some(
                "start it with `slipway up` (or `hostd`), or use hostd on another machine with `slipway context add`"
                    .to_owned(),
            ),
            Self::Tls(error) => Some(error.next_step()),
            Self::PermissionDenied(_) => {
                Some("run as root (`sudo slipway …`), or use its URL and a token with `slipway context add`".to_owned())
            }
            Self::ConnectionLost(_) | Self::Incomplete => Some("hostd may be restarting: try again, and check the result with `slipway ls`".to_owned()),
            Self::TimedOut(_) => Some("run `slipway ls` to see the state, and read hostd's log".to_owned()),
            Self::Api(error) => api_next_step(error),
            Self::Intermediary(_) => Some("check the URL (`slipway context show`), and that hostd is running behind it".to_owned()),
            Self::BadUrl(_) | Self::UnexpectedResponse(_) => None,
        }
    }
}

/// Returns the command that lists resources of the missing kind.
fn list_command(missing: &Missing) -> String {
    let sandbox = missing.sandbox.as_deref().unwrap_or("SANDBOX");
    match missing.kind {
        MissingKind::Sandbox => "slipway ls".to_owned(),
        MissingKind::Task => format!("slipway task ls {sandbox}"),
        MissingKind::Permission => {
            format!("slipway task follow {sandbox} {}", missing.task.as_deref().unwrap_or("TASK"))
        }
        MissingKind::Exec => format!("slipway ps {sandbox}"),
        MissingKind::Service => format!("slipway services {sandbox}"),
        MissingKind::Share => format!("slipway shares {sandbox}"),
        MissingKind::FileLink => format!("slipway files link {sandbox} --list"),
        MissingKind::PreviewLink => format!("slipway preview-link {sandbox} --list"),
        MissingKind::Snapshot => "slipway snapshot ls".to_owned(),
        MissingKind::Token => "slipway token ls".to_owned(),
        MissingKind::Secret => "slipway secret ls".to_owned(),
        MissingKind::ImagePull => "slipway image ls".to_owned(),
        MissingKind::Image => "slipway image ls".to_owned(),
        MissingKind::EgressProfile => "slipway egress --profile default".to_owned(),
        MissingKind::ModelProvider => "slipway model ls".to_owned(),
        MissingKind::Budget => "slipway budget ls".to_owned(),
        MissingKind::Quota => "slipway quota ls".to_owned(),
        MissingKind::Webhook => "slipway webhook ls".to_owned(),
    }
}

fn api_next_step(error: &ApiError) -> Option<String> {
    let detail = &error.detail;
    let existing = detail.existing.map_or_else(|| "ID".to_owned(), |id| id.to_string());
    match error.code {
        ApiErrorCode::Unauthorized => Some(
            "give a token (`slipway context add`, or SLIPWAY_TOKEN beside SLIPWAY_URL); create one with `slipway token create --principal NAME`, as root on the host"
                .to_owned(),
        ),
        ApiErrorCode::Forbidden => Some("ask the owner of the sandbox, use a token with a wider scope, or run as root on the host".to_owned()),
        ApiErrorCode::ScopeTaken => {
            Some(format!("use that sandbox (`slipway get {existing}`), or `slipway ensure` instead of `create`"))
        }
        ApiErrorCode::SandboxFailed => Some(format!(
            "`slipway attempts {existing}` shows why; `slipway recreate {existing}` tries again"
        )),
        ApiErrorCode::NotFound => {
            detail.missing.as_ref().map(|missing| format!("`{}` shows what exists", list_command(missing)))
        }
        ApiErrorCode::Gone => Some("`slipway ls` shows what exists".to_owned()),
        ApiErrorCode::Unsupported if !detail.supported.is_empty() => {
            Some(format!("supported: {}", detail.supported.join(", ")))
        }
        ApiErrorCode::BudgetExceeded => Some("run `slipway budget ls` to see its use".to_owned()),
        ApiErrorCode::QuotaExceeded => quota_next_step(error),
        ApiErrorCode::NameTaken => Some(format!(
            "use that sandbox (`slipway get {existing}`), choose another name, or destroy it for the new one with --replace"
        )),
        ApiErrorCode::NoModel => Some("`slipway models` shows what exists".to_owned()),
        ApiErrorCode::KeyRefused => Some(
            "check the key and enter it again, or add the provider unchecked with --no-check".to_owned(),
        ),
        ApiErrorCode::DriverUnavailable => Some("run `slipway doctor` to see what is missing".to_owned()),
        ApiErrorCode::Capacity => Some(
            "stop or remove sandboxes that are not in use; `slipway host` shows what each of them takes".to_owned(),
        ),
        ApiErrorCode::DiskFull => Some(
            "delete files (`slipway exec ID -- rm FILE`) or remove sandboxes (`slipway rm ID`); `slipway doctor` \
             shows the free space"
                .to_owned(),
        ),
        ApiErrorCode::TooMany
        | ApiErrorCode::PortClosed
        | ApiErrorCode::Waking
        | ApiErrorCode::TimedOut
        | ApiErrorCode::ShuttingDown => Some("try again in a moment".to_owned()),
        ApiErrorCode::InvalidRequest
        | ApiErrorCode::MethodNotAllowed
        | ApiErrorCode::Conflict
        | ApiErrorCode::HistoryGone
        | ApiErrorCode::CheckpointLost
        | ApiErrorCode::NoCheckpoint
        | ApiErrorCode::GitFailed
        | ApiErrorCode::TooLarge
        | ApiErrorCode::IdempotencyMismatch
        | ApiErrorCode::Unsupported
        | ApiErrorCode::NotRunning
        | ApiErrorCode::FileExists
        | ApiErrorCode::NotAFile
        | ApiErrorCode::NotADirectory
        | ApiErrorCode::NotEmpty
        | ApiErrorCode::OutsideWorkspace
        | ApiErrorCode::AccessDenied
        | ApiErrorCode::PreconditionFailed
        | ApiErrorCode::RangeNotSatisfiable
        | ApiErrorCode::Internal => None,
        ApiErrorCode::TaskRunning => {
            Some("wait for it (`slipway task follow`), or end it (`slipway task cancel`)".to_owned())
        }
        ApiErrorCode::Asleep => Some("start the sandbox (`slipway start ID`), then try again".to_owned()),
    }
}

/// Returns the sandboxes that use most of what the quota has not enough of.
fn quota_next_step(error: &ApiError) -> Option<String> {
    let quota = error.detail.quota.as_ref()?;
    let names: Vec<String> = quota.by.iter().map(|holder| plain(&holder.name)).collect();
    let others = match (names.is_empty(), quota.others) {
        (_, 0) => String::new(),
        (true, others) => format!("{others} of others"),
        (false, others) => format!(" and {others} others"),
    };
    let used = format!("{}{others}", names.join(", "));
    (!used.is_empty()).then(|| format!("it is used by {used}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_leads_to_the_list_it_would_be_in() {
        let missing = |json: &str| {
            let missing: Missing = serde_json::from_str(json).expect("JSON");
            let error = ApiError::new(ApiErrorCode::NotFound, missing.to_string());
            let error = error.with(|detail| detail.missing = Some(Box::new(missing)));
            format!("{}; next: {}", error.message, api_next_step(&error).expect("something to do"))
        };
        let table = [
            r#"{"kind":"sandbox","id":"x"}"#,
            r#"{"kind":"task","id":"x","sandbox":"y"}"#,
            r#"{"kind":"permission","id":"x","sandbox":"y","task":"t"}"#,
            r#"{"kind":"exec","id":"x","sandbox":"y"}"#,
            r#"{"kind":"service","id":"x","sandbox":"y"}"#,
            r#"{"kind":"preview_link","id":"x","sandbox":"y"}"#,
            r#"{"kind":"token","id":"x"}"#,
            r#"{"kind":"image","id":"x"}"#,
            r#"{"kind":"egress_profile","id":"x"}"#,
            r#"{"kind":"model_provider","id":"x"}"#,
            r#"{"kind":"budget","id":"x"}"#,
            r#"{"kind":"quota","id":"x"}"#,
        ];
        insta::assert_snapshot!(table.map(missing).join("\n"), @r"
        no sandbox `x` (or it belongs to another tenant); next: `slipway ls` shows what exists
        no task `x` in sandbox `y`; next: `slipway task ls y` shows what exists
        no open permission `x` of task `t` in sandbox `y`; next: `slipway task follow y t` shows what exists
        no exec `x` in sandbox `y`; next: `slipway ps y` shows what exists
        no service `x` in sandbox `y`; next: `slipway services y` shows what exists
        no preview link `x` in sandbox `y`; next: `slipway preview-link y --list` shows what exists
        no token `x` (or it belongs to another tenant); next: `slipway token ls` shows what exists
        no image `x`; next: `slipway image ls` shows what exists
        no egress profile `x`; next: `slipway egress --profile default` shows what exists
        no model provider `x`; next: `slipway model ls` shows what exists
        no budget for tenant `x` (or this token may not read it); next: `slipway budget ls` shows what exists
        no quota of `x` (or this token may not read it); next: `slipway quota ls` shows what exists
        ");
    }
}
