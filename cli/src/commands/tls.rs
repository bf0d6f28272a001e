//! `slipway tls`: a certificate for the API that signs itself. Works without hostd.

use crate::{
    client::data_dir_or_default,
    failure::Failure,
    output::Output,
    self_signed::{self, SelfSigned},
};
use clap::{Args, Subcommand};
use protocol::api::CertificateFingerprint;
use serde::Serialize;
use std::{
    env,
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    net::{IpAddr, SocketAddr},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Names that every certificate has, so that it can be tried on the host itself.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// The port of the API unless `SLIPWAY_API_BIND` says another.
const API_PORT: u16 = 9090;

#[derive(Debug, Args)]
pub struct TlsArgs {
    #[command(subcommand)]
    command: TlsCommand,
}

#[derive(Debug, Subcommand)]
enum TlsCommand {
    /// Make a certificate for the API that signs itself, and its key
    ///
    /// Prints the fingerprint that clients pin, the variables to start hostd with, and the command that a colleague
    /// types. Run it on the machine of hostd; a running hostd takes up a pair that is replaced, without a restart.
    Init(InitArgs),
}

#[derive(Debug, Args)]
struct InitArgs {
    /// Directory of the files api.crt and api.key; default: tls in hostd's data directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Further name or address under which clients reach this host, beside its own name and localhost; repeatable
    #[arg(long = "name", value_name = "NAME", value_parser = self_signed::name)]
    names: Vec<String>,
    /// Days until the certificate expires
    #[arg(long, default_value_t = self_signed::DAYS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=self_signed::DAYS_MAX))]
    days: u32,
    /// Replace files that exist; clients must pin the new fingerprint
    #[arg(long)]
    force: bool,
}

/// The result, as `--json` prints it.
#[derive(Debug, Serialize)]
struct InitReport {
    cert: PathBuf,
    key: PathBuf,
    fingerprint: String,
    names: Vec<String>,
    days: u32,
    /// The URL for clients on other machines.
    url: String,
}

pub fn run(args: TlsArgs, output: Output) -> Result<(), Failure> {
    match args.command {
        TlsCommand::Init(args) => {
            let report = init(args, &HostFacts::read())?;
            if output.json { output.json(&report) } else { output.text(&report.text()) }
        }
    }
}

/// What the machine and the environment say.
struct HostFacts {
    host_name: Option<String>,
    data_dir: PathBuf,
    api_port: u16,
    now: SystemTime,
}

impl HostFacts {
    fn read() -> Self {
        let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let bind = text("SLIPWAY_API_BIND").and_then(|bind| bind.parse::<SocketAddr>().ok());
        let host_name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        Self {
            host_name: host_name.and_then(|name| self_signed::name(&name).ok()),
            data_dir: data_dir_or_default(text("SLIPWAY_DATA_DIR").map(PathBuf::from)),
            api_port: bind.map(|bind| bind.port()).filter(|port| *port != 0).unwrap_or(API_PORT),
            now: SystemTime::now(),
        }
    }
}

fn init(args: InitArgs, host: &HostFacts) -> Result<InitReport, Failure> {
    let InitArgs { dir, names: given, days, force } = args;
    let dir = dir.unwrap_or_else(|| host.data_dir.join("tls"));
    let dir =
        std::path::absolute(&dir).map_err(|error| Failure::io(format!("find {}", dir.display()), error))?;
    let (cert, key) = (dir.join("api.crt"), dir.join("api.key"));
    if let Some(existing) = [&cert, &key].into_iter().find(|path| !force && path.exists()) {
        let message = format!("{} exists", existing.display());
        return Err(Failure::new(message)
            .hint("`slipway tls init --force` replaces it; clients must pin the new one"));
    }
    // Where others reach the host, the best name first.
    let mut names: Vec<String> = Vec::new();
    let local = LOCAL_NAMES.map(str::to_owned);
    for name in given.into_iter().chain(host.host_name.clone()).chain(local) {
        if !names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            names.push(name);
        }
    }
    let made = self_signed::make(&names, days, host.now)
        .map_err(|error| Failure::new(format!("could not make the certificate: {error}")))?;
    let SelfSigned { cert_pem, key_pem, fingerprint } = made;
    write_pair(&dir, [(&key, &key_pem, 0o600), (&cert, &cert_pem, 0o644)], force)
        .map_err(|error| Failure::io(format!("write to {}", dir.display()), error))?;
    let url = url(&names[0], host.api_port);
    let fingerprint = CertificateFingerprint(fingerprint).to_string();
    Ok(InitReport { cert, key, fingerprint, names, days, url })
}

fn url(name: &str, port: u16) -> String {
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("https://[{address}]:{port}"),
        Ok(IpAddr::V4(_)) | Err(_) => format!("https://{name}:{port}"),
    }
}

