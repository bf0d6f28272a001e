//! Tests with certificates of `openssl`, and a client that verifies them as a browser does.

use super::*;
use std::{fs, os::unix::fs::symlink, path::PathBuf, process::Command};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsConnector, client,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

const WILDCARD: &str = "*.preview.example.com";
const PREVIEW: &str = "s-01jb9xyzabcdefghjkmnpqrstv-3000.preview.example.com";

const NAMES: PairNames = PairNames {
    listener: "preview",
    cert_key: "SLIPWAY_PREVIEW_TLS_CERT",
    key_key: "SLIPWAY_PREVIEW_TLS_KEY",
};

/// A directory of certificate pairs.
struct CertFixture {
    dir: TempDir,
}

impl CertFixture {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Creates a self-signed certificate that is no authority's.
    fn pair(&self, name: &str, host: &str) -> (PathBuf, PathBuf) {
        let (cert, key, config) = (
            self.path(&format!("{name}.crt")),
            self.path(&format!("{name}.key")),
            self.path(&format!("{name}.cnf")),
        );
        let text = format!(
            "[req]\ndistinguished_name=dn\nx509_extensions=v3\nprompt=no\n[dn]\nCN={name}\n\
             [v3]\nbasicConstraints=critical,CA:FALSE\nsubjectAltName=DNS:{host}\n"
        );
        fs::write(&config, text).unwrap();
        let openssl = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
            .args(["-days", "2"])
            .arg("-config")
            .arg(&config)
            .arg("-keyout")
            .arg(&key)
            .arg("-out")
            .arg(&cert)
            .output()
            .expect("openssl, of the package of that name");
        assert!(openssl.status.success(), "{}", String::from_utf8_lossy(&openssl.stderr));
        (cert, key)
    }

    /// Loads symbolic links to a pair, as certbot makes them.
    fn linked(&self, (cert, key): &(PathBuf, PathBuf)) -> Tls {
        let live = (self.path("live.crt"), self.path("live.key"));
        point(&live.0, cert);
        point(&live.1, key);
        Tls::load(&live.0, &live.1, NAMES).unwrap()
    }
}

/// Replaces the link atomically.
fn point(link: &Path, to: &Path) {
    let new = link.with_extension("new");
    symlink(to, &new).unwrap();
    fs::rename(&new, link).unwrap();
}

fn later() -> Instant {
    Instant::now() + Duration::from_millis(2 * CHECK_EVERY_MS)
}

/// The protocol that a client that trusts only `cert` agrees on.
async fn connect(config: Arc<ServerConfig>, cert: &Path, name: &str) -> io::Result<Option<Vec<u8>>> {
    let (stream, accepted) = joined().await;
    let server = TlsAcceptor::from(config).accept(accepted);
    let (client, _server) = tokio::join!(client(stream, cert, name), server);
    Ok(client?.get_ref().1.alpn_protocol().map(<[u8]>::to_vec))
}

async fn client(stream: TcpStream, cert: &Path, name: &str) -> io::Result<client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
    let name = ServerName::try_from(name.to_owned()).unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// A connected pair: the client's end, the server's end.
async fn joined() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (stream, listener.accept().await.unwrap().0)
}

async fn serves(tls: &Tls, at: Instant, cert: &Path) -> bool {
    connect(tls.config(at).await, cert, PREVIEW).await.is_ok()
}

#[tokio::test]
async fn a_wildcard_covers_every_preview_and_nothing_else() {
    let certs = CertFixture::new();
    let pair = certs.pair("wild", WILDCARD);
    let tls = Tls::load(&pair.0, &pair.1, NAMES).unwrap();
    let now = Instant::now();
    let agreed = connect(tls.config(now).await, &pair.0, PREVIEW).await.unwrap();
    assert_eq!(agreed.as_deref(), Some(&b"h2"[..]), "the server's order counts");
    for other in ["preview.example.com", "a.b.preview.example.com", "s-x-1.preview.example.org"] {
        connect(tls.config(now).await, &pair.0, other).await.expect_err(other);
    }
}

