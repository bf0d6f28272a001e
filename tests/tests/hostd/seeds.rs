//! Seeds: the first content of a workspace, written once and whole, and the user's own.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tests::Hostd;

/// Templates of both kinds below a data directory.
fn make_templates(data: &Path) -> Result<()> {
    let web = data.join("templates/web");
    std::fs::create_dir_all(web.join("workspace/app"))?;
    std::fs::write(web.join("workspace/app/main.js"), "let a\n")?;
    std::fs::write(web.join("run.sh"), "#!/bin/sh\necho ran\n")?;
    std::os::unix::fs::symlink("/etc/hostname", web.join("link"))?;
    let run = |line: &str| -> Result<()> {
        let done = Command::new("sh").arg("-c").arg(line).current_dir(data.join("templates")).output()?;
        ensure!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    };
    run("chmod 6755 web/run.sh && mkfifo web/fifo && mknod web/null c 1 3")?;
    run("tar -C web -czf packed.tar.gz . && mkdir evil && ln -s / evil/workspace")
}

const LISTED: &str = "cd; stat -c '%n %u %g %a %F' run.sh link workspace/app workspace/app/main.js; ls -A";
const EXPECTED: &str = "run.sh 1000 1000 755 regular file\nlink 1000 1000 777 symbolic link\n\
                        workspace/app 1000 1000 755 directory\nworkspace/app/main.js 1000 1000 644 regular file\n\
                        link\nrun.sh\nworkspace\n";

async fn seeds_are_the_users_files(variables: &[(&str, &str)]) -> Result<()> {
    let hostd = Hostd::start_with(variables).await?;
    make_templates(hostd.data())?;
    let caller = hostd.local();
    for (template, disk_mb) in [("web", None), ("packed", None), ("packed", Some(32))] {
        let spec = json!({"seed": {"template": template}, "limits": {"disk_mb": disk_mb}});
        let id = caller.create(&spec).await.with_context(|| spec.to_string())?;
        let listed = caller.prints(&id, LISTED).await?;
        ensure!(listed == EXPECTED, "{spec}: {listed}");
        ensure!(caller.prints(&id, "~/run.sh").await? == "ran\n");
        // Applied once.
        caller.prints(&id, "cd; rm run.sh; echo mine > workspace/app/main.js").await?;
        for verb in ["stop", "start", "recreate"] {
            caller.post(&format!("/v1/sandboxes/{id}/{verb}"), &json!({})).await?.expect::<Value>(200)?;
        }
        ensure!(caller.prints(&id, "cd; ls; cat workspace/app/main.js").await? == "link\nworkspace\nmine\n");
        let anew = caller.post(&format!("/v1/sandboxes/{id}/recreate?workspace=remove"), &json!({})).await?;
        anew.expect::<Value>(200)?;
        ensure!(caller.prints(&id, LISTED).await? == EXPECTED, "a new workspace has its seed");
        caller.delete(&format!("/v1/sandboxes/{id}")).await?.expect::<Value>(200)?;
    }
    // A link in place of a directory that hostd makes is not followed.
    let id = caller.create(&json!({"seed": {"template": "evil"}})).await?;
    ensure!(caller.prints(&id, "readlink ~/workspace").await? == "/\n");
    ensure!(!Path::new("/app").exists(), "hostd followed a link of a template");
    Ok(())
}

#[tokio::test]
async fn a_seed_is_applied_once_and_belongs_to_the_user_with_idmapped_mounts() -> Result<()> {
    seeds_are_the_users_files(&[]).await
}

#[tokio::test]
async fn a_seed_is_applied_once_and_belongs_to_the_user_with_ids_given_at_launch() -> Result<()> {
    seeds_are_the_users_files(&[("SLIPWAY_OCI_RUNTIME", "runc")]).await
}

#[tokio::test]
async fn an_unknown_template_is_refused_and_a_path_is_not_a_name() -> Result<()> {
    let hostd = Hostd::start().await?;
    for (template, status) in [("none", 422), ("../oci", 400), ("/etc", 400), ("a.tar", 400), ("", 400)] {
        let reply = hostd.local().post("/v1/sandboxes", &json!({"seed": {"template": template}})).await?;
        let error = reply.error()?;
        let field = error.detail.field.as_deref();
        ensure!(reply.status == status && field == Some("seed.template"), "{template}: {error:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_hostd_that_is_killed_while_it_writes_a_seed_repeats_it_from_scratch() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let many = hostd.data().join("templates/many");
    std::fs::create_dir_all(&many)?;
    for number in 0..5_000 {
        std::fs::write(many.join(format!("file-{number}")), "content")?;
    }
    let caller = hostd.local();
    let creating = {
        let caller = caller.clone();
        tokio::spawn(
            async move { caller.post("/v1/sandboxes", &json!({"seed": {"template": "many"}})).await },
        )
    };
    let trash = hostd.data().join("trash");
    tests::host::until("the seed is being written", async || {
        Ok((std::fs::read_dir(&trash)?.next().is_some() || creating.is_finished()).then_some(()))
    })
    .await?;
    hostd.crash().await?;
    let _ = creating.await?;
    let page: Value = caller.get("/v1/sandboxes").await?.expect(200)?;
    let id = page["items"][0]["id"].as_str().context("it was recorded")?.to_owned();
    caller.becomes(&id, "running").await?;
    ensure!(caller.prints(&id, "ls ~ | grep -c file-").await? == "5000\n");
    Ok(())
}

#[tokio::test]
async fn a_workspace_starts_with_the_skeleton_of_its_image() -> Result<()> {
    let hostd = Hostd::start().await?;
    let image = hostd.data().join("skel-image");
    for dir in ["opt/sandbox-skel/.config", "bin"] {
        std::fs::create_dir_all(image.join(dir))?;
    }
    std::fs::write(image.join("opt/sandbox-skel/.config/tool"), "set\n")?;
    std::fs::copy("/bin/busybox", image.join("bin/busybox"))?;
    std::os::unix::fs::symlink("busybox", image.join("bin/sh"))?;
    let import = json!({"name": "skel", "path": image});
    let imported = hostd.local().post("/v1/images", &import).await?;
    ensure!(imported.status == 201, "{}", imported.text());
    let id = hostd.local().create(&json!({"image": "skel"})).await?;
    let shown =
        hostd.local().prints(&id, "cat ~/.config/tool; busybox stat -c '%u %a' ~/.config/tool").await?;
    ensure!(shown == "set\n1000 644\n", "{shown}");
    Ok(())
}
