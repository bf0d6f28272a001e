//! `https://`: how a server is verified, what is said where it is not, and that every kind of request goes through.

use super::{
    CommandOutput, completes_with, ended,
    fake::{Authority, Certificate, FakeHostd, Speaks, TlsFront, Validity, WEB},
    lines, signal, slipway, with_env,
};
use nix::sys::signal::Signal;
use std::{fs, path::Path, process::Stdio};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    process::Command,
};

const HERE: &str = "DNS:localhost,IP:127.0.0.1";

/// A fake hostd behind a port, and an authority for its certificates.
struct Server {
    fake: FakeHostd,
    front: TlsFront,
    authority: Authority,
    directory: TempDir,
}

impl Server {
    /// Starts with a certificate of the authority, for this machine.
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::new(directory.path());
        let certificate = authority.issue("here", HERE, Validity::Now);
        let fake = FakeHostd::start();
        let front = TlsFront::start(&fake, Speaks::tls(&certificate)).await;
        Self { fake, front, authority, directory }
    }

    fn here(&self) -> Certificate {
        let file = |end: &str| self.directory.path().join(format!("here.{end}"));
        Certificate { cert: file("crt"), key: file("key") }
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}", self.front.port())
    }

    /// A command to its URL. `AUTHORITY` in the line is the authority's certificate.
    fn command(&self, line: &str) -> Command {
        let authority = self.authority.certificate.cert.display().to_string();
        let mut command = slipway(&self.fake.data_dir(), &line.replace("AUTHORITY", &authority));
        command.env("SLIPWAY_URL", self.url("https")).env("SLIPWAY_TOKEN", "secret");
        command
    }

    async fn run(&self, line: &str) -> CommandOutput {
        ended(self.command(line)).await
    }

    /// Returns standard error with the parts that differ replaced.
    async fn refused(&self, line: &str) -> String {
        let output = self.run(line).await;
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{line}: {}", output.stderr);
        output.stderr.replace(&self.front.port().to_string(), "PORT")
    }
}

