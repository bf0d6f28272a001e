//! Deploy keys: repositories on a real SSH server, whose key stays in hostd.

use anyhow::{Context, Result, ensure};
use protocol::api::{ApiErrorCode, GitReason};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tests::ssh_server::SshServer;
use tests::{Caller, Hostd};
use tokio::process::Command;

const PUSHED: &str = "git config user.name Ann && git config user.email ann@example && \
    echo two > b.txt && git add --all && git commit --quiet -m second";

struct Fixture {
    hostd: Hostd,
    server: SshServer,
    admin: Caller,
    ann: Caller,
}

impl Fixture {
    /// The server has one commit; there is no key yet.
    async fn new() -> Result<Self> {
        let server = SshServer::start().await?;
        server.repository().add_commit("main", "README", "one\n")?;
        let known_hosts = server.path("known_hosts").display().to_string();
        let variables =
            [("SLIPWAY_EGRESS_PRIVATE", server.authority()), ("SLIPWAY_GIT_KNOWN_HOSTS", &known_hosts)];
        let hostd = Hostd::start_with(&variables).await?;
        let (admin, ann) =
            (hostd.caller("a", "carl", "admin").await?, hostd.caller("a", "ann", "run").await?);
        Ok(Self { hostd, server, admin, ann })
    }

    /// With a key in a secret, and a sandbox that was cloned by it and has a commit that is not pushed.
    async fn with_sandbox() -> Result<(Self, String)> {
        let place = Self::new().await?;
        place.set_key(&format!("{}{}", place.server.key()?, place.server.known_hosts()?)).await?;
        let sandbox = place.ann.create(&json!({"source": {"url": place.server.url()}})).await?;
        place.ann.prints(&sandbox, PUSHED).await?;
        Ok((place, sandbox))
    }

    async fn set_key(&self, value: &str) -> Result<()> {
        self.set_secret(&self.server.secret(), value).await
    }

    async fn set_secret(&self, name: &str, value: &str) -> Result<()> {
        let _: Value =
            self.admin.put(&format!("/v1/secrets/{name}"), &json!({ "value": value })).await?.expect(200)?;
        Ok(())
    }

    async fn call(&self, sandbox: &str, verb: &str, body: &Value) -> Result<Value> {
        self.ann.post(&format!("/v1/sandboxes/{sandbox}/git/{verb}"), body).await?.expect(200)
    }

    async fn fails(&self, sandbox: &str, body: &Value, reason: GitReason) -> Result<String> {
        let reply = self.ann.post(&format!("/v1/sandboxes/{sandbox}/git/push"), body).await?;
        let error = reply.error()?;
        ensure!(
            error.code == ApiErrorCode::GitFailed && error.detail.git == Some(reason),
            "{}",
            reply.text()
        );
        Ok(error.message)
    }
}

/// A part of a private key that its public key does not have.
fn private_part(key: &str) -> Result<String> {
    Ok(key.lines().rev().nth(2).context("a line of the key")?.to_owned())
}

