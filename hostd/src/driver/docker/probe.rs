//! What an engine has to do before it is trusted: run a whole sandbox, confined as asked for.

use super::{
    super::{
        Driver, DriverError,
        local::{files::failed, trial},
    },
    driver::{Docker, Inner},
    engine::Meeting,
    ids::{self, Ids},
    standing::Fitness,
};
use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::PathBuf};

impl Docker {
    pub(super) async fn probe(&self, meeting: &Meeting) -> Result<Fitness, DriverError> {
        ids::limits(meeting)?;
        let _turn = self.inner.runtimes.turn().await;
        // What was found out before was perhaps about another one.
        self.inner.networks.forget();
        self.inner.runtimes.forget();
        let sandbox = trial::id();
        // What a probe of an earlier hostd left.
        self.inner.scrap(&sandbox, false).await?;
        let ids = ids::discover(&self.inner.trials).await?;
        self.inner.let_pass(&ids)?;
        let fitness = Fitness { meeting: meeting.clone(), ids, warnings: vec![] };
        let ran = self.prove(&trial::order(&sandbox, self.name()), &fitness).await;
        let gone = self.inner.scrap(&sandbox, false).await;
        ran.and(gone)?;
        Ok(fitness)
    }
}

impl Inner {
    /// Where the root of a sandbox is nobody on the host, it must be able to pass to what is its own. Where
    /// it is not, files have plain owners: nobody else on the host may get to them.
    fn let_pass(&self, ids: &Ids) -> Result<(), DriverError> {
        let set = |place: PathBuf, mode: u32| {
            let set = std::fs::set_permissions(place, Permissions::from_mode(mode));
            set.map_err(failed("close the data directory"))
        };
        let mode = if ids.are_ours() { 0o700 } else { 0o711 };
        set(self.layout.sandboxes(), mode)?;
        set(self.layout.workspaces(), mode)
    }
}
