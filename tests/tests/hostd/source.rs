//! Repositories that a new sandbox is provisioned with: clones through the git gateway, their problems and their repetition.

use super::setup::{fails, steps, verb};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::process::Command;
use tests::host::all_events;
use tests::{Caller, Hostd, git_server::GitServer};

/// A git server with a default branch that is not called main, and a hostd that may reach it.
pub(crate) async fn with_server() -> Result<(GitServer, Hostd)> {
    let server = GitServer::start().await?;
    server.add_commit("trunk", "README", "on trunk\n")?;
    server.add_commit("other", "README", "on other\n")?;
    std::fs::write(server.repository().join("HEAD"), "ref: refs/heads/trunk\n")?;
    let hostd = Hostd::start_with(&[("SLIPWAY_EGRESS_PRIVATE", server.authority())]).await?;
    Ok((server, hostd))
}

pub(crate) async fn set_secret(caller: &Caller, name: &str, value: &str) -> Result<()> {
    let reply = caller.put(&format!("/v1/secrets/{name}"), &json!({"value": value})).await?;
    ensure!(reply.status < 300, "{}", reply.text());
    Ok(())
}

#[tokio::test]
async fn a_source_is_cloned_first_without_a_trace_of_hostd_or_the_credential() -> Result<()> {
    let (server, hostd) = with_server().await?;
    let operator = hostd.operator()?;
    server.set_credential(Some("git:geheim-token"));
    set_secret(&operator, &server.secret(), "geheim-token").await?;
    let url = server.url();
    let mut spec = steps(json!([{"run": "cat README > ~/seen"}]));
    spec["source"] = json!({"url": url});
    let id = operator.create(&spec).await?;
    let line = "cat ~/seen; git rev-parse --abbrev-ref HEAD @{upstream}; git config remote.origin.url; \
        git rev-parse origin/other >/dev/null && echo all; git status --porcelain; ls .git/hooks 2>/dev/null; \
        grep -r '127.0.0.1:900\\|geheim' .git ~ -l; cat .git/logs/refs/remotes/origin/other | cut -f 2; \
        ls .git/slipway-clone* 2>/dev/null";
    let shown = operator.shell(&id, line).await?;
    let expected = format!("on trunk\ntrunk\norigin/trunk\n{url}\nall\nclone: storing head\n");
    ensure!(shown["stdout"] == expected, "{shown}");
    ensure!(operator.sandbox(&id).await?["setup"]["steps"][0] == "source");

    // A branch, a tag, a commit; shallow, and in another directory.
    let tagged =
        Command::new("git").args(["tag", "v1", "other"]).current_dir(server.repository()).status()?;
    ensure!(tagged.success());
    let commit = server.add_commit("other", "README", "newer\n")?;
    for (name, content) in [("other", "newer\n"), ("v1", "on other\n"), (commit.as_str(), "newer\n")] {
        let source =
            json!({"url": url, "ref": name, "depth": 1, "dir": "web", "auth": {"secret": server.secret()}});
        let id = operator.create(&json!({"source": source})).await?;
        let shown = operator.prints(&id, "cat web/README; cd web; git rev-list --count HEAD").await?;
        ensure!(shown == format!("{content}1\n"), "{name}: {shown}");
    }
    let events = serde_json::to_string(&all_events(&operator).await?)?;
    ensure!(!events.contains("geheim"), "{events}");
    Ok(())
}

#[tokio::test]
async fn a_source_that_cannot_be_cloned_is_a_typed_problem_and_start_tries_again() -> Result<()> {
    let (server, hostd) = with_server().await?;
    let operator = hostd.operator()?;
    let url = server.url();
    let view = fails(&operator, &json!({"source": {"url": url, "ref": "no-such"}})).await?;
    ensure!(view["problem"]["code"] == "source_ref_unknown", "{view}");
    let message = view["problem"]["message"].as_str().context("a message")?;
    ensure!(message.contains("there is no branch or tag no-such"), "{view}");
    let none = url.replace("app.git", "none.git");
    let view = fails(&operator, &json!({"source": {"url": none}})).await?;
    ensure!(view["problem"]["code"] == "source_not_found", "{view}");
    let view = fails(&operator, &json!({"source": {"url": "http://10.255.255.1/a/b.git"}})).await?;
    ensure!(view["problem"]["code"] == "source_unreachable", "{view}");
    let denied = json!({"source": {"url": url}, "network": {"mode": "proxy", "deny": ["127.0.0.1"]}});
    let view = fails(&operator, &denied).await?;
    ensure!(view["problem"]["code"] == "source_unreachable", "{view}");
    let evil = GitServer::start().await?;
    server.set_redirect(Some(&evil.url()));
    let view = fails(&operator, &json!({"source": {"url": url}})).await?;
    ensure!(view["problem"]["code"] == "source_unreachable" && evil.heard().is_empty(), "{view}");
    server.set_redirect(None);

    server.set_credential(Some("git:geheim-token"));
    set_secret(&operator, &server.secret(), "wrong-token").await?;
    let view = fails(&operator, &json!({"source": {"url": url}})).await?;
    let id = view["id"].as_str().context("an id")?;
    ensure!(view["problem"]["code"] == "source_auth_failed", "{view}");
    ensure!(
        view["problem"]["step"]["name"] == "source" && !view.to_string().contains("wrong-token"),
        "{view}"
    );
    set_secret(&operator, &server.secret(), "geheim-token").await?;
    let view = verb(&operator, id, "start").await?;
    ensure!(view["status"] == "running", "{view}");
    ensure!(operator.prints(id, "cat README").await? == "on trunk\n");
    let reply = operator
        .post("/v1/sandboxes", &json!({"source": {"url": url, "auth": {"secret": "git.other"}}}))
        .await?;
    ensure!(reply.error()?.detail.field.as_deref() == Some("source.auth.secret"), "{}", reply.text());
    Ok(())
}

