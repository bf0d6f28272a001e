//! Dotfiles that would do harm, and the programs that install them where an image has them.

use super::setup::{archive, fails};
use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use std::{fs, io::Write, process::Command};
use tests::{Caller, Hostd};

const MEGABYTE: usize = 1 << 20;
/// The most that dotfiles may have; the limit of the API.
const ARCHIVE_MAX_BYTES: usize = MEGABYTE;

async fn refused(caller: &Caller, archive: &str) -> Result<Value> {
    let spec = json!({"dotfiles": {"archive": archive, "install": "copy"}, "limits": {"disk_mb": 64}});
    let view = fails(caller, &spec).await?;
    ensure!(view["problem"]["code"] == "dotfiles_failed", "{view}");
    // It is within reach, and goes like any other.
    let id = view["id"].as_str().context("an id")?;
    let gone: Value = caller.delete(&format!("/v1/sandboxes/{id}?wait=30s")).await?.expect(200)?;
    ensure!(gone["status"] == "destroyed", "{gone}");
    Ok(view)
}

/// A tar of one file of zeros, packed by `gzip`, in base64.
fn bomb(megabytes: usize) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let mut file = fs::File::create(dir.path().join(".bomb"))?;
    let zeros = vec![0; MEGABYTE];
    for _ in 0..megabytes {
        file.write_all(&zeros)?;
    }
    let tar = Command::new("tar").arg("-C").arg(dir.path()).args(["-cz", ".bomb"]).output()?;
    ensure!(tar.status.success() && tar.stdout.len() < ARCHIVE_MAX_BYTES, "{} bytes", tar.stdout.len());
    Ok(BASE64_STANDARD.encode(tar.stdout))
}

/// An archive that Python's tarfile makes of such members: name, kind, target.
fn crafted(members: &[(&str, &str, &str)]) -> Result<String> {
    const WRITE: &str = "import io, json, sys, tarfile
tar = tarfile.open(fileobj=sys.stdout.buffer, mode='w|gz')
for name, kind, target in json.loads(sys.argv[1]):
    member = tarfile.TarInfo(name)
    member.type = {'file': tarfile.REGTYPE, 'link': tarfile.SYMTYPE, 'hard': tarfile.LNKTYPE, 'device': tarfile.CHRTYPE}[kind]
    member.linkname, member.mode, member.size = target, 0o6755, 8 if kind == 'file' else 0
    tar.addfile(member, io.BytesIO(b'planted\\n') if kind == 'file' else None)
tar.close()";
    let output = Command::new("python3").args(["-c", WRITE]).arg(serde_json::to_string(members)?).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(BASE64_STANDARD.encode(output.stdout))
}

#[tokio::test]
async fn a_bomb_fills_no_more_than_its_sandbox_may_have() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let view = refused(&operator, &bomb(300)?).await?;
    let line = view["problem"]["output"][0].as_str().context("a line")?;
    ensure!(line.contains("full") || line.contains("space"), "{view}");
    // Cut off, and not an archive at all.
    let whole = BASE64_STANDARD.decode(archive(&[(".bashrc", &"alias\n".repeat(20_000))])?)?;
    refused(&operator, &BASE64_STANDARD.encode(&whole[..whole.len() / 2])).await?;
    let too_large = BASE64_STANDARD.encode([&[0x1f, 0x8b], &vec![0; ARCHIVE_MAX_BYTES][..]].concat());
    let reply = operator.post("/v1/sandboxes", &json!({"dotfiles": {"archive": too_large}})).await?;
    ensure!(reply.status == 400, "{}", reply.text());
    Ok(())
}

#[tokio::test]
async fn members_that_lead_out_of_the_dotfiles_write_nothing_there() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let canary = tempfile::tempdir_in("/var/tmp")?;
    let out = canary.path().join("planted").display().to_string();
    let up = format!("{}{}", "../".repeat(12), out.trim_start_matches('/'));
    for members in [
        vec![(up.as_str(), "file", "")],
        vec![(out.as_str(), "file", "")],
        vec![("way", "link", "/home/sandbox/workspace"), ("way/planted", "file", "")],
        vec![("way", "link", "../.."), ("way/planted", "file", "")],
        vec![("same", "hard", "/etc/passwd")],
        vec![("device", "device", "")],
    ] {
        let spec = json!({"dotfiles": {"archive": crafted(&members)?, "install": "copy"}});
        let view: Value = operator.post("/v1/sandboxes?wait=30s", &spec).await?.json()?;
        let id = view["id"].as_str().with_context(|| format!("{members:?}: {view}"))?;
        // It is refused, or such a member is left out, or lies below the dotfiles.
        let home = hostd.workspace(id);
        let planted = Command::new("find")
            .arg(&home)
            .args(["-name", "planted", "-o", "-type", "c", "-o", "-perm", "/6000"])
            .output()?;
        let planted = String::from_utf8(planted.stdout)?;
        let outside = |path: &str| !path.starts_with(&format!("{}/.dotfiles/", home.display()));
        let in_home = |path: &str| members[0].0 == up && path.starts_with(&*home.display().to_string());
        ensure!(!planted.lines().any(|path| outside(path) && !in_home(path)), "{members:?}: {planted}");
        ensure!(fs::read_dir(canary.path())?.count() == 0, "{members:?}");
        operator.delete(&format!("/v1/sandboxes/{id}?wait=30s")).await?;
    }
    Ok(())
}

/// The image `host` shows the programs of this machine, on which `scripts/setup` installs stow.
#[tokio::test]
async fn stow_links_packages_where_the_image_has_it() -> Result<()> {
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let files = archive(&[
        ("README.md", "mine\n"),
        ("shell/.shellrc", "alias\n"),
        ("tool/.config/tool/settings", "dark\n"),
    ])?;
    for install in ["auto", "stow"] {
        let spec = json!({"dotfiles": {"archive": files, "install": install}});
        let id = operator.create(&spec).await?;
        let shown = operator
            .prints(&id, "cd; readlink .shellrc .config; cat .shellrc .config/tool/settings; ls")
            .await?;
        let expected = ".dotfiles/shell/.shellrc\n.dotfiles/tool/.config\nalias\ndark\nworkspace\n";
        ensure!(shown == expected, "{install}: {shown}");
    }
    // A file in the way: stow changes nothing, and its message is told.
    let template = hostd.data().join("templates/home");
    fs::create_dir_all(&template)?;
    fs::write(template.join(".shellrc"), "old\n")?;
    let spec = json!({"seed": {"template": "home"}, "dotfiles": {"archive": files, "install": "stow"}});
    let view = fails(&operator, &spec).await?;
    ensure!(view["problem"]["output"].to_string().contains(".shellrc"), "{view}");
    let id = view["id"].as_str().context("an id")?;
    ensure!(fs::read_to_string(hostd.workspace(id).join(".shellrc"))? == "old\n");
    Ok(())
}
