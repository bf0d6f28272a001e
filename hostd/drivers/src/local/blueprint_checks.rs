//! Checks of a blueprint that all local drivers share.

use super::{
    super::DriverError,
    limits::{CPUS_MIN, DISK_MIN_MB, MEMORY_MIN_MB, PIDS_MIN},
};
use protocol::api::Limits;

pub fn check_limits(limits: &Limits) -> Result<(), DriverError> {
    if limits.disk_mb.is_some_and(|disk_mb| disk_mb < DISK_MIN_MB) {
        return Err(refused("limits.disk_mb", format!("must be at least {DISK_MIN_MB}"), &[]));
    }
    if limits.memory_mb < MEMORY_MIN_MB {
        return Err(refused("limits.memory_mb", format!("must be at least {MEMORY_MIN_MB}"), &[]));
    }
    if limits.pids < PIDS_MIN {
        return Err(refused("limits.pids", format!("must be at least {PIDS_MIN}"), &[]));
    }
    if !limits.cpus.is_finite() || limits.cpus < CPUS_MIN {
        return Err(refused("limits.cpus", format!("must be at least {CPUS_MIN}"), &[]));
    }
    Ok(())
}

pub fn refused(field: &'static str, message: String, supported: &[&str]) -> DriverError {
    let supported = supported.iter().map(|word| (*word).to_owned()).collect();
    DriverError::Refused { field, message, supported }
}