#[tokio::test]
async fn a_clone_that_runs_when_hostd_is_killed_is_begun_anew() -> Result<()> {
    let (server, mut hostd) = with_server().await?;
    let operator = hostd.operator()?;
    server.hold();
    let spec = json!({"source": {"url": server.url()}});
    let view: Value = operator.post("/v1/sandboxes?wait=0", &spec).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?.to_owned();
    server.until_held().await?;
    hostd.crash().await?;
    server.release();
    let operator = hostd.operator()?;
    operator.becomes(&id, "running").await?;
    ensure!(operator.prints(&id, "cat README; git status --porcelain").await? == "on trunk\n");
    Ok(())
}

/// What a clone leaves of which hostd did not see the end: nothing but the directory, and all of it.
#[tokio::test]
async fn a_clone_that_ended_while_hostd_was_dead_does_not_fail_its_sandbox() -> Result<()> {
    for finished in [false, true] {
        let (server, mut hostd) = with_server().await?;
        let operator = hostd.operator()?;
        server.hold();
        let spec = json!({"source": {"url": server.url()}});
        let view: Value = operator.post("/v1/sandboxes?wait=0", &spec).await?.expect(201)?;
        let id = view["id"].as_str().context("an id")?.to_owned();
        server.until_held().await?;
        hostd.crash().await?;
        server.release();
        let app = hostd.workspace(&id).join("workspace/app");
        match finished {
            true => {
                std::fs::write(app.join(".git/slipway-clone"), format!("done {} \n", server.url()))?;
                std::fs::write(app.join("work"), "kept\n")?;
            }
            false => {
                let emptied = Command::new("sh").args(["-c", "rm -rf .git/*"]).current_dir(&app).status()?;
                ensure!(emptied.success());
            }
        }
        let operator = hostd.operator()?;
        operator.becomes(&id, "running").await?;
        let shown =
            operator.prints(&id, "cat work README 2>/dev/null; ls .git/slipway* 2>/dev/null; true").await?;
        ensure!(shown == if finished { "kept\n" } else { "on trunk\n" }, "{finished}: {shown}");
        let execs: Value = operator.get(&format!("/v1/sandboxes/{id}/execs")).await?.expect(200)?;
        let all_ended =
            execs["items"].as_array().is_some_and(|all| all.iter().all(|exec| !exec["exit"].is_null()));
        ensure!(all_ended, "{execs}");
    }
    Ok(())
}

#[tokio::test]
async fn unusual_repositories_are_cloned_and_nothing_in_them_runs() -> Result<()> {
    let empty = GitServer::start().await?;
    let server = GitServer::start().await?;
    server.add_commit("main", ".gitattributes", "* filter=x\n*.bin filter=lfs\n")?;
    server.add_commit("main", "large.bin", "version https://git-lfs.github.com/spec/v1\n")?;
    server.add_commit(
        "main",
        ".gitmodules",
        "[submodule \"x\"]\n\tpath = x\n\turl = https://example.com/x\n",
    )?;
    server.add_raw_commit("old", "author A <a@b> 1 +051800\ncommitter A <a@b> 1 +051800\n")?;
    let hostd = Hostd::start_with(&[("SLIPWAY_EGRESS_PRIVATE", "127.0.0.1")]).await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({"source": {"url": empty.url()}})).await?;
    ensure!(operator.prints(&id, "git status --porcelain; git remote").await?.trim() == "origin");
    let id = operator.create(&json!({"source": {"url": server.url()}})).await?;
    ensure!(
        operator
            .prints(&id, "cat large.bin; ls .git/slipway* 2>/dev/null; true")
            .await?
            .starts_with("version")
    );
    server.add_raw_commit("bad", "committer A <a@b> 1 +0000\n")?;
    let view = fails(&operator, &json!({"source": {"url": server.url()}})).await?;
    ensure!(view["problem"]["code"] == "source_failed", "{view}");
    Ok(())
}

#[tokio::test]
async fn dotfiles_of_a_repository_are_installed() -> Result<()> {
    let (server, hostd) = with_server().await?;
    server.add_commit("trunk", ".toolrc", "dark\n")?;
    let url = server.url();
    let ran = hostd
        .ran(&[
            "create",
            "--dotfiles",
            &url,
            "--source",
            &url,
            "--ref",
            "other",
            "--setup",
            "cat ~/.toolrc > seen",
        ])
        .await?;
    ensure!(ran.code == Some(0), "{ran:?}");
    let shown = hostd.operator()?.prints(ran.out.trim(), "cat seen README; ls -A ~").await?;
    ensure!(shown.starts_with("dark\non other\n"), "{shown}");
    ensure!(!shown.lines().any(|line| line == ".git"), "{shown}");
    Ok(())
}
