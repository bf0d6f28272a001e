//! What `slipway context add` asks the server and the user before it stores anything.

use crate::{
    client::{ApiRequest, CertificateRefused, Client, ClientError, ServerUrl, Target, Trust},
    contexts::ContextName,
    failure::{Failure, eprint_line},
    text::plain,
};
use protocol::api::{ApiErrorCode, HostView};
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

/// Who answered.
#[derive(Debug)]
pub enum Answered {
    NotAsked,
    /// hostd, to its operator.
    Operator {
        version: String,
        driver: String,
    },
    /// hostd, to anyone else.
    Other,
}

impl Answered {
    pub fn version(&self) -> Option<String> {
        match self {
            Self::Operator { version, .. } => Some(version.clone()),
            Self::NotAsked | Self::Other => None,
        }
    }

    pub fn describe(&self, has_token: bool) -> String {
        let token = if has_token { "accepts the token" } else { "asks for no token" };
        match self {
            Self::NotAsked => "not checked: neither the certificate nor the token".to_owned(),
            Self::Operator { version, driver } => {
                format!(
                    "hostd {} ({}) answers and {token}, as of its operator",
                    plain(version),
                    plain(driver)
                )
            }
            Self::Other => format!("hostd answers and {token}"),
        }
    }
}

/// Returns how to verify a server of which nothing is known: by the system's roots, or by a pin that the user confirms.
pub async fn settle_trust(url: &ServerUrl, name: &ContextName) -> Result<Trust, Failure> {
    let target = Target::Url { url: url.clone(), trust: Trust::System };
    // Without the token, which only a verified server gets.
    let Err(ClientError::Tls(error)) = Client::new(target, None).send(ApiRequest::get("/healthz")).await
    else {
        // Any other failure is met again by the request that needs the answer.
        return Ok(Trust::System);
    };
    match error.refused().filter(|refused| refused.needs_a_pin() && io::stdin().is_terminal()) {
        Some(refused) if confirms(url, name, refused)? => Ok(Trust::Pinned(refused.presented)),
        Some(_) => Err(Failure::new("the certificate was not accepted, and nothing was stored")),
        None => Err(ClientError::Tls(error).into()),
    }
}

/// Asks on the terminal whether a certificate is the right one.
fn confirms(url: &ServerUrl, name: &ContextName, refused: &CertificateRefused) -> Result<bool, Failure> {
    eprint_line(&format!("the certificate of {url} {refused}. Its SHA-256 fingerprint is"));
    eprint_line(&format!("  {}", refused.presented));
    eprint_line(
        "Compare it with the one that the host shows: openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE",
    );
    let mut terminal = io::stderr();
    let _ = write!(terminal, "Pin it: context {name} trusts this certificate and no other? [y/N] ")
        .and_then(|()| terminal.flush());
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| Failure::io("read the answer", error))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Makes sure that hostd answers and accepts the token.
pub async fn ask(target: Target, token: Option<String>) -> Result<Answered, Failure> {
    let client = Client::new(target, token);
    // Every token may do this, and it costs hostd little.
    client.send(ApiRequest::get("/v1/sandboxes").query("limit", 1)).await?;
    match client.send(ApiRequest::get("/v1/host")).await {
        Ok(response) => {
            let host: HostView = response.parse()?;
            Ok(Answered::Operator { version: host.version, driver: host.default_driver })
        }
        // Details are for the administrator of the host only.
        Err(error) if error.is(ApiErrorCode::Forbidden) => Ok(Answered::Other),
        Err(error) => Err(error.into()),
    }
}
