//! An image of ten layers: pulled and unpacked, and a sandbox of it, against Docker with the same image of the same
//! kind of registry on loopback; and the disk that ten sandboxes take.

use crate::{
    docker::HARDENED,
    host::start_with,
    row::{Goal, Row, median, ms, ratio},
};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use tests::engines::{Engine, Registry};
use tests::images::{Access, ImageLayout, Layer, LocalRegistry};
use tests::random::Random;
use tests::{Caller, Hostd, scaled};

const LAYERS: usize = 10;
const FILES_OF_LAYER: usize = 200;
const FILE_BYTES: usize = 64 << 10;
const IMAGE: &str = "bench/ten:1";

pub async fn rows() -> Result<Vec<Row>> {
    let ours = LocalRegistry::start(Access::Public)?;
    let reference = ours.push(&image()?, IMAGE)?;
    let engine = Engine::docker()?;
    let storage = engine.path().join("registry");
    ensure!(Command::new("cp").arg("-a").arg(ours.storage()).arg(&storage).status()?.success(), "cp failed");
    let theirs = Registry::start(&engine)?;
    let variables = [("SLIPWAY_LOG", "warn"), ("SLIPWAY_IMAGE_REGISTRIES", ours.authority())];
    let hostd = start_with(&variables).await?;
    let bench = Bench { caller: hostd.local(), hostd, engine, reference, docker_name: theirs.name(IMAGE) };
    let rows = vec![bench.pull().await?, bench.create().await?, bench.disk().await?];
    bench.hostd.stop().await?;
    Ok(rows)
}

struct Bench {
    hostd: Hostd,
    caller: Caller,
    engine: Engine,
    reference: String,
    docker_name: String,
}

impl Bench {
    async fn pull(&self) -> Result<Row> {
        let (mut ours, mut docker) = (Vec::new(), Vec::new());
        for _ in 0..scaled(3, 10) {
            let started = Instant::now();
            self.pull_once().await?;
            ours.push(started.elapsed());
            let collect = "/v1/images/collect?apply=true&unused_for=0";
            self.caller.post(collect, &json!({})).await?.expect::<Value>(200)?;
            docker.push(self.docker(&["pull", "--quiet", &self.docker_name])?);
            self.docker(&["rmi", "--force", &self.docker_name])?;
        }
        self.pull_once().await?;
        self.docker(&["pull", "--quiet", &self.docker_name])?;
        let (ours, docker) = (median(ours), median(docker));
        Ok(Row {
            what: "pull and unpack, 10 layers, 131 MB".into(),
            ours: ms(ours),
            other: format!("docker pull {}", ms(docker)),
            ratio: ratio(ours, docker),
            goal: Goal::AtMost(0.7),
        })
    }

    async fn pull_once(&self) -> Result<()> {
        let body = json!({"reference": self.reference});
        let pull: Value = self.caller.post("/v1/image-pulls", &body).await?.expect(202)?;
        let path = format!("/v1/image-pulls/{}", pull["id"].as_str().context("an id")?);
        let ended = self.caller.until(&path, |pull| pull["state"] != "running").await?;
        ensure!(ended["state"] == "done", "{ended}");
        Ok(())
    }

    async fn create(&self) -> Result<Row> {
        let (mut ours, mut docker) = (Vec::new(), Vec::new());
        let run = [&["run", "--rm"], &HARDENED[..], &[&self.docker_name, "/bin/true"]].concat();
        let spec = json!({"image": self.reference, "limits": {"memory_mb": 512, "pids": 512}});
        for _ in 0..scaled(10, 50) {
            let started = Instant::now();
            let id = self.caller.create(&spec).await?;
            ours.push(started.elapsed());
            self.caller.delete(&format!("/v1/sandboxes/{id}")).await?;
            docker.push(self.docker(&run)?);
        }
        let (ours, docker) = (median(ours), median(docker));
        Ok(Row {
            what: "create from an image of 10 layers".into(),
            ours: ms(ours),
            other: format!("docker run {}", ms(docker)),
            ratio: ratio(ours, docker),
            goal: Goal::AtMost(0.2),
        })
    }

    async fn disk(&self) -> Result<Row> {
        let one = self.image_bytes()?;
        for _ in 0..10 {
            self.caller.create(&json!({"image": self.reference})).await?;
        }
        let ten = self.image_bytes()?;
        Ok(Row {
            what: "images on disk with ten sandboxes".into(),
            ours: format!("{:.1} MB", ten as f64 / 1e6),
            other: format!("with none {:.1} MB", one as f64 / 1e6),
            ratio: ten as f64 / one as f64,
            goal: Goal::AtMost(1.01),
        })
    }

    fn image_bytes(&self) -> Result<u64> {
        let output =
            Command::new("du").args(["-sb"]).arg(self.hostd.data().join("images/.layers")).output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(text.split_whitespace().next().context("a size")?.parse()?)
    }

    fn docker(&self, arguments: &[&str]) -> Result<Duration> {
        let started = Instant::now();
        self.engine.prints(arguments)?;
        Ok(started.elapsed())
    }
}

fn image() -> Result<ImageLayout> {
    let mut random = Random::from_seed(10);
    let layers = (0..LAYERS).map(|number| {
        let layer = Layer::new()?;
        if number == 0 {
            tests::engines::busybox(layer.path())?;
        }
        let dir = layer.path().join(format!("layer-{number}"));
        std::fs::create_dir(&dir)?;
        for file in 0..FILES_OF_LAYER {
            std::fs::write(dir.join(file.to_string()), random.bytes(FILE_BYTES))?;
        }
        Ok(layer)
    });
    ImageLayout::write(&layers.collect::<Result<Vec<_>>>()?, &json!({}))
}
