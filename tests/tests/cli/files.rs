//! `slipway cp`, `files` and `sync` against a real hostd, and a sandbox that changes its files meanwhile.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use tests::launch::directory;
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd, host::until};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

/// Runs a command that must succeed and returns its output.
async fn prints(hostd: &Hostd, arguments: &[&str]) -> Result<String> {
    let ran = hostd.ran(arguments).await?;
    ensure!(ran.code == Some(0), "{arguments:?}: {ran:?}");
    Ok(ran.out)
}

/// A hostd with a sandbox named web, as the operator sees it.
async fn with_sandbox() -> Result<(Hostd, Caller, String)> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let id = operator.create(&json!({"name": "web"})).await?;
    Ok((hostd, operator, id))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test]
async fn files_and_directories_are_copied_either_way_with_their_modes() -> Result<()> {
    let (hostd, operator, id) = with_sandbox().await?;
    let here = directory()?;
    let src = here.path().join("src");
    fs::create_dir_all(src.join("deep/empty"))?;
    fs::write(src.join("deep/run.sh"), "#!/bin/sh\necho ran\n")?;
    fs::set_permissions(src.join("deep/run.sh"), fs::Permissions::from_mode(0o755))?;
    fs::write(src.join("large"), vec![7; 3 << 20])?;
    symlink("deep/run.sh", src.join("link"))?;
    prints(&hostd, &["cp", &text(&src), "web:workspace/app/"]).await?;
    let seen = operator
        .prints(&id, "cd src && ./link && stat -c '%a %s %U' deep/run.sh large && ls -d deep/empty")
        .await?;
    ensure!(seen == "ran\n755 19 sandbox\n644 3145728 sandbox\ndeep/empty\n", "{seen}");
    // The sandbox may sleep, and stays asleep.
    operator.post(&format!("/v1/sandboxes/{id}/stop"), &json!({})).await?;
    operator.becomes(&id, "stopped").await?;
    let out = here.path().join("out");
    prints(&hostd, &["cp", "web:workspace/app/src", &text(&out)]).await?;
    ensure!(fs::read(out.join("large"))? == vec![7; 3 << 20]);
    ensure!(fs::read_link(out.join("link"))? == Path::new("deep/run.sh") && out.join("deep/empty").is_dir());
    ensure!(fs::metadata(out.join("deep/run.sh"))?.permissions().mode() & 0o7777 == 0o755);
    prints(&hostd, &["cp", "web:workspace/app/src/deep/run.sh", &text(&here.path().join("one"))]).await?;
    ensure!(fs::metadata(here.path().join("one"))?.permissions().mode() & 0o7777 == 0o755);
    ensure!(operator.sandbox(&id).await?["status"] == "stopped");
    // From a pipe, and to one.
    let mut child = hostd.slipway(&["cp", "-", "web:piped"])?.stdin(Stdio::piped()).spawn()?;
    child.stdin.take().context("its input")?.write_all(b"from a pipe").await?;
    ensure!(timeout(PATIENCE, child.wait()).await??.success());
    ensure!(prints(&hostd, &["cp", "web:piped", "-"]).await? == "from a pipe");
    // Between sandboxes.
    operator.create(&json!({"name": "api"})).await?;
    prints(&hostd, &["cp", "web:workspace/app/src", "web:piped", "api:from web/"]).await?;
    ensure!(prints(&hostd, &["files", "cat", "api:from web/piped"]).await? == "from a pipe");
    ensure!(prints(&hostd, &["files", "ls", "api:from web/src"]).await? == "deep/\nlarge\nlink\n");
    let refused = hostd.ran(&["cp", "web:/etc/passwd", "-"]).await?;
    ensure!(refused.code == Some(2) && refused.err.contains("outside of the workspace"), "{refused:?}");
    hostd.stop().await
}

