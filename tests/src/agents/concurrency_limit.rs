//! An agent takes up to two thirds of a gigabyte and a core while it starts: only so many at a time, whichever test
//! process starts them.

use crate::host::until;
use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;

const SEATS: usize = 2;

/// Given back when it is dropped, and when the process dies.
#[derive(Debug)]
pub struct StartPermit {
    _lock: Flock<File>,
}

impl StartPermit {
    pub async fn take() -> Result<Self> {
        let dir = std::env::temp_dir().join("slipway-agent-seats");
        std::fs::create_dir_all(&dir)?;
        loop {
            // Others may sit for longer than anything here should take, one after the other.
            let looked = until("a seat", async || {
                for seat in 0..SEATS {
                    let file = File::create(dir.join(seat.to_string())).context("a seat's file")?;
                    if let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                        return Ok(Some(Self { _lock: lock }));
                    }
                }
                Ok(None)
            });
            if let Ok(seat) = looked.await {
                return Ok(seat);
            }
        }
    }
}
