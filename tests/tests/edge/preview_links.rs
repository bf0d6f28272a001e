//! Private previews: links to them, as the API and `slipway` make them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::{Caller, Hostd};

struct Link {
    id: String,
    url: String,
    token: String,
}

async fn link(caller: &Caller, sandbox: &str, body: &Value) -> Result<Link> {
    let path = format!("/v1/sandboxes/{sandbox}/preview-links");
    let made: Value = caller.post(&path, body).await?.expect(201)?;
    let text = |name: &str| made[name].as_str().map(str::to_owned).with_context(|| name.to_owned());
    Ok(Link { id: text("id")?, url: text("url")?, token: text("token")? })
}

async fn listed(caller: &Caller, sandbox: &str) -> Result<Vec<Value>> {
    let page: Value = caller.get(&format!("/v1/sandboxes/{sandbox}/preview-links")).await?.expect(200)?;
    page["items"].as_array().cloned().context("items")
}

#[tokio::test]
async fn links_outlive_hostd_and_are_written_down_without_their_pass() -> Result<()> {
    let mut hostd = Hostd::start().await?;
    let ann = hostd.caller("a", "ann", "run").await?;
    let id = ann.create(&json!({"ports": [3000], "visibility": "private"})).await?;
    let one = link(&ann, &id, &json!({"port": 3000})).await?;
    let two = link(&ann, &id, &json!({"port": 5173, "ttl": "30d", "path": "/x?y=1"})).await?;
    let begins = format!("http://s-{id}-5173.preview.localhost:");
    let ends = format!("/x?y=1&slipway_pass={}", two.token);
    ensure!(two.url.starts_with(&begins) && two.url.ends_with(&ends), "{}", two.url);
    let gone = ann.delete(&format!("/v1/sandboxes/{id}/preview-links/{}", one.id)).await?;
    ensure!(gone.status == 204, "{}", gone.text());

    hostd.crash().await?;
    let ann = Caller::tcp(hostd.url(), ann.token());
    let items = listed(&ann, &id).await?;
    let (newest, oldest) = (items.first().context("two")?, items.last().context("one")?);
    ensure!(newest["id"] == two.id && newest.get("revoked_at").is_none(), "{items:?}");
    ensure!(oldest["id"] == one.id && oldest["revoked_at"].is_string(), "{items:?}");
    ensure!(newest["created_by"] == "ann" && items.len() == 2, "{items:?}");

    let kept = ["slipway.db", "slipway.db-wal"].map(|name| std::fs::read(hostd.data().join(name)));
    let kept = kept.into_iter().flatten().flatten().collect::<Vec<u8>>();
    ensure!(memchr::memmem::find(&kept, two.id.as_bytes()).is_some(), "the link is not in the database");
    for told in [&kept[..], hostd.said().as_bytes()] {
        ensure!(memchr::memmem::find(told, b"slp1.").is_none(), "a pass was written down");
    }
    Ok(())
}

#[tokio::test]
async fn slipway_makes_lists_and_revokes_links() -> Result<()> {
    let hostd = Hostd::start().await?;
    let made = hostd.ran(&["create", "--name", "web", "--port", "3000"]).await?;
    ensure!(made.code == Some(0), "{made:?}");
    let id = made.out.trim();
    let ran = hostd.ran(&["preview-link", "web"]).await?;
    let url = format!("http://s-{id}-3000.preview.localhost:");
    let alone = ran.out.lines().count() == 1 && ran.out.contains("/?slipway_pass=slp1.");
    ensure!(ran.code == Some(0) && ran.out.starts_with(&url) && alone, "{ran:?}");
    ensure!(ran.err.contains("expires in 1d"), "{ran:?}");

    let ran = hostd.ran(&["--json", "preview-link", "web", "5173", "--ttl", "1h", "--path", "/a"]).await?;
    let second: Value = serde_json::from_str(&ran.out).with_context(|| format!("{ran:?}"))?;
    ensure!(second["port"] == 5173 && second["sandbox_id"] == id, "{second}");
    ensure!(second["url"].as_str().is_some_and(|url| url.contains("/a?slipway_pass=")), "{second}");
    let second = second["id"].as_str().context("an id")?;

    let ran = hostd.ran(&["preview-link", "web", "--revoke", second]).await?;
    ensure!(ran.out == format!("{second} revoked\n"), "{ran:?}");
    let ran = hostd.ran(&["preview-link", "web", "--list"]).await?;
    let lines: Vec<&str> = ran.out.lines().collect();
    ensure!(lines.len() == 3 && !ran.out.contains("slp1."), "{ran:?}");
    ensure!(lines[1].starts_with(second) && lines[1].contains("revoked"), "{ran:?}");
    ensure!(lines[2].contains("3000") && lines[2].contains("expires in"), "{ran:?}");
    let ran = hostd.ran(&["--json", "preview-link", "web", "--list"]).await?;
    let page: Value = serde_json::from_str(&ran.out)?;
    ensure!(page["items"][0]["id"] == second, "{page}");
    Ok(())
}

#[tokio::test]
async fn slipway_says_what_is_wrong_with_a_link() -> Result<()> {
    let hostd = Hostd::start().await?;
    for flags in
        [&["create", "--name", "none"][..], &["create", "--name", "two", "--port", "80", "--port", "90"]]
    {
        let made = hostd.ran(flags).await?;
        ensure!(made.code == Some(0), "{made:?}");
    }
    let table: [(&[&str], i32, &str); 6] = [
        (&["none"], 2, "advertises no port"),
        (&["two"], 2, "name one of 80, 90"),
        (&["two", "0"], 2, "0"),
        (&["two", "80", "--ttl", "31d"], 1, "at most 30d"),
        (&["two", "80", "--path", "x"], 1, "must begin with /"),
        (&["two", "--revoke", "nope"], 1, "no preview link `nope` in sandbox `"),
    ];
    for (arguments, code, words) in table {
        let ran = hostd.ran(&[&["preview-link"], arguments].concat()).await?;
        ensure!(ran.code == Some(code) && ran.err.contains(words), "{arguments:?}: {ran:?}");
    }
    Ok(())
}
