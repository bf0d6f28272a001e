//! How frames reach the client: unchanged, late, or cut off.

use super::script::Fault;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::Response;
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use std::io;
use std::time::Duration;

pub type Body = UnsyncBoxBody<Bytes, io::Error>;

pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub fn answer(status: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = hyper::StatusCode::from_u16(status).expect("scripts have real statuses");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Frames as a body, with what a fault does to their way.
pub fn streamed(frames: Vec<String>, fault: Option<&Fault>) -> Body {
    let all = frames.into_iter().map(|frame| Ok(Frame::data(Bytes::from(frame))));
    let frames: BoxStream<'static, io::Result<Frame<Bytes>>> = match fault {
        Some(Fault::Cut { after }) => {
            let cut = stream::once(async { Err(io::Error::other("cut by the script")) });
            // A moment later, so that what came before the cut is really sent.
            let cut = cut.then(|end| late(Duration::from_millis(20), end));
            stream::iter(all).take(*after).chain(cut).boxed()
        }
        Some(Fault::Stall { after }) => stream::iter(all).take(*after).chain(stream::pending()).boxed(),
        Some(Fault::Slow { every }) => {
            let every = *every;
            stream::iter(all).then(move |frame| late(every, frame)).boxed()
        }
        _ => stream::iter(all).boxed(),
    };
    StreamBody::new(frames).boxed_unsync()
}

async fn late<T>(wait: Duration, value: T) -> T {
    tokio::time::sleep(wait).await;
    value
}
