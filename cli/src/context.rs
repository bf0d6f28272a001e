//! Context of a command: the client of hostd, and how to print.

use crate::{
    client::{ApiRequest, ApiResponse, Client, ClientError, Target, data_dir_or_default},
    failure::Failure,
    output::Output,
    resolve,
};
use protocol::api::SandboxId;
use serde::de::DeserializeOwned;
use std::{path::PathBuf, sync::Arc};

pub struct Context {
    pub client: Arc<Client>,
    pub output: Output,
    /// hostd's data directory, where hostd is on this machine.
    pub data_dir: PathBuf,
}

impl Context {
    /// Reads `SLIPWAY_URL`, `SLIPWAY_TOKEN` and `SLIPWAY_DATA_DIR`.
    pub fn from_environment(output: Output) -> Result<Self, ClientError> {
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let data_dir = text("SLIPWAY_DATA_DIR").map(PathBuf::from);
        let url = text("SLIPWAY_URL");
        let target = Target::choose(url.as_deref(), data_dir.clone())?;
        // The socket needs no token, and a token for another machine must not be sent to this one.
        let token = url.and_then(|_| text("SLIPWAY_TOKEN"));
        let client = Arc::new(Client::new(target, token));
        Ok(Self { client, output, data_dir: data_dir_or_default(data_dir) })
    }

    pub async fn sandbox(&self, text: &str) -> Result<SandboxId, Failure> {
        resolve::sandbox(&self.client, text).await
    }

    /// Sends a request and prints the response as JSON, or as `format` renders it.
    pub async fn show<T: DeserializeOwned>(
        &self,
        request: ApiRequest,
        format: impl FnOnce(T) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        let response = self.client.send(request).await?;
        self.show_response(&response, format)
    }

    pub fn show_response<T: DeserializeOwned>(
        &self,
        response: &ApiResponse,
        format: impl FnOnce(T) -> Result<String, Failure>,
    ) -> Result<(), Failure> {
        if self.output.json {
            return self.output.document(&response.body);
        }
        self.output.text(&format(response.parse()?)?)
    }

    /// Reads a whole list and prints it as JSON, or as `format` renders it.
    pub async fn show_list<T: DeserializeOwned>(
        &self,
        request: ApiRequest,
        format: impl FnOnce(Vec<T>) -> String,
    ) -> Result<(), Failure> {
        let items = self.client.list(request).await?;
        if self.output.json {
            return self.output.items(&items);
        }
        self.output.text(&format(parse_items(items)?))
    }
}

/// Parses the items of a list.
pub fn parse_items<T: DeserializeOwned>(items: Vec<serde_json::Value>) -> Result<Vec<T>, ClientError> {
    let parse = |item| {
        serde_json::from_value(item).map_err(|error| ClientError::UnexpectedResponse(error.to_string()))
    };
    items.into_iter().map(parse).collect()
}
