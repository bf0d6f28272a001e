//! Provisioning of a new sandbox: ordered setup steps and dotfiles, through the API and the command.

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::{os::unix::fs::PermissionsExt, process::Command};
use tests::host::{all_events, until};
use tests::{Caller, Hostd};

pub(crate) async fn verb(caller: &Caller, id: &str, verb: &str) -> Result<Value> {
    caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect(200)
}

pub(crate) fn steps(steps: Value) -> Value {
    let mut spec = json!({"setup": {}, "limits": {"memory_mb": 128}});
    spec["setup"]["steps"] = steps;
    spec
}

/// Creates a sandbox that goes to error.
pub(crate) async fn fails(caller: &Caller, spec: &Value) -> Result<Value> {
    let view: Value = caller.post("/v1/sandboxes?wait=0", spec).await?.expect(201)?;
    caller.becomes(view["id"].as_str().context("an id")?, "error").await
}

async fn kinds(caller: &Caller, kind: &str) -> Result<Vec<Value>> {
    Ok(all_events(caller).await?.into_iter().filter(|event| event["kind"] == kind).collect())
}

#[tokio::test]
async fn steps_run_in_order_as_the_user_each_with_its_shell_directory_and_environment() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator
        .create(&steps(json!([
            {"name": "first", "run": "mkdir -p sub && echo first:$(id -u):$PWD >> /home/sandbox/log"},
            {"name": "second", "run": "[[ x == x ]] && echo second:${BASH##*/}:$PWD:$TOKEN >> /home/sandbox/log",
             "shell": "bash", "dir": "sub", "env": {"TOKEN": "geheim-token"}},
            {"run": "echo third:$TOKEN:$0 >> ~/log", "shell": "/bin/bash", "dir": "/home/sandbox"},
        ])))
        .await?;
    let app = "/home/sandbox/workspace/app";
    let log = operator.prints(&id, "cat /home/sandbox/log").await?;
    let expected = format!("first:1000:{app}\nsecond:bash:{app}/sub:geheim-token\nthird::/bin/bash");
    ensure!(log.trim() == expected, "{log}");
    let view = operator.sandbox(&id).await?;
    ensure!(view["setup"]["done"] == 3 && view["progress"].is_null(), "{view}");
    ensure!(view["setup"]["steps"][1] == "second", "{view}");
    let started = kinds(&operator, "setup.started").await?;
    let texts: Vec<&str> = started.iter().filter_map(|event| event["data"]["text"].as_str()).collect();
    ensure!(texts[..2] == ["setup 1/3: first", "setup 2/3: second"] && texts.len() == 3, "{texts:?}");
    ensure!(kinds(&operator, "setup.succeeded").await?.len() == 3);
    // The exec of a step is listed as any other.
    let exec = started[0]["data"]["exec"].as_str().context("an exec")?;
    let exec: Value = operator.get(&format!("/v1/sandboxes/{id}/execs/{exec}")).await?.expect(200)?;
    ensure!(exec["exit"] == json!({"kind": "exited", "code": 0}), "{exec}");
    Ok(())
}

#[tokio::test]
async fn the_environment_of_a_step_is_in_no_response_and_no_event() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let spec = steps(json!([{"run": "echo it is $TOKEN; exit 3", "env": {"TOKEN": "geheim-token"}}]));
    let view = fails(&operator, &spec).await?;
    ensure!(view["problem"]["output"] == json!(["it is [redacted]"]), "{view}");
    let id = view["id"].as_str().context("an id")?;
    ensure!(!view.to_string().contains("geheim"), "{view}");
    let exec = format!("/execs/{}", view["problem"]["step"]["exec"].as_str().context("an exec")?);
    for path in ["", "/attempts", "/execs", &exec, "/activity"] {
        let reply = operator.get(&format!("/v1/sandboxes/{id}{path}")).await?;
        ensure!(!reply.text().contains("geheim"), "{path}: {}", reply.text());
    }
    let events = serde_json::to_string(&all_events(&operator).await?)?;
    ensure!(events.contains("setup.failed") && !events.contains("geheim"), "{events}");
    ensure!(!hostd.said().contains("geheim"), "the log of hostd");
    Ok(())
}