#[tokio::test]
async fn bytes_pass_both_ways_after_a_handshake() {
    let certs = CertFixture::new();
    let pair = certs.pair("one", WILDCARD);
    let tls = Tls::load(&pair.0, &pair.1, NAMES).unwrap();
    let (stream, accepted) = joined().await;
    let (client, server) = tokio::join!(client(stream, &pair.0, PREVIEW), tls.accept(accepted));
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    client.write_all(b"question").await.unwrap();
    client.flush().await.unwrap();
    let mut read = [0; 8];
    server.read_exact(&mut read).await.unwrap();
    server.write_all(b"answered").await.unwrap();
    server.shutdown().await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!((&read[..], &answer[..]), (&b"question"[..], &b"answered"[..]));
}

#[tokio::test]
async fn what_is_no_tls_is_refused() {
    let certs = CertFixture::new();
    let pair = certs.pair("one", WILDCARD);
    let tls = Tls::load(&pair.0, &pair.1, NAMES).unwrap();
    let (mut plain, accepted) = joined().await;
    plain.write_all(b"\0\0\0\0\0\0").await.unwrap();
    let error = tls.accept(accepted).await.expect_err("no TLS");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
}

#[tokio::test]
async fn http_without_tls_is_told_to_use_https() {
    let certs = CertFixture::new();
    let pair = certs.pair("one", WILDCARD);
    let tls = Tls::load(&pair.0, &pair.1, NAMES).unwrap();
    let (mut plain, accepted) = joined().await;
    let asking = async {
        plain.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        plain.read_to_string(&mut answer).await.unwrap();
        drop(plain);
        answer
    };
    let (accepted, answer) = tokio::join!(tls.accept(accepted), asking);
    assert_eq!(accepted.expect_err("no TLS").kind(), io::ErrorKind::InvalidData);
    assert_eq!(answer.as_bytes(), PLAIN_HTTP_RESPONSE);
    crate::connections::check_raw_error(PLAIN_HTTP_RESPONSE, protocol::api::ApiErrorCode::InvalidRequest);
}

