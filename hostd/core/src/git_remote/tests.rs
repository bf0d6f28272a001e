//! Addresses of repositories: what is accepted, and which secret is for which server.

use super::*;

#[test]
fn addresses_are_parsed_and_printed_in_one_form() {
    for (text, printed) in [
        ("https://github.com/o/r.git", "https://github.com/o/r.git"),
        ("HTTPS://GitHub.com:443/o/r.git/", "https://github.com/o/r.git"),
        ("https://git.corp:8443/a/b/c", "https://git.corp:8443/a/b/c"),
        ("https://127.1/r", "https://127.0.0.1/r"),
        ("http://127.0.0.1:3000/r.git", "http://127.0.0.1:3000/r.git"),
        ("https://[::1]:1/r", "https://[::1]:1/r"),
        ("ssh://git@github.com/o/r.git", "ssh://git@github.com/o/r.git"),
        ("ssh://host:2222/r", "ssh://git@host:2222/r"),
        ("git@github.com:o/r.git", "git@github.com:o/r.git"),
        ("git@host:~ann/r.git/", "git@host:~ann/r.git"),
        ("git@host:/srv/r.git", "ssh://git@host/srv/r.git"),
        ("https://dev.azure.com/o/my%20project/_git/r", "https://dev.azure.com/o/my%20project/_git/r"),
    ] {
        let remote = GitRemote::parse(text).expect(text);
        assert_eq!(remote.to_string(), printed, "{text}");
        assert_eq!(GitRemote::parse(printed), Ok(remote), "{text}");
    }
}

#[test]
fn everything_else_is_refused() {
    use InvalidRemote::{Form, Host, Length, Path, User};
    for (text, expected) in [
        ("", Length),
        ("-uhttps://a/b", Form),
        ("--upload-pack=x", Form),
        ("https://a/b\n", Form),
        ("https://a/b c", Form),
        ("https://a/b\u{e9}", Form),
        ("file:///etc", Form),
        ("/srv/repo.git", Form),
        ("../repo", Form),
        ("host:path", Form),
        ("ext::sh -c x", Form),
        ("ext::x", Form),
        ("git://a/b", Form),
        ("https://user@a/b", User),
        ("https://user:token@a/b", User),
        ("ssh://-oProxyCommand=x@a/b", User),
        ("ssh://a b@c/d", Form),
        ("ssh://git:pass@host/r", User),
        ("https:///b", Host),
        ("https://a:0/b", Host),
        ("https://a:99999/b", Host),
        ("ssh://-oProxyCommand=x/b", Host),
        ("git@-oProxyCommand=x:b", Host),
        ("https://a", Path),
        ("https://a/", Path),
        ("https://a/../b", Path),
        ("https://a/b//c", Path),
        ("https://a/b?c", Path),
        ("https://a/b#c", Path),
        ("https://a/b\\c", Path),
        ("https://a/-b", Path),
        ("https://a/%2e%2e/b", Path),
        ("https://a/b%2Fc", Path),
        ("https://a/b%0a", Path),
        ("https://a/b%+1", Path),
        ("https://a/b%", Path),
    ] {
        assert_eq!(GitRemote::parse(text), Err(expected), "{text}");
    }
    assert_eq!(GitRemote::parse(&format!("https://a/{}", "b".repeat(REMOTE_MAX_BYTES))), Err(Length));
}

#[test]
fn a_provider_is_known_by_its_name_and_gives_the_user_of_a_token() {
    for (text, user) in [
        ("https://github.com/r", "x-access-token"),
        ("https://github.corp.example/r", "x-access-token"),
        ("https://gitlab.com/r", "oauth2"),
        ("https://gitlab.corp.example/r", "oauth2"),
        ("https://bitbucket.org/r", "x-token-auth"),
        ("https://codeberg.org/r", "git"),
        ("https://notgithub.com/r", "git"),
        ("https://127.0.0.1/r", "git"),
    ] {
        let provider = GitRemote::parse(text).expect(text).provider();
        assert_eq!(provider.token_user(), user, "{text}");
    }
    assert_eq!(login_of("token\n", GitProvider::Github), ("x-access-token", "token"));
    assert_eq!(login_of("ann:a:b", GitProvider::Github), ("ann", "a:b"));
}