#[tokio::test]
async fn the_first_step_that_fails_ends_the_setup_and_start_goes_on_with_it() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let spec = steps(json!([
        {"name": "one", "run": "echo one >> ~/log"},
        {"name": "two", "run": "echo two >> ~/log; seq 1 100; echo no such luck >&2; test -e ~/mended || exit 7"},
        {"name": "three", "run": "echo three >> ~/log"},
    ]));
    let view = fails(&operator, &spec).await?;
    let id = view["id"].as_str().context("an id")?.to_owned();
    let problem = &view["problem"];
    ensure!(problem["code"] == "setup_failed", "{problem}");
    let exec = problem["step"]["exec"].as_str().context("an exec")?.to_owned();
    let step =
        json!({"name": "two", "number": 2, "of": 3, "exec": exec, "exit": {"kind": "exited", "code": 7}});
    ensure!(problem["step"] == step && exec.starts_with("setup-2-"), "{problem}");
    // A fork of its files would lack the rest of the setup.
    let snapshot = operator.post(&format!("/v1/sandboxes/{id}/snapshots"), &json!({})).await?;
    ensure!(snapshot.status == 409, "{}", snapshot.text());
    let lines = problem["output"].as_array().context("lines")?;
    ensure!(lines.len() == 20 && lines[19] == "no such luck" && lines[18] == "100", "{problem}");
    let message = problem["message"].as_str().context("a message")?;
    ensure!(message.starts_with("setup step 2 of 3 (two) exited with code 7"), "{message}");
    ensure!(view["setup"]["done"] == 1, "{view}");

    // Files are kept, and within reach while it does not run.
    let file = format!("/v1/sandboxes/{id}/files/content?path=mended");
    let put = operator.send(hyper::Method::PUT, &file, bytes::Bytes::from_static(b"x")).await?;
    ensure!(put.status < 300, "{}", put.text());
    let view = verb(&operator, &id, "start").await?;
    ensure!(view["status"] == "running" && view["setup"]["done"] == 3, "{view}");
    let log = operator.prints(&id, "cat ~/log").await?;
    ensure!(log.split_whitespace().eq(["one", "two", "two", "three"]), "{log}");
    let snapshot = operator.post(&format!("/v1/sandboxes/{id}/snapshots"), &json!({})).await?;
    ensure!(snapshot.status == 201, "{}", snapshot.text());

    // Not again after a stop, and again after the workspace was emptied.
    verb(&operator, &id, "stop").await?;
    verb(&operator, &id, "start").await?;
    ensure!(operator.prints(&id, "cat ~/log | wc -l").await?.trim() == "4");
    let kept: Value = operator
        .post(&format!("/v1/sandboxes/{id}/recreate?workspace=keep"), &json!({}))
        .await?
        .expect(200)?;
    ensure!(kept["status"] == "running", "{kept}");
    ensure!(operator.prints(&id, "cat ~/log | wc -l").await?.trim() == "4");
    let path = format!("/v1/sandboxes/{id}/recreate?workspace=remove&wait=0");
    operator.post(&path, &json!({})).await?.expect::<Value>(202)?;
    let view = operator.becomes(&id, "error").await?;
    ensure!(view["problem"]["step"]["name"] == "two" && view["setup"]["done"] == 1, "{view}");
    let gone: Value = operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
    ensure!(gone["status"] == "destroyed", "{gone}");
    Ok(())
}

