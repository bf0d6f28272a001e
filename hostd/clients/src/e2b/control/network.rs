//! E2B's rules for the network as egress rules. To E2B what is allowed wins over what is denied, and what neither names
//! is allowed; here what is denied wins, and once something is allowed, all else is denied.

use super::{error::E2bError, request::NetworkConfig};
use protocol::api::EgressRules;

/// All addresses, as the SDKs write it.
const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];
/// What a mask may be: apps see `localhost:<port>` anyway.
const MASKS: [&str; 3] = ["localhost:${PORT}", "localhost:$PORT", "localhost"];

/// Returns the egress rules of a configuration, or refuses what they cannot express.
pub fn egress_rules(config: &NetworkConfig, allow_internet: Option<bool>) -> Result<EgressRules, E2bError> {
    check(config)?;
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let (allow, deny) = (list(&config.allow_out), list(&config.deny_out));
    let is_all = |rule: &String| ALL.contains(&rule.as_str());
    let internet = config.allow_internet_access.or(allow_internet);
    let denies_all = internet == Some(false) || deny.iter().any(is_all);
    if allow.iter().any(is_all) {
        return Ok(EgressRules::default());
    }
    if denies_all {
        let deny = if allow.is_empty() { vec!["*".to_owned()] } else { vec![] };
        return Ok(EgressRules { allow, deny, ..EgressRules::default() });
    }
    if !deny.is_empty() && !allow.is_empty() {
        return Err(E2bError::invalid(
            "network: exceptions from what is denied are not supported; deny all traffic (0.0.0.0/0) and allow what is needed",
        ));
    }
    // Without anything denied, what is allowed is only part of what is allowed anyway.
    Ok(EgressRules { deny, ..EgressRules::default() })
}

fn check(config: &NetworkConfig) -> Result<(), E2bError> {
    let mask = config.mask_request_host.as_deref();
    let refused = [
        ("rules", config.rules.as_ref().is_some_and(|rules| !rules.is_empty())),
        ("egressProxy", config.egress_proxy.as_ref().is_some_and(|proxy| !proxy.is_null())),
        ("httpsPorts", config.https_ports.as_ref().is_some_and(|ports| !ports.is_empty())),
        ("dnsServers", config.dns_servers.as_ref().is_some_and(|servers| !servers.is_empty())),
        ("maskRequestHost", mask.is_some_and(|mask| !MASKS.contains(&mask))),
    ];
    match refused.iter().find(|(_, given)| *given) {
        Some((field, _)) => {
            Err(E2bError::invalid(format!("network.{field}: this server does not have it; leave it out")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_keep_their_meaning_or_are_refused() {
        let all = "0.0.0.0/0";
        let table = [
            (json!({}), None, Some((vec![], vec![]))),
            (json!({}), Some(true), Some((vec![], vec![]))),
            (json!({}), Some(false), Some((vec![], vec!["*"]))),
            (json!({"denyOut": [all]}), None, Some((vec![], vec!["*"]))),
            (json!({"denyOut": [all], "allowOut": ["a.com"]}), None, Some((vec!["a.com"], vec![]))),
            (json!({"allowOut": ["a.com"]}), Some(false), Some((vec!["a.com"], vec![]))),
            (json!({"allow_internet_access": false}), None, Some((vec![], vec!["*"]))),
            (json!({"denyOut": ["192.0.2.0/24"]}), None, Some((vec![], vec!["192.0.2.0/24"]))),
            (json!({"denyOut": [all], "allowOut": [all]}), None, Some((vec![], vec![]))),
            (json!({"allowOut": ["a.com"]}), None, Some((vec![], vec![]))),
            (json!({"denyOut": ["192.0.2.0/24"], "allowOut": ["192.0.2.1"]}), None, None),
            (json!({"rules": {"a.com": [{"transform": {}}]}}), None, None),
            (json!({"egressProxy": {"address": "x:1"}}), None, None),
            (json!({"dnsServers": ["8.8.8.8"]}), None, None),
            (json!({"httpsPorts": [443]}), None, None),
            (json!({"maskRequestHost": "x"}), None, None),
            (json!({"maskRequestHost": "localhost:${PORT}", "rules": {}}), None, Some((vec![], vec![]))),
        ];
        for (text, internet, expected) in table {
            let config: NetworkConfig = serde_json::from_value(text.clone()).expect("a configuration");
            let rules = egress_rules(&config, internet).ok();
            let rules = rules.map(|rules| (rules.allow, rules.deny));
            let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect::<Vec<_>>();
            let expected = expected.map(|(allow, deny)| (owned(allow), owned(deny)));
            assert_eq!(rules, expected, "{text} {internet:?}");
        }
    }
}