#[tokio::test]
async fn a_repository_is_cloned_pushed_and_fetched_with_a_key() -> Result<()> {
    let (place, sandbox) = Fixture::with_sandbox().await?;
    let (ann, url) = (&place.ann, place.server.url());
    let shown =
        ann.prints(&sandbox, "cat README; git config remote.origin.url; git rev-parse --abbrev-ref @{u}");
    ensure!(shown.await? == format!("one\n{url}\norigin/main\n"));
    let pushed = place.call(&sandbox, "push", &json!({})).await?;
    let repository = place.server.repository();
    ensure!(pushed["remote"] == url && repository.commit("main")?.as_deref() == pushed["commit"].as_str());
    let theirs = repository.add_commit("topic", "theirs.txt", "theirs")?;
    let fetched = place.call(&sandbox, "fetch", &json!({})).await?;
    let branches = fetched["branches"].to_string();
    ensure!(branches.contains(&theirs) && branches.contains("origin/topic"), "{fetched}");
    let status = place.ann.get(&format!("/v1/sandboxes/{sandbox}/git/status")).await?.text();
    ensure!(status.contains("\"ahead\":0"), "{status}");
    place.fails(&sandbox, &json!({"remote": format!("{url}x")}), GitReason::RemoteNotFound).await?;

    // A key for one sandbox, and a commit that is no branch: by the second version of the protocol.
    let labelled = place.server.secret().replacen("ssh.", "ssh-ci.", 1);
    place.set_secret(&labelled, &format!("{}{}", place.server.key()?, place.server.known_hosts()?)).await?;
    let first = ann.prints(&sandbox, "git rev-parse HEAD~1").await?;
    let source = json!({"url": url, "ref": first.trim(), "depth": 1, "auth": {"secret": labelled}});
    let other = ann.create(&json!({"source": source})).await?;
    ensure!(ann.prints(&other, "cat README; git rev-list --count HEAD").await? == "one\n1\n");
    let events = ann.get(&format!("/v1/sandboxes/{sandbox}/events?follow=0")).await?.text();
    ensure!(
        events.contains("git.push") && events.contains("git.fetch") && events.contains("bytes_up"),
        "{events}"
    );
    Ok(())
}

#[tokio::test]
async fn keys_of_all_kinds_authenticate() -> Result<()> {
    let (place, sandbox) = Fixture::with_sandbox().await?;
    for options in [
        &["-t", "rsa", "-b", "2048"][..],
        &["-t", "rsa", "-b", "2048", "-m", "PKCS8"],
        &["-t", "rsa", "-b", "2048", "-m", "PEM"],
        &["-t", "ecdsa"],
        &["-t", "ecdsa", "-m", "PKCS8"],
    ] {
        let key = place.server.authorize_key(options)?;
        place.set_key(&format!("{key}{}", place.server.known_hosts()?)).await?;
        place.call(&sandbox, "fetch", &json!({})).await.with_context(|| format!("{options:?}"))?;
    }
    Ok(())
}

#[tokio::test]
async fn a_push_that_the_server_refuses_has_its_reason() -> Result<()> {
    let (place, sandbox) = Fixture::with_sandbox().await?;
    place.server.repository().add_commit("main", "theirs.txt", "theirs")?;
    place.fails(&sandbox, &json!({}), GitReason::NonFastForward).await?;
    let hook = place.server.repository().path().join("hooks/update");
    write_program(&hook, "#!/bin/sh\nexit 1\n")?;
    place.fails(&sandbox, &json!({"force": true}), GitReason::RemoteRejected).await?;
    std::fs::remove_file(hook)?;
    let forced = place.call(&sandbox, "push", &json!({"force": true})).await?;
    ensure!(place.server.repository().commit("main")?.as_deref() == forced["commit"].as_str(), "{forced}");
    Ok(())
}

#[tokio::test]
async fn a_key_that_the_server_does_not_know_is_refused() -> Result<()> {
    let (place, sandbox) = Fixture::with_sandbox().await?;
    let (other, known_hosts) = (place.server.other_key()?, place.server.known_hosts()?);
    place.set_key(&format!("{other}{known_hosts}")).await?;
    let message = place.fails(&sandbox, &json!({}), GitReason::AuthFailed).await?;
    ensure!(message.contains(&place.server.secret()) && message.contains("SHA256:"), "{message}");
    ensure!(!message.contains(&private_part(&other)?), "{message}");
    let failed = place.ann.post("/v1/sandboxes", &json!({"source": {"url": place.server.url()}})).await?;
    ensure!(failed.text().contains("source_auth_failed"), "{}", failed.text());
    place.set_key("no key").await?;
    let message = place.fails(&sandbox, &json!({}), GitReason::AuthFailed).await?;
    ensure!(message.contains("is no private key"), "{message}");
    let path = format!("/v1/secrets/{}", place.server.secret());
    ensure!(place.admin.delete(&path).await?.status == 204);
    let before = place.server.connections();
    let message = place.fails(&sandbox, &json!({}), GitReason::InvalidRemote).await?;
    ensure!(message.contains(&format!("slipway secret set {}", place.server.secret())), "{message}");
    let wrong = json!({"auth": {"secret": "git.127.0.0.1"}});
    let error = place.ann.post(&format!("/v1/sandboxes/{sandbox}/git/push"), &wrong).await?.error()?;
    ensure!(error.detail.field.as_deref() == Some("auth.secret"), "{error:?}");
    ensure!(place.server.connections() == before);
    Ok(())
}

