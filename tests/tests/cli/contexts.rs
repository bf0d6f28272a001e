//! Contexts, against real hostds behind TLS: several hosts from one machine, and one from another network.

use anyhow::{Context, Result, ensure};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;
use tests::engines::NetworkNamespace;
use tests::host::{Ran, without_settings};
use tests::https::Certificate;
use tests::launch::{directory, program};
use tests::pty::OnTerminal;
use tests::sandbox::PATIENCE;
use tests::tls_terminator::TlsTerminator;
use tests::{Hostd, Random};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// Addresses of a documentation range, for the two ends of a wire between two namespaces of the test.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2));

/// A user with a home directory, and perhaps a network, of their own.
struct User {
    home: TempDir,
    network: Option<NetworkNamespace>,
}

impl User {
    fn new(network: Option<NetworkNamespace>) -> Result<Self> {
        Ok(Self { home: directory()?, network })
    }

    fn path(&self, name: &str) -> String {
        self.home.path().join(name).display().to_string()
    }

    fn slipway(&self, arguments: &[&str]) -> Result<Command> {
        let slipway = program("slipway")?;
        let mut command = match &self.network {
            Some(network) => Command::from(network.run(slipway.to_str().context("text")?)),
            None => Command::new(slipway),
        };
        // Found by the home directory, as people have them.
        without_settings(&mut command, self.home.path()).env_remove("XDG_CONFIG_HOME");
        command.env_remove("SLIPWAY_DATA_DIR");
        command.args(arguments).env("HOME", self.home.path()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    async fn ran(&self, arguments: &[&str]) -> Result<Ran> {
        Ran::of(self.slipway(arguments)?.spawn()?).await
    }

    async fn prints(&self, arguments: &[&str]) -> Result<String> {
        let ran = self.ran(arguments).await?;
        ensure!(ran.code == Some(0) && ran.err.is_empty(), "{arguments:?}: {ran:?}");
        Ok(ran.out)
    }
}

/// Writes a token of a principal to a file of the user.
async fn token_file(hostd: &Hostd, user: &User, principal: &str) -> Result<String> {
    let token = hostd.ran(&["token", "create", "--principal", principal]).await?;
    ensure!(token.code == Some(0), "{token:?}");
    let path = user.path(&format!("token of {principal}"));
    std::fs::write(&path, token.out)?;
    Ok(path)
}

fn loopback() -> Result<TcpListener> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?)
}

#[tokio::test]
async fn one_machine_drives_two_hosts() -> Result<()> {
    let (user, first, second) = (User::new(None)?, Hostd::start().await?, Hostd::start().await?);
    let certificate = Certificate::make(user.home.path(), "second", "localhost")?;
    let terminator = TlsTerminator::start(loopback()?, &certificate, second.url())?;
    let (plain, tls) = (first.url().to_owned(), format!("https://localhost:{}", terminator.port()));
    let ann = token_file(&first, &user, "ann").await?;
    let operator = second.data().join("token").display().to_string();
    let ca = certificate.cert.display().to_string();
    user.prints(&["context", "add", "plain", "--url", &plain, "--token-file", &ann]).await?;
    let added =
        ["context", "add", "tls", "--url", &tls, "--ca-file", &ca, "--token-file", &operator, "--use"];
    let added = user.prints(&added).await?;
    ensure!(added.contains("answers and accepts the token, as of its operator"), "{added}");
    let here = user.prints(&["create", "web"]).await?;
    let there = user.prints(&["--context", "plain", "create", "web"]).await?;
    for (context, id) in [("tls", &here), ("plain", &there)] {
        ensure!(user.prints(&["--context", context, "ls", "-q"]).await? == *id, "{context}");
    }
    user.prints(&["context", "use", "plain"]).await?;
    ensure!(user.prints(&["ls", "-q"]).await? == there);
    // A name that the certificate does not have.
    let other = format!("https://127.0.0.1:{}", terminator.port());
    let refused =
        user.ran(&["context", "add", "other", "--url", &other, "--ca-file", &ca, "--no-token"]).await?;
    ensure!(refused.code == Some(1) && refused.err.contains("is for other names: localhost"), "{refused:?}");
    streams(&user, "tls").await?;
    copies(&user, "tls").await
}

