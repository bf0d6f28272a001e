//! The API by TLS: with curl, with renewed, broken and expired certificates, and under testssl.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;
use tests::host::{DESCRIPTORS, until, without_settings};
use tests::https::{Certificate, LOOPBACK};
use tests::launch::{directory, program};
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd, scaled};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;

/// A hostd whose API speaks TLS.
struct Encrypted {
    hostd: Hostd,
    certificate: Certificate,
    token: String,
    dir: TempDir,
}

impl Encrypted {
    async fn start() -> Result<Self> {
        Self::start_for(2, &[]).await
    }

    /// With a certificate for so many days, and further variables.
    async fn start_for(days: i32, variables: &[(&str, &str)]) -> Result<Self> {
        let dir = directory()?;
        let certificate = Certificate::make_for(dir.path(), "api", LOOPBACK, days)?;
        let hostd = Hostd::start_with(&[variables, &certificate.variables()?].concat()).await?;
        let token = std::fs::read_to_string(hostd.data().join("token"))?.trim().to_owned();
        Ok(Self { hostd, certificate, token, dir })
    }

    fn operator(&self) -> Caller {
        Caller::tls(self.hostd.url(), &self.certificate, Some(&self.token))
    }

    fn address(&self) -> &str {
        self.hostd.url().trim_start_matches("https://")
    }

    /// curl that trusts the certificate, for a path of the API.
    async fn curl(&self, flags: &[&str], path: &str) -> Result<Output> {
        let url = format!("{}{path}", self.hostd.url());
        let flags = [&["--cacert", self.certificate.cert.to_str().context("a path")?], flags].concat();
        curl(&flags, &url).await
    }

    async fn warnings(&self) -> Result<String> {
        let host: Value = self.hostd.local().get("/v1/host").await?.expect(200)?;
        Ok(host["warnings"].to_string())
    }
}

async fn curl(flags: &[&str], url: &str) -> Result<Output> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"]).args(flags).arg(url);
    command.kill_on_drop(true).output().await.context("curl")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn curl_speaks_both_versions_of_http_and_is_told_to_use_tls() -> Result<()> {
    let stage = Encrypted::start().await?;
    ensure!(stage.hostd.url().starts_with("https://127.0.0.1:"), "{}", stage.hostd.url());
    let bearer = format!("Authorization: Bearer {}", stage.token);
    for (version, expected) in [("--http1.1", "1.1 200"), ("--http2", "2 200")] {
        let flags = [version, "--header", &bearer, "--write-out", "\n%{http_version} %{http_code}"];
        let output = stage.curl(&flags, "/v1/host").await?;
        let printed = text(&output.stdout);
        ensure!(printed.ends_with(&format!("\n{expected}")), "{printed} {}", text(&output.stderr));
        ensure!(printed.contains("\"default_driver\""), "{printed}");
        let output = stage.curl(&[version, "--write-out", "\n%{http_code}"], "/v1/host").await?;
        ensure!(text(&output.stdout).ends_with("\n401"), "without a token: {}", text(&output.stdout));
        let evil = [version, "--header", &bearer, "--header", "Host: evil.example"];
        let output = stage.curl(&evil, "/v1/host").await?;
        ensure!(text(&output.stdout).contains("this Host is not served here"), "{}", text(&output.stdout));
        let page = [version, "--header", &bearer, "--header", "Origin: http://localhost:1"];
        let output = stage.curl(&page, "/v1/host").await?;
        ensure!(text(&output.stdout).contains("cross-origin"), "{}", text(&output.stdout));
    }
    // Protocols that are no longer safe.
    for old in ["--tls-max 1.0", "--tls-max 1.1"] {
        let (flag, version) = old.split_once(' ').context("two words")?;
        let output =
            stage.curl(&["--tlsv1.0", "--ciphers", "DEFAULT:@SECLEVEL=0", flag, version], "/healthz").await?;
        ensure!(output.status.code() == Some(35), "{old}: {output:?}");
    }
    let untrusted = curl(&[], &format!("{}/healthz", stage.hostd.url())).await?;
    ensure!(untrusted.status.code() == Some(60), "{untrusted:?}");
    let plain =
        curl(&["--write-out", "%{http_code}"], &format!("http://{}/healthz", stage.address())).await?;
    let printed = text(&plain.stdout);
    ensure!(printed.contains("use https://") && printed.ends_with("400"), "{printed}");
    stage.hostd.stop().await
}