#[tokio::test]
async fn a_server_whose_host_key_is_not_known_gets_nothing() -> Result<()> {
    let (place, sandbox) = Fixture::with_sandbox().await?;
    let (key, known) = (place.server.key()?, place.server.known_hosts()?);
    let accepted = || place.server.log().matches("Accepted publickey").count();
    let before = accepted();
    place.set_key(&key).await?;
    let message = place.fails(&sandbox, &json!({}), GitReason::RemoteDenied).await?;
    ensure!(message.contains("is unknown (SHA256:") && message.contains("ssh-keyscan -p"), "{message}");
    // The file of the host.
    let file = place.server.path("known_hosts");
    std::fs::write(&file, &known)?;
    place.call(&sandbox, "push", &json!({})).await?;
    let with_key = accepted();
    ensure!(with_key > before, "{}", place.server.log());
    place.server.change_host_key()?;
    place.ann.prints(&sandbox, "git commit --quiet --allow-empty -m third").await?;
    for value in [key.clone(), format!("{key}{known}")] {
        place.set_key(&value).await?;
        let message = place.fails(&sandbox, &json!({}), GitReason::RemoteDenied).await?;
        ensure!(message.contains("another host key"), "{message}");
    }
    // The known hosts of the secret count alone.
    std::fs::write(&file, place.server.known_hosts()?)?;
    place.fails(&sandbox, &json!({}), GitReason::RemoteDenied).await?;
    ensure!(accepted() == with_key, "{}", place.server.log());
    place.set_key(&key).await?;
    place.call(&sandbox, "push", &json!({})).await?;
    Ok(())
}

#[tokio::test]
async fn the_rules_for_addresses_are_for_ssh_servers_too() -> Result<()> {
    let (place, sandbox) = Fixture::with_sandbox().await?;
    let elsewhere = SshServer::start().await?;
    let key = place.server.key()?;
    let local = elsewhere.authority();
    for (address, secret, reason) in [
        (elsewhere.url(), elsewhere.secret(), GitReason::RemoteDenied),
        ("git@10.255.0.1:x.git".to_owned(), "ssh.10.255.0.1".to_owned(), GitReason::RemoteDenied),
        ("git@169.254.169.254:x.git".to_owned(), "ssh.169.254.169.254".to_owned(), GitReason::RemoteDenied),
        ("git@localhost:x.git".to_owned(), "ssh.localhost".to_owned(), GitReason::RemoteDenied),
    ] {
        place.set_secret(&secret, &key).await?;
        place.fails(&sandbox, &json!({"remote": address}), reason).await.context(address)?;
    }
    ensure!(elsewhere.connections() == 0, "{local} was reached");
    Ok(())
}

