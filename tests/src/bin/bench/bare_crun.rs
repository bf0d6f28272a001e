//! BareCrun crun as the alternative to hostd: the bundle that hostd makes for a runtime without known short cuts,
//! so that crun creates the control groups and compiles the seccomp filter itself.
//!
//! Files and directories exist before the clock starts, and nothing is recorded; hostd does all of that
//! within its measured time.

use crate::host::{spec, start_with};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tests::sandbox::PATIENCE;
use tests::{Client, Hostd};

/// `run ID` or `delete ID` on each line; answers with the exit code. crun 1.8 refuses to run where it sees a
/// second kind of control groups: it does not see it here.
const SHELL: &str = r#"
umount /sys/fs/cgroup/unified 2>/dev/null
crun() { command crun --root "$1/bare" --cgroup-manager=cgroupfs "${@:2}" </dev/null; }
while read -r verb id; do
  case $verb in
    run) crun "$1" run --detach --bundle "$1/oci/$id/bundle" "$id" >"$1/oci/$id/log" 2>&1 ;;
    delete) crun "$1" delete --force "$id" >"$1/oci/$id/log" 2>&1 ;;
  esac
  echo $?
done
"#;

pub struct BareCrun {
    /// Only for its directories: it made the bundle, and does nothing any more.
    hostd: Hostd,
    config: Value,
    like: String,
    shell: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    made: u32,
}

impl BareCrun {
    pub async fn start() -> Result<Self> {
        let hostd = start_with(&[("SLIPWAY_OCI_RUNTIME", "runc")]).await?;
        let like = hostd.local().create(&spec()).await?;
        let text = std::fs::read(hostd.data().join("oci").join(&like).join("bundle/config.json"))?;
        let mut config: Value = serde_json::from_slice(&text)?;
        ensure!(config["linux"]["seccomp"].is_object() && config["linux"]["resources"].is_object());
        // Drops the mounts of control groups that do not exist yet, which is less work for crun.
        let mounts = config["mounts"].as_array_mut().context("mounts")?;
        mounts.retain(|mount| {
            !mount["destination"].as_str().is_some_and(|at| at.starts_with("/sys/fs/cgroup"))
        });
        hostd.local().delete(&format!("/v1/sandboxes/{like}")).await?.expect::<Value>(200)?;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "bash", "-c", SHELL, "bash"]).arg(hostd.data());
        let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let asks = shell.stdin.take().context("its input")?;
        let answers = BufReader::new(shell.stdout.take().context("its output")?);
        Ok(Self { hostd, config, like, shell, asks, answers, made: 0 })
    }

    /// From `crun run` until PID 1 answers.
    pub async fn run(&mut self) -> Result<Duration> {
        let id = self.prepare()?;
        let client = Client::new(self.hostd.data().join("oci").join(&id).join("control/sock"));
        let started = Instant::now();
        self.ask("run", &id)?;
        while !client.get("/healthz").await.is_ok_and(|answer| answer.status == 200) {
            ensure!(started.elapsed() < PATIENCE, "PID 1 does not answer");
        }
        let time = started.elapsed();
        self.ask("delete", &id)?;
        Ok(time)
    }

    /// The directories that the bundle names, and the bundle.
    fn prepare(&mut self) -> Result<String> {
        self.made += 1;
        let (id, data) = (format!("{:026}", self.made), self.hostd.data());
        let root = self.config["linux"]["uidMappings"][0]["hostID"].as_u64().context("a mapping")?;
        let root = u32::try_from(root)?;
        let (own, home) = (data.join("oci").join(&id), data.join("workspaces").join(&id));
        for (path, uid) in [
            (own.join("bundle"), 0),
            (own.join("control"), root),
            (own.join("public"), root),
            (home.clone(), root + 1000),
            (home.join("workspace"), root + 1000),
            (home.join("workspace/app"), root + 1000),
        ] {
            std::fs::create_dir_all(&path)?;
            chown(&path, Some(uid), Some(uid))?;
        }
        let text = self.config.to_string().replace(&self.like, &id);
        std::fs::write(own.join("bundle/config.json"), text)?;
        Ok(id)
    }

    fn ask(&mut self, verb: &str, id: &str) -> Result<()> {
        writeln!(self.asks, "{verb} {id}")?;
        let mut code = String::new();
        self.answers.read_line(&mut code)?;
        let log = self.hostd.data().join("oci").join(id).join("log");
        ensure!(code.trim() == "0", "crun {verb}: {}", std::fs::read_to_string(log)?);
        Ok(())
    }
}

impl Drop for BareCrun {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
