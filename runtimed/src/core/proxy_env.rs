//! Environment variables that point the programs of a job to the proxy that hostd runs on the sandbox's
//! loopback. The user name in the proxy's URL names the job, so that every decision of the proxy does too.

use protocol::HOSTD_PORT_IN_SANDBOX;

/// Read by curl, wget, git, apt, cargo, pip, Python, Go and most others.
const PROXY: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"];
/// Read by single programs under their own names.
const PROXY_OF_ONE: [&str; 4] =
    ["npm_config_proxy", "npm_config_https_proxy", "PIP_PROXY", "CARGO_HTTP_PROXY"];
const DIRECT: [&str; 2] = ["NO_PROXY", "no_proxy"];
const DIRECT_HOSTS: &str = "localhost,127.0.0.1,::1,.localhost";
/// Node reads the proxy variables only with this flag; git sends the credentials only with this method.
const HINTS: [(&str, &str); 2] = [("NODE_USE_ENV_PROXY", "1"), ("GIT_HTTP_PROXY_AUTHMETHOD", "basic")];

/// Adds the variables that are not set. A job with a proxy of its own gets none: programs differ in which
/// name they prefer.
pub fn add_proxy_env(kind: &str, name: &str, env: &mut Vec<(String, String)>) {
    let given = |wanted: &str| env.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
    if ["http_proxy", "https_proxy", "all_proxy"].into_iter().any(given) {
        return;
    }
    let proxy = format!("http://{kind}.{name}:x@127.0.0.1:{HOSTD_PORT_IN_SANDBOX}");
    let proxies = PROXY.iter().chain(&PROXY_OF_ONE).map(|name| (*name, proxy.as_str()));
    let direct = DIRECT.iter().map(|name| (*name, DIRECT_HOSTS));
    let all = proxies.chain(direct).chain(HINTS);
    let ours: Vec<_> = all
        .filter(|(name, _)| !given(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    env.extend(ours);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env_with(given: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut env = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        add_proxy_env("exec", "e1", &mut env);
        env
    }

    fn value<'a>(env: &'a [(String, String)], wanted: &str) -> Vec<&'a str> {
        env.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str()).collect()
    }

    #[test]
    fn a_job_finds_the_proxy_under_every_name_that_programs_look_for() {
        let env = env_with(&[]);
        for name in PROXY.iter().chain(&PROXY_OF_ONE) {
            assert_eq!(value(&env, name), ["http://exec.e1:x@127.0.0.1:900"], "{name}");
        }
        assert_eq!(value(&env, "no_proxy"), ["localhost,127.0.0.1,::1,.localhost"]);
        assert_eq!(value(&env, "NODE_USE_ENV_PROXY"), ["1"]);
        assert!(value(&env, "ALL_PROXY").is_empty());
    }

    #[test]
    fn what_is_given_wins() {
        for name in ["HTTPS_PROXY", "http_proxy", "All_Proxy"] {
            let env = env_with(&[(name, "http://mine:1")]);
            assert_eq!(env.len(), 1, "{name}: a proxy of one's own is the only one");
        }
        let env = env_with(&[("No_Proxy", "x"), ("NODE_USE_ENV_PROXY", "0")]);
        assert_eq!((value(&env, "no_proxy").len(), value(&env, "NODE_USE_ENV_PROXY")), (0, vec!["0"]));
        assert_eq!(value(&env, "HTTP_PROXY").len(), 1);
    }
}
