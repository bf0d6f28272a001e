//! Bytes between a sandbox and the world, both ways, until both have said all, or it must end.

use super::{
    limits::{BUFFER_MAX_BYTES, BUFFER_MIN_BYTES},
    pipe::Pipe,
    proxy::Answered,
    trip::{Trip, Way},
};
use crate::backpressure::WindowIo;
use axum::body::Body;
use hyper::{
    Request, Response,
    body::Incoming,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use std::{io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tracing::debug;

/// The answer that a tunnel begins with, and the tunnel. The socket to the world is open until that ends.
pub fn begin(mut request: Request<Incoming>, outside: TcpStream, trip: Arc<Trip>) -> Answered {
    let inside = hyper::upgrade::on(&mut request);
    let then = Some(Box::pin(run(inside, outside, trip)) as _);
    Answered { response: Response::new(Body::empty()), then }
}

async fn run(inside: OnUpgrade, outside: TcpStream, trip: Arc<Trip>) {
    let inside = match inside.await {
        Ok(inside) => inside,
        Err(error) => return debug!(%error, "a tunnel did not begin"),
    };
    tokio::select! {
        // Either way both sockets are closed: nothing more can be passed on.
        ended = carry_both(inside, outside, &trip) => {
            if let Err(error) = ended {
                debug!(%error, "a tunnel ended badly");
            }
        }
        cut = trip.clone().cut() => debug!(%cut, "a tunnel was cut"),
    }
}

async fn carry_both(inside: Upgraded, outside: TcpStream, trip: &Trip) -> io::Result<()> {
    // A door speaks HTTP/1.1, and on sockets only.
    let inside = inside.downcast::<TokioIo<WindowIo<TcpStream>>>();
    let inside = inside.map_err(|_| io::Error::other("it is no socket"))?;
    let (mut from_outside, mut to_outside) = outside.into_split();
    trip.moves(Way::Up, inside.read_buf.len()).map_err(io::Error::other)?;
    to_outside.write_all(&inside.read_buf).await?;
    let (mut from_inside, mut to_inside) = inside.io.into_inner().into_inner().into_split();
    let up = carry(&mut from_inside, &mut to_outside, (trip, Way::Up));
    let down = carry(&mut from_outside, &mut to_inside, (trip, Way::Down));
    tokio::try_join!(up, down).map(drop)
}

/// As fast as the slower of both; the end of one is passed on to the other.
async fn carry(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, counted: (&Trip, Way)) -> io::Result<()> {
    let (trip, way) = counted;
    let mut buffer = vec![0; BUFFER_MIN_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        trip.moves(way, read).map_err(io::Error::other)?;
        to.write_all(&buffer[..read]).await?;
        if read < buffer.len() {
            continue;
        }
        buffer.resize(BUFFER_MAX_BYTES, 0);
        if read == BUFFER_MAX_BYTES
            && let Some(pipe) = Pipe::open()
            && flow(&pipe, from, to, counted).await? == Flowed::Over
        {
            return to.shutdown().await;
        }
    }
}

#[derive(PartialEq, Eq)]
enum Flowed {
    /// There is little to pass on now.
    Little,
    Over,
}

/// As long as much comes.
async fn flow(
    pipe: &Pipe,
    from: &OwnedReadHalf,
    to: &OwnedWriteHalf,
    (trip, way): (&Trip, Way),
) -> io::Result<Flowed> {
    loop {
        let came = pipe.fill(from.as_ref()).await?;
        if came == 0 {
            return Ok(Flowed::Over);
        }
        trip.moves(way, came).map_err(io::Error::other)?;
        pipe.drain(to.as_ref(), came).await?;
        if came < BUFFER_MIN_BYTES {
            return Ok(Flowed::Little);
        }
    }
}
