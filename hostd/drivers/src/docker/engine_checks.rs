//! Checks an engine must pass: its user namespace maps the ids that a sandbox needs, and it can enforce
//! limits.

use super::{
    engine::EngineInfo,
    test_containers::{TestContainer, TestContainers},
};
use crate::{
    DriverError,
    local::{files::failed, limits::SANDBOX_UID},
};

pub use crate::local::id_map::IdMap;

/// Discovers the id map of the engine's containers with a test container. All containers share it, also with
/// `userns-remap` and rootless.
pub async fn discover_id_map(test_containers: &TestContainers) -> Result<IdMap, DriverError> {
    let inspect = |inits: &[crate::local::init::Init]| {
        let first = inits.first().ok_or_else(|| unavailable("no container was started".to_owned()))?;
        IdMap::of(first.pid).map_err(failed("read the user ids of a container"))
    };
    let ids = test_containers.run(&[TestContainer::on_network("none")], inspect).await?;
    check_id_map(&ids)?;
    Ok(ids)
}

/// PID 1 runs as user 0, everything else as user 1000.
fn check_id_map(ids: &IdMap) -> Result<(), DriverError> {
    for id in [0, SANDBOX_UID] {
        if ids.uid(id).is_none() || ids.gid(id).is_none() {
            return Err(unavailable(format!(
                "containers of this engine have no user {id}: give it at least 65536 ids in /etc/subuid and /etc/subgid"
            )));
        }
    }
    Ok(())
}

/// Refuses an engine that cannot enforce limits: an unlimited sandbox is none.
pub fn check_limits(info: &EngineInfo) -> Result<(), DriverError> {
    let rootless = info.security.iter().any(|word| word.contains("rootless"));
    if rootless && info.cgroup_version < 2 {
        return Err(unavailable(format!(
            "{} runs rootless on cgroup v1 and cannot limit its containers: use cgroup v2, or the engine of the system",
            info.version
        )));
    }
    if !info.missing_limits.is_empty() {
        let missing = info.missing_limits.join(", ");
        return Err(unavailable(format!("{} cannot limit {missing} of containers here", info.version)));
    }
    Ok(())
}

fn unavailable(message: String) -> DriverError {
    DriverError::Unavailable { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_that_cannot_limit_is_refused_with_the_reason() {
        let good = EngineInfo { version: "Docker 1".into(), cgroup_version: 1, ..EngineInfo::default() };
        assert!(check_limits(&good).is_ok());
        let rootless = vec!["name=seccomp".to_owned(), "name=rootless".to_owned()];
        let on_two = EngineInfo { security: rootless.clone(), cgroup_version: 2, ..good.clone() };
        assert!(check_limits(&on_two).is_ok());
        for (info, expected) in [
            (EngineInfo { security: rootless, ..good.clone() }, "rootless on cgroup v1"),
            (
                EngineInfo { missing_limits: vec!["processes", "cpu"], ..good.clone() },
                "limit processes, cpu of",
            ),
        ] {
            let refused = check_limits(&info).expect_err(expected).to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }

    #[test]
    fn both_users_of_a_sandbox_must_exist() {
        assert!(check_id_map(&IdMap::single_range(100_000, 65_536)).is_ok());
        assert!(
            check_id_map(&IdMap::single_range(100_000, 1000))
                .expect_err("one too few")
                .to_string()
                .contains("1000")
        );
    }
}
