//! All rules that are in force for one sandbox, and their decision.
//!
//! Layers: the profile `default`, the profile the sandbox names, its own rules. Each must let a request
//! through, so none widens what another denies. Above all layers: addresses that are not public are denied,
//! unless the administrator of the host excepted them.

use super::{
    address::{Reserved, reserved, with_embedded},
    host::{Destination, Host},
    rule::{InvalidRule, RULES_MAX, Rule},
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// The profile that is in force for every sandbox.
pub const DEFAULT_PROFILE: &str = "default";
/// Denied by the built-in default profile: sandboxes send no mail.
const MAIL_PORTS: &str = "*:25,465,587";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSet {
    pub allow: Vec<Rule>,
    pub deny: Vec<Rule>,
}

/// The rules of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The name of the profile; none for the sandbox's own rules.
    pub profile: Option<String>,
    /// None where the profile does not exist any more.
    pub rules: Option<Arc<RuleSet>>,
}

/// Hosts that sandboxes may reach although they are not public, by configuration of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions(Vec<Rule>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub layers: Vec<Layer>,
    pub exceptions: Arc<Exceptions>,
}

/// Why a destination is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// A deny rule of a profile or of the sandbox matches.
    Rule {
        rule: String,
        profile: Option<String>,
    },
    /// There are allow rules, and none matches.
    NotAllowed {
        profile: Option<String>,
    },
    NoProfile {
        profile: String,
    },
    Address {
        address: IpAddr,
        kind: Reserved,
    },
    /// An address of the host itself.
    HostAddress {
        address: IpAddr,
    },
    /// A name of loopback.
    Localhost,
    /// The preview of a port of a sandbox.
    Preview {
        port: u16,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The rule that allows it, or `public` where none was needed.
    Allowed(String),
    Denied(Denial),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRules {
    #[error("{0}")]
    Rule(#[from] InvalidRule),
    #[error("at most {RULES_MAX} rules")]
    TooMany,
    #[error("{0:?} would except everything: name a host or a network")]
    Everything(String),
}

/// The profile `default` until an administrator writes another one.
pub fn built_in_rules() -> RuleSet {
    RuleSet { allow: vec![], deny: vec![Rule::parse(MAIL_PORTS).expect("it is a good rule, see the tests")] }
}

impl RuleSet {
    pub fn parse(allow: &[String], deny: &[String]) -> Result<Self, InvalidRules> {
        if allow.len() > RULES_MAX || deny.len() > RULES_MAX {
            return Err(InvalidRules::TooMany);
        }
        let all = |list: &[String]| list.iter().map(|text| Rule::parse(text)).collect::<Result<_, _>>();
        Ok(Self { allow: all(allow)?, deny: all(deny)? })
    }
}

impl Exceptions {
    pub fn parse(list: &[String]) -> Result<Self, InvalidRules> {
        let rules = RuleSet::parse(list, &[])?.allow;
        match rules.iter().find(|rule| rule.matches_any_host()) {
            Some(rule) => Err(InvalidRules::Everything(rule.to_string())),
            None => Ok(Self(rules)),
        }
    }

    /// Whether an exception covers an address of a destination.
    pub fn lists(&self, destination: &Destination, address: IpAddr) -> bool {
        self.matching(destination, address, reserved(address)).is_some()
    }

    /// The exception that matches. One for an address covers every kind of address. One for a name does not
    /// cover loopback and link-local addresses: the owner of the name could point it there.
    fn matching(&self, destination: &Destination, address: IpAddr, kind: Option<Reserved>) -> Option<&Rule> {
        let by_name = kind.is_none_or(Reserved::allows_name_exception);
        self.0
            .iter()
            .find(|rule| (by_name || !rule.is_by_name()) && rule.matches(destination, address.to_canonical()))
    }
}

impl Policy {
    /// Decides as far as possible before a name is looked up: a denied name causes no DNS query.
    pub fn precheck(&self, destination: &Destination) -> Option<Denial> {
        if destination.host.is_localhost() {
            return Some(Denial::Localhost);
        }
        self.layers.iter().find_map(|layer| layer.precheck(destination))
    }

    /// Decides about one address of the host. `is_host_address`: the address belongs to this machine.
    pub fn decide(&self, destination: &Destination, address: IpAddr, is_host_address: bool) -> Decision {
        if let Some(denial) = self.precheck(destination) {
            return Decision::Denied(denial);
        }
        let mut fitting = None;
        for layer in &self.layers {
            match layer.decide(destination, address) {
                Err(denial) => return Decision::Denied(denial),
                Ok(rule) => fitting = rule.or(fitting),
            }
        }
        let kind = reserved(address);
        if is_host_address || kind.is_some() {
            return match (self.exceptions.matching(destination, address, kind), kind) {
                (Some(rule), _) => Decision::Allowed(rule.to_string()),
                (None, Some(kind)) => Decision::Denied(Denial::Address { address, kind }),
                (None, None) => Decision::Denied(Denial::HostAddress { address }),
            };
        }
        Decision::Allowed(fitting.unwrap_or_else(|| "public".to_owned()))
    }
}

impl Layer {
    fn precheck(&self, destination: &Destination) -> Option<Denial> {
        let Some(rules) = &self.rules else {
            return Some(Denial::NoProfile { profile: self.profile.clone().unwrap_or_default() });
        };
        if let Host::Address(address) = destination.host {
            return self.decide(destination, address).err();
        }
        if let Some(rule) = rules.deny.iter().find(|rule| rule.matches_name(destination)) {
            return Some(self.denied_by(rule));
        }
        // A rule for addresses may still match after the lookup.
        let may = |rule: &Rule| {
            rule.matches_name(destination) || (!rule.is_by_name() && rule.has_port(destination.port))
        };
        let none_matches = !rules.allow.is_empty() && !rules.allow.iter().any(may);
        none_matches.then(|| Denial::NotAllowed { profile: self.profile.clone() })
    }

    /// The rule that allows the destination, if one is needed.
    fn decide(&self, destination: &Destination, address: IpAddr) -> Result<Option<String>, Denial> {
        let Some(rules) = &self.rules else {
            return Err(Denial::NoProfile { profile: self.profile.clone().unwrap_or_default() });
        };
        let with_embedded = with_embedded(address);
        let denies = |rule: &&Rule| with_embedded.iter().any(|form| rule.matches(destination, *form));
        if let Some(rule) = rules.deny.iter().find(denies) {
            return Err(self.denied_by(rule));
        }
        let allows = |rule: &&Rule| rule.matches(destination, address.to_canonical());
        match rules.allow.iter().find(allows) {
            Some(rule) => Ok(Some(rule.to_string())),
            None if rules.allow.is_empty() => Ok(None),
            None => Err(Denial::NotAllowed { profile: self.profile.clone() }),
        }
    }

    fn denied_by(&self, rule: &Rule) -> Denial {
        Denial::Rule { rule: rule.to_string(), profile: self.profile.clone() }
    }
}

impl Denial {
    /// A short label, for events and for the header of a refusal.
    pub fn rule(&self) -> String {
        match self {
            Self::Rule { rule, .. } => rule.clone(),
            Self::NotAllowed { .. } => "no allow rule fits".to_owned(),
            Self::NoProfile { .. } => "no such profile".to_owned(),
            Self::Address { kind, .. } => format!("{} address", kind.label()),
            Self::HostAddress { .. } => "address of the host".to_owned(),
            Self::Localhost => "loopback address".to_owned(),
            Self::Preview { .. } => "preview".to_owned(),
        }
    }

    pub fn profile(&self) -> Option<&str> {
        match self {
            Self::Rule { profile, .. } | Self::NotAllowed { profile } => profile.as_deref(),
            Self::NoProfile { profile } => Some(profile),
            Self::Address { .. } | Self::HostAddress { .. } | Self::Localhost | Self::Preview { .. } => None,
        }
    }

    /// The denied address, if the request spelled it. The address behind a name is not revealed: a sandbox
    /// could map the networks of the host with its DNS.
    pub fn address(&self, destination: &Destination) -> Option<IpAddr> {
        match self {
            Self::Address { address, .. } | Self::HostAddress { address } => {
                literal_address(destination, *address)
            }
            Self::Rule { .. }
            | Self::NotAllowed { .. }
            | Self::NoProfile { .. }
            | Self::Localhost
            | Self::Preview { .. } => None,
        }
    }

    /// The message for the client, with what to do about it.
    pub fn message(&self, destination: &Destination) -> String {
        match self {
            Self::Rule { rule, profile } => {
                format!(
                    "{destination} is denied by the rule {rule} of {}. {}",
                    source(profile),
                    remedy(profile)
                )
            }
            Self::NotAllowed { profile } => {
                format!(
                    "{destination} is denied: no allow rule of {} fits it. {}",
                    source(profile),
                    remedy(profile)
                )
            }
            Self::NoProfile { profile } => format!(
                "{destination} is denied: this sandbox names the profile {profile}, and there is none. The \
                 administrator of the host can write it: PUT /v1/egress-profiles/{profile}."
            ),
            Self::Address { address, kind: Reserved::Loopback } => format!(
                "{destination} is denied: {} a loopback address. What listens in this sandbox is reached \
                 directly, without a proxy: set NO_PROXY=localhost,127.0.0.1,::1.",
                subject(destination, *address)
            ),
            Self::Address { address, kind } => format!(
                "{destination} is denied: {} a {} address, and sandboxes reach public ones only. The administrator of \
                 the host can except {}.",
                subject(destination, *address),
                kind.label(),
                exception(destination, *address, kind.allows_name_exception())
            ),
            Self::HostAddress { address } => format!(
                "{destination} is denied: {} an address of the host. Its administrator can except {}.",
                subject(destination, *address),
                exception(destination, *address, true)
            ),
            Self::Localhost => format!(
                "{destination} is denied: it means this sandbox itself, and is reached directly, without a proxy: set \
                 NO_PROXY=localhost,127.0.0.1,::1."
            ),
            Self::Preview { port } => format!(
                "{destination} is denied: it is a preview. Within its sandbox the app is at http://127.0.0.1:{port}, \
                 without a proxy."
            ),
        }
    }
}

fn literal_address(destination: &Destination, address: IpAddr) -> Option<IpAddr> {
    match destination.host {
        Host::Address(_) => Some(address),
        Host::Name(_) => None,
    }
}

fn subject(destination: &Destination, address: IpAddr) -> String {
    literal_address(destination, address)
        .map_or_else(|| "it is at".to_owned(), |address| format!("{address} is"))
}

/// The exception to configure. Where an exception for the name would not do, it has to be the address.
fn exception(destination: &Destination, address: IpAddr, by_name: bool) -> String {
    match literal_address(destination, address) {
        Some(address) => format!("it: SLIPWAY_EGRESS_PRIVATE={}", SocketAddr::new(address, destination.port)),
        None if by_name => format!("it: SLIPWAY_EGRESS_PRIVATE={destination}"),
        None => "its address: SLIPWAY_EGRESS_PRIVATE".to_owned(),
    }
}

fn source(profile: &Option<String>) -> String {
    profile.as_ref().map_or_else(|| "this sandbox".to_owned(), |name| format!("the profile {name}"))
}

fn remedy(profile: &Option<String>) -> String {
    match profile {
        Some(name) => {
            format!("The administrator of the host can change it: PUT /v1/egress-profiles/{name}.")
        }
        None => "Its owner can change it: PUT /v1/sandboxes/{id}/egress, or slipway egress.".to_owned(),
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
