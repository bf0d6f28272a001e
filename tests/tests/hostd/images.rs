//! Images of layers, imported from files.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tests::Hostd;
use tests::images::{ImageLayout, Layer};

/// A busybox, and a layer above it that changes, deletes and hides.
fn two_layers() -> Result<ImageLayout> {
    let base = Layer::new()?;
    tests::engines::busybox(base.path())?;
    let base = base
        .file("etc/kept", "base\n")?
        .file("etc/changed", "base\n")?
        .file("old/gone", "")?
        .file("dir/hidden", "")?;
    let above = Layer::new()?
        .file("etc/changed", "above\n")?
        .file("old/.wh.gone", "")?
        .file("dir/.wh..wh..opq", "")?
        .file("dir/new", "")?
        .file("opt/sandbox-skel/hello", "from the image\n")?;
    ImageLayout::write(&[base, above], &json!({"Labels": {"a": "b"}}))
}

#[tokio::test]
async fn the_layers_of_an_imported_image_are_one_tree() -> Result<()> {
    let layout = two_layers()?;
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    for (name, path) in [("layout", layout.path().to_owned()), ("archive", layout.archive()?)] {
        let import = json!({"name": name, "path": path});
        let image: Value = operator.post("/v1/images", &import).await?.expect(201)?;
        ensure!(image["size_bytes"].as_u64().context("a size")? > 100_000, "{image}");
        let id = operator.create(&json!({"image": name})).await?;
        let seen = operator.prints(&id, "cat /etc/kept /etc/changed; ls /old /dir; cat ~/hello").await?;
        ensure!(seen == "base\nabove\n/dir:\nnew\n\n/old:\nfrom the image\n", "{name}: {seen}");
        ensure!(operator.prints(&id, "cat /etc/hosts").await?.contains("localhost"), "as engines give it");
    }
    let left = std::fs::read_dir(hostd.data().join("images/layout"))?.count();
    ensure!(left == 1, "a description, and its layers elsewhere, not {left}");
    let layers = std::fs::read_dir(hostd.data().join("images/.layers"))?.count();
    ensure!(layers == 3, "two layers and the mount points, once for both images, not {layers}");
    Ok(())
}

#[tokio::test]
async fn an_image_with_a_damaged_layer_is_refused_and_nothing_is_left_of_it() -> Result<()> {
    let layout = two_layers()?;
    let largest = layout.blob(&layout.largest_blob()?);
    let mut bytes = std::fs::read(&largest)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&largest, bytes)?;
    let hostd = Hostd::start().await?;
    let operator = hostd.operator()?;
    let refused = operator.post("/v1/images", &json!({"name": "bad", "path": layout.path()})).await?;
    ensure!(refused.status == 422 && refused.text().contains("could not be imported"), "{}", refused.text());
    let page: Value = operator.get("/v1/images").await?.expect(200)?;
    ensure!(page["items"] == json!([]), "{page}");
    ensure!(std::fs::read_dir(hostd.data().join("trash"))?.next().is_none(), "nothing is left");
    Ok(())
}
