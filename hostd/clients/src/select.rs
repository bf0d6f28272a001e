//! Which protocol a request speaks. Decided before routing, by what no request of Slipway's own API has: the hostname of
//! a protocol, its credential header, or a path that only it has.

use hostd_net::websocket;
use hyper::{
    HeaderMap, Uri,
    header::{AUTHORIZATION, HOST, HeaderName},
};
use protocol::api::{SandboxId, TOKEN_SUBPROTOCOL};

/// A protocol of clients that were made for another system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// E2B: sandboxes.
    E2b,
    /// E2B: processes, files and code inside one sandbox (envd, code interpreter).
    E2bSandbox,
    /// The bridge of Cloudflare's sandboxes, as the OpenAI Agents SDK uses it.
    Cloudflare,
    /// Model Context Protocol.
    Mcp,
    /// Agent Client Protocol.
    Acp,
    /// OpenSandbox: sandboxes.
    OpenSandbox,
    /// OpenSandbox: commands and files inside one sandbox (execd).
    OpenSandboxExecd,
}

impl Protocol {
    pub const ALL: [Self; 7] = [
        Self::E2b,
        Self::E2bSandbox,
        Self::Cloudflare,
        Self::Mcp,
        Self::Acp,
        Self::OpenSandbox,
        Self::OpenSandboxExecd,
    ];

    /// The name in the configuration and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::E2b | Self::E2bSandbox => "e2b",
            Self::Cloudflare => "cloudflare",
            Self::Mcp => "mcp",
            Self::Acp => "acp",
            Self::OpenSandbox | Self::OpenSandboxExecd => "opensandbox",
        }
    }
}

/// The hostnames that belong to protocols.
#[derive(Debug, Clone, Copy)]
pub struct ClientHosts<'a> {
    pub domain: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("the request has two credentials, {0} and {1}; send one")]
    TwoCredentials(&'static str, &'static str),
    #[error("a credential header occurs twice")]
    RepeatedHeader,
}

pub const E2B_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub const E2B_SANDBOX_TOKEN: HeaderName = HeaderName::from_static("x-access-token");
pub const E2B_SANDBOX_ID: HeaderName = HeaderName::from_static("e2b-sandbox-id");
pub const OPEN_SANDBOX_KEY: HeaderName = HeaderName::from_static("open-sandbox-api-key");
pub const EXECD_TOKEN: HeaderName = HeaderName::from_static("x-execd-access-token");

/// The ports on which E2B's sandboxes serve processes and files, and code.
pub const ENVD_PORT: u16 = 49983;
pub const CODE_INTERPRETER_PORT: u16 = 49999;

/// Returns the protocol of a request; `None` for Slipway's own API.
pub fn select(
    hosts: ClientHosts<'_>,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Option<Protocol>, SelectError> {
    let by_header = by_header(headers)?;
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
    Ok(host.and_then(|host| hosts.protocol(host)).or(by_header).or_else(|| by_path(uri.path())))
}

impl ClientHosts<'_> {
    /// Returns the protocol that is served at this authority.
    pub fn protocol(self, authority: &str) -> Option<Protocol> {
        let name = authority.rsplit_once(':').map_or(authority, |(name, _)| name);
        let (first, domain) = name.split_once('.')?;
        if !domain.eq_ignore_ascii_case(self.domain) {
            return None;
        }
        if first.eq_ignore_ascii_case("api") {
            return Some(Protocol::E2b);
        }
        let (port, sandbox) = first.split_once('-')?;
        let served = matches!(port.parse(), Ok(ENVD_PORT | CODE_INTERPRETER_PORT));
        (served && sandbox.parse::<SandboxId>().is_ok()).then_some(Protocol::E2bSandbox)
    }
}

