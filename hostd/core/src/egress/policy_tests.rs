use super::*;
use proptest::prelude::*;

fn layer(profile: Option<&str>, allow: &[&str], deny: &[&str]) -> Layer {
    let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let rules = RuleSet::parse(&own(allow), &own(deny)).expect("good rules");
    Layer { profile: profile.map(str::to_owned), rules: Some(Arc::new(rules)) }
}

fn policy(layers: Vec<Layer>, except: &[&str]) -> Policy {
    let except: Vec<String> = except.iter().map(|text| (*text).to_owned()).collect();
    Policy { layers, exceptions: Arc::new(Exceptions::parse(&except).expect("good ones")) }
}

fn destination(text: &str) -> Destination {
    Destination::parse(text, Some(443)).expect(text)
}

/// The deciding rule, after `+` for allowed or `-` for denied.
fn decision(policy: &Policy, host: &str, address: &str) -> String {
    match policy.decide(&destination(host), address.parse().expect("an address"), false) {
        Decision::Allowed(rule) => format!("+{rule}"),
        Decision::Denied(denial) => format!("-{}", denial.rule()),
    }
}

#[test]
fn deny_wins_and_an_allow_list_is_a_whole_list() {
    let mail = layer(Some("default"), &[], &["*:25,465,587"]);
    let table = [
        (vec![], "example.com", "1.2.3.4", "+public"),
        (vec![mail.clone()], "example.com", "1.2.3.4", "+public"),
        (vec![mail.clone()], "example.com:587", "1.2.3.4", "-*:25,465,587"),
        (vec![layer(None, &["*.example.com"], &[])], "a.example.com", "1.2.3.4", "+*.example.com"),
        (vec![layer(None, &["*.example.com"], &[])], "example.org", "1.2.3.4", "-no allow rule fits"),
        (vec![layer(None, &["*"], &["a.example.com"])], "a.example.com", "1.2.3.4", "-a.example.com"),
        (vec![layer(None, &["1.2.3.0/24"], &[])], "example.com", "1.2.3.4", "+1.2.3.0/24"),
        (vec![layer(None, &["1.2.3.0/24"], &[])], "example.com", "1.2.4.1", "-no allow rule fits"),
        (vec![layer(None, &[], &["1.2.3.0/24"])], "example.com", "1.2.3.4", "-1.2.3.0/24"),
        (vec![layer(None, &[], &["1.2.3.0/24"])], "example.com", "::ffff:1.2.3.4", "-1.2.3.0/24"),
        // An allow rule of one layer does not override another layer.
        (vec![mail, layer(None, &["*:25"], &[])], "example.com:25", "1.2.3.4", "-*:25,465,587"),
        (
            vec![Layer { profile: Some("x".into()), rules: None }],
            "example.com",
            "1.2.3.4",
            "-no such profile",
        ),
    ];
    for (layers, host, address, expected) in table {
        assert_eq!(decision(&policy(layers.clone(), &[]), host, address), expected, "{layers:?} {host}");
    }
}

#[test]
fn an_address_that_is_not_public_needs_an_exception_whatever_is_allowed() {
    let open = || vec![layer(None, &["*", "0.0.0.0/0"], &[])];
    let table = [
        (&[][..], "10.0.0.5", "10.0.0.5", "-private address"),
        (&[], "intranet.example", "10.0.0.5", "-private address"),
        (&[], "example.com", "203.0.113.1", "-documentation address"),
        (&["203.0.113.0/24"], "example.com", "203.0.113.1", "+203.0.113.0/24"),
        (&[], "metadata.example", "169.254.169.254", "-link-local address"),
        (&["10.0.0.5:443"], "10.0.0.5", "10.0.0.5", "+10.0.0.5:443"),
        (&["10.0.0.5:443"], "10.0.0.5:80", "10.0.0.5", "-private address"),
        (&["10.0.0.5:443"], "intranet.example", "::ffff:10.0.0.5", "+10.0.0.5:443"),
        (&["intranet.example:443"], "intranet.example", "10.0.0.5", "+intranet.example:443"),
        (&["intranet.example:443"], "other.example", "10.0.0.5", "-private address"),
        // An exception for a name does not cover every address.
        (&["intranet.example"], "intranet.example", "169.254.169.254", "-link-local address"),
        (&["intranet.example"], "intranet.example", "127.0.0.1", "-loopback address"),
        (&["127.0.0.1:8080"], "127.0.0.1:8080", "127.0.0.1", "+127.0.0.1:8080"),
        (&["127.0.0.1:8080"], "localhost:8080", "127.0.0.1", "-loopback address"),
    ];
    for (except, host, address, expected) in table {
        assert_eq!(decision(&policy(open(), except), host, address), expected, "{except:?} {host} {address}");
    }
    let own = policy(open(), &[]).decide(&destination("example.com"), "1.2.3.4".parse().expect("one"), true);
    assert!(matches!(own, Decision::Denied(Denial::HostAddress { .. })));
    assert!(Exceptions::parse(&["*:443".to_owned()]).is_err());
}