#[tokio::test]
async fn files_are_listed_searched_written_and_deleted() -> Result<()> {
    let (hostd, operator, id) = with_sandbox().await?;
    operator
        .prints(&id, "mkdir -p src/.git node_modules && echo 'fn main() {}' > src/main.rs && echo node_modules > .gitignore && echo fn > node_modules/x.rs")
        .await?;
    let app = "web:workspace/app";
    for (arguments, expected) in [
        (&["files", "ls", app][..], "node_modules/\nsrc/\n"),
        (&["files", "ls", "-a", &format!("{app}/src")], ".git/\nmain.rs\n"),
        (&["files", "find", app, "*.rs"], "workspace/app/src/main.rs\n"),
        (&["files", "grep", app, "fn m.in"], "workspace/app/src/main.rs:1:fn main() {}\n"),
        (&["files", "tree", app], "workspace/app\n└── src/\n    └── main.rs\n\n1 directories, 1 files\n"),
        (&["files", "mkdir", "web:made/deep"], ""),
        (&["files", "mv", "web:workspace/app/src/main.rs", "made"], "made/main.rs\n"),
        (&["files", "cat", "web:made/main.rs"], "fn main() {}\n"),
        (&["files", "rm", "-r", "web:made"], ""),
    ] {
        let printed = prints(&hostd, arguments).await?;
        ensure!(printed == expected, "{arguments:?}: {printed:?}");
    }
    for (arguments, code, said) in [
        (&["files", "grep", app, "nowhere"][..], 1, ""),
        (&["files", "cat", "web:made/main.rs"], 1, "made/main.rs"),
        (&["files", "rm", "web:workspace"], 1, ""),
        (&["files", "cat", "web:workspace"], 1, ""),
    ] {
        let ran = hostd.ran(arguments).await?;
        ensure!(ran.code == Some(code) && ran.err.contains(said), "{arguments:?}: {ran:?}");
    }
    let mut edit = hostd.slipway(&["files", "edit", "web:workspace/app/notes"])?;
    let edited = edit.env("VISUAL", "sh -c 'echo edited > \"$1\"' sh").status().await?;
    ensure!(edited.success() && operator.prints(&id, "cat notes").await? == "edited\n");
    hostd.stop().await
}

#[tokio::test]
async fn a_directory_and_a_sandbox_are_kept_the_same() -> Result<()> {
    let (mut hostd, operator, id) = with_sandbox().await?;
    let here = directory()?;
    let dir = here.path().join("dir");
    fs::create_dir_all(dir.join("src"))?;
    fs::write(dir.join("src/mine"), "1")?;
    symlink("src/mine", dir.join("link"))?;
    operator.prints(&id, "mkdir -p theirs && echo 2 > theirs/file").await?;
    let arguments = ["sync", &text(&dir), "web:workspace/app"];
    let mut command = hostd.slipway(&arguments)?;
    let mut child =
        command.env("XDG_CACHE_HOME", here.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let is_here = async |name: &str, content: &str| {
        let (path, content) = (dir.join(name), content.to_owned());
        until(name, async || Ok(fs::read_to_string(&path).ok().filter(|found| *found == content))).await
    };
    let is_there = async |operator: &Caller, line: &str, expected: &str| {
        let found =
            async || Ok(operator.prints(&id, line).await.ok().filter(|found| found.trim_end() == expected));
        until(line, found).await
    };
    is_here("theirs/file", "2\n").await?;
    is_there(&operator, "cat link", "1").await?;
    operator.prints(&id, "mkdir -p new && echo 3 > new/file && rm theirs/file").await?;
    is_here("new/file", "3\n").await?;
    until("a deletion there", async || Ok((!dir.join("theirs/file").exists()).then_some(()))).await?;
    fs::write(dir.join("src/mine"), "changed")?;
    is_there(&operator, "cat src/mine", "changed").await?;
    fs::remove_file(dir.join("new/file"))?;
    is_there(&operator, "ls new | wc -l", "0").await?;
    // It goes on when hostd was killed.
    hostd.crash().await?;
    let operator = hostd.operator()?;
    fs::write(dir.join("after"), "restart")?;
    is_there(&operator, "cat after", "restart").await?;
    operator.prints(&id, "echo back > back").await?;
    is_here("back", "back\n").await?;
    kill(Pid::from_raw(i32::try_from(child.id().context("it runs")?)?), Signal::SIGINT)?;
    ensure!(timeout(PATIENCE, child.wait()).await??.code() == Some(130));
    // Both sides change while nobody looks.
    fs::write(dir.join("back"), "mine, and longer")?;
    operator.prints(&id, "echo theirs > back; rm after").await?;
    let once = hostd
        .slipway(&[&arguments[..], &["--once"]].concat())?
        .env("XDG_CACHE_HOME", here.path())
        .output()
        .await?;
    let said = String::from_utf8_lossy(&once.stdout).into_owned();
    ensure!(once.status.success() && said.contains("yours is now back.conflict-"), "{said}");
    ensure!(fs::read_to_string(dir.join("back"))? == "theirs\n" && !dir.join("after").exists());
    is_there(&operator, "cat back.conflict-*", "mine, and longer").await?;
    hostd.stop().await
}