/// Returns the protocol whose credential the request has.
fn by_header(headers: &HeaderMap) -> Result<Option<Protocol>, SelectError> {
    let mut found: Option<(&'static str, Option<Protocol>)> = None;
    // `Authorization: Basic` names the user inside an E2B sandbox, and is no credential.
    let bearers = headers.get_all(AUTHORIZATION).iter().filter(|value| !is_basic(value.as_bytes()));
    let subprotocols = websocket::subprotocols(headers);
    let own = [
        ("Authorization", bearers.count()),
        ("Sec-WebSocket-Protocol", subprotocols.filter(|name| name.starts_with(TOKEN_SUBPROTOCOL)).count()),
    ];
    for (name, count) in own {
        add(&mut found, (name, None), count)?;
    }
    let credentials = [
        (E2B_KEY, "X-API-KEY", Protocol::E2b),
        (E2B_SANDBOX_TOKEN, "X-Access-Token", Protocol::E2bSandbox),
        (OPEN_SANDBOX_KEY, "OPEN-SANDBOX-API-KEY", Protocol::OpenSandbox),
        (EXECD_TOKEN, "X-EXECD-ACCESS-TOKEN", Protocol::OpenSandboxExecd),
    ];
    for (header, name, protocol) in credentials {
        add(&mut found, (name, Some(protocol)), headers.get_all(&header).iter().count())?;
    }
    let by_credential = found.and_then(|(_, protocol)| protocol);
    Ok(by_credential.or_else(|| headers.contains_key(E2B_SANDBOX_ID).then_some(Protocol::E2bSandbox)))
}

/// Notes a credential that occurs so often.
fn add(
    found: &mut Option<(&'static str, Option<Protocol>)>,
    (name, protocol): (&'static str, Option<Protocol>),
    count: usize,
) -> Result<(), SelectError> {
    match (count, *found) {
        (0, _) => Ok(()),
        (1, None) => {
            *found = Some((name, protocol));
            Ok(())
        }
        (1, Some((other, _))) => Err(SelectError::TwoCredentials(other, name)),
        (_, _) => Err(SelectError::RepeatedHeader),
    }
}

fn is_basic(value: &[u8]) -> bool {
    value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"basic "))
}

/// Returns the protocol that has this path for itself.
fn by_path(path: &str) -> Option<Protocol> {
    let is_at =
        |top: &str| path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let own = [
        ("/v1/sandbox", Protocol::Cloudflare),
        ("/v1/pool", Protocol::Cloudflare),
        ("/v1/openapi.json", Protocol::Cloudflare),
        ("/health", Protocol::Cloudflare),
        ("/mcp", Protocol::Mcp),
        ("/acp", Protocol::Acp),
    ];
    own.into_iter().find(|(top, _)| is_at(top)).map(|(_, protocol)| protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path, the headers with it, and the protocol.
    type Case<'a> = (&'a str, &'a [(&'static str, &'a str)], Option<Protocol>);

    const SANDBOX: &str = "01jb9xyzabcdefghjkmnpqrstv";

    #[track_caller]
    fn selected(
        uri: &str,
        headers: &[(&'static str, &str)],
        expected: Result<Option<Protocol>, SelectError>,
    ) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let hosts = ClientHosts { domain: "example.com" };
        assert_eq!(select(hosts, &uri.parse().unwrap(), &map), expected, "{uri} {headers:?}");
    }

    #[test]
    fn a_protocol_is_chosen_by_its_credential_its_hostname_or_its_own_path() {
        let inside = format!("49983-{SANDBOX}.example.com:8080");
        let code = format!("49999-{SANDBOX}.EXAMPLE.com");
        let app = format!("3000-{SANDBOX}.example.com");
        let table: &[Case<'_>] = &[
            ("/sandboxes", &[("host", "x")], None),
            ("/sandboxes", &[("x-api-key", "e2b_1")], Some(Protocol::E2b)),
            ("/metrics", &[("authorization", "Bearer t")], None),
            ("/files", &[("x-access-token", "t")], Some(Protocol::E2bSandbox)),
            ("/files", &[("e2b-sandbox-id", SANDBOX)], Some(Protocol::E2bSandbox)),
            (
                "/files",
                &[("authorization", "Basic dXNlcjo="), ("x-access-token", "t")],
                Some(Protocol::E2bSandbox),
            ),
            ("/sandboxes", &[("host", "api.example.com")], Some(Protocol::E2b)),
            ("/sandboxes", &[("host", "api.example.org")], None),
            ("/files", &[("host", &inside)], Some(Protocol::E2bSandbox)),
            ("/execute", &[("host", &code)], Some(Protocol::E2bSandbox)),
            ("/", &[("host", &app)], None),
            ("/v1/sandboxes", &[("open-sandbox-api-key", "k")], Some(Protocol::OpenSandbox)),
            ("/command", &[("x-execd-access-token", "k")], Some(Protocol::OpenSandboxExecd)),
            ("/v1/sandbox/x/exec", &[("authorization", "Bearer t")], Some(Protocol::Cloudflare)),
            ("/v1/sandbox", &[], Some(Protocol::Cloudflare)),
            ("/v1/sandboxes", &[("authorization", "Bearer t")], None),
            ("/v1/sandboxes/x/execs", &[], None),
            ("/v1/sandbox-x", &[], None),
            ("/v1/pool/stats", &[], Some(Protocol::Cloudflare)),
            ("/v1/openapi.json", &[], Some(Protocol::Cloudflare)),
            ("/openapi.json", &[], None),
            ("/health", &[], Some(Protocol::Cloudflare)),
            ("/health", &[("x-access-token", "t")], Some(Protocol::E2bSandbox)),
            ("/healthz", &[], None),
            ("/mcp", &[], Some(Protocol::Mcp)),
            ("/acp/x", &[], Some(Protocol::Acp)),
            ("/mcpx", &[], None),
        ];
        for (uri, headers, expected) in table {
            selected(uri, headers, Ok(*expected));
        }
    }

    #[test]
    fn two_credentials_are_refused() {
        let two = |one, other| Err(SelectError::TwoCredentials(one, other));
        let repeated = || Err(SelectError::RepeatedHeader);
        let (bearer, key) = (("authorization", "Bearer t"), ("x-api-key", "k"));
        let basic = ("authorization", "Basic dXNlcjo=");
        let socket = ("sec-websocket-protocol", "slipway.acp, slipway.token.t");
        let api = format!("api.{}", "example.com");
        let host = ("host", api.as_str());
        selected("/sandboxes", &[bearer, key], two("Authorization", "X-API-KEY"));
        selected("/sandboxes", &[host, bearer, key], two("Authorization", "X-API-KEY"));
        selected("/sandboxes", &[basic, bearer, key], two("Authorization", "X-API-KEY"));
        selected("/", &[key, key], repeated());
        selected("/", &[host, key, key], repeated());
        selected("/v1/sandboxes", &[bearer, bearer], repeated());
        selected("/acp", &[bearer, socket], two("Authorization", "Sec-WebSocket-Protocol"));
        selected("/acp", &[socket, key], two("Sec-WebSocket-Protocol", "X-API-KEY"));
        let twice = ("sec-websocket-protocol", "slipway.token.t, slipway.token.u");
        selected("/acp", &[twice], repeated());
        selected("/acp", &[socket], Ok(Some(Protocol::Acp)));
        selected("/acp", &[bearer, ("sec-websocket-protocol", "slipway.acp")], Ok(Some(Protocol::Acp)));
    }
}
