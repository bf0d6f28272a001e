//! Slipway's own clients, for TypeScript and Python, against a real hostd: everything that they do, also while hostd is
//! killed, and their examples.

use anyhow::{Context, Result, bail, ensure};
use hostd_core::json_schema;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;
use tests::launch::directory;
use tests::{Browser, Hostd};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A bound on hanging.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(240);

/// Where `scripts/sdk` put the built TypeScript package, and the packages that the Python one needs.
fn built(package: &str) -> Result<PathBuf> {
    let apps = std::env::var_os("SLIPWAY_APPS");
    let apps = apps.context("SLIPWAY_APPS must name the directory that scripts/apps printed")?;
    let path = PathBuf::from(apps).join(package);
    ensure!(path.exists(), "{} is missing: run scripts/sdk", path.display());
    Ok(path)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/sdk").join(name)
}

fn node() -> Command {
    let mut command = Command::new("node");
    // Node.js 20 has a WebSocket of its own behind this flag.
    command.arg("--experimental-websocket").arg("--no-warnings");
    command
}

fn python() -> Result<Command> {
    let package = repository().join("sdk/python");
    let mut paths = package.join("src").into_os_string();
    paths.push(":");
    paths.push(built("sdk-python")?.join("site-packages"));
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", paths)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("SLIPWAY_SDK_GENERATE", package.join("generate.py"));
    Ok(command)
}

/// A fixed address in front of a hostd that is started again on other ports. A connection ends with that hostd.
struct FixedAddress {
    url: String,
    target: watch::Sender<SocketAddr>,
    _serving: JoinSet<()>,
}