#[tokio::test]
async fn a_step_ends_by_its_timeout_a_signal_or_the_death_of_its_sandbox() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let table = [
        (json!({"run": "echo waiting; sleep 1000", "timeout": "1s"}), json!({"kind": "timed_out"})),
        (json!({"run": "kill -9 $$"}), json!({"kind": "signalled", "signal": 9})),
        (json!({"run": "true", "shell": "/no/such/shell"}), Value::Null),
    ];
    for (step, exit) in table {
        let view = fails(&operator, &steps(json!([step.clone()]))).await?;
        let found = &view["problem"]["step"]["exit"];
        match exit {
            Value::Null => ensure!(found["kind"] == "spawn_failed", "{step}: {view}"),
            exit => ensure!(*found == exit, "{step}: {view}"),
        }
    }
    let spec = steps(json!([{"run": "sleep 1000"}]));
    let view: Value = operator.post("/v1/sandboxes?wait=0", &spec).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?;
    runs(&operator, id, "setup 1/1: sleep 1000").await?;
    hostd.kill_init(id)?;
    let view = operator.becomes(id, "error").await?;
    ensure!(view["problem"]["step"]["exit"]["kind"] == "lost", "{view}");
    Ok(())
}

/// Waits until a sandbox shows this progress.
pub(crate) async fn runs(caller: &Caller, id: &str, text: &str) -> Result<Value> {
    let view = caller.until(&format!("/v1/sandboxes/{id}"), |view| view["progress"] == text).await?;
    ensure!(view["status"] == "creating" && view["phase"] == "provisioning", "{view}");
    Ok(view)
}

#[tokio::test]
async fn services_start_only_after_the_setup() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let manifest =
        "services:\\n  listed:\\n    command: echo listed >> /home/sandbox/log; exec sleep 1000\\n";
    let mut spec = steps(json!([
        {"run": format!("printf '{manifest}' > sandbox.yaml; sleep 0.5; echo one >> ~/log")},
        {"run": "sleep 0.5; echo two >> ~/log"},
    ]));
    spec["services"] = json!([{"name": "given", "command": "echo given >> ~/log; exec sleep 1000"}]);
    let id = operator.create(&spec).await?;
    let log = until("both services", async || {
        let log = operator.prints(&id, "cat ~/log").await?;
        Ok((log.contains("given") && log.contains("listed")).then_some(log))
    })
    .await?;
    let lines: Vec<&str> = log.split_whitespace().collect();
    ensure!(lines[..2] == ["one", "two"] && lines.len() == 4, "{log}");
    Ok(())
}

#[tokio::test]
async fn a_step_that_runs_when_hostd_is_killed_is_found_again() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let wait = "echo begun >> ~/log; while ! test -e ~/go; do sleep 0.05; done; echo ended >> ~/log";
    let spec = steps(json!([
        {"name": "one", "run": "echo one >> ~/log"}, {"name": "two", "run": wait}, {"name": "three", "run": "echo three >> ~/log"},
    ]));
    let view: Value = operator.post("/v1/sandboxes?wait=0", &spec).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?.to_owned();
    let log = hostd.workspace(&id).join("log");
    until("the second step", async || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        Ok(text.contains("begun").then_some(()))
    })
    .await?;
    hostd.crash().await?;
    let operator = hostd.operator()?;
    runs(&operator, &id, "setup 2/3: two").await?;
    std::fs::write(hostd.workspace(&id).join("go"), "")?;
    let view = operator.becomes(&id, "running").await?;
    ensure!(view["setup"]["done"] == 3, "{view}");
    let text = operator.prints(&id, "cat ~/log").await?;
    ensure!(text.split_whitespace().eq(["one", "begun", "ended", "three"]), "{text}");
    Ok(())
}

#[tokio::test]
async fn a_sandbox_that_is_stopped_or_destroyed_in_its_setup_obeys() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let spec = steps(json!([{"name": "wait", "run": "test -e ~/go || { touch ~/go; sleep 1000; }"}]));
    let view: Value = operator.post("/v1/sandboxes?wait=0", &spec).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?;
    let go = hostd.workspace(id).join("go");
    until("the step", async || Ok(go.exists().then_some(()))).await?;
    let view = verb(&operator, id, "stop").await?;
    ensure!(view["status"] == "stopped" && view["setup"]["done"] == 0, "{view}");
    let view = verb(&operator, id, "start").await?;
    ensure!(view["status"] == "running" && view["setup"]["done"] == 1, "{view}");
    let view: Value =
        operator.post("/v1/sandboxes?wait=0", &steps(json!([{"run": "sleep 1000"}]))).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?;
    runs(&operator, id, "setup 1/1: sleep 1000").await?;
    let gone: Value = operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
    ensure!(gone["status"] == "destroyed", "{gone}");
    Ok(())
}

