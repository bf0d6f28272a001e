//! What the git gateway is configured with: the token hook and the user that runs it.

use crate::{
    command::Failure,
    config::Config,
    git::{GitSettings, TokenHookSettings},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

const USERS: &str = "/etc/passwd";

pub fn git_settings(config: &Config) -> Result<GitSettings, Failure> {
    let token_hook = config.git_token_hook.clone().map(|program| token_hook(config, program)).transpose()?;
    Ok(GitSettings { token_hook, known_hosts: config.git_known_hosts.clone() })
}

/// Checks the token hook, so that a mistake ends the start and not the first clone.
fn token_hook(config: &Config, program: PathBuf) -> Result<TokenHookSettings, Failure> {
    let usage = |key: &str, why: String| Failure::Usage(format!("SLIPWAY_{key} {why}"));
    if !is_program(&program) {
        let why = format!("must be an executable file, and {} is none", program.display());
        return Err(usage("GIT_TOKEN_HOOK", why));
    }
    let users = fs::read_to_string(USERS).unwrap_or_default();
    let name = &config.git_token_hook_user;
    let ids = ids_of(&users, name);
    let (uid, gid) = ids.ok_or_else(|| {
        usage("GIT_TOKEN_HOOK_USER", format!("must be a user of {USERS} other than root, not {name:?}"))
    })?;
    let servers = config.git_token_hook_servers.clone();
    if servers.is_empty() {
        let why = "must name the servers that SLIPWAY_GIT_TOKEN_HOOK has tokens for, as in github.com";
        return Err(usage("GIT_TOKEN_HOOK_SERVERS", why.to_owned()));
    }
    Ok(TokenHookSettings { program, uid, gid, servers })
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Finds the user and group of a name in the text of the user database; none with the ids of root.
fn ids_of(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut fields = line.split(':').skip(1);
    let mut id = || fields.next()?.parse::<u32>().ok().filter(|id| *id != 0);
    Some((id()?, id()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name_and_root_never() {
        let users = "root:x:0:0:root:/root:/bin/sh\nadmin:x:1001:0::/:\nmint:x:990:991::/:\nnobody:x:65534:65534:n:/:\n";
        for (name, expected) in [
            ("nobody", Some((65534, 65534))),
            ("mint", Some((990, 991))),
            ("root", None),
            ("admin", None),
            ("min", None),
            ("", None),
            ("990", None),
        ] {
            assert_eq!(ids_of(users, name), expected, "{name:?}");
        }
    }
}