#[tokio::test]
async fn execs_streams_and_terminals_work_by_tls() -> Result<()> {
    let stage = Encrypted::start().await?;
    let operator = stage.operator();
    let id = operator.create(&json!({})).await?;
    ensure!(operator.prints(&id, "echo hello").await? == "hello\n");
    let body = json!({"id": "t", "shell": "stty raw -echo; printf up; exec cat", "tty": true});
    operator.post(&format!("/v1/sandboxes/{id}/execs"), &body).await?.expect::<Value>(202)?;
    let mut screen = operator.attach(&id, "t", "").await?;
    screen.sees("up").await?;
    screen.types("key").await?;
    screen.sees("key").await?;
    // As much as the windows of a connection hold several times over, both ways.
    let content: Vec<u8> = (0..scaled(8 << 20, 64 << 20)).map(|at| (at % 251) as u8).collect();
    let path = format!("/v1/sandboxes/{id}/files/content?path=large");
    let file = stage.dir.path().join("large");
    std::fs::write(&file, &content)?;
    let (bearer, upload) =
        (format!("Authorization: Bearer {}", stage.token), file.to_str().context("a path")?);
    for version in ["--http1.1", "--http2"] {
        let sent =
            stage.curl(&[version, "--fail", "--header", &bearer, "--upload-file", upload], &path).await?;
        ensure!(sent.status.success(), "{sent:?}");
        let read = stage.curl(&[version, "--fail", "--header", &bearer], &path).await?;
        ensure!(read.stdout == content, "{version}: {} bytes came back", read.stdout.len());
    }
    stage.hostd.stop().await
}

#[tokio::test]
async fn a_renewed_certificate_is_used_and_a_broken_one_is_not() -> Result<()> {
    let stage = Encrypted::start().await?;
    let operator = stage.operator();
    let renewed = Certificate::make_for(stage.dir.path(), "renewed", LOOPBACK, 2)?;
    let old = std::fs::read(&stage.certificate.cert)?;
    let before = Certificate { cert: stage.dir.path().join("before.crt"), ..stage.certificate.clone() };
    std::fs::write(&before.cert, &old)?;
    let before = Caller::tls(stage.hostd.url(), &before, None);

    // Half of a new pair, and then nonsense: the pair before is shown, and it is said why.
    for (content, fault) in [
        (std::fs::read(&renewed.cert)?, "is not the key of the certificate"),
        (b"nonsense".to_vec(), "has no certificate in it"),
    ] {
        std::fs::write(&stage.certificate.cert, content)?;
        let told = async || {
            ensure!(before.get("/healthz").await?.status == 200);
            Ok(stage.warnings().await?.contains(fault).then_some(()))
        };
        until("the broken pair is noticed", told).await?;
        ensure!(stage.hostd.said().contains("changed TLS certificate not used; keeping the one in use"));
    }
    std::fs::rename(&renewed.cert, &stage.certificate.cert)?;
    std::fs::rename(&renewed.key, &stage.certificate.key)?;
    // The client trusts what is in the file: now only the new one.
    until("the new pair is shown", async || Ok(operator.get("/healthz").await.ok().map(drop))).await?;
    ensure!(before.get("/healthz").await.is_err(), "the old one is gone");
    ensure!(!stage.warnings().await?.contains("certificate"), "{}", stage.warnings().await?);
    ensure!(stage.hostd.said().contains("TLS certificate reloaded"));
    stage.hostd.stop().await
}

#[tokio::test]
async fn an_expired_certificate_is_served_with_a_warning() -> Result<()> {
    let stage = Encrypted::start_for(-1, &[]).await?;
    let output = stage.curl(&[], "/healthz").await?;
    ensure!(output.status.code() == Some(60) && text(&output.stderr).contains("expired"), "{output:?}");
    let output = stage.curl(&["--insecure"], "/healthz").await?;
    ensure!(text(&output.stdout).contains("ok"), "{output:?}");
    ensure!(stage.hostd.said().contains("TLS certificate has expired"), "{}", stage.hostd.said());
    let warnings = stage.warnings().await?;
    ensure!(
        warnings.contains("the TLS certificate of the api listener") && warnings.contains("expired at "),
        "{warnings}"
    );
    stage.hostd.stop().await
}

#[tokio::test]
async fn a_pair_that_cannot_be_served_ends_hostd_with_64_and_the_key() -> Result<()> {
    let dir = directory()?;
    let certificate = Certificate::make_for(dir.path(), "api", LOOPBACK, 2)?;
    let other = Certificate::make_for(dir.path(), "other", LOOPBACK, 2)?;
    let path = |path: &Path| path.to_str().map(str::to_owned).context("a path");
    let (cert, key) = (path(&certificate.cert)?, path(&certificate.key)?);
    let table = [
        (
            vec![("SLIPWAY_API_TLS_CERT", cert.clone())],
            "SLIPWAY_API_TLS_KEY: must be given with SLIPWAY_API_TLS_CERT",
        ),
        (
            vec![("SLIPWAY_API_TLS_KEY", key.clone())],
            "SLIPWAY_API_TLS_CERT: must be given with SLIPWAY_API_TLS_KEY",
        ),
        (
            vec![("SLIPWAY_API_TLS_CERT", cert.clone()), ("SLIPWAY_API_TLS_KEY", path(&other.key)?)],
            "is not the key of the certificate",
        ),
        (
            vec![("SLIPWAY_API_TLS_CERT", "/nowhere".into()), ("SLIPWAY_API_TLS_KEY", key)],
            "SLIPWAY_API_TLS_CERT: /nowhere cannot be read",
        ),
    ];
    for (variables, expected) in table {
        let mut hostd = Command::new(program("hostd")?);
        hostd.env("SLIPWAY_CONFIG", "/dev/null").env("SLIPWAY_DATA_DIR", dir.path().join("data"));
        hostd.env("SLIPWAY_API_BIND", "127.0.0.1:0").env("SLIPWAY_PREVIEW_BIND", "127.0.0.1:0");
        let output = timeout(PATIENCE, hostd.envs(variables).kill_on_drop(true).output()).await??;
        let said = text(&output.stderr);
        ensure!(output.status.code() == Some(64) && said.contains(expected), "{expected}: {output:?}");
        ensure!(said.lines().count() == 1, "{said}");
    }
    Ok(())
}

