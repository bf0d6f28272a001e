//! The least that can stand in between: a program of its own that copies bytes both ways and looks at none of them.

use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

/// The word that makes this program the relay; where it leads to comes after it.
pub const WORD: &str = "relay";

pub struct Relay {
    pub address: SocketAddr,
    _child: Child,
}

impl Relay {
    pub async fn start(to: SocketAddr) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WORD, &to.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut said = BufReader::new(child.stdout.take().context("its output")?).lines();
        let address = said.next_line().await?.context("it says where it is")?.parse()?;
        Ok(Self { address, _child: child })
    }
}

/// On as many threads as hostd has for this.
pub fn serve(to: &str) -> Result<()> {
    let to: SocketAddr = to.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (near, _) = listener.accept().await?;
            // How a copy ends is for its two ends.
            tokio::spawn(async move { drop(copy(near, to).await) });
        }
    })
}

async fn copy(mut near: TcpStream, to: SocketAddr) -> std::io::Result<()> {
    let mut far = TcpStream::connect(to).await?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    copy_bidirectional(&mut near, &mut far).await.map(drop)
}