fn succeeded(output: &CommandOutput) {
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{}", output.stdout);
    assert!(output.stdout.contains(WEB), "{}", output.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified_by_the_system_or_by_a_file() {
    let server = Server::start().await;
    let authority = &server.authority.certificate.cert;
    succeeded(&ended(with_env(server.command("ls"), "SSL_CERT_FILE", authority)).await);
    succeeded(&server.run("ls --ca-file AUTHORITY").await);
    succeeded(&server.run("--ca-file AUTHORITY ls").await);
    succeeded(&ended(with_env(server.command("ls"), "SLIPWAY_CA_FILE", authority)).await);
    let mut command = server.command("ls --ca-file AUTHORITY");
    command.env("SLIPWAY_URL", format!("https://127.0.0.1:{}", server.front.port()));
    succeeded(&ended(command).await);
    assert_eq!(server.fake.tokens(), vec![Some("secret".to_owned()); 5]);
    // The file replaces the roots of the system.
    let other = Certificate::self_signed(server.directory.path(), "other", HERE);
    let output = ended(with_env(
        server.command(&format!("ls --ca-file {}", other.cert.display())),
        "SSL_CERT_FILE",
        authority,
    ))
    .await;
    assert!(output.stderr.contains("unknown issuer"), "{}", output.stderr);
    assert_eq!(server.fake.tokens(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_verified_gets_no_token_and_the_user_is_told_what_to_do() {
    let server = Server::start().await;
    let fingerprint = server.here().fingerprint();
    insta::assert_snapshot!(server.refused("ls").await.replace(&fingerprint, "SEEN"), @r"
    slipway: the certificate of https://localhost:PORT has an unknown issuer
      next: give its issuer with --ca-file FILE; or, if the host shows the same fingerprint (openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE), pin it: `slipway context add NAME --url https://localhost:PORT --fingerprint SEEN`
    ");
    // What tools make unasked, where it vouches for itself.
    let own = Certificate::own_authority(server.directory.path(), "own", HERE);
    server.front.change(Speaks::tls(&own));
    for line in ["ls".to_owned(), format!("ls --ca-file {}", own.cert.display())] {
        let told = server.refused(&line).await;
        assert!(told.contains("unknown issuer") && told.contains(&own.fingerprint()), "{line}: {told}");
    }
    let elsewhere = server.authority.issue("elsewhere", "DNS:box.example,IP:192.0.2.1", Validity::Now);
    server.front.change(Speaks::tls(&elsewhere));
    let told = server.refused("ls --ca-file AUTHORITY").await;
    insta::assert_snapshot!(told.replace(&elsewhere.fingerprint(), "SEEN"), @r"
    slipway: the certificate of https://localhost:PORT is for other names: box.example, 192.0.2.1
      next: use a URL with one of these names, such as box.example; or pin the certificate: `slipway context add NAME --url https://localhost:PORT --fingerprint SEEN`
    ");
    server.front.change(Speaks::tls(&server.authority.issue("past", HERE, Validity::Past)));
    insta::assert_snapshot!(server.refused("ls --ca-file AUTHORITY").await, @r"
    slipway: the certificate of https://localhost:PORT expired on 2020-02-01 00:00 UTC
      next: renew it on the host; hostd reads a changed file without a restart
    ");
    let output = server.run("exec web --ca-file AUTHORITY -- true").await;
    assert_eq!(output.code, Some(125), "{}", output.stderr);
    assert_eq!(server.fake.tokens(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_speaks_something_else_is_named() {
    let server = Server::start().await;
    server.front.change(Speaks::PlainHttp);
    insta::assert_snapshot!(server.refused("ls --ca-file AUTHORITY").await, @r"
    slipway: https://localhost:PORT does not speak TLS
      next: check host and port; a hostd without a certificate is http://localhost:PORT, unencrypted
    ");
    server.front.change(Speaks::Nothing);
    let told = server.refused("ls --ca-file AUTHORITY").await;
    assert!(told.contains("closed the connection during the TLS handshake"), "{told}");
    server.front.change(Speaks::tls_with_alpn(&server.here(), b"h2"));
    let told = server.refused("ls --ca-file AUTHORITY").await;
    assert!(told.contains("refused the TLS handshake") && told.contains("ApplicationProtocol"), "{told}");
    server.front.change(Speaks::tls(&server.here()));
    let output = ended(with_env(server.command("ls"), "SLIPWAY_URL", server.url("http"))).await;
    assert_eq!(output.code, Some(1));
    insta::assert_snapshot!(output.stderr.replace(&server.front.port().to_string(), "PORT"), @r"
    slipway: http://localhost:PORT does not speak plain HTTP, but perhaps TLS
      next: use https://localhost:PORT
    ");
    assert_eq!(server.fake.tokens(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_accepts_one_certificate_and_names_any_other() {
    let server = Server::start().await;
    let seen = server.here().fingerprint();
    for pin in [seen.clone(), seen.to_lowercase(), seen.replace(':', "")] {
        succeeded(&server.run(&format!("ls --fingerprint {pin}")).await);
    }
    succeeded(&ended(with_env(server.command("ls"), "SLIPWAY_FINGERPRINT", &seen)).await);
    // Neither names nor dates nor issuers count.
    let strangers = [
        server.authority.issue("strange", "DNS:box.example", Validity::Past),
        Certificate::self_signed(server.directory.path(), "self", "DNS:box.example"),
        Certificate::own_authority(server.directory.path(), "own", "DNS:box.example"),
    ];
    for stranger in &strangers {
        server.front.change(Speaks::tls(stranger));
        succeeded(&server.run(&format!("ls --fingerprint {}", stranger.fingerprint())).await);
    }
    server.fake.tokens();
    // A renewed one is another, also of the same authority and for the same name.
    let renewed = server.authority.issue("renewed", HERE, Validity::Now);
    server.front.change(Speaks::tls(&renewed));
    let told = server.refused(&format!("ls --fingerprint {seen}")).await;
    let told = told.replace(&seen, "OLD").replace(&renewed.fingerprint(), "NEW");
    insta::assert_snapshot!(told, @r"
    slipway: the certificate of https://localhost:PORT is not the pinned one: pinned OLD, presented NEW
      next: if the host was given a new certificate and shows the same fingerprint as presented (openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE), pin that one: `slipway context add NAME --replace --keep-token --url https://localhost:PORT --fingerprint NEW`; if not, another server answers: do not continue
    ");
    assert_eq!(server.fake.tokens(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_verification_every_command_warns() {
    let server = Server::start().await;
    server.front.change(Speaks::tls(&Certificate::self_signed(server.directory.path(), "self", "DNS:x")));
    for line in ["ls --insecure", "--insecure get web", "--json --insecure ls"] {
        let output = server.run(line).await;
        let warning = format!(
            "slipway: WARNING: the certificate of https://localhost:{} is not verified (--insecure): anyone on the way \
             can read and change everything, and take the token\n",
            server.front.port()
        );
        assert_eq!((output.code, output.stderr), (Some(0), warning), "{line}");
    }
    let output = ended(with_env(server.command("ls"), "SLIPWAY_INSECURE", "1")).await;
    assert!(output.code == Some(0) && output.stderr.contains("WARNING"), "{}", output.stderr);
    for line in ["ls --insecure --ca-file AUTHORITY", "ls --fingerprint AB:CD"] {
        assert_eq!(server.run(line).await.code, Some(2), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_uploads_downloads_and_websockets_go_through() {
    let server = Server::start().await;
    // Output that is cut again and again, and input that is sent on.
    let output = server.run("exec web --ca-file AUTHORITY -- print 40").await;
    assert_eq!((output.stdout, output.stderr, output.code), (lines(40, 0), lines(40, 1), Some(3)));
    let mut command = server.command("exec web --ca-file AUTHORITY -- cat");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let text = "hi\n".repeat(100_000);
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(text.as_bytes()).await.expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    assert!(output.stdout == text.as_bytes(), "{} bytes came back", output.stdout.len());
    copy_both_ways(&server, server.directory.path()).await;
    events(&server).await;
    echo(&server).await;
    let authority = server.authority.certificate.cert.display().to_string();
    let words = ["slipway", "--ca-file", &authority, "get", "a"];
    let completed = completes_with(server.command("--"), &words).await;
    assert_eq!((completed.stdout.trim(), completed.stderr.as_str()), ("api", ""));
}

async fn copy_both_ways(server: &Server, here: &Path) {
    let content = "x".repeat(1_000_000);
    fs::write(here.join("up"), &content).expect("written");
    let here = here.display();
    for line in [
        format!("cp --ca-file AUTHORITY {here}/up web:up"),
        format!("cp --ca-file AUTHORITY web:up {here}/down"),
    ] {
        let output = server.run(&line).await;
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{line}");
    }
    assert!(fs::read_to_string(format!("{here}/down")).expect("text") == content);
}

async fn events(server: &Server) {
    let mut command = server.command("events -f --json --ca-file AUTHORITY");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    for seq in 1..=6 {
        let line = lines.next_line().await.expect("text").expect("more");
        let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(event["seq"], seq);
    }
    child.kill().await.expect("it runs");
}

async fn echo(server: &Server) {
    let mut command = server.command("forward web 7:0 --ca-file AUTHORITY");
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let line = lines.next_line().await.expect("text").expect("a line");
    let address = line.strip_prefix("forwarding ").and_then(|line| line.split_once(" -> ")).expect("words").0;
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(b"over TLS").await.expect("sent");
    stream.shutdown().await.expect("ended");
    let mut echoed = String::new();
    stream.read_to_string(&mut echoed).await.expect("read");
    assert_eq!(echoed, "over TLS");
    signal(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.expect("it ends").code(), Some(130));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_ends_when_the_certificate_is_no_longer_accepted() {
    let server = Server::start().await;
    let pin = server.here().fingerprint();
    let mut command = server.command(&format!("events -f --json --fingerprint {pin}"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    lines.next_line().await.expect("text").expect("an event");
    server.front.change(Speaks::tls(&server.authority.issue("renewed", HERE, Validity::Now)));
    // The fake hostd cuts the stream after every second event; the next connection meets the new certificate.
    while lines.next_line().await.expect("text").is_some() {}
    let mut told = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut told).await.expect("text");
    assert_eq!(child.wait().await.expect("it ends").code(), Some(1), "{told}");
    assert!(told.contains("is not the pinned one"), "{told}");
}
