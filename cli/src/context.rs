//! Context of a command: the client of hostd, and how to print.

use crate::{
    client::{ApiRequest, ApiResponse, Client, ClientError, ServerUrl, data_dir_or_default},
    connection::{Connection, ConnectionFlags, Environment, Origin, TokenSource},
    contexts::{ContextStore, ContextsError, LOCAL},
    failure::{Failure, eprint_line},
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
    origin: Origin,
    warning: Option<String>,
}

impl Context {
    /// Chooses hostd by flags, environment and contexts, and prints what the user is to be warned of.
    pub fn open(output: Output, flags: &ConnectionFlags) -> Result<Self, Failure> {
        let context = Self::open_silently(output, flags)?;
        if let Some(warning) = &context.warning {
            eprint_line(warning);
        }
        Ok(context)
    }

    pub fn open_silently(output: Output, flags: &ConnectionFlags) -> Result<Self, Failure> {
        let environment = Environment::read();
        let (connection, token) = connect(flags, &environment)?;
        let warning = connection.warning();
        let client = Arc::new(Client::new(connection.target, token));
        let data_dir = data_dir_or_default(environment.data_dir.map(PathBuf::from));
        Ok(Self { client, output, data_dir, origin: connection.origin, warning })
    }

    /// Returns the URL of hostd, where it may be on another machine.
    pub fn remote(&self) -> Option<&ServerUrl> {
        self.client.target().url()
    }

    /// Refuses a command that is about the hostd of this machine while another one is chosen. `instead`: what to do
    /// there.
    pub fn require_local(&self, command: &str, instead: &str) -> Result<(), Failure> {
        let Some(url) = self.remote() else { return Ok(()) };
        let origin = self.origin.describe();
        let here = format!("`slipway --context {LOCAL} {command}` is for this machine");
        Err(Failure::new(format!("`slipway {command}` works on this machine only, and {origin} is {url}"))
            .hint(if instead.is_empty() { here } else { format!("{instead}; {here}") }))
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
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

/// Chooses a connection and reads its token.
fn connect(
    flags: &ConnectionFlags,
    environment: &Environment,
) -> Result<(Connection, Option<String>), Failure> {
    let choose = || Connection::choose(flags, environment, || ContextStore::locate()?.load());
    let connection = choose()?;
    match read_token(&connection.token) {
        Ok(token) => Ok((connection, token)),
        // Another command replaced the context between the two reads: the new one has a new file.
        Err(_) => {
            let connection = choose()?;
            let token = read_token(&connection.token)?;
            Ok((connection, token))
        }
    }
}

fn read_token(source: &TokenSource) -> Result<Option<String>, ContextsError> {
    match source {
        TokenSource::None => Ok(None),
        TokenSource::Given(token) => Ok(Some(token.reveal().to_owned())),
        TokenSource::File(file) => ContextStore::locate()?.token(file).map(Some),
    }
}

/// Parses the items of a list.
pub fn parse_items<T: DeserializeOwned>(items: Vec<serde_json::Value>) -> Result<Vec<T>, ClientError> {
    let parse = |item| {
        serde_json::from_value(item).map_err(|error| ClientError::UnexpectedResponse(error.to_string()))
    };
    items.into_iter().map(parse).collect()
}
