//! 1 GB down and up, against nginx with the same file on the same disk; and the memory of hostd meanwhile.

use super::Fixture;
use crate::{
    edge::upstream::free_address,
    row::{Goal, Row, mb_per_s, median, ratio},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File, Permissions},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tests::scaled;

const BYTES: u64 = 1 << 30;
const THROUGHPUT_MIN: f64 = 0.7;
/// What hostd may hold more than before: buffers of a transfer, not its content.
const GROWTH_MAX_MB: f64 = 16.0;

/// nginx that serves and receives files of a directory.
struct Nginx {
    dir: TempDir,
    child: Child,
    address: String,
}

impl Nginx {
    fn start() -> Result<Self> {
        let dir = tempfile::tempdir_in("/var/tmp")?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        fs::create_dir(dir.path().join("files"))?;
        let (address, at) = (free_address()?, dir.path().display());
        let config = format!(
            "daemon off; user root; worker_processes auto; pid {at}/pid; error_log {at}/error.log;
             events {{ worker_connections 1024; }}
             http {{
               sendfile on; tcp_nopush on; access_log off; client_max_body_size 0;
               client_body_temp_path {at}/files; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;
               uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
               server {{ listen {address}; root {at}/files; location / {{ dav_methods PUT; }} }}
             }}"
        );
        fs::write(dir.path().join("nginx.conf"), config)?;
        let mut command = Command::new("nginx");
        command.arg("-p").arg(dir.path()).arg("-c").arg(dir.path().join("nginx.conf"));
        command.arg("-e").arg(dir.path().join("error.log"));
        let child =
            command.stdin(Stdio::null()).spawn().context("start nginx (scripts/bench installs it)")?;
        for _ in 0..1000 {
            if TcpStream::connect(&address).is_ok() {
                break;
            }
            std::thread::yield_now();
        }
        Ok(Self { dir, child, address })
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX));
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

pub async fn rows(fixture: &Fixture) -> Result<Vec<Row>> {
    let nginx = Nginx::start()?;
    make(&nginx.dir.path().join("files/down"))?;
    fixture.files.put("down", b"").await?;
    make(&fixture.workspace().join("down"))?;
    let (mut down, mut up) = ((vec![], vec![]), (vec![], vec![]));
    let before = memory_mb(fixture)?;
    let mut peak = before;
    let (get, put) = (fixture.head("GET", "content?path=down"), fixture.head("PUT", "content?path=up"));
    for _ in 0..scaled(3, 7) {
        down.0.push(download(fixture.address(), &get)?);
        peak = peak.max(memory_mb(fixture)?);
        down.1.push(download(&nginx.address, &plain_head(&nginx, "GET", "down"))?);
        up.0.push(upload(fixture.address(), &put, &fixture.workspace().join("up"))?);
        peak = peak.max(memory_mb(fixture)?);
        up.1.push(upload(
            &nginx.address,
            &plain_head(&nginx, "PUT", "up"),
            &nginx.dir.path().join("files/up"),
        )?);
    }
    let row = |what: &'static str, (ours, other): (Vec<Duration>, Vec<Duration>)| {
        let (ours, other) = (median(ours), median(other));
        Row {
            what: what.into(),
            ours: mb_per_s(BYTES, ours),
            other: format!("nginx {}", mb_per_s(BYTES, other)),
            ratio: ratio(other, ours),
            goal: Goal::AtLeast(THROUGHPUT_MIN),
        }
    };
    Ok(vec![
        row("file of 1 GB, down", down),
        row("file of 1 GB, up and durable", up),
        Row {
            what: "memory of hostd over 1 GB each way".into(),
            ours: format!("{:.1} MB more", peak - before),
            other: format!("at most {GROWTH_MAX_MB} MB"),
            ratio: (peak - before) / GROWTH_MAX_MB,
            goal: Goal::AtMost(1.0),
        },
    ])
}

fn plain_head(nginx: &Nginx, method: &str, name: &str) -> String {
    format!("{method} /{name} HTTP/1.1\r\nHost: {}\r\n", nginx.address)
}

fn make(path: &Path) -> Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).open(path)?;
    let chunk: Vec<u8> = (0..1_u32 << 18).flat_map(u32::to_le_bytes).collect();
    for _ in 0..BYTES / chunk.len() as u64 {
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    fs::set_permissions(path, Permissions::from_mode(0o644))?;
    Ok(())
}

/// Reads the head of a response; the length of its body.
fn response_head(stream: &mut BufReader<TcpStream>) -> Result<u64> {
    let (mut line, mut length, mut status) = (String::new(), 0, String::new());
    loop {
        line.clear();
        ensure!(stream.read_line(&mut line)? > 0, "no response");
        if status.is_empty() {
            status = line.clone();
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line == "\r\n" {
            ensure!(status.contains(" 20"), "{status}");
            return Ok(length);
        }
    }
}

fn download(address: &str, head: &str) -> Result<Duration> {
    let mut stream = BufReader::with_capacity(1 << 20, TcpStream::connect(address)?);
    let started = Instant::now();
    stream.get_mut().write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
    let length = response_head(&mut stream)?;
    ensure!(length == BYTES, "{length} bytes");
    let (mut buffer, mut received) = (vec![0; 1 << 20], 0);
    while received < length {
        let count = stream.read(&mut buffer)? as u64;
        ensure!(count > 0, "cut off after {received} bytes");
        received += count;
    }
    Ok(started.elapsed())
}

/// Until the content is durable: nginx leaves that to the kernel.
fn upload(address: &str, head: &str, at: &Path) -> Result<Duration> {
    let mut stream = TcpStream::connect(address)?;
    let chunk = vec![b'u'; 1 << 20];
    let started = Instant::now();
    stream.write_all(format!("{head}Connection: close\r\nContent-Length: {BYTES}\r\n\r\n").as_bytes())?;
    for _ in 0..BYTES / chunk.len() as u64 {
        stream.write_all(&chunk)?;
    }
    response_head(&mut BufReader::new(stream))?;
    File::open(at)?.sync_all()?;
    let taken = started.elapsed();
    ensure!(fs::metadata(at)?.len() == BYTES);
    fs::remove_file(at)?;
    Ok(taken)
}

fn memory_mb(fixture: &Fixture) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", fixture.hostd.pid()?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
