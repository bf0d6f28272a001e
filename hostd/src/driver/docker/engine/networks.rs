//! Networks.

use super::{
    CreateNetwork, EngineError, Network,
    client::{Ask, Engine},
    limits::WORK_WITHIN,
    path,
};
use hyper::Method;
use serde::Serialize;

/// Docker before 25 makes a second network of a name unless it is told not to.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Once<'a> {
    #[serde(flatten)]
    network: &'a CreateNetwork,
    check_duplicate: bool,
}

impl Engine {
    pub async fn network(&self, name: &str) -> Result<Option<Network>, EngineError> {
        self.find(Ask::new("inspect the network", Method::GET, path::network(name)?)).await
    }

    /// `Conflict`: there is one of that name.
    pub async fn create_network(&self, network: &CreateNetwork) -> Result<(), EngineError> {
        let once = Once { network, check_duplicate: true };
        let ask = Ask::new("create the network", Method::POST, "/networks/create");
        self.ask(ask.within(WORK_WITHIN).json(&once)?).await.map(drop)
    }

    /// One that is gone is removed. `Conflict`: a container uses it.
    pub async fn remove_network(&self, name: &str) -> Result<(), EngineError> {
        let ask = Ask::new("remove the network", Method::DELETE, path::network(name)?).within(WORK_WITHIN);
        match self.ask(ask).await {
            Ok(_) | Err(EngineError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