/// Writes each file at once: it has its whole content, or it is not there. The directory is for its owner only.
fn write_pair(dir: &Path, files: [(&PathBuf, &String, u32); 2], force: bool) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        // As hostd makes its data directory.
        DirBuilder::new().recursive(true).mode(0o711).create(parent)?;
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    for (path, text, mode) in files {
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let written = write_whole(&new, text, mode)
            .and_then(|()| if force { fs::rename(&new, path) } else { fs::hard_link(&new, path) });
        // Gone already if it was renamed.
        let _ = fs::remove_file(&new);
        written?;
    }
    File::open(dir)?.sync_all()
}

fn write_whole(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

impl InitReport {
    fn text(&self) -> String {
        let Self { cert, key, fingerprint, names, days, url } = self;
        let (cert, key) = (cert.display(), key.display());
        let is_served_by_address = |name: &&String| name.parse::<IpAddr>().is_ok() || *name == "localhost";
        let hosts: Vec<&str> =
            names.iter().filter(|name| !is_served_by_address(name)).map(String::as_str).collect();
        let hosts = if hosts.is_empty() {
            String::new()
        } else {
            format!("  SLIPWAY_API_HOSTS={}\n", hosts.join(","))
        };
        let port = url.rsplit_once(':').map_or("", |(_, port)| port);
        let context =
            names[0].split('.').next().filter(|label| label.parse::<u32>().is_err()).unwrap_or("team");
        format!(
            "certificate  {cert}\nkey          {key}\nnames        {}\nvalid for    {days} days\nfingerprint  {fingerprint}\n\n\
             Start hostd with:\n  SLIPWAY_API_BIND=0.0.0.0:{port}\n{hosts}  SLIPWAY_API_TLS_CERT={cert}\n  SLIPWAY_API_TLS_KEY={key}\n\n\
             A colleague with a token (slipway token create) types:\n  \
             slipway context add {context} --url {url} --fingerprint {fingerprint} --token-file -\n",
            names.join(", "),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn facts(data_dir: &Path) -> HostFacts {
        HostFacts {
            host_name: Some("box".to_owned()),
            data_dir: data_dir.to_owned(),
            api_port: API_PORT,
            now: SystemTime::now(),
        }
    }

    fn arguments(names: &[&str], force: bool) -> InitArgs {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        InitArgs { dir: None, names, days: 30, force }
    }

    #[test]
    fn a_pair_is_written_once_unless_forced() {
        let data = tempfile::tempdir().unwrap();
        let host = facts(data.path());
        let first = init(arguments(&["box.example.com", "BOX"], false), &host).unwrap();
        assert_eq!(first.names, ["box.example.com", "BOX", "localhost", "127.0.0.1", "::1"]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&first.key), mode(&first.cert)), (0o600, 0o644));
        assert_eq!(mode(first.key.parent().unwrap()), 0o700);
        let read = |report: &InitReport| (fs::read(&report.cert).unwrap(), fs::read(&report.key).unwrap());
        let before = read(&first);

        let refused = init(arguments(&[], false), &host).unwrap_err();
        assert!(refused.to_string().ends_with("api.crt exists"), "{refused}");
        assert_eq!(read(&first), before);

        let second = init(arguments(&[], true), &host).unwrap();
        assert_ne!(second.fingerprint, first.fingerprint);
        assert_ne!(read(&second), before);
        let left: Vec<_> = fs::read_dir(data.path().join("tls")).unwrap().collect();
        assert_eq!(left.len(), 2, "no other files: {left:?}");
    }

    #[test]
    fn the_report_says_what_to_type() {
        let report = InitReport {
            cert: "/data/tls/api.crt".into(),
            key: "/data/tls/api.key".into(),
            fingerprint: "AB:CD".to_owned(),
            names: ["box.example.com", "box", "10.0.0.7", "localhost", "127.0.0.1", "::1"]
                .map(str::to_owned)
                .into(),
            days: 825,
            url: "https://box.example.com:9090".to_owned(),
        };
        insta::assert_snapshot!(report.text(), @r"
        certificate  /data/tls/api.crt
        key          /data/tls/api.key
        names        box.example.com, box, 10.0.0.7, localhost, 127.0.0.1, ::1
        valid for    825 days
        fingerprint  AB:CD

        Start hostd with:
          SLIPWAY_API_BIND=0.0.0.0:9090
          SLIPWAY_API_HOSTS=box.example.com,box
          SLIPWAY_API_TLS_CERT=/data/tls/api.crt
          SLIPWAY_API_TLS_KEY=/data/tls/api.key

        A colleague with a token (slipway token create) types:
          slipway context add box --url https://box.example.com:9090 --fingerprint AB:CD --token-file -
        ");
        assert_eq!(url("2001:db8::1", 1), "https://[2001:db8::1]:1");
        assert_eq!(url("10.0.0.7", 1), "https://10.0.0.7:1");
    }
}