#[tokio::test]
async fn the_command_shows_steps_and_the_one_that_failed() -> Result<()> {
    let hostd = Hostd::start().await?;
    let ran = hostd.ran(&["create", "--setup", "sleep 1", "--setup", "echo out of luck; exit 9"]).await?;
    ensure!(ran.code != Some(0), "{ran:?}");
    for text in ["setup 1/2: sleep 1", "setup step 2 of 2", "exited with code 9", "out of luck"] {
        ensure!(ran.err.contains(text), "{text}: {ran:?}");
    }
    Ok(())
}

/// An archive of dotfiles in base64: names, contents, and links with `->` before their target.
pub(crate) fn archive(files: &[(&str, &str)]) -> Result<String> {
    let dir = tempfile::tempdir()?;
    for (name, content) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().context("a directory")?)?;
        match content.strip_prefix("-> ") {
            Some(target) => std::os::unix::fs::symlink(target, path)?,
            None => {
                std::fs::write(&path, content)?;
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
            }
        }
    }
    let packed = Command::new("tar").arg("-C").arg(dir.path()).args(["-cz", "."]).output()?;
    ensure!(packed.status.success(), "{packed:?}");
    Ok(BASE64_STANDARD.encode(packed.stdout))
}

#[tokio::test]
async fn dotfiles_are_copied_beside_what_is_there_and_nothing_leaves_home() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let archive = archive(&[
        (".bashrc", "alias hello='echo hi'\n"),
        (".config/tool/settings", "dark\n"),
        (".linked", "-> .bashrc"),
        (".out", "-> /etc/passwd"),
        (".git/config", "[core]\n"),
        ("install.sh", "#!/bin/sh\ntouch ~/script-ran\n"),
        ("bin/tool", "#!/bin/sh\necho tool\n"),
    ])?;
    let id = operator
        .create(&json!({
            "dotfiles": {"archive": archive},
            "setup": {"steps": [{"run": "bin/tool > seen", "dir": "/home/sandbox"}]},
        }))
        .await?;
    let shown = operator
        .prints(&id, "cd; cat seen .bashrc .config/tool/settings; readlink .linked .out; ls -A")
        .await?;
    ensure!(shown.starts_with("tool\nalias hello='echo hi'\ndark\n.bashrc\n/etc/passwd\n"), "{shown}");
    let left_out = !shown.contains("script-ran") && !shown.lines().any(|line| line == ".git");
    ensure!(left_out && !shown.contains("before-dotfiles"), "{shown}");
    ensure!(operator.sandbox(&id).await?["setup"]["steps"] == json!(["dotfiles", "bin/tool > seen"]));
    let gone: Value = operator.delete(&format!("/v1/sandboxes/{id}")).await?.expect(200)?;
    ensure!(gone["status"] == "destroyed", "{gone}");
    Ok(())
}

