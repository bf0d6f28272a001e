//! Git in a sandbox: status, commits and branches, and pushes and fetches whose credential never enters the sandbox.

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol::api::{ApiErrorCode, GitReason};
use serde_json::{Value, json};
use std::path::Path;
use tests::git_server::GitServer;
use tests::{Caller, Hostd, Reply};
use tokio::process::Command;

pub(super) const TOKEN: &str = "ghp-0123456789abcdef-of-this-test";
pub(super) const NEXT_TOKEN: &str = "ghp-fedcba9876543210-its-successor";
pub(super) const REPOSITORY: &str = "git init --quiet --initial-branch=main && git config user.name Ann && git config user.email ann@example && \
    echo one > a.txt && git add --all && git commit --quiet -m first";

pub(super) struct Fixture {
    pub(super) hostd: Hostd,
    pub(super) server: GitServer,
    pub(super) admin: Caller,
    pub(super) ann: Caller,
    pub(super) sandbox: String,
}

impl Fixture {
    async fn new() -> Result<Self> {
        Self::with_settings(&[]).await
    }

    pub(super) async fn with_settings(settings: &[(&str, &str)]) -> Result<Self> {
        let settings = [settings, &[("SLIPWAY_EGRESS_PRIVATE", "127.0.0.1")]].concat();
        let hostd = Hostd::start_with(&settings).await?;
        let server = GitServer::start().await?;
        let (admin, ann) =
            (hostd.caller("a", "carl", "admin").await?, hostd.caller("a", "ann", "run").await?);
        let sandbox = ann.create(&json!({})).await?;
        Ok(Self { hostd, server, admin, ann, sandbox })
    }

    /// With a repository that has one commit and the server as its remote, which wants a credential.
    async fn with_repository() -> Result<Self> {
        let place = Self::new().await?;
        place.ann.prints(&place.sandbox, REPOSITORY).await?;
        let remote = format!("git remote add origin {}", place.server.url());
        place.ann.prints(&place.sandbox, &remote).await?;
        place.server.set_credential(Some(&format!("git:{TOKEN}")));
        place.set_secret(TOKEN).await?;
        Ok(place)
    }

    pub(super) async fn set_secret(&self, value: &str) -> Result<()> {
        let path = format!("/v1/secrets/{}", self.server.secret());
        let _: Value = self.admin.put(&path, &json!({ "value": value })).await?.expect(200)?;
        Ok(())
    }

    pub(super) fn path(&self, verb: &str) -> String {
        format!("/v1/sandboxes/{}/git/{verb}", self.sandbox)
    }

    pub(super) async fn get(&self, verb: &str) -> Result<Value> {
        self.ann.get(&self.path(verb)).await?.expect(200)
    }

    pub(super) async fn post(&self, verb: &str, body: &Value) -> Result<Reply> {
        self.ann.post(&self.path(verb), body).await
    }

    pub(super) async fn fails(&self, verb: &str, body: &Value, reason: GitReason) -> Result<String> {
        let reply = self.post(verb, body).await?;
        let error = reply.error()?;
        ensure!(
            error.code == ApiErrorCode::GitFailed && error.detail.git == Some(reason),
            "{}",
            reply.text()
        );
        Ok(error.message)
    }
}

pub(super) fn contains_token(text: &str) -> bool {
    let encoded = BASE64_STANDARD.encode(format!("git:{TOKEN}"));
    text.contains(TOKEN) || text.contains(NEXT_TOKEN) || text.contains(&encoded)
}