/// Input, output, exit codes and tasks over a context.
async fn streams(user: &User, context: &str) -> Result<()> {
    let bytes = Random::seeded().bytes(1 << 20);
    let mut child =
        user.slipway(&["--context", context, "exec", "web", "--", "cat"])?.stdin(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("its input")?;
    let feed = async {
        stdin.write_all(&bytes).await?;
        drop(stdin);
        anyhow::Ok(())
    };
    let (fed, output) = tokio::join!(feed, timeout(PATIENCE, child.wait_with_output()));
    fed?;
    let output = output.context("it does not end")??;
    ensure!(output.status.success() && output.stdout == bytes, "{} bytes came back", output.stdout.len());
    let failed =
        user.ran(&["--context", context, "exec", "web", "--", "sh", "-c", "echo x >&2; exit 7"]).await?;
    ensure!((failed.code, failed.err.as_str()) == (Some(7), "x\n"), "{failed:?}");
    let task = ["--context", context, "run", "--sandbox", "web", "count", "--", "sh", "-c", "seq 3"];
    let task = user.ran(&task).await?;
    ensure!(task.code == Some(0) && task.out.contains("1\n2\n3\n"), "{task:?}");
    Ok(())
}

/// Files in and out over a context.
async fn copies(user: &User, context: &str) -> Result<()> {
    let bytes = Random::seeded().bytes(3 << 20);
    std::fs::write(user.path("up"), &bytes)?;
    user.prints(&["--context", context, "cp", &user.path("up"), "web:workspace/app/up"]).await?;
    user.prints(&["--context", context, "cp", "web:workspace/app/up", &user.path("down")]).await?;
    ensure!(std::fs::read(user.path("down"))? == bytes);
    Ok(())
}

/// A server and a client that share nothing but a wire.
struct TwoNetworks {
    server: NetworkNamespace,
    client: NetworkNamespace,
}

impl TwoNetworks {
    fn new() -> Result<Self> {
        let (server, client) = (NetworkNamespace::new()?, NetworkNamespace::new()?);
        server.join(SERVER, &client, CLIENT)?;
        Ok(Self { server, client })
    }
}

#[tokio::test]
async fn a_command_in_another_network_uses_a_pinned_certificate() -> Result<()> {
    let networks = TwoNetworks::new()?;
    let hostd = Hostd::start_with(&[("SLIPWAY_API_HOSTS", &SERVER.to_string())]).await?;
    let user = User::new(Some(networks.client))?;
    let certificate = Certificate::make(user.home.path(), "self", "slipway.invalid")?;
    let terminator = TlsTerminator::start(networks.server.listen(SERVER)?, &certificate, hostd.url())?;
    let url = format!("https://{SERVER}:{}", terminator.port());
    let token = token_file(&hostd, &user, "ann").await?;
    // Without a terminal to ask, an unknown certificate is refused; the error has everything to pin it.
    let pin = certificate.fingerprint()?;
    let refused = user.ran(&["context", "add", "lab", "--url", &url, "--token-file", &token]).await?;
    ensure!(refused.code == Some(1) && refused.err.contains(&format!("--fingerprint {pin}`")), "{refused:?}");
    add_at_a_terminal(&user, &["context", "add", "lab", "--url", &url, "--use"], &pin, &token).await?;
    user.prints(&["create", "web"]).await?;
    streams(&user, "lab").await?;
    copies(&user, "lab").await?;
    forwards(&user).await?;
    shell(&user).await?;
    // A renewed certificate is another one, until it is pinned.
    let renewed = Certificate::make(user.home.path(), "renewed", "slipway.invalid")?;
    terminator.renew(&renewed)?;
    let new_pin = renewed.fingerprint()?;
    let refused = user.ran(&["ls"]).await?;
    ensure!(
        refused.code == Some(1) && refused.err.contains(&format!("pinned {pin}, presented {new_pin}")),
        "{refused:?}"
    );
    let replace =
        ["context", "add", "lab", "--url", &url, "--replace", "--keep-token", "--fingerprint", &new_pin];
    user.prints(&replace).await?;
    ensure!(user.prints(&["ls"]).await?.contains("web"));
    no_secret_beside_its_file(user.home.path(), &token)
}

/// Compares the fingerprint, says yes, and types the token, which is not shown.
async fn add_at_a_terminal(user: &User, add: &[&str], pin: &str, token_file: &str) -> Result<()> {
    let token = std::fs::read_to_string(token_file)?;
    let mut terminal = OnTerminal::start(&user.slipway(add)?)?;
    let asked = terminal.sees("[y/N] ").await?;
    ensure!(asked.contains(pin), "{asked}");
    terminal.types("y\r")?;
    terminal.sees("(not shown): ").await?;
    terminal.types(&format!("{}\r", token.trim()))?;
    let (status, rest) = terminal.ends().await?;
    ensure!(status.success() && rest.contains("hostd answers and accepts the token"), "{status} {rest}");
    ensure!(!rest.contains(token.trim()), "{rest}");
    Ok(())
}

/// A terminal, by a WebSocket.
async fn shell(user: &User) -> Result<()> {
    let mut shell = OnTerminal::start(&user.slipway(&["sh", "web"])?)?;
    shell.types("echo over''TLS; exit 42\r")?;
    shell.sees("overTLS").await?;
    let (status, rest) = shell.ends().await?;
    ensure!(status.code() == Some(42), "{status} {rest}");
    Ok(())
}

/// A port of a sandbox becomes one of the client's network, by a WebSocket.
async fn forwards(user: &User) -> Result<()> {
    // It listens before it goes to the background.
    let serve = "echo over the wire > index.html && python3 -c \"\
        import http.server as http, os\n\
        server = http.HTTPServer(('127.0.0.1', 8000), http.SimpleHTTPRequestHandler)\n\
        os.fork() or server.serve_forever()\" > /dev/null 2>&1";
    user.prints(&["exec", "web", "--", "sh", "-c", serve]).await?;
    let mut child = user.slipway(&["forward", "web", "8000:0"])?.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.context("prints nothing")??.context("a line")?;
    let address =
        line.strip_prefix("forwarding ").and_then(|line| line.split_once(" -> ")).context("words")?.0;
    let network = user.network.as_ref().context("a network of its own")?;
    let page =
        Command::from(network.run("curl")).args(["-s", &format!("http://{address}/")]).output().await?;
    ensure!(page.stdout == b"over the wire\n", "{page:?}");
    child.kill().await?;
    Ok(())
}

/// The token is in its own file only, which no other user can read.
fn no_secret_beside_its_file(home: &Path, token_file: &str) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    let token = std::fs::read_to_string(token_file)?;
    let contexts = home.join(".config/slipway");
    ensure!(!std::fs::read_to_string(contexts.join("contexts.toml"))?.contains(token.trim()));
    let files: Vec<_> = std::fs::read_dir(contexts.join("tokens"))?.collect::<Result<_, _>>()?;
    ensure!(files.len() == 1, "{files:?}");
    let (content, mode) = (std::fs::read_to_string(files[0].path())?, files[0].metadata()?.mode());
    ensure!(content.trim() == token.trim() && mode & 0o7777 == 0o600, "{mode:o}");
    Ok(())
}
