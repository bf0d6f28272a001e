//! Grants and redirects, without a server.

use super::{
    GitAccess, GitFailure, GrantError, GrantRequest,
    gateway::redirected_path,
    grants::{Grants, reached, url_inside},
    limits::GRANTS_OF_SANDBOX_MAX,
    route::{GitRequest, GitService},
};
use hostd_core::GitRemote;
use protocol::api::{Label, SandboxId, SecretRef};
use std::{sync::LazyLock, time::Duration};
use tokio::time::Instant;

fn remote(text: &str) -> GitRemote {
    GitRemote::parse(text).expect("an address")
}

fn sandbox(number: u8) -> SandboxId {
    format!("{number:026}").parse().expect("an id")
}

fn request(number: u8) -> GrantRequest<'static> {
    static PLACE: LazyLock<(Label, GitRemote)> =
        LazyLock::new(|| (Label::parse("acme").expect("a label"), remote("https://github.com/o/r")));
    let (tenant, remote) = &*PLACE;
    GrantRequest {
        sandbox: sandbox(number),
        tenant,
        remote,
        auth: None,
        access: GitAccess::Fetch,
        within: Duration::from_secs(60),
    }
}

#[test]
fn a_grant_is_valid_in_its_sandbox_until_it_ends() {
    let (grants, now, github) = (Grants::default(), Instant::now(), remote("https://github.com/o/r"));
    let (token, grant) = grants.insert(github, request(0), now).expect("a grant");
    assert!(grants.find(&sandbox(0), &token, now).is_some());
    assert!(grants.find(&sandbox(1), &token, now).is_none(), "another sandbox");
    assert!(grants.find(&sandbox(0), "other", now).is_none());
    assert!(grants.find(&sandbox(0), &token, now + Duration::from_secs(60)).is_none(), "its time is over");
    grants.revoke(&super::grants::hash(&token));
    assert!(grants.find(&sandbox(0), &token, now).is_none());
    assert!(grant.ended.is_cancelled(), "what is in flight ends");
}

#[test]
fn the_grants_of_a_sandbox_are_limited() {
    let (grants, now, github) = (Grants::default(), Instant::now(), remote("https://github.com/o/r"));
    for _ in 0..GRANTS_OF_SANDBOX_MAX {
        grants.insert(github.clone(), request(0), now).expect("a grant");
    }
    assert_eq!(grants.insert(github.clone(), request(0), now).err(), Some(GrantError::TooMany));
    assert!(grants.insert(github, request(1), now).is_ok());
}

#[test]
fn a_server_is_reached_with_its_key_or_over_http_and_otherwise_there_is_an_error() {
    let (github, other) = ("git@github.com:o/r.git", "git@host:o/r.git");
    let no_key = "git@host:o/r.git is reached with SSH and there is no key: set one with `slipway secret set ssh.host`, \
        or use its https:// address";
    let of_other = "the secret git.github.com is not for this server: a credential for https://evil.example/r has the \
        name git.evil.example or git-LABEL.evil.example";
    for (text, secret, has_key, expected) in [
        (github, None, false, Ok("https://github.com/o/r.git")),
        (github, None, true, Ok(github)),
        (github, Some("ssh-ci.github.com"), false, Ok(github)),
        (github, Some("git.github.com"), false, Ok("https://github.com/o/r.git")),
        (other, None, true, Ok(other)),
        (other, None, false, Err(no_key)),
        ("https://evil.example/r", Some("git.github.com"), false, Err(of_other)),
    ] {
        let auth: Option<SecretRef> =
            secret.map(|name| format!("secret:{name}").parse().expect("a reference"));
        let found = reached(&remote(text), auth.as_ref(), has_key);
        let found = found.map(|remote| remote.to_string()).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text} {secret:?} {has_key}");
    }
    let key: SecretRef = "secret:ssh.github.com".parse().expect("a reference");
    assert!(reached(&remote("https://github.com/o/r"), Some(&key), false).is_err(), "a key is for SSH");
}

#[test]
fn git_in_the_sandbox_speaks_to_hostd_alone() {
    assert_eq!(url_inside(&remote("https://host/r"), "t"), "http://127.0.0.1:900/git/t/repo.git");
    assert_eq!(url_inside(&remote("git@host:r"), "t"), "git://127.0.0.1:900/t/repo.git");
}

#[test]
fn redirects_stay_on_their_server() {
    let (from, asked) = (remote("https://host/old"), GitRequest::Refs(GitService::UploadPack));
    let refs = "/info/refs?service=git-upload-pack";
    for (location, expected) in [
        (format!("https://host/new.git{refs}"), Some("/new.git")),
        (format!("https://HOST:443/a/b{refs}"), Some("/a/b")),
        (format!("/new{refs}"), Some("/new")),
        (format!("//evil/new{refs}"), None),
        (format!("https://evil/new{refs}"), None),
        (format!("https://host:8443/new{refs}"), None),
        (format!("http://host/new{refs}"), None),
        (format!("https://user@host/new{refs}"), None),
        (format!("/../etc{refs}"), None),
        ("https://host/login".to_owned(), None),
        (String::new(), None),
    ] {
        let found = redirected_path(&from, asked, &location);
        assert_eq!(found.as_deref().ok(), expected, "{location}");
    }
    let evil = redirected_path(&from, asked, &format!("https://evil/new{refs}"));
    let expected = GitFailure::Redirected { server: "host".to_owned(), to: "evil".to_owned() };
    assert_eq!(evil, Err(expected));
}
