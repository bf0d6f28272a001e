//! All rules that are in force for one sandbox, and what they say.
//!
//! Layers: the profile `default`, the profile the sandbox names, its own rules. Each must let a request through,
//! so none widens what another denies. Over them all: what is not public is denied, unless the administrator of
//! the host excepted it.

use super::{
    address::{Reserved, faces, reserved},
    host::{Asked, Host},
    rule::{BadRule, RULES_MAX, Rule},
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

/// The profile that is in force everywhere.
pub const DEFAULT_PROFILE: &str = "default";
/// What it denies unless somebody wrote another one: sandboxes send no mail.
const MAIL: &str = "*:25,465,587";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleSet {
    pub allow: Vec<Rule>,
    pub deny: Vec<Rule>,
}

/// Where rules come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// The name of its profile; none is the sandbox itself.
    pub profile: Option<String>,
    /// Absent: there is no such profile any more.
    pub rules: Option<Arc<RuleSet>>,
}

/// What the administrator of the host lets sandboxes reach though it is not public.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions(Vec<Rule>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub layers: Vec<Layer>,
    pub exceptions: Arc<Exceptions>,
}

/// Why something is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// By a rule of a profile, or of the sandbox.
    Rule {
        rule: String,
        profile: Option<String>,
    },
    /// There are allow rules there, and none fits.
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
    Own {
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
pub enum Verdict {
    /// The rule that fits, or the word for what needs none.
    Allowed(String),
    Denied(Why),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRules {
    #[error("{0}")]
    Rule(#[from] BadRule),
    #[error("at most {RULES_MAX} rules")]
    Many,
    #[error("{0:?} would except everything: name a host or a network")]
    Everything(String),
}

/// As `default` is until somebody writes another one.
pub fn built_in() -> RuleSet {
    RuleSet { allow: vec![], deny: vec![Rule::parse(MAIL).expect("it is a good rule, see the tests")] }
}

impl RuleSet {
    pub fn parse(allow: &[String], deny: &[String]) -> Result<Self, BadRules> {
        if allow.len() > RULES_MAX || deny.len() > RULES_MAX {
            return Err(BadRules::Many);
        }
        let all = |list: &[String]| list.iter().map(|text| Rule::parse(text)).collect::<Result<_, _>>();
        Ok(Self { allow: all(allow)?, deny: all(deny)? })
    }
}

impl Exceptions {
    pub fn parse(list: &[String]) -> Result<Self, BadRules> {
        let rules = RuleSet::parse(list, &[])?.allow;
        match rules.iter().find(|rule| rule.is_of_all()) {
            Some(rule) => Err(BadRules::Everything(rule.to_string())),
            None => Ok(Self(rules)),
        }
    }

    /// An address is excepted from everything. A name is not at loopback and not on the wire: whoever answers for
    /// the name could else point it there.
    fn has(&self, asked: &Asked, address: IpAddr, kind: Option<Reserved>) -> Option<&Rule> {
        let by_name = kind.is_none_or(Reserved::may_be_named);
        self.0
            .iter()
            .find(|rule| (by_name || !rule.is_of_names()) && rule.fits(asked, address.to_canonical()))
    }
}

impl Policy {
    /// What can be said before a name is looked up: a name that is denied is not even asked for.
    pub fn before(&self, asked: &Asked) -> Option<Why> {
        if asked.host.is_localhost() {
            return Some(Why::Localhost);
        }
        self.layers.iter().find_map(|layer| layer.before(asked))
    }

    /// Of one address that the host is at. `own` says whether it is one of this machine.
    pub fn judge(&self, asked: &Asked, address: IpAddr, own: bool) -> Verdict {
        if let Some(why) = self.before(asked) {
            return Verdict::Denied(why);
        }
        let mut fitting = None;
        for layer in &self.layers {
            match layer.judge(asked, address) {
                Err(why) => return Verdict::Denied(why),
                Ok(rule) => fitting = rule.or(fitting),
            }
        }
        let kind = reserved(address);
        if own || kind.is_some() {
            return match (self.exceptions.has(asked, address, kind), kind) {
                (Some(rule), _) => Verdict::Allowed(rule.to_string()),
                (None, Some(kind)) => Verdict::Denied(Why::Address { address, kind }),
                (None, None) => Verdict::Denied(Why::Own { address }),
            };
        }
        Verdict::Allowed(fitting.unwrap_or_else(|| "public".to_owned()))
    }
}

impl Layer {
    fn before(&self, asked: &Asked) -> Option<Why> {
        let Some(rules) = &self.rules else {
            return Some(Why::NoProfile { profile: self.profile.clone().unwrap_or_default() });
        };
        if let Host::Address(address) = asked.host {
            return self.judge(asked, address).err();
        }
        if let Some(rule) = rules.deny.iter().find(|rule| rule.fits_name(asked)) {
            return Some(self.denied_by(rule));
        }
        // A rule of addresses may still fit.
        let may = |rule: &Rule| rule.fits_name(asked) || (!rule.is_of_names() && rule.has_port(asked.port));
        let nothing = !rules.allow.is_empty() && !rules.allow.iter().any(may);
        nothing.then(|| Why::NotAllowed { profile: self.profile.clone() })
    }

    /// The rule that allows it, if it needs one.
    fn judge(&self, asked: &Asked, address: IpAddr) -> Result<Option<String>, Why> {
        let Some(rules) = &self.rules else {
            return Err(Why::NoProfile { profile: self.profile.clone().unwrap_or_default() });
        };
        let faces = faces(address);
        let denies = |rule: &&Rule| faces.iter().any(|face| rule.fits(asked, *face));
        if let Some(rule) = rules.deny.iter().find(denies) {
            return Err(self.denied_by(rule));
        }
        let allows = |rule: &&Rule| rule.fits(asked, address.to_canonical());
        match rules.allow.iter().find(allows) {
            Some(rule) => Ok(Some(rule.to_string())),
            None if rules.allow.is_empty() => Ok(None),
            None => Err(Why::NotAllowed { profile: self.profile.clone() }),
        }
    }

    fn denied_by(&self, rule: &Rule) -> Why {
        Why::Rule { rule: rule.to_string(), profile: self.profile.clone() }
    }
}

impl Why {
    /// In one word, for events and for the header of an answer.
    pub fn rule(&self) -> String {
        match self {
            Self::Rule { rule, .. } => rule.clone(),
            Self::NotAllowed { .. } => "no allow rule fits".to_owned(),
            Self::NoProfile { .. } => "no such profile".to_owned(),
            Self::Address { kind, .. } => format!("{} address", kind.word()),
            Self::Own { .. } => "address of the host".to_owned(),
            Self::Localhost => "loopback address".to_owned(),
            Self::Preview { .. } => "preview".to_owned(),
        }
    }

    pub fn profile(&self) -> Option<&str> {
        match self {
            Self::Rule { profile, .. } | Self::NotAllowed { profile } => profile.as_deref(),
            Self::NoProfile { profile } => Some(profile),
            Self::Address { .. } | Self::Own { .. } | Self::Localhost | Self::Preview { .. } => None,
        }
    }

    /// The address it is about, where that was spelled. Where a name stands for it, nobody is told: a sandbox could
    /// else learn from the host's names what its networks look like.
    pub fn address(&self, asked: &Asked) -> Option<IpAddr> {
        match self {
            Self::Address { address, .. } | Self::Own { address } => spelled(asked, *address),
            Self::Rule { .. }
            | Self::NotAllowed { .. }
            | Self::NoProfile { .. }
            | Self::Localhost
            | Self::Preview { .. } => None,
        }
    }

    /// For whoever asked, and what to do about it.
    pub fn words(&self, asked: &Asked) -> String {
        match self {
            Self::Rule { rule, profile } => {
                format!("{asked} is denied by the rule {rule} of {}. {}", of(profile), remedy(profile))
            }
            Self::NotAllowed { profile } => {
                format!("{asked} is denied: no allow rule of {} fits it. {}", of(profile), remedy(profile))
            }
            Self::NoProfile { profile } => format!(
                "{asked} is denied: this sandbox names the profile {profile}, and there is none. The \
                 administrator of the host can write it: PUT /v1/egress-profiles/{profile}."
            ),
            Self::Address { address, kind: Reserved::Loopback } => format!(
                "{asked} is denied: {} a loopback address. What listens in this sandbox is reached \
                 directly, without a proxy: set NO_PROXY=localhost,127.0.0.1,::1.",
                subject(asked, *address)
            ),
            Self::Address { address, kind } => format!(
                "{asked} is denied: {} a {} address, and sandboxes reach public ones only. The administrator of \
                 the host can except {}.",
                subject(asked, *address),
                kind.word(),
                exception(asked, *address, kind.may_be_named())
            ),
            Self::Own { address } => format!(
                "{asked} is denied: {} an address of the host. Its administrator can except {}.",
                subject(asked, *address),
                exception(asked, *address, true)
            ),
            Self::Localhost => format!(
                "{asked} is denied: it means this sandbox itself, and is reached directly, without a proxy: set \
                 NO_PROXY=localhost,127.0.0.1,::1."
            ),
            Self::Preview { port } => format!(
                "{asked} is denied: it is a preview. Within its sandbox the app is at http://127.0.0.1:{port}, \
                 without a proxy."
            ),
        }
    }
}

fn spelled(asked: &Asked, address: IpAddr) -> Option<IpAddr> {
    match asked.host {
        Host::Address(_) => Some(address),
        Host::Name(_) => None,
    }
}

fn subject(asked: &Asked, address: IpAddr) -> String {
    spelled(asked, address).map_or_else(|| "it is at".to_owned(), |address| format!("{address} is"))
}

/// What to except. Where a name would not do, the administrator has to look its address up.
fn exception(asked: &Asked, address: IpAddr, by_name: bool) -> String {
    match spelled(asked, address) {
        Some(address) => format!("it: SLIPWAY_EGRESS_PRIVATE={}", SocketAddr::new(address, asked.port)),
        None if by_name => format!("it: SLIPWAY_EGRESS_PRIVATE={asked}"),
        None => "its address: SLIPWAY_EGRESS_PRIVATE".to_owned(),
    }
}

fn of(profile: &Option<String>) -> String {
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
