//! Tokens that a program of the operator mints, one for each operation.

use super::git::{Fixture, NEXT_TOKEN, REPOSITORY, TOKEN, contains_token, files_with_a_token};
use anyhow::{Context, Result, ensure};
use protocol::api::GitReason;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use tests::git_server::GitServer;

/// Prints a token for a push to one branch; everything that the program must not have fails it.
const TOKEN_HOOK: &str = r#"#!/bin/sh
set -eu
request=$(cat)
[ "$(id -u):$(id -g):$(id -G)" = 65534:65534:65534 ]
[ "$(tr '\0' '\n' < /proc/$$/environ | cut -d= -f1)" = PATH ]
grep -q '^CapPrm:.0*$' /proc/$$/status
grep -q '^NoNewPrivs:.1$' /proc/$$/status
case $request in
*'"tenant":"a"'*'"repository":"/team/app.git","access":"push","branch":"main"'*) echo TOKEN ;;
*) echo 'secret details for the operator' >&2; exit 3 ;;
esac
"#;

#[tokio::test]
async fn a_token_is_minted_for_one_operation_where_the_tenant_has_no_secret() -> Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755))?;
    let hook = dir.path().join("hook");
    std::fs::write(&hook, TOKEN_HOOK.replace("TOKEN", TOKEN))?;
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755))?;
    let hook = hook.to_str().context("a path")?;
    let server = GitServer::start().await?;
    let servers = server.authority().to_owned();
    let settings = [("SLIPWAY_GIT_TOKEN_HOOK", hook), ("SLIPWAY_GIT_TOKEN_HOOK_SERVERS", servers.as_str())];
    let mut place = Fixture { server, ..Fixture::with_settings(&settings).await? };
    place.ann.prints(&place.sandbox, REPOSITORY).await?;
    let remote = format!("git remote add origin {}", place.server.url());
    place.ann.prints(&place.sandbox, &remote).await?;
    place.server.set_credential(Some(&format!("git:{TOKEN}")));
    let _: Value = place.post("push", &json!({})).await?.expect(200)?;
    ensure!(place.server.commit("main")?.is_some());

    let message = place.fails("fetch", &json!({}), GitReason::AuthFailed).await?;
    ensure!(message.contains("exit status: 3") && !message.contains("secret details"), "{message}");
    ensure!(place.hostd.said().contains("secret details"), "the operator reads why");
    place.server.set_credential(Some(&format!("git:{NEXT_TOKEN}")));
    let message = place.fails("push", &json!({}), GitReason::AuthFailed).await?;
    ensure!(message.contains("hook"), "{message}");
    let other = GitServer::start().await?;
    other.set_credential(Some(&format!("git:{TOKEN}")));
    place.fails("push", &json!({"remote": other.url()}), GitReason::AuthFailed).await?;
    ensure!(other.heard().iter().all(|request| request.credential.is_none()), "{:?}", other.heard());
    // A secret of the tenant is preferred.
    place.set_secret(NEXT_TOKEN).await?;
    let _: Value = place.post("fetch", &json!({})).await?.expect(200)?;

    let said =
        [place.hostd.said(), place.hostd.operator()?.get("/v1/events?follow=0&limit=1000").await?.text()];
    ensure!(!said.iter().any(|text| contains_token(text)), "an event or the log has it");
    place.hostd.kill().await?;
    ensure!(files_with_a_token(place.hostd.data()).await? == "");
    Ok(())
}