#[tokio::test]
async fn a_repository_is_inspected_committed_and_branched() -> Result<()> {
    let place = Fixture::new().await?;
    place.fails("commit", &json!({"message": "x", "all": true}), GitReason::NotARepository).await?;
    let none = place.ann.get(&place.path("status")).await?.error()?;
    ensure!(none.detail.git == Some(GitReason::NotARepository), "{none:?}");
    place
        .ann
        .prints(&place.sandbox, "git init --quiet --initial-branch=main && echo one > 'a file.txt'")
        .await?;
    let status = place.get("status").await?;
    let untracked = json!([{"path": "a file.txt", "staged": "unmodified", "unstaged": "untracked"}]);
    ensure!(
        status["branch"] == "main" && status.get("head").is_none() && status["files"] == untracked,
        "{status}"
    );
    ensure!(place.get("log").await?["commits"] == json!([]));
    place.fails("branch", &json!({"name": "next"}), GitReason::NoCommits).await?;
    place.fails("push", &json!({}), GitReason::NoCommits).await?;
    place.fails("commit", &json!({"message": "x", "all": true}), GitReason::NoAuthor).await?;

    let author = json!({"name": "Ann", "email": "ann@example"});
    let first: Value = place
        .post("commit", &json!({"message": "first\n\nwith a body", "all": true, "author": author}))
        .await?
        .expect(201)?;
    ensure!(
        first["subject"] == "first" && first["body"] == "with a body" && first["author"] == author,
        "{first}"
    );
    place.fails("commit", &json!({"message": "x", "author": author}), GitReason::NothingToCommit).await?;
    place.ann.prints(&place.sandbox, "echo two > 'a file.txt'; echo three > b.txt; git add b.txt").await?;
    let diff = place.get("diff").await?;
    ensure!(diff["diff"].as_str().is_some_and(|diff| diff.contains("-one\n+two\n")), "{diff}");
    let staged = place.get("diff?staged=true").await?;
    ensure!(staged["diff"].as_str().is_some_and(|diff| diff.contains("+three\n")), "{staged}");
    ensure!(place.get("diff?path=b.txt").await?["diff"] == "");
    let second = json!({"message": "second", "paths": ["a file.txt"], "author": author});
    let second: Value = place.post("commit", &second).await?.expect(201)?;
    ensure!(second["parents"] == json!([first["commit"]]), "{second}");
    let status = place.get("status").await?;
    let left = json!([{"path": "b.txt", "staged": "added", "unstaged": "unmodified"}]);
    ensure!(status["files"] == left && status["head"] == second["commit"], "{status}");
    let log = place.get("log?limit=1").await?;
    ensure!(log["commits"].as_array().is_some_and(|all| all.len() == 1 && all[0] == second), "{log}");

    let made: Value = place.post("branch", &json!({"name": "next", "switch": true})).await?.expect(201)?;
    ensure!(made["switched"] == true && made["head"] == second["commit"], "{made}");
    place.fails("branch", &json!({"name": "main"}), GitReason::BranchExists).await?;
    let back: Value = place.post("branch", &json!({"name": "main", "switch": true})).await?.expect(200)?;
    ensure!(back["switched"] == true, "{back}");
    for (field, body) in [("name", json!({"name": "-f"})), ("from", json!({"name": "x", "from": "--all"}))] {
        let error = place.post("branch", &body).await?.error()?;
        ensure!(error.detail.field.as_deref() == Some(field), "{error:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_branch_is_pushed_and_fetched_with_a_credential_of_a_secret() -> Result<()> {
    let place = Fixture::with_repository().await?;
    let pushed: Value = place.post("push", &json!({})).await?.expect(200)?;
    ensure!(pushed["remote"] == place.server.url() && pushed["branch"] == "main", "{pushed}");
    ensure!(place.server.commit("main")?.as_deref() == pushed["commit"].as_str(), "{pushed}");
    let again: Value = place.post("push", &json!({})).await?.expect(200)?;
    ensure!(again == pushed, "the server has it already: {again}");
    let heard = place.server.heard();
    let expected = format!("git:{TOKEN}");
    ensure!(heard.iter().all(|request| request.credential.as_ref() == Some(&expected)), "{heard:?}");

    let theirs = place.server.add_commit("main", "theirs.txt", "theirs")?;
    let ours = json!({"message": "ours", "all": true});
    place.ann.prints(&place.sandbox, "echo ours > ours.txt").await?;
    let _: Value = place.post("commit", &ours).await?.expect(201)?;
    place.fails("push", &json!({}), GitReason::NonFastForward).await?;
    let fetched: Value = place.post("fetch", &json!({})).await?.expect(200)?;
    ensure!(fetched["branches"] == json!([{"name": "origin/main", "commit": theirs}]), "{fetched}");
    place.ann.prints(&place.sandbox, "git branch --set-upstream-to=origin/main").await?;
    let status = place.get("status").await?;
    ensure!((&status["ahead"], &status["behind"]) == (&json!(1), &json!(1)), "{status}");
    place.fails("push", &json!({}), GitReason::NonFastForward).await?;
    let forced: Value = place.post("push", &json!({"force": true})).await?.expect(200)?;
    ensure!(place.server.commit("main")?.as_deref() == forced["commit"].as_str(), "{forced}");

    // The address of the caller, and a branch that is not checked out.
    let _: Value = place.post("branch", &json!({"name": "topic"})).await?.expect(201)?;
    let topic =
        json!({"remote": place.server.url(), "branch": "topic", "auth": {"secret": place.server.secret()}});
    let _: Value = place.post("push", &topic).await?.expect(200)?;
    ensure!(place.server.commit("topic")?.is_some());
    let events = place.ann.get(&format!("/v1/sandboxes/{}/events?follow=0", place.sandbox)).await?.text();
    ensure!(
        events.contains("git.push") && events.contains("git.fetch") && !contains_token(&events),
        "{events}"
    );
    // The secret of the server is named, which no request did.
    let used = format!("\"secret\":\"{}\"", place.server.secret());
    ensure!(events.matches(&used).count() >= 4, "{events}");
    Ok(())
}

#[tokio::test]
async fn a_fetch_deletes_branches_that_the_server_has_no_more() -> Result<()> {
    let place = Fixture::with_repository().await?;
    let _: Value = place.post("push", &json!({})).await?.expect(200)?;
    place.server.add_commit("a", "a.txt", "a")?;
    place.server.add_commit("gone", "gone.txt", "gone")?;
    let _: Value = place.post("fetch", &json!({})).await?.expect(200)?;
    place
        .ann
        .prints(&place.sandbox, "git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main")
        .await?;
    place.server.run(&["branch", "-m", "a", "a/b"])?;
    place.server.run(&["branch", "-D", "gone"])?;
    // Old repositories have commits with such faults; a tree with `.git` in it is an attack.
    place.server.add_raw_commit("old", "author A <a@b> 1 +051800\ncommitter A <a@b> 1 +051800\n")?;
    let fetched: Value = place.post("fetch", &json!({})).await?.expect(200)?;
    ensure!(fetched["branches"].as_array().is_some_and(|all| all.len() == 3), "{fetched}");
    ensure!(fetched["truncated"] == false, "{fetched}");
    let refs =
        place.ann.prints(&place.sandbox, "git for-each-ref --format='%(refname)' refs/remotes").await?;
    let expected = ["HEAD", "a/b", "main", "old"].map(|name| format!("refs/remotes/origin/{name}"));
    ensure!(refs.lines().eq(expected.iter().map(String::as_str)), "{refs}");
    place.server.add_raw_commit("bad", "committer A <a@b> 1 +0000\n")?;
    place.fails("fetch", &json!({}), GitReason::Refused).await?;
    Ok(())
}

#[tokio::test]
async fn objects_that_a_repository_lacks_are_fetched_by_no_program_of_it() -> Result<()> {
    let place = Fixture::with_repository().await?;
    let hostile = "printf '#!/bin/sh\ntouch /tmp/ran\n' > /tmp/helper; chmod +x /tmp/helper
        git config core.repositoryformatversion 1
        git config extensions.partialClone origin
        git config remote.origin.promisor true
        git config remote.origin.uploadpack /tmp/helper
        git config remote.origin.url /tmp/other.git
        echo 1111111111111111111111111111111111111111 > .git/refs/heads/lacks";
    place.ann.prints(&place.sandbox, hostile).await?;
    let _ = place.post("push", &json!({"branch": "lacks"})).await?.error()?;
    let _ = place.post("branch", &json!({"name": "next", "from": "lacks"})).await?.error()?;
    ensure!(place.ann.prints(&place.sandbox, "ls /tmp").await?.trim() == "helper");
    Ok(())
}

#[tokio::test]
async fn what_a_server_refuses_has_a_reason() -> Result<()> {
    let place = Fixture::with_repository().await?;
    place.set_secret(NEXT_TOKEN).await?;
    let message = place.fails("push", &json!({}), GitReason::AuthFailed).await?;
    ensure!(message.contains(&place.server.secret()) && !contains_token(&message), "{message}");
    let path = format!("/v1/secrets/{}", place.server.secret());
    ensure!(place.admin.delete(&path).await?.status == 204);
    let message = place.fails("push", &json!({}), GitReason::AuthFailed).await?;
    ensure!(message.contains("slipway secret set"), "{message}");
    place.set_secret(TOKEN).await?;

    let other = format!("{}x", place.server.url());
    place.fails("push", &json!({"remote": other}), GitReason::RemoteNotFound).await?;
    let evil = GitServer::start().await?;
    place.server.set_redirect(Some(&evil.url()));
    let message = place.fails("push", &json!({}), GitReason::RemoteDenied).await?;
    ensure!(message.contains(evil.authority()) && evil.heard().is_empty(), "{message}");
    place.server.set_redirect(None);
    // A credential is for its server only.
    let wrong = json!({"remote": evil.url(), "auth": {"secret": place.server.secret()}});
    let error = place.post("push", &wrong).await?.error()?;
    ensure!(error.detail.field.as_deref() == Some("auth.secret") && evil.heard().is_empty(), "{error:?}");

    std::fs::write(place.server.repository().join("hooks/update"), "#!/bin/sh\nexit 1\n")?;
    let hook = place.server.repository().join("hooks/update");
    ensure!(Command::new("chmod").arg("+x").arg(hook).status().await?.success());
    place.fails("push", &json!({}), GitReason::RemoteRejected).await?;
    for (remote, reason) in [
        ("http://127.0.0.1:1/x.git", GitReason::RemoteUnreachable),
        ("http://10.255.0.1/x.git", GitReason::RemoteDenied),
        ("https://169.254.169.254/latest", GitReason::RemoteDenied),
        ("https://localhost/x.git", GitReason::RemoteDenied),
        ("git@host:x.git", GitReason::InvalidRemote),
        ("upstream", GitReason::InvalidRemote),
    ] {
        place.fails("push", &json!({"remote": remote}), reason).await.context(remote)?;
    }
    let error = place.post("push", &json!({"remote": "https://u:p@host/x"})).await?.error()?;
    ensure!(error.detail.field.as_deref() == Some("remote"), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn nothing_that_a_repository_configures_runs_or_leads_elsewhere() -> Result<()> {
    let place = Fixture::with_repository().await?;
    let evil = GitServer::start().await?;
    let hostile = format!(
        "mark() {{ printf '#!/bin/sh\\ntouch /tmp/ran-%s\\nexit 1\\n' $1 > $2; chmod +x $2; }}
         for hook in pre-commit commit-msg post-commit pre-push reference-transaction post-checkout; do mark $hook .git/hooks/$hook; done
         mark helper /tmp/helper
         printf '[url \"{evil}\"]\\n\\tinsteadOf = http://\\n[http]\\n\\tproxy = {evil}\\n\\tsslVerify = false\\n' > /tmp/included
         git config include.path /tmp/included
         git config url.{evil}.insteadOf http://127.0.0.1
         git config url.{evil}.pushInsteadOf http://
         git config credential.helper /tmp/helper
         git config core.askPass /tmp/helper
         git config core.sshCommand /tmp/helper
         git config core.fsmonitor /tmp/helper
         git config core.pager /tmp/helper
         git config core.gitProxy /tmp/helper
         git config core.alternateRefsCommand /tmp/helper
         git config diff.external /tmp/helper
         git config diff.x.textconv /tmp/helper
         git config remote.origin.receivepack /tmp/helper
         git config remote.origin.uploadpack /tmp/helper
         git config remote.origin.proxy {evil}
         git config http.proxy {evil}
         git config http.curloptResolve 127.0.0.1:1:127.0.0.2
         git config http.extraHeader 'X-Evil: 1'
         git config push.recurseSubmodules on-demand
         git config push.pushOption evil
         git config push.gpgSign true
         git config gpg.program /tmp/helper
         git config commit.gpgSign true
         git config log.showSignature true
         echo '*.txt diff=x' > .gitattributes
         mkdir -p A a; echo 1 > A/x; echo 2 > a/x; mkdir git~1; echo 3 > git~1/config
         echo two > a.txt",
        evil = evil.url(),
    );
    place.ann.prints(&place.sandbox, &hostile).await?;
    let author = json!({"name": "Ann", "email": "ann@example"});
    let _: Value = place.get("status").await?;
    let _: Value = place.get("diff").await?;
    let commit = json!({"message": "all", "all": true, "author": author});
    let message = place.fails("commit", &commit, GitReason::Refused).await?;
    ensure!(message.contains("invalid path 'git~1/config'"), "{message}");
    place.ann.prints(&place.sandbox, "rm -rf git~1").await?;
    let commit: Value = place.post("commit", &commit).await?.expect(201)?;
    let _: Value = place.get("log").await?;
    let _: Value = place.post("branch", &json!({"name": "x", "switch": true})).await?.expect(201)?;
    let pushed: Value = place.post("push", &json!({})).await?.expect(200)?;
    ensure!(pushed["commit"] == commit["commit"] && pushed["remote"] == place.server.url(), "{pushed}");
    ensure!(place.server.commit("x")?.as_deref() == commit["commit"].as_str());
    let _: Value = place.post("fetch", &json!({})).await?.expect(200)?;
    ensure!(evil.heard().is_empty(), "{:?}", evil.heard());
    let ran = place.ann.prints(&place.sandbox, "ls /tmp").await?;
    ensure!(!ran.contains("ran-"), "{ran}");
    for url in
        ["ext::sh -c touch% /tmp/ran-ext", "/tmp/other.git", "file:///tmp/x", "--upload-pack=/tmp/helper"]
    {
        place.ann.prints(&place.sandbox, &format!("git config remote.origin.url '{url}'")).await?;
        place.fails("push", &json!({}), GitReason::InvalidRemote).await.context(url)?;
        place.fails("fetch", &json!({}), GitReason::InvalidRemote).await.context(url)?;
    }
    Ok(())
}

#[tokio::test]
async fn the_credential_is_nowhere_in_the_sandbox_while_it_is_used() -> Result<()> {
    let mut place = Fixture::with_repository().await?;
    place.server.hold();
    let (ann, path) = (place.ann.clone(), place.path("push"));
    let pushing = tokio::spawn(async move { ann.post(&path, &json!({})).await });
    place.server.until_held().await?;
    let search = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; \
        grep -rlaF ghp- /home /tmp /run 2>/dev/null; env";
    let found = place.ann.prints(&place.sandbox, search).await?;
    ensure!(found.contains("/git/") && !contains_token(&found), "{found}");
    ensure!(processes_with_a_token()?.is_empty(), "{:?}", processes_with_a_token()?);

    // The grant is of this branch, this repository and this sandbox.
    let url = found
        .lines()
        .find(|line| line.starts_with("http://127.0.0.1:900/git/"))
        .context("its URL")?
        .to_owned();
    let (zeros, ones) = ("0".repeat(40), "1".repeat(40));
    let other_branch = format!("0066{zeros} {ones} refs/heads/other0000");
    let options = |capability: &str| {
        // The length of the packet, in which `\0` is one byte.
        let command = format!("{zeros} {ones} refs/heads/main\\0report-status {capability}");
        let length = command.replace("\\0", "0").len() + 4;
        format!("/git-receive-pack' -m 20 --data-binary @<(printf '{length:04x}{command}0000') -H 'X: ")
    };
    for (request, expected) in [
        ("/info/refs?service=git-upload-pack".to_owned(), "403"),
        ("/HEAD".to_owned(), "404"),
        (format!("/git-receive-pack' -d '{other_branch}"), "403"),
        ("/git-receive-pack' -d '00".to_owned(), "403"),
        // Options reach hooks of the server. Its git also takes them with a value, and before a second NUL.
        (options("push-options=1"), "403"),
        (options("push-options\\0x"), "403"),
    ] {
        let ask = format!("curl -s -o /dev/null -w '%{{http_code}}' '{url}{request}'");
        let ask = format!("cat > /tmp/ask <<'EOF'\n{ask}\nEOF\nbash /tmp/ask");
        let got = place.ann.prints(&place.sandbox, &ask).await?;
        ensure!(got == expected, "{request}: {got}");
    }
    let other = place.ann.create(&json!({})).await?;
    let refs = format!("curl -s -o /dev/null -w '%{{http_code}}' '{url}/info/refs?service=git-receive-pack'");
    ensure!(place.ann.prints(&other, &refs).await? == "403");
    place.server.release();
    pushing.await??.expect::<Value>(200)?;
    ensure!(place.ann.prints(&place.sandbox, &refs).await? == "403", "the grant has ended");

    // A credential that is changed in the middle is in force for the next request.
    place.ann.prints(&place.sandbox, "git commit --quiet --allow-empty -m next").await?;
    place.server.hold();
    let (ann, path) = (place.ann.clone(), place.path("push"));
    let pushing = tokio::spawn(async move { ann.post(&path, &json!({})).await });
    place.server.until_held().await?;
    place.server.set_credential(Some(&format!("git:{NEXT_TOKEN}")));
    place.server.release();
    let expired = pushing.await??;
    ensure!(expired.error()?.detail.git == Some(GitReason::AuthFailed), "{}", expired.text());

    let operator = place.hostd.operator()?;
    let mut said = vec![place.hostd.said(), expired.text()];
    for path in ["/v1/audit", "/v1/events?follow=0&limit=1000", "/v1/secrets", "/metrics"] {
        said.push(operator.get(path).await?.text());
    }
    ensure!(!said.iter().any(|text| contains_token(text)), "a response or the log has it");
    place.hostd.kill().await?;
    ensure!(files_with_a_token(place.hostd.data()).await? == "");
    Ok(())
}

#[tokio::test]
async fn the_command_does_all_of_it() -> Result<()> {
    let place = Fixture::with_repository().await?;
    let ran = async |arguments: &[&str]| -> Result<String> {
        let ran = place.hostd.ran(arguments).await?;
        ensure!(ran.code == Some(0), "{arguments:?}: {}", ran.err);
        Ok(ran.out)
    };
    let id = place.sandbox.as_str();
    place.ann.prints(id, "echo two > b.txt").await?;
    let status = ran(&["git", "status", id]).await?;
    ensure!(status.contains("main") && status.contains("b.txt"), "{status}");
    let commit =
        ran(&["git", "commit", id, "-m", "second", "--all", "--author", "Ann <ann@example>"]).await?;
    ensure!(commit.contains("second"), "{commit}");
    let log: Value = serde_json::from_str(&ran(&["git", "log", id, "--limit", "1", "--json"]).await?)?;
    ensure!(log["commits"][0]["subject"] == "second", "{log}");
    ran(&["git", "branch", id, "topic", "--switch"]).await?;
    let pushed = ran(&["git", "push", id]).await?;
    ensure!(pushed.contains("topic") && place.server.commit("topic")?.is_some(), "{pushed}");
    let fetched = ran(&["git", "fetch", id]).await?;
    ensure!(fetched.contains("origin/topic"), "{fetched}");
    place.ann.prints(id, "echo three > b.txt").await?;
    let diff = ran(&["git", "diff", id]).await?;
    ensure!(diff.contains("+three"), "{diff}");
    Ok(())
}

pub(super) async fn files_with_a_token(directory: &Path) -> Result<String> {
    let mut grep = Command::new("grep");
    grep.args(["-rlFa", "--devices=skip", "-e", TOKEN, "-e", NEXT_TOKEN]).arg(directory);
    Ok(String::from_utf8(grep.output().await?.stdout)?)
}

fn processes_with_a_token() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let path = entry?.path();
        for file in ["cmdline", "environ"] {
            // Not a process, or one that has ended.
            let Ok(bytes) = std::fs::read(path.join(file)) else { continue };
            if contains_token(&String::from_utf8_lossy(&bytes)) {
                found.push(format!("{}/{file}", path.display()));
            }
        }
    }
    Ok(found)
}