impl FixedAddress {
    async fn of(hostd: &Hostd) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (target, now) = watch::channel(address(hostd)?);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let to = *now.borrow();
                connections.spawn(async move {
                    if let Ok(mut server) = TcpStream::connect(to).await {
                        // Either side may be cut at any time: that is what is tested.
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Ok(Self { url, target, _serving: serving })
    }

    fn aim(&self, hostd: &Hostd) -> Result<()> {
        self.target.send_replace(address(hostd)?);
        Ok(())
    }
}

fn address(hostd: &Hostd) -> Result<SocketAddr> {
    Ok(hostd.url().strip_prefix("http://").context("plain HTTP")?.parse()?)
}

/// An agent that asks; the script puts its program into the sandbox.
const CONFIG: &str = r#"
[agents.asking]
speaks = "acp"
find = ["python3"]
args = ["/home/sandbox/workspace/app/acp.py"]
"#;

async fn hostd() -> Result<(Hostd, TempDir)> {
    let dir = directory()?;
    let config = dir.path().join("slipway.toml");
    std::fs::write(&config, CONFIG)?;
    let hostd = Hostd::start_with(&[("SLIPWAY_CONFIG", config.to_str().context("a path")?)]).await?;
    Ok((hostd, dir))
}

/// Runs a script to its end; whenever it asks for it, hostd is killed and started again. Returns how often.
async fn run(hostd: &mut Hostd, place: &FixedAddress, mut command: Command) -> Result<usize> {
    let operator = hostd.operator()?;
    let other = hostd.caller("other", "ann", "run").await?;
    let mut child = command
        .env("SLIPWAY_URL", &place.url)
        .env("SLIPWAY_TOKEN", operator.token().context("a token")?)
        .env("OTHER_TOKEN", other.token().context("a token")?)
        .env("TEST_AGENT", repository().join("tests/agents/acp.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout")?).lines();
    let mut stdin = child.stdin.take().context("stdin")?;
    let mut stderr = child.stderr.take().context("stderr")?;
    let errors = tokio::spawn(async move {
        let mut text = String::new();
        stderr.read_to_string(&mut text).await.map(|_| text)
    });
    let (mut printed, mut kills) = (Vec::new(), 0);
    let reading = async {
        while let Some(line) = lines.next_line().await? {
            if line == "kill" {
                hostd.crash().await?;
                place.aim(hostd)?;
                kills += 1;
                // A script that ended early is told of below.
                let _ = stdin.write_all(b"restarted\n").await;
            }
            printed.push(line);
        }
        anyhow::Ok(child.wait().await?)
    };
    let ended = timeout(SCRIPT_TIMEOUT, reading).await;
    let Ok(ended) = ended else { bail!("the script hangs after {printed:?}; hostd said: {}", hostd.said()) };
    let status = ended?;
    ensure!(status.success(), "{status} after {printed:?}:\n{}", errors.await??);
    ensure!(printed.last().is_some_and(|line| line == "done"), "{printed:?}");
    Ok(kills)
}

/// Every event that hostd recorded is as the document says.
async fn events_match_the_document(hostd: &Hostd) -> Result<()> {
    let caller = hostd.operator()?;
    let document: Value = caller.get("/openapi.json").await?.expect(200)?;
    let schema = json!({"$ref": "#/components/schemas/EventView"});
    let (mut after, mut kinds) = (0, std::collections::BTreeSet::new());
    loop {
        let path = format!("/v1/events?limit=1000&after={after}&follow=0");
        let page: Value = caller.get(&path).await?.expect(200)?;
        for event in page["items"].as_array().context("items")? {
            let found = json_schema::check(&document, &schema, event);
            ensure!(found.is_ok(), "{found:?} in {event}");
            kinds.insert(event["kind"].as_str().unwrap_or_default().to_owned());
        }
        let Some(next) = page["next"].as_str() else { break };
        after = next.parse()?;
    }
    for kind in
        ["sandbox.created", "exec.ended", "service.state", "message", "status", "done", "attempt.succeeded"]
    {
        ensure!(kinds.contains(kind), "{kind} never came: {kinds:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_typescript_client_does_everything_also_while_hostd_is_killed() -> Result<()> {
    let (mut hostd, _config) = hostd().await?;
    let place = FixedAddress::of(&hostd).await?;
    let mut command = node();
    command.arg(script("everything.mjs")).env("SLIPWAY_SDK", built("sdk-typescript/dist/index.js")?);
    let kills = run(&mut hostd, &place, command).await?;
    ensure!(kills == 4, "hostd was killed {kills} times");
    events_match_the_document(&hostd).await?;
    hostd.stop().await
}

/// Everything that one of the two Python clients does.
async fn python_does_everything(mode: &str) -> Result<()> {
    let (mut hostd, _config) = hostd().await?;
    let place = FixedAddress::of(&hostd).await?;
    let mut command = python()?;
    command.arg(script("python.py")).arg(mode).arg(script("everything.py"));
    let kills = run(&mut hostd, &place, command).await?;
    ensure!(kills == 4, "hostd was killed {kills} times");
    events_match_the_document(&hostd).await?;
    hostd.stop().await
}

#[tokio::test]
async fn the_asynchronous_python_client_does_everything_also_while_hostd_is_killed() -> Result<()> {
    python_does_everything("async").await
}

#[tokio::test]
async fn the_synchronous_python_client_does_everything_also_while_hostd_is_killed() -> Result<()> {
    python_does_everything("sync").await
}

/// What each example prints last, of both languages.
const EXAMPLES: [(&str, &str); 4] =
    [("run", "ended: exited"), ("task", "added page.txt"), ("terminal", "3"), ("snapshot", "before")];

#[tokio::test]
async fn the_examples_run_as_they_are() -> Result<()> {
    let hostd = Hostd::start().await?;
    let token = hostd.operator()?.token().context("a token")?.to_owned();
    let (typescript, python_examples) =
        (built("sdk-typescript/examples")?, repository().join("sdk/python/examples"));
    for (directory, ending) in [(&typescript, "mjs"), (&python_examples, "py")] {
        let mut found: Vec<String> = std::fs::read_dir(directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        found.retain(|name| name.ends_with(ending));
        ensure!(found.len() == EXAMPLES.len(), "an example is not in the table: {found:?}");
        for (name, last) in EXAMPLES {
            let mut command = if ending == "mjs" { node() } else { python()? };
            command.arg(directory.join(format!("{name}.{ending}")));
            command.env("SLIPWAY_URL", hostd.url()).env("SLIPWAY_TOKEN", &token);
            command.stdin(Stdio::null()).kill_on_drop(true);
            let output = timeout(SCRIPT_TIMEOUT, command.output()).await.with_context(|| name)??;
            let printed = String::from_utf8(output.stdout)?;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "{name}.{ending}: {printed}\n{errors}");
            ensure!(
                printed.trim_end().lines().last().is_some_and(|line| line.contains(last)),
                "{name}: {printed}"
            );
        }
    }
    let left: Value = hostd.operator()?.get("/v1/sandboxes").await?.expect(200)?;
    ensure!(left["items"] == json!([]), "examples remove what they create: {left}");
    hostd.stop().await
}

/// The built package for a page of another origin.
async fn serve_package(listener: TcpListener, dist: PathBuf) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let mut stream = BufReader::new(stream);
        let (mut request, mut line) = (String::new(), String::new());
        stream.read_line(&mut request).await?;
        while stream.read_line(&mut line).await? > 2 {
            line.clear();
        }
        let name = request.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
        let plain = !name.contains('/') && Path::new(name).extension().is_some_and(|kind| kind == "js");
        let content = if plain { std::fs::read(dist.join(name)).unwrap_or_default() } else { Vec::new() };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/javascript\r\naccess-control-allow-origin: *\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            content.len()
        );
        stream.write_all(&[head.as_bytes(), &content].concat()).await?;
        stream.shutdown().await?;
    }
}

#[tokio::test]
async fn the_typescript_client_works_in_a_browser() -> Result<()> {
    let hostd = Hostd::start().await?;
    let token = hostd.operator()?.token().context("a token")?.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let package = format!("http://{}/index.js", listener.local_addr()?);
    let mut serving = JoinSet::new();
    serving.spawn(serve_package(listener, built("sdk-typescript/dist")?));
    let browser = Browser::start().await?;
    // Any page of the API's own origin will do.
    browser.open(&format!("{}/healthz", hostd.url())).await?;
    let script = std::fs::read_to_string(script("browser.js"))?;
    let start = format!(
        "window.said = null;
         const arguments_ = {{package: {package:?}, token: {token:?}}};
         (async ({{package, token}}) => {{ {script} }})(arguments_)
             .then(() => window.said = 'done', error => window.said = String(error.stack ?? error));
         return null;"
    );
    browser.script(&start).await?;
    let said = async || {
        let said = browser.script("return window.said").await?;
        Ok(said.as_str().map(str::to_owned))
    };
    let said = tests::host::until("the page is done", said).await?;
    ensure!(said == "done", "{said}");
    hostd.stop().await
}