/// The files of a skeleton are in the way of the dotfiles.
#[tokio::test]
async fn a_file_in_the_way_of_dotfiles_is_kept_and_a_link_is_not_followed() -> Result<()> {
    let hostd = Hostd::start().await?;
    let template = hostd.data().join("templates/home");
    std::fs::create_dir_all(&template)?;
    std::fs::write(template.join(".bashrc"), "old\n")?;
    std::fs::write(template.join(".same"), "same\n")?;
    std::fs::create_dir(template.join("workspace"))?;
    std::os::unix::fs::symlink("/tmp", template.join(".config"))?;
    std::os::unix::fs::symlink("workspace", template.join(".inner"))?;
    let operator = hostd.operator()?;
    let dotfiles =
        [(".bashrc", "new\n"), (".same", "same\n"), (".config/x", "in config\n"), (".inner/y", "in inner\n")];
    let id = operator
        .create(&json!({"seed": {"template": "home"}, "dotfiles": {"archive": archive(&dotfiles)?, "install": "copy"}}))
        .await?;
    let line = "cd; cat .bashrc .bashrc.before-dotfiles .same .config/x .inner/y; readlink .config.before-dotfiles; \
        readlink .inner.before-dotfiles; ls -A /tmp workspace";
    let shown = operator.prints(&id, line).await?;
    let expected = "new\nold\nsame\nin config\nin inner\n/tmp\nworkspace\n";
    ensure!(shown.starts_with(expected) && !shown[expected.len()..].contains(['x', 'y']), "{shown}");
    let copied = kinds(&operator, "dotfiles.copied").await?;
    let kept = json!([".bashrc.before-dotfiles", ".config.before-dotfiles", ".inner.before-dotfiles"]);
    ensure!(copied.len() == 1 && copied[0]["data"]["kept"] == kept, "{copied:?}");
    Ok(())
}

#[tokio::test]
async fn a_script_of_dotfiles_runs_only_when_asked_for_and_its_failure_is_told() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let good = archive(&[("install.sh", "#!/bin/sh\npwd > ~/ran\n")])?;
    let id = operator.create(&json!({"dotfiles": {"archive": good, "install": "script"}})).await?;
    ensure!(operator.prints(&id, "cat ~/ran").await?.trim() == "/home/sandbox/.dotfiles");
    let bad = archive(&[("setup", "echo broken; exit 4")])?;
    let view = fails(&operator, &json!({"dotfiles": {"archive": bad, "install": "script"}})).await?;
    let problem = &view["problem"];
    ensure!(problem["code"] == "dotfiles_failed" && problem["output"] == json!(["broken"]), "{view}");
    ensure!(problem["step"]["exit"] == json!({"kind": "exited", "code": 4}), "{view}");
    let none = archive(&[(".bashrc", "x")])?;
    let view = fails(&operator, &json!({"dotfiles": {"archive": none, "install": "script"}})).await?;
    ensure!(view["problem"]["output"][0].as_str().is_some_and(|line| line.contains("install.sh")), "{view}");
    let junk = BASE64_STANDARD.encode([[0x1f, 0x8b].as_slice(), &[7; 64]].concat());
    let view = fails(&operator, &json!({"dotfiles": {"archive": junk}})).await?;
    ensure!(view["problem"]["code"] == "dotfiles_failed", "{view}");
    Ok(())
}

#[tokio::test]
async fn dotfiles_that_are_installed_when_hostd_is_killed_are_found_again() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    // The script changes what a new decision would be made from.
    let script = "#!/bin/sh\necho begun >> ~/log; rm install.sh; while ! test -e ~/go; do sleep 0.05; done; echo ended >> ~/log\n";
    let dotfiles = json!({"archive": archive(&[("install.sh", script)])?, "install": "script"});
    let view: Value =
        operator.post("/v1/sandboxes?wait=0", &json!({"dotfiles": dotfiles})).await?.expect(201)?;
    let id = view["id"].as_str().context("an id")?.to_owned();
    let log = hostd.workspace(&id).join("log");
    until("the script", async || {
        Ok(std::fs::read_to_string(&log).unwrap_or_default().contains("begun").then_some(()))
    })
    .await?;
    hostd.crash().await?;
    std::fs::write(hostd.workspace(&id).join("go"), "")?;
    let operator = hostd.operator()?;
    operator.becomes(&id, "running").await?;
    ensure!(operator.prints(&id, "cat ~/log").await?.split_whitespace().eq(["begun", "ended"]));
    Ok(())
}

#[tokio::test]
async fn dotfiles_do_not_move_the_app_directory() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    for files in [[("workspace", "-> /tmp")], [("workspace/app", "a file")]] {
        let view = fails(&operator, &json!({"dotfiles": {"archive": archive(&files)?}})).await?;
        let line = view["problem"]["output"][0].as_str().context("a line")?;
        ensure!(line.contains("would replace the app directory"), "{view}");
    }
    Ok(())
}
