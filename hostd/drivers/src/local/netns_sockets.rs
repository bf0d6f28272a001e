//! Creates sockets in the network namespaces of sandboxes. A thread enters the namespace, creates a socket
//! and leaves; the socket stays in its namespace. Does not wait for anything in the sandbox.

use super::{
    files::errno,
    limits::{DIAL_QUEUE_MAX, DIALERS},
    sandbox_dialer::RunningSandbox,
};
use nix::{
    sched::{CloneFlags, setns},
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
};
use std::{
    fs::File,
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
};
use tokio::sync::oneshot;

struct Request {
    sandbox: Arc<RunningSandbox>,
    family: AddressFamily,
    answer: oneshot::Sender<io::Result<OwnedFd>>,
}

pub struct NetnsSockets {
    requests: SyncSender<Request>,
}

impl NetnsSockets {
    pub fn start() -> io::Result<Self> {
        let (requests, queue) = sync_channel(DIAL_QUEUE_MAX);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..DIALERS {
            let queue = Arc::clone(&queue);
            // Ends when the driver is dropped.
            std::thread::Builder::new().name(format!("dialer-{number}")).spawn(move || serve(&queue))?;
        }
        Ok(Self { requests })
    }

    /// Creates a non-blocking stream socket in the network namespace of a sandbox.
    pub async fn socket(&self, sandbox: &Arc<RunningSandbox>, family: AddressFamily) -> io::Result<OwnedFd> {
        let (answer, answered) = oneshot::channel();
        let request = Request { sandbox: Arc::clone(sandbox), family, answer };
        self.requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => {
                io::Error::new(io::ErrorKind::ResourceBusy, "too many connections are being opened")
            }
            TrySendError::Disconnected(_) => io::Error::other("no thread opens connections any more"),
        })?;
        answered.await.map_err(|_| io::Error::other("the thread that opens connections ended"))?
    }
}

fn serve(queue: &Mutex<Receiver<Request>>) {
    let Ok(home) = File::open("/proc/thread-self/ns/net") else { return };
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Request { sandbox, family, answer }) = next else { return };
        let made = make(&sandbox, family);
        let back = setns(&home, CloneFlags::CLONE_NEWNET);
        let _ = answer.send(made);
        if let Err(error) = back {
            // A thread in a foreign namespace must not serve other requests.
            tracing::error!(%error, "failed to leave a network namespace; ending this thread");
            return;
        }
    }
}

fn make(sandbox: &RunningSandbox, family: AddressFamily) -> io::Result<OwnedFd> {
    setns(&sandbox.netns, CloneFlags::CLONE_NEWNET).map_err(errno)?;
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    socket(family, SockType::Stream, flags, None).map_err(errno)
}
