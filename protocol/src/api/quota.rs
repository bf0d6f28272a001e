//! Quotas: what a tenant, or a principal of it, may use of the host.

use super::{Label, SandboxId};
use serde::{Deserialize, Serialize, Serializer};

/// Limits on what an owner may use; an absent field is unlimited, 0 allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// Sandboxes that are not destroyed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandboxes: Option<u64>,
    /// Sandboxes that are up or on their way there; a paused one is up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u64>,
    /// Sum of `limits.memory_mb` of the sandboxes that are up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Sum of `limits.cpus` of the sandboxes that are up.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "maybe_number")]
    pub cpus: Option<f64>,
    /// Files of workspaces, and the share of the database, as measured last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
    /// Tasks that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_queued: Option<u64>,
    /// Sandboxes that work on a task; further tasks wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks_running: Option<u64>,
    /// Events and output that are kept; the oldest are deleted beyond it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_mb: Option<u64>,
    /// Requests to previews and WebSockets at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview_connections: Option<u64>,
}

/// A resource that a quota limits, with the name of its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuotaResource {
    Sandboxes,
    Running,
    MemoryMb,
    Cpus,
    DiskMb,
    TasksQueued,
    TasksRunning,
    EventsMb,
    PreviewConnections,
}

impl QuotaResource {
    pub const ALL: [Self; 9] = [
        Self::Sandboxes,
        Self::Running,
        Self::MemoryMb,
        Self::Cpus,
        Self::DiskMb,
        Self::TasksQueued,
        Self::TasksRunning,
        Self::EventsMb,
        Self::PreviewConnections,
    ];

    /// Returns the name of the field.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandboxes => "sandboxes",
            Self::Running => "running",
            Self::MemoryMb => "memory_mb",
            Self::Cpus => "cpus",
            Self::DiskMb => "disk_mb",
            Self::TasksQueued => "tasks_queued",
            Self::TasksRunning => "tasks_running",
            Self::EventsMb => "events_mb",
            Self::PreviewConnections => "preview_connections",
        }
    }
}

/// Whose quota it is. A principal is bound by its own and by that of its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuotaScope {
    Tenant,
    Principal,
}

/// Where a quota comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum QuotaSource {
    /// Set for this owner.
    Set,
    /// `tenant_quota` or `principal_quota` of the configuration.
    Default,
    /// There is none: everything is unlimited.
    None,
}

/// What an owner uses, counted as its quota counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaUse {
    pub sandboxes: u64,
    pub running: u64,
    pub memory_mb: u64,
    #[serde(serialize_with = "number")]
    pub cpus: f64,
    /// Absent where no quota of disk applies: it is not measured then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
    pub tasks_queued: u64,
    pub tasks_running: u64,
    /// Absent where no quota of events or disk applies: it is not measured then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events_mb: Option<u64>,
    pub preview_connections: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaView {
    pub tenant: Label,
    /// Absent: the quota of the tenant, for all its principals together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Label>,
    /// The quota in force.
    pub quota: Quota,
    pub source: QuotaSource,
    pub used: QuotaUse,
}

/// `GET /v1/quota`: what binds the caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OwnQuota {
    pub tenant: QuotaView,
    pub principal: QuotaView,
}

/// The detail of `quota_exceeded`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaDetail {
    pub resource: QuotaResource,
    pub scope: QuotaScope,
    /// In the unit of the resource, as are the next two.
    #[serde(serialize_with = "number")]
    pub limit: f64,
    #[serde(serialize_with = "number")]
    pub used: f64,
    #[serde(serialize_with = "number")]
    pub requested: f64,
    /// Sandboxes of the same principal that use most of it, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<QuotaHolder>,
    /// How many more sandboxes use some of it, those of other principals included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: u64,
}

/// A sandbox that uses a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QuotaHolder {
    pub id: SandboxId,
    pub name: String,
    #[serde(serialize_with = "number")]
    pub used: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Writes a whole number without a fraction.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn number<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && (0.0..=EXACT_MAX).contains(value) {
        to.serialize_u64(*value as u64)
    } else {
        to.serialize_f64(*value)
    }
}

fn maybe_number<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number(value, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_no_fraction() {
        let quota = Quota { cpus: Some(4.0), running: Some(2), ..Quota::default() };
        let text = serde_json::to_string(&quota).expect("JSON");
        assert_eq!(text, r#"{"running":2,"cpus":4}"#);
        assert_eq!(serde_json::from_str::<Quota>(&text).expect("a quota"), quota);
        let half = Quota { cpus: Some(0.5), ..Quota::default() };
        assert_eq!(serde_json::to_string(&half).expect("JSON"), r#"{"cpus":0.5}"#);
    }

    #[test]
    fn a_resource_has_the_name_of_its_field() {
        for resource in QuotaResource::ALL {
            let name = serde_json::to_value(resource).expect("JSON");
            assert_eq!(name, resource.as_str());
            let quota = format!("{{{name}: 1}}");
            assert!(serde_json::from_str::<Quota>(&quota).is_ok(), "{quota}");
        }
    }
}