#[tokio::test]
async fn the_status_has_what_openssl_says_and_why_a_change_is_not_used() {
    let certs = CertFixture::new();
    let pair = certs.pair("one", WILDCARD);
    let tls = certs.linked(&pair);
    let status = tls.status();
    let openssl = |arguments: &[&str]| {
        let mut command = Command::new("openssl");
        let output = command.arg("x509").arg("-in").arg(&pair.0).arg("-noout").args(arguments).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let printed = openssl(&["-fingerprint", "-sha256"]);
    assert_eq!(status.fingerprint.to_string(), printed.split_once('=').unwrap().1.trim());
    let validity = status.validity.unwrap();
    assert_eq!(validity.not_after_s - validity.not_before_s, 2 * 24 * 3600);
    let now_s = unix_seconds(SystemTime::now());
    assert!((0..60).contains(&(now_s - validity.not_before_s)), "{validity:?} at {now_s}");
    assert_eq!(status.rejected, None);

    let live = certs.path("live.crt");
    fs::remove_file(&live).unwrap();
    fs::write(&live, "nonsense").unwrap();
    tls.config(later()).await;
    let why = tls.status().rejected.unwrap();
    assert!(why.starts_with("SLIPWAY_PREVIEW_TLS_CERT: ") && why.contains("has no certificate"), "{why}");
    point(&live, &pair.0);
    tls.config(later() + Duration::from_secs(2)).await;
    assert_eq!(tls.status().rejected, None);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_let_go() {
    let certs = CertFixture::new();
    let pair = certs.pair("one", WILDCARD);
    let tls = Tls::load(&pair.0, &pair.1, NAMES).unwrap();
    let (_silent, accepted) = joined().await;
    let error = tls.accept(accepted).await.expect_err("too late");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_renewed_pair_is_taken_up_when_its_link_moves() {
    let certs = CertFixture::new();
    let (old, new) = (certs.pair("old", WILDCARD), certs.pair("new", WILDCARD));
    let tls = certs.linked(&old);
    assert!(serves(&tls, later(), &old.0).await);
    point(&certs.path("live.crt"), &new.0);
    point(&certs.path("live.key"), &new.1);
    assert!(serves(&tls, Instant::now(), &old.0).await, "looked a moment ago");
    assert!(serves(&tls, later() + Duration::from_secs(3), &new.0).await);
    assert!(!serves(&tls, Instant::now(), &old.0).await, "for everybody, not only for who looked");
}

#[tokio::test]
async fn a_renewed_pair_is_taken_up_when_it_is_written_over() {
    let certs = CertFixture::new();
    let (pair, new) = (certs.pair("pair", WILDCARD), certs.pair("new", WILDCARD));
    let tls = Tls::load(&pair.0, &pair.1, NAMES).unwrap();
    fs::copy(&new.0, &pair.0).unwrap();
    fs::copy(&new.1, &pair.1).unwrap();
    assert!(serves(&tls, later(), &new.0).await);
}

#[tokio::test]
async fn a_broken_pair_is_kept_out_until_it_is_whole() {
    let certs = CertFixture::new();
    let (old, new) = (certs.pair("old", WILDCARD), certs.pair("new", WILDCARD));
    let tls = certs.linked(&old);
    let (cert, key) = (certs.path("live.crt"), certs.path("live.key"));
    let mut at = later();
    let mut next = || {
        at += Duration::from_secs(2);
        at
    };
    point(&cert, &new.0);
    assert!(serves(&tls, next(), &old.0).await, "the key is not there yet");
    fs::remove_file(&cert).unwrap();
    assert!(serves(&tls, next(), &old.0).await, "a file is gone");
    fs::write(&cert, "nonsense").unwrap();
    assert!(serves(&tls, next(), &old.0).await, "it is no PEM");
    fs::remove_file(&cert).unwrap();
    point(&cert, &new.0);
    point(&key, &new.1);
    assert!(serves(&tls, next(), &new.0).await, "both are there");
}

#[tokio::test]
async fn a_pair_is_read_when_it_changed_and_only_then() {
    let certs = CertFixture::new();
    let old = certs.pair("old", WILDCARD);
    let tls = certs.linked(&old);
    let first = tls.config(Instant::now()).await;
    let same = tls.config(later()).await;
    assert!(Arc::ptr_eq(&first, &same));
    fs::write(certs.path("live.crt"), "nonsense").unwrap();
    let found = reload_if_changed(&tls.pair, tls.current().seen).expect("it changed");
    assert!(found.1.is_err());
    assert!(reload_if_changed(&tls.pair, found.0).is_none(), "what is broken is said once");
}

#[test]
fn what_is_wrong_names_the_key_the_file_and_the_fault() {
    let certs = CertFixture::new();
    let (one, two) = (certs.pair("one", WILDCARD), certs.pair("two", WILDCARD));
    let file = |name: &str, text: &[u8]| {
        fs::write(certs.path(name), text).unwrap();
        certs.path(name)
    };
    let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    let der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let secret = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let odd = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let large = vec![b'\n'; usize::try_from(files::PEM_MAX_BYTES).unwrap() + 1];
    let dir = certs.dir.path().to_owned();
    for (cert, key, expected) in [
        (
            certs.path("none"),
            one.1.clone(),
            "CERT: DIR/none cannot be read: No such file or directory (os error 2)",
        ),
        (dir, one.1.clone(), "CERT: DIR is no file"),
        (file("large", &large), one.1.clone(), "CERT: DIR/large is larger than 262144 bytes"),
        (
            one.1.clone(),
            one.1.clone(),
            "CERT: DIR/one.key has no certificate in it; it must be in PEM, the server's own first",
        ),
        (file("torn", torn.as_bytes()), one.1.clone(), "CERT: DIR/torn is no PEM: "),
        (file("der", der.as_bytes()), one.1.clone(), "CERT: DIR/der cannot be served: "),
        (
            one.0.clone(),
            certs.path("none"),
            "KEY: DIR/none cannot be read: No such file or directory (os error 2)",
        ),
        (
            one.0.clone(),
            one.0.clone(),
            "KEY: DIR/one.crt has no private key in it; it must be in PEM, and not be encrypted",
        ),
        (one.0.clone(), file("secret", secret.as_bytes()), "KEY: DIR/secret has no private key in it; "),
        (one.0.clone(), file("odd", odd.as_bytes()), "KEY: DIR/odd has a key that cannot be used: "),
        (one.0.clone(), two.1.clone(), "KEY: DIR/two.key is not the key of the certificate"),
    ] {
        let error = Tls::load(&cert, &key, NAMES).err().expect(expected).to_string();
        let said = error.replace(&certs.dir.path().display().to_string(), "DIR");
        assert!(said.starts_with(&format!("SLIPWAY_PREVIEW_TLS_{expected}")), "{said}\nnot {expected}");
    }
}