#[tokio::test]
async fn the_key_is_nowhere_in_the_sandbox_and_a_grant_is_for_one_branch() -> Result<()> {
    let (mut place, sandbox) = Fixture::with_sandbox().await?;
    let (key, ann) = (place.server.key()?, place.ann.clone());
    let secret = private_part(&key)?;
    let other = ann.create(&json!({})).await?;
    // The server waits in the middle of a push, until a file is opened.
    let (reached, go) = (place.server.path("reached"), place.server.path("go"));
    for path in [&reached, &go] {
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::from_bits_truncate(0o600))?;
    }
    let hook = format!("#!/bin/sh\necho > {}\ncat {}\n", reached.display(), go.display());
    write_program(&place.server.repository().path().join("hooks/pre-receive"), &hook)?;
    let (caller, path) = (ann.clone(), format!("/v1/sandboxes/{sandbox}/git/push"));
    let pushing = tokio::spawn(async move { caller.post(&path, &json!({})).await });
    tokio::fs::read(&reached).await?;

    // The pattern of the search is not what is looked for: the search itself would be found.
    let search = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; \
        grep -rhaF 'OPENSSH P' /home /tmp /run 2>/dev/null; env";
    let found = ann.prints(&sandbox, search).await?;
    ensure!(!found.contains(&secret) && !found.contains("OPENSSH PRIVATE KEY"), "{found}");
    let is_url = |line: &&str| line.starts_with("git://127.0.0.1:900/");
    let url = found.lines().find(is_url).context("its URL")?.to_owned();
    let token = url.strip_prefix("git://127.0.0.1:900/").context("a URL")?;
    let push = format!("git push --quiet {url}");
    for (from, line, why) in [
        (&sandbox, format!("{push} HEAD:refs/heads/other"), "may change refs/heads/main only"),
        (
            &sandbox,
            format!("{push} HEAD:refs/heads/main HEAD:refs/heads/other"),
            "may change refs/heads/main only",
        ),
        (&sandbox, format!("{push} :refs/heads/main"), "would delete refs/heads/main"),
        (&sandbox, format!("{push} HEAD:refs/tags/main"), "may change refs/heads/main only"),
        (&sandbox, format!("git ls-remote {url}"), "this grant does not allow git-upload-pack"),
        (&sandbox, format!("git ls-remote {}", url.replace("repo.git", "other.git")), "no such path"),
        (&other, format!("git ls-remote {url}"), "the git grant has expired"),
        (&other, "git ls-remote git://127.0.0.1:900/x/repo.git".to_owned(), "the git grant has expired"),
    ] {
        let exec = ann.shell(from, &line).await?;
        let stderr = exec["stderr"].as_str().unwrap_or_default();
        ensure!(exec["exit"]["code"] != 0 && stderr.contains(why), "{line}: {exec}");
    }
    let http = format!(
        "curl -s -o /dev/null -w '%{{http_code}}' 'http://127.0.0.1:900/git/{token}/info/refs?service=git-receive-pack'"
    );
    ensure!(ann.prints(&sandbox, &http).await? == "404");
    ensure!(
        ann.prints(&sandbox, "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:900/health").await?
            != "000"
    );

    tokio::fs::write(&go, "").await?;
    let reply = pushing.await??;
    let pushed: Value = reply.expect(200)?;
    let repository = place.server.repository();
    ensure!(repository.commit("main")?.as_deref() == pushed["commit"].as_str(), "{pushed}");
    ensure!(repository.commit("other")?.is_none());
    let ended = ann.shell(&sandbox, &format!("git push --quiet {url} HEAD:refs/heads/main")).await?;
    ensure!(ended["stderr"].as_str().is_some_and(|text| text.contains("has expired")), "{ended}");

    let operator = place.hostd.operator()?;
    let mut said = vec![place.hostd.said(), pushed.to_string()];
    for path in ["/v1/audit", "/v1/events?follow=0&limit=1000", "/v1/secrets", "/metrics"] {
        said.push(operator.get(path).await?.text());
    }
    ensure!(!said.iter().any(|text| text.contains(&secret)), "a response or the log has it");
    place.hostd.kill().await?;
    ensure!(files_with(&secret, place.hostd.data()).await? == "");
    Ok(())
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)?;
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?)
}

async fn files_with(text: &str, directory: &Path) -> Result<String> {
    let mut grep = Command::new("grep");
    grep.args(["-rlFa", "--devices=skip", "-e", text]).arg(directory);
    Ok(String::from_utf8(grep.output().await?.stdout)?)
}