#[tokio::test]
async fn a_self_signed_start_needs_two_commands() -> Result<()> {
    let dir = directory()?;
    let tls = dir.path().join("tls");
    let init = async |more: &[&str]| {
        let mut slipway = Command::new(program("slipway")?);
        slipway.args(["--json", "tls", "init", "--name", "box.example.com", "--dir"]).arg(&tls).args(more);
        without_settings(&mut slipway, dir.path()).kill_on_drop(true).output().await.context("slipway")
    };
    let output = init(&[]).await?;
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| text(&output.stderr))?;
    let certificate = Certificate { cert: tls.join("api.crt"), key: tls.join("api.key") };
    let variables = [&[("SLIPWAY_API_HOSTS", "box.example.com")][..], &certificate.variables()?].concat();
    let hostd = Hostd::start_with(&variables).await?;
    let fingerprint = report["fingerprint"].as_str().context("a fingerprint")?;
    ensure!(hostd.said().contains(fingerprint), "{fingerprint} is not in {}", hostd.said());
    let port = hostd.url().rsplit_once(':').context("a port")?.1;
    let (cert, resolve) =
        (certificate.cert.to_str().context("a path")?, format!("box.example.com:{port}:127.0.0.1"));
    for name in ["localhost", "127.0.0.1", "box.example.com"] {
        let flags = ["--cacert", cert, "--resolve", &resolve];
        let output = curl(&flags, &format!("https://{name}:{port}/healthz")).await?;
        ensure!(text(&output.stdout).contains("ok"), "{name}: {output:?}");
    }
    let refused = init(&[]).await?;
    ensure!(refused.status.code() == Some(1) && text(&refused.stderr).contains("exists"), "{refused:?}");
    hostd.stop().await
}

#[tokio::test]
async fn clients_that_never_finish_a_handshake_keep_no_one_out() -> Result<()> {
    // 64 connections, 8 of them without a token.
    let stage = Encrypted::start_for(2, &[(DESCRIPTORS, "512")]).await?;
    let operator = stage.operator();
    let mut silent = Vec::new();
    for _ in 0..scaled(200, 2000) {
        silent.push(TcpStream::connect(stage.address()).await?);
        if silent.len() % 50 == 0 {
            operator.get("/v1/host").await?.expect::<Value>(200)?;
        }
    }
    operator.get("/v1/host").await?.expect::<Value>(200)?;
    let mut first = silent.swap_remove(0);
    let read = timeout(PATIENCE, first.read(&mut [0; 1])).await.context("it is kept")?;
    ensure!(matches!(read, Ok(0) | Err(_)), "it was closed for another one");
    stage.hostd.stop().await
}

/// Severities of testssl above LOW.
const FINDINGS: [&str; 3] = ["MEDIUM", "HIGH", "CRITICAL"];

#[tokio::test]
async fn testssl_finds_nothing() -> Result<()> {
    let stage = Encrypted::start().await?;
    let report = stage.dir.path().join("report.json");
    let mut testssl = Command::new("testssl");
    // Protocols, classes of ciphers, and vulnerabilities; not the chain, which signs itself.
    testssl.args(["--protocols", "--std", "--vulnerable", "--quiet", "--color", "0", "--warnings", "off"]);
    testssl.args(["--nodns", "none", "--jsonfile"]).arg(&report).arg(stage.address());
    testssl.env("HOME", stage.dir.path()).env("TMPDIR", stage.dir.path()).kill_on_drop(true);
    let output = timeout(6 * PATIENCE, testssl.output()).await.context("testssl does not end")??;
    let found: Vec<Value> = serde_json::from_slice(&std::fs::read(&report)?)
        .with_context(|| format!("{} {}", text(&output.stdout), text(&output.stderr)))?;
    let severe: Vec<&Value> =
        found.iter().filter(|row| FINDINGS.iter().any(|severity| row["severity"] == *severity)).collect();
    ensure!(severe.is_empty(), "{severe:?}");
    let says = |id: &str, part: &str| {
        let row = found.iter().find(|row| row["id"] == id).with_context(|| format!("no {id}"))?;
        ensure!(row["finding"].as_str().is_some_and(|finding| finding.contains(part)), "{row}");
        Ok(())
    };
    for (id, part) in [
        ("TLS1", "not offered"),
        ("TLS1_1", "not offered"),
        ("TLS1_2", "offered"),
        ("TLS1_3", "offered"),
        ("heartbleed", "not vulnerable"),
        ("BEAST", "not vulnerable"),
    ] {
        says(id, part)?;
    }
    stage.hostd.stop().await
}
