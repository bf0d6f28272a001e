//! The detail and message of `not_found`: which resource was addressed. A resource of another tenant gets the same
//! words as one that does not exist.

use crate::sanitize::one_line;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// Characters of the requested id that are repeated in the message.
const ID_MAX_CHARS: usize = 80;

/// The resource that was not found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Missing {
    pub kind: MissingKind,
    /// Id as in the request, shortened.
    pub id: String,
    /// Sandbox that was searched, as in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Task that was searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MissingKind {
    Sandbox,
    Task,
    /// A permission that an agent asked for.
    Permission,
    Exec,
    Service,
    /// Addressed by the principal that a sandbox is shared with, or as `tenant`.
    Share,
    PreviewLink,
    /// A signed URL of a file.
    FileLink,
    Token,
    Secret,
    Image,
    Snapshot,
    /// A pull that this hostd does not know, or no more.
    ImagePull,
    EgressProfile,
    ModelProvider,
    /// Addressed by the id of a tenant.
    Budget,
    /// Addressed by the tenant, or by the principal.
    Quota,
    Webhook,
}

impl Missing {
    pub fn new(kind: MissingKind, id: &str) -> Self {
        Self { kind, id: one_line(id, ID_MAX_CHARS), sandbox: None, task: None }
    }

    pub fn in_sandbox(self, sandbox: &str) -> Self {
        Self { sandbox: Some(one_line(sandbox, ID_MAX_CHARS)), ..self }
    }

    pub fn in_task(self, task: &str) -> Self {
        Self { task: Some(one_line(task, ID_MAX_CHARS)), ..self }
    }
}

impl Display for Missing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let id = &self.id;
        match self.kind {
            MissingKind::Sandbox => return write!(f, "no sandbox `{id}` (or it belongs to another tenant)"),
            MissingKind::Token => return write!(f, "no token `{id}` (or it belongs to another tenant)"),
            MissingKind::Secret => return write!(f, "no secret `{id}`"),
            MissingKind::Snapshot => {
                return write!(f, "no snapshot `{id}` (or it belongs to another tenant)");
            }
            MissingKind::Image => return write!(f, "no image `{id}`"),
            MissingKind::ImagePull => return write!(f, "no image pull `{id}`"),
            MissingKind::EgressProfile => return write!(f, "no egress profile `{id}`"),
            MissingKind::ModelProvider => return write!(f, "no model provider `{id}`"),
            MissingKind::Budget => {
                return write!(f, "no budget for tenant `{id}` (or this token may not read it)");
            }
            MissingKind::Quota => {
                return write!(f, "no quota of `{id}` (or this token may not read it)");
            }
            MissingKind::Webhook => {
                return write!(f, "no webhook `{id}` (or it belongs to another tenant)");
            }
            MissingKind::Task => write!(f, "no task `{id}`")?,
            MissingKind::Permission => write!(f, "no open permission `{id}`")?,
            MissingKind::Exec => write!(f, "no exec `{id}`")?,
            MissingKind::Service => write!(f, "no service `{id}`")?,
            MissingKind::Share => write!(f, "no share with `{id}`")?,
            MissingKind::FileLink => write!(f, "no signed URL `{id}`")?,
            MissingKind::PreviewLink => write!(f, "no preview link `{id}`")?,
        }
        if let Some(task) = &self.task {
            write!(f, " of task `{task}`")?;
        }
        match &self.sandbox {
            Some(sandbox) => write!(f, " in sandbox `{sandbox}`"),
            None => Ok(()),
        }
    }
}