#[test]
fn a_name_that_is_denied_is_not_looked_up() {
    let table = [
        (layer(None, &[], &["*.example.com"]), "a.example.com", true),
        (layer(None, &[], &["1.2.3.0/24"]), "a.example.com", false),
        (layer(None, &["example.org"], &[]), "a.example.com", true),
        (layer(None, &["example.org", "1.2.3.0/24"], &[]), "a.example.com", false),
        (layer(None, &["1.2.3.0/24:80"], &[]), "a.example.com", true),
        (layer(None, &[], &[]), "x.localhost", true),
        (layer(None, &[], &["1.2.3.0/24"]), "1.2.3.4", true),
    ];
    for (layer, host, denied) in table {
        assert_eq!(
            policy(vec![layer.clone()], &[]).precheck(&destination(host)).is_some(),
            denied,
            "{layer:?} {host}"
        );
    }
}

#[test]
fn the_built_in_profile_denies_mail_only() {
    let rules = Some(Arc::new(built_in_rules()));
    let policy = policy(vec![Layer { profile: Some("default".into()), rules }], &[]);
    for (port, good) in [(25, false), (465, false), (587, false), (443, true), (22, true), (65535, true)] {
        let decision = decision(&policy, &format!("example.com:{port}"), "1.2.3.4");
        assert_eq!(decision.starts_with('+'), good, "{port}");
    }
}

#[test]
fn a_denial_says_what_to_do() {
    let denied = |policy: &Policy, host: &str, address: &str| match policy.decide(
        &destination(host),
        address.parse().expect("one"),
        false,
    ) {
        Decision::Denied(denial) => denial.message(&destination(host)),
        Decision::Allowed(_) => panic!("{host}"),
    };
    let rules =
        policy(vec![layer(Some("default"), &[], &["*:25"]), layer(None, &["*.example.com"], &[])], &[]);
    let messages: Vec<String> = [
        ("example.org", "1.2.3.4"),
        ("a.example.com:25", "1.2.3.4"),
        ("a.example.com", "169.254.169.254"),
        ("a.example.com", "127.0.0.1"),
        ("a.example.com:8080", "10.1.2.3"),
        ("localhost:3000", "127.0.0.1"),
    ]
    .iter()
    .map(|(host, address)| denied(&rules, host, address))
    .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

proptest! {
    #[test]
    fn nothing_that_is_not_public_is_ever_allowed_without_an_exception(
        bits in any::<u32>(), six in any::<u128>(), allow in any::<bool>(), port in 1..u16::MAX,
    ) {
        let rules: &[&str] = if allow { &["*", "0.0.0.0/0", "::/0"] } else { &[] };
        let policy = policy(vec![layer(None, rules, &[])], &[]);
        let addresses: [IpAddr; 2] = [std::net::Ipv4Addr::from_bits(bits).into(), std::net::Ipv6Addr::from_bits(six).into()];
        for address in addresses {
            for host in [Host::Name("example.com".into()), Host::Address(address)] {
                let decision = policy.decide(&Destination { host, port }, address, false);
                let public = reserved(address).is_none();
                prop_assert_eq!(matches!(decision, Decision::Allowed(_)), public, "{}", address);
            }
        }
    }
}
