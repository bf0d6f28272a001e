//! Certificates of tests, made by `openssl`: its fingerprints are those that users compare.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Configuration of `openssl`, with the extensions of each kind of certificate. `NAMES` and `DIR` are replaced.
const CONFIG: &str = "\
[req]
distinguished_name = subject
prompt = no
[subject]
CN = test
[ca]
default_ca = issuing
[issuing]
database = DIR/index
new_certs_dir = DIR
rand_serial = yes
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[authority]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[own_authority]
basicConstraints = critical,CA:TRUE
subjectAltName = NAMES
[server]
basicConstraints = critical,CA:FALSE
subjectAltName = NAMES
";

/// A certificate and its key, in PEM files.
pub struct Certificate {
    pub cert: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, Copy)]
pub enum Validity {
    Now,
    /// Until the first of February 2020.
    Past,
}

/// An issuer of certificates.
pub struct Authority {
    pub certificate: Certificate,
}

impl Certificate {
    /// Makes a certificate that signs itself, for names such as `DNS:localhost,IP:127.0.0.1`.
    pub fn self_signed(directory: &Path, label: &str, names: &str) -> Self {
        Self::by_itself(directory, label, names, "server")
    }

    /// Makes one as `openssl req -x509` does unasked: an authority, which servers should not use as their own.
    pub fn own_authority(directory: &Path, label: &str, names: &str) -> Self {
        Self::by_itself(directory, label, names, "own_authority")
    }

    fn by_itself(directory: &Path, label: &str, names: &str, extensions: &str) -> Self {
        let made = Self::files(directory, label);
        let config = write_config(directory, label, names);
        let mut command = openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2");
        command.arg("-config").arg(config).args(["-extensions", extensions]);
        check(command.arg("-keyout").arg(&made.key).arg("-out").arg(&made.cert));
        made
    }

    fn files(directory: &Path, label: &str) -> Self {
        let file = |end: &str| directory.join(format!("{label}.{end}"));
        Self { cert: file("crt"), key: file("key") }
    }

    /// Returns the fingerprint as `openssl` prints it.
    pub fn fingerprint(&self) -> String {
        let mut command = openssl("x509 -noout -fingerprint -sha256 -in");
        let printed = check(command.arg(&self.cert));
        printed.trim().split_once('=').expect("NAME=FINGERPRINT").1.to_owned()
    }
}

impl Authority {
    pub fn new(directory: &Path) -> Self {
        std::fs::write(directory.join("index"), "").expect("written");
        Self { certificate: Certificate::by_itself(directory, "authority", "DNS:unused", "authority") }
    }

    pub fn issue(&self, label: &str, names: &str, validity: Validity) -> Certificate {
        let directory = self.certificate.cert.parent().expect("a directory");
        let made = Certificate::files(directory, label);
        let config = write_config(directory, label, names);
        let request = directory.join(format!("{label}.csr"));
        let mut command = openssl("req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes");
        check(command.arg("-config").arg(&config).arg("-keyout").arg(&made.key).arg("-out").arg(&request));
        let mut command = openssl("ca -batch -notext -extensions server");
        command.arg("-config").arg(&config).arg("-in").arg(&request).arg("-out").arg(&made.cert);
        command.arg("-cert").arg(&self.certificate.cert).arg("-keyfile").arg(&self.certificate.key);
        match validity {
            Validity::Now => command.args(["-days", "2"]),
            Validity::Past => command.args(["-startdate", "20200101000000Z", "-enddate", "20200201000000Z"]),
        };
        check(&mut command);
        made
    }
}

fn write_config(directory: &Path, label: &str, names: &str) -> PathBuf {
    let config = directory.join(format!("{label}.cnf"));
    let text = CONFIG.replace("NAMES", names).replace("DIR", directory.to_str().expect("text"));
    std::fs::write(&config, text).expect("written");
    config
}

fn openssl(line: &str) -> Command {
    let mut command = Command::new("openssl");
    command.args(line.split(' '));
    command
}

fn check(command: &mut Command) -> String {
    let output = command.output().expect("openssl runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
