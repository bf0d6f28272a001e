//! The refusal of a write that a quota has no room for: which resource, by what it is used, and how to free some.

use super::{MILLI, Shortage};
use protocol::api::{Owner, QuotaDetail, QuotaHolder, QuotaResource, QuotaScope};
use std::fmt::{self, Display, Formatter};

/// Why a quota refuses a write.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaExceeded {
    pub owner: Owner,
    pub scope: QuotaScope,
    pub shortage: Shortage,
    /// Sandboxes of the same principal that use most of the resource, with their use in its unit.
    pub by: Vec<QuotaHolder>,
    /// How many more sandboxes use some of it.
    pub others: u64,
}

impl std::error::Error for QuotaExceeded {}

impl QuotaExceeded {
    pub fn resource(&self) -> QuotaResource {
        self.shortage.resource
    }

    pub fn detail(&self) -> QuotaDetail {
        let Shortage { resource, limit, used, requested } = self.shortage;
        let amount = |amount| amount_of(resource, amount);
        QuotaDetail {
            resource,
            scope: self.scope,
            limit: amount(limit),
            used: amount(used),
            requested: amount(requested),
            by: self.by.clone(),
            others: self.others,
        }
    }
}

/// An amount in the unit that the API shows.
pub(super) fn amount_of(resource: QuotaResource, amount: u64) -> f64 {
    if resource == QuotaResource::Cpus { amount as f64 / MILLI } else { amount as f64 }
}

fn sandboxes(count: f64) -> String {
    if count == 1.0 { "1 sandbox".to_owned() } else { format!("{count} sandboxes") }
}

impl Display for QuotaExceeded {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Shortage { resource, limit, used, requested } = self.shortage;
        match self.scope {
            QuotaScope::Tenant => write!(f, "the quota of tenant {}", self.owner.tenant)?,
            QuotaScope::Principal => {
                write!(f, "the quota of principal {} in tenant {}", self.owner.principal, self.owner.tenant)?;
            }
        }
        let [limit, used, requested] = [limit, used, requested].map(|amount| amount_of(resource, amount));
        match resource {
            QuotaResource::Sandboxes => {
                write!(f, " allows {}, in use: {used}; destroy one (`slipway rm`)", sandboxes(limit))
            }
            QuotaResource::Running => {
                write!(
                    f,
                    " allows {} up at once, in use: {used}; stop one (`slipway stop`)",
                    sandboxes(limit)
                )
            }
            QuotaResource::MemoryMb => write!(
                f,
                " allows {limit} MB of memory, {used} MB are in use and {requested} MB are needed: stop a sandbox \
                 (`slipway stop`), or ask for less"
            ),
            QuotaResource::Cpus => write!(
                f,
                " allows {limit} cpus, {used} are in use and {requested} are needed: stop a sandbox (`slipway stop`), \
                 or ask for less"
            ),
            QuotaResource::DiskMb => write!(
                f,
                " allows {limit} MB of disk, and {used} MB are in use: delete files (`slipway files rm`) or sandboxes \
                 (`slipway rm`)"
            ),
            QuotaResource::TasksQueued => write!(
                f,
                " allows {limit} tasks that wait, and {used} do: try again when some are done, or cancel one \
                 (`slipway task cancel`)"
            ),
            QuotaResource::TasksRunning => write!(
                f,
                " allows {limit} tasks at once, and {used} run: the task begins when one of them is done"
            ),
            QuotaResource::EventsMb => write!(f, " allows {limit} MB of events, and {used} MB are kept"),
            QuotaResource::PreviewConnections => {
                write!(f, " allows {limit} connections to previews at once, and {used} are open: close some")
            }
        }?;
        write!(f, "; `slipway quota show` has the numbers")
    }
}
