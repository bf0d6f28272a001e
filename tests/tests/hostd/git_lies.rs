//! Images whose git is another program: what it reports is not taken for what happened.

use anyhow::{Context, Result, ensure};
use protocol::api::GitReason;
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use tests::engines::busybox;
use tests::git_server::GitServer;
use tests::images::{ImageLayout, Layer};
use tests::{Caller, Hostd};

/// Reports what hostd wants to hear. It asks the server for its refs, as a push does, where it is told to.
const LIAR: &str = r#"#!/bin/sh
commit=1111111111111111111111111111111111111111
case "$*" in
*--git-common-dir*) echo /home/sandbox/workspace/app/.git ;;
*--show-object-format*) echo sha1 ;;
*symbolic-ref*) echo refs/heads/main ;;
*rev-parse*) echo $commit ;;
*for-each-ref*) printf 'main\0%s\0\n' $commit ;;
*init*) for word in "$@"; do last=$word; done; mkdir -p "$last/objects/info" ;;
*push*)
  for word in "$@"; do case "$word" in http://*) url=$word ;; esac; done
  if [ -e ~/ask ] || [ -e /home/sandbox/ask ]; then wget -q -O /dev/null "$url/info/refs?service=git-receive-pack"; fi
  printf 'To %s\n*\t%s:refs/heads/main\t[new branch]\nDone\n' "$url" $commit ;;
esac
exit 0
"#;

async fn with_liar() -> Result<(Hostd, Caller, String)> {
    let layer = Layer::new()?;
    busybox(layer.path())?;
    for name in
        ["cat", "chmod", "env", "mkdir", "mktemp", "printf", "rm", "sed", "sort", "touch", "uniq", "wget"]
    {
        let link = layer.path().join("bin").join(name);
        if !link.exists() {
            symlink("busybox", link)?;
        }
    }
    let git = layer.path().join("bin/git");
    std::fs::write(&git, LIAR)?;
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755))?;
    let image = ImageLayout::write(&[layer], &json!({}))?;
    let hostd = Hostd::start_with(&[("SLIPWAY_EGRESS_PRIVATE", "127.0.0.1")]).await?;
    let operator = hostd.operator()?;
    let import = json!({"name": "liar", "path": image.path()});
    operator.post("/v1/images", &import).await?.expect::<Value>(201)?;
    let id = operator.create(&json!({"image": "liar"})).await?;
    Ok((hostd, operator, id))
}

#[tokio::test]
async fn a_push_that_git_only_reports_is_none() -> Result<()> {
    let (_hostd, operator, id) = with_liar().await?;
    let server = GitServer::start().await?;
    let first = server.add_commit("main", "README", "first\n")?;
    let push = format!("/v1/sandboxes/{id}/git/push");
    for prepare in ["mkdir -p .git/objects", "touch ~/ask"] {
        operator.prints(&id, prepare).await?;
        let reply = operator.post(&push, &json!({"remote": server.url()})).await?;
        ensure!(reply.error()?.detail.git == Some(GitReason::Refused), "{prepare}: {}", reply.text());
        ensure!(reply.text().contains("the server did not get"), "{prepare}: {}", reply.text());
    }
    ensure!(server.commit("main")?.as_deref() == Some(first.as_str()));
    ensure!(!server.heard().is_empty(), "the second time it asked the server");
    // Nor is a clone more than what its exec did: the files are those that are there.
    let spec = json!({"image": "liar", "source": {"url": server.url()}});
    let cloned: Value = operator.post("/v1/sandboxes?wait=30s", &spec).await?.expect(201)?;
    let other = cloned["id"].as_str().context("an id")?;
    ensure!(operator.prints(other, "ls README 2>/dev/null; true").await?.is_empty(), "{cloned}");
    Ok(())
}
