//! The context of one error page: the facts that this visitor may see, and the names of things in sentences.

use super::{ErrorPage, OtherPreview, PreviewFacts, phrases, sanitized_status::SanitizedStatus};
use crate::Preview;
use protocol::{
    ListeningPort, ServiceName, ServiceState, ServiceView, api::ApiErrorCode, sanitize::one_line,
};
use std::net::IpAddr;

const NAME_MAX_CHARS: usize = 48;
const LINKS_MAX: usize = 6;

pub struct PageContext {
    pub preview: Preview,
    pub now_ms: u64,
    pub trusted: bool,
    pub status: SanitizedStatus,
    name: String,
}

impl PageContext {
    pub fn new(facts: &PreviewFacts<'_>) -> Self {
        Self {
            preview: facts.preview,
            now_ms: facts.now_ms,
            trusted: facts.trusted,
            status: facts.status.map(|status| SanitizedStatus::of(status, facts.trusted)).unwrap_or_default(),
            name: one_line(facts.name, NAME_MAX_CHARS),
        }
    }

    pub fn port(&self) -> u16 {
        self.preview.port
    }

    /// The port, and its sandbox where the visitor may know that: `3000 of shop`.
    pub fn named_port(&self) -> String {
        let port = self.port();
        if self.trusted { format!("{port} of {}", self.name) } else { port.to_string() }
    }

    /// The sandbox within a sentence.
    pub fn the_sandbox(&self) -> String {
        if self.trusted { self.name.clone() } else { "this sandbox".to_owned() }
    }

    /// The sandbox at the beginning of a sentence.
    pub fn sandbox(&self) -> String {
        if self.trusted { format!("Sandbox {}", self.name) } else { "This sandbox".to_owned() }
    }

    /// The sandbox as a command takes it: its name where a shell reads that as one plain word.
    pub fn target(&self) -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let word = self.name.bytes().all(plain) && !self.name.starts_with('-') && !self.name.is_empty();
        if word { self.name.clone() } else { self.preview.sandbox.to_string() }
    }

    /// A service at the beginning of a sentence.
    pub fn service(&self, name: &ServiceName) -> String {
        if self.trusted { format!("Service {name} of {}", self.name) } else { "The app".to_owned() }
    }

    /// Adds advice. Visitors that are not trusted all get the same.
    pub fn advised(&self, explanation: ErrorPage, advice: &[String]) -> ErrorPage {
        if self.trusted {
            return ErrorPage { advice: advice.to_vec(), ..explanation };
        }
        let hopeless = !explanation.page_waits && explanation.code != ApiErrorCode::Gone;
        let advice =
            if hopeless { vec!["Try again later, or ask the owner of this sandbox.".into()] } else { vec![] };
        ErrorPage { advice, ..explanation }
    }

    /// The service that should listen on the port: the one that declares it, or the only one.
    pub fn responsible(&self) -> Option<&ServiceView> {
        let services = &self.status.services;
        let named = services.iter().find(|service| service.port == Some(self.port()));
        let ready = |service: &ServiceView| matches!(service.state, ServiceState::Ready { .. });
        named.or(match services.as_slice() {
            [only] if only.port.is_none() || !ready(only) => Some(only),
            [] | [_, ..] => None,
        })
    }

    /// The listeners on the port itself.
    pub fn listeners(&self) -> impl Iterator<Item = &ListeningPort> {
        self.status.ports.iter().filter(|listening| listening.port == self.port())
    }

    /// The other ports of the sandbox that can be opened.
    pub fn links(&self) -> Vec<OtherPreview> {
        let mut links: Vec<OtherPreview> = Vec::new();
        for listening in self.status.ports.iter().filter(|listening| is_reachable_from_preview(listening)) {
            let port = listening.port;
            let seen = port == self.port() || links.iter().any(|link| link.preview.port == port);
            if seen || links.len() == LINKS_MAX {
                continue;
            }
            let text = match &listening.process {
                Some(process) => format!("{} on port {port}", phrases::program(Some(process))),
                None => format!("port {port}"),
            };
            links.push(OtherPreview { text, preview: Preview { port, ..self.preview } });
        }
        links
    }
}

/// Whether a connection to localhost reaches this listener.
pub fn is_reachable_from_preview(listening: &ListeningPort) -> bool {
    let address: Result<IpAddr, _> = listening.address.parse();
    // 127.0.0.2 and the like are loopback, too, but previews do not dial them.
    address.is_ok_and(|address| match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_unspecified() || v4 == std::net::Ipv4Addr::LOCALHOST,
        IpAddr::V6(v6) => v6.is_unspecified() || v6 == std::net::Ipv6Addr::LOCALHOST,
    })
}
