//! Lists our sandboxes, and containers with our labels that fail a check.

use super::{
    super::{
        DriverError, FoundSandbox,
        local::{files::failed, probe_sandbox::PROBE_ID, signed_badge::BadgeRecord},
    },
    container_cache::labels_of,
    driver::DockerInner,
    engine::InspectedContainer,
    labels,
    run_record::RunRecord,
};
use crate::local::local_driver::LocalDriver;
use protocol::api::SandboxId;

impl DockerInner {
    /// Every sandbox directory with its badge, and containers with our labels that are not ours.
    pub fn list(&self) -> Result<Vec<FoundSandbox>, DriverError> {
        let mut found = vec![];
        for name in self.names()? {
            let Ok(sandbox) = name.parse::<SandboxId>() else {
                found.push(FoundSandbox::Suspect { name, why: "its name is not a sandbox id".to_owned() });
                continue;
            };
            found.push(match self.signer.read(&self.dir(&sandbox), &sandbox) {
                Ok(BadgeRecord { badge, blueprint, .. }) => {
                    FoundSandbox::Ours { badge, blueprint: Box::new(blueprint) }
                }
                Err(bad) => FoundSandbox::Suspect { name, why: bad.to_string() },
            });
        }
        for container in self.cache.all() {
            if let Some(why) = self.why_suspect(&container) {
                found.push(FoundSandbox::Suspect { name: container.name, why });
            }
        }
        Ok(found)
    }

    /// Names in `<data>/docker`.
    fn names(&self) -> Result<Vec<String>, DriverError> {
        let list = || failed("list the sandboxes");
        let mut names = vec![];
        for entry in std::fs::read_dir(self.layout.sandboxes()).map_err(list())? {
            names.push(entry.map_err(list())?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| name != PROBE_ID);
        names.sort();
        Ok(names)
    }

    fn why_suspect(&self, container: &InspectedContainer) -> Option<String> {
        let claim = match labels::read(&self.signer, &container.name, labels_of(container)) {
            Ok(claim) => claim,
            Err(bad) => return Some(bad.to_string()),
        };
        if claim.sandbox.as_str() == PROBE_ID || self.destroyed.contains(&claim.nonce) {
            return None;
        }
        match RunRecord::read(&self.dir(&claim.sandbox)) {
            Ok(Some(run)) if run.has_nonce(&claim.nonce) => None,
            Ok(Some(_)) => Some(format!("it is not the container of sandbox {} any more", claim.sandbox)),
            Ok(None) => Some(format!("there is no sandbox {} here", claim.sandbox)),
            Err(error) => Some(error.to_string()),
        }
    }
}