#[test]
fn a_secret_is_for_the_server_of_its_name_only() {
    let github = GitRemote::parse("https://github.com/o/r").expect("good");
    let local = GitRemote::parse("http://127.0.0.1:3000/r").expect("good");
    assert_eq!(github.secret_name(), "git.github.com");
    assert_eq!(local.secret_name(), "git.127.0.0.1_3000");
    for (name, for_github, for_local) in [
        ("git.github.com", true, false),
        ("git-deploy.github.com", true, false),
        ("git.127.0.0.1_3000", false, true),
        ("git.127.0.0.1", false, false),
        ("git.github.com.evil", false, false),
        ("gitx.github.com", false, false),
        ("git-a.b.github.com", false, false),
        ("registry.github.com", false, false),
        ("ssh.github.com", false, false),
        ("openai", false, false),
    ] {
        let accepted = (github.accepts_secret(name), local.accepts_secret(name));
        assert_eq!(accepted, (for_github, for_local), "{name}");
    }
    let plain = GitRemote::parse("http://github.com/o/r").expect("good");
    assert_eq!(plain.secret_name(), "git.github.com_80");
    assert!(!plain.accepts_secret("git.github.com"), "a token for https is not sent in clear text");
    assert!(!github.accepts_secret("git.github.com_80"));
}

#[test]
fn a_key_is_for_the_ssh_server_of_its_name_and_a_token_for_its_http_server() {
    let parse = |text| GitRemote::parse(text).expect("good");
    let (github, other) = (parse("git@github.com:o/r"), parse("ssh://git@host:2222/r"));
    assert_eq!(
        (github.secret_name(), other.secret_name()),
        ("ssh.github.com".into(), "ssh.host_2222".into())
    );
    assert_eq!(other.labelled_secret_name(), "ssh-LABEL.host_2222");
    for (remote, name, by_transport, by_any) in [
        (&github, "ssh.github.com", true, true),
        (&github, "ssh-deploy.github.com", true, true),
        (&github, "git.github.com", false, true),
        (&github, "git-deploy.github.com", false, true),
        (&github, "ssh.host_2222", false, false),
        (&github, "sshx.github.com", false, false),
        (&other, "ssh.host_2222", true, true),
        (&other, "ssh.host", false, false),
        (&other, "git.host_2222", false, false),
    ] {
        let accepted = (remote.accepts_secret(name), remote.accepts_any_secret(name));
        assert_eq!(accepted, (by_transport, by_any), "{remote} {name}");
    }
}

#[test]
fn a_server_is_reached_with_ssh_where_there_is_a_key() {
    let (ssh, https) = ("git@github.com:o/r.git", "https://github.com/o/r.git");
    for (text, secret, has_key, expected) in [
        (ssh, None, true, Some(ssh)),
        (ssh, None, false, Some(https)),
        (ssh, Some("ssh-a.github.com"), false, Some(ssh)),
        (ssh, Some("git.github.com"), true, Some(https)),
        (https, None, true, Some(https)),
        ("git@host:r", None, true, Some("git@host:r")),
        ("git@host:r", None, false, None),
        ("git@host:r", Some("ssh.host"), false, Some("git@host:r")),
        ("git@host:r", Some("git.host"), true, None),
    ] {
        let reached = GitRemote::parse(text).expect(text).reached(secret, has_key);
        let reached = reached.map(|remote| remote.to_string());
        assert_eq!(reached.as_deref(), expected, "{text} {secret:?} {has_key}");
    }
}

#[test]
fn the_path_on_an_ssh_server_is_that_of_git() {
    for (text, expected) in [
        ("git@host:o/r.git", "o/r.git"),
        ("git@host:o/a%20b", "o/a%20b"),
        ("git@host:/srv/r.git", "/srv/r.git"),
        ("git@host:~ann/r", "~ann/r"),
        ("ssh://host/srv/r.git", "/srv/r.git"),
        ("ssh://host/~ann/r", "~ann/r"),
        ("ssh://host/a%20b%27c/r", "/a b'c/r"),
    ] {
        let path = GitRemote::parse(text).expect(text).path_on_server();
        assert_eq!(String::from_utf8(path).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn known_services_serve_over_http_what_they_serve_over_ssh() {
    for (text, expected) in [
        ("git@github.com:o/r.git", Some("https://github.com/o/r.git")),
        ("ssh://git@gitlab.com/o/r", Some("https://gitlab.com/o/r")),
        ("https://a/b", Some("https://a/b")),
        ("git@host:o/r.git", None),
        ("ssh://git@github.com:2222/o/r", None),
    ] {
        let remote = GitRemote::parse(text).expect(text).over_http();
        assert_eq!(remote.map(|remote| remote.to_string()).as_deref(), expected, "{text}");
    }
}
