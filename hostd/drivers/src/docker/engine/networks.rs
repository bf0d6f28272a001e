//! Network endpoints.

use super::{
    CreateNetwork, EngineError, Network,
    client::{Engine, EngineRequest},
    limits::WORK_DEADLINE,
    request_path,
};
use hyper::Method;
use serde::Serialize;

/// Docker before 25 creates a second network of the same name unless told to check.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct CreateUniqueNetwork<'a> {
    #[serde(flatten)]
    network: &'a CreateNetwork,
    check_duplicate: bool,
}

impl Engine {
    pub async fn network(&self, name: &str) -> Result<Option<Network>, EngineError> {
        self.call_optional(EngineRequest::new(
            "inspect the network",
            Method::GET,
            request_path::network(name)?,
        ))
        .await
    }

    /// Creates a network. `Conflict`: the name is taken.
    pub async fn create_network(&self, network: &CreateNetwork) -> Result<(), EngineError> {
        let unique = CreateUniqueNetwork { network, check_duplicate: true };
        let request = EngineRequest::new("create the network", Method::POST, "/networks/create");
        self.call(request.deadline(WORK_DEADLINE).json(&unique)?).await.map(drop)
    }

    /// Removes a network; a no-op when it is gone. `Conflict`: a container uses it.
    pub async fn remove_network(&self, name: &str) -> Result<(), EngineError> {
        let request = EngineRequest::new("remove the network", Method::DELETE, request_path::network(name)?)
            .deadline(WORK_DEADLINE);
        match self.call(request).await {
            Ok(_) | Err(EngineError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
