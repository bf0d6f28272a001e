//! The thread that starts daemons: they end with it, and it ends with the process of the test.

use anyhow::{Context, Result};
use std::io;
use std::process::{Child, Command};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};

type Order = (Command, SyncSender<io::Result<Child>>);

/// Tests start daemons again from threads of their own, which do not last.
pub fn spawn(command: Command) -> Result<Child> {
    static ORDERS: OnceLock<Mutex<SyncSender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, taken) = sync_channel::<Order>(1);
        std::thread::spawn(move || {
            for (mut command, answer) in taken {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(orders)
    });
    let (answer, answered) = sync_channel(1);
    orders
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, answer))
        .ok()
        .context("the thread that starts daemons is gone")?;
    Ok(answered.recv()??)
}
