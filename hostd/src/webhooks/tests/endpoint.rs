//! An endpoint on loopback that records what it gets and answers as a test says.

use super::PATIENCE;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, sync::watch, time::timeout};

/// A request that came.
#[derive(Debug, Clone)]
pub struct Received {
    pub id: String,
    pub timestamp: String,
    pub signature: String,
    pub text: String,
}

impl Received {
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    /// The number of the fixture's event, with the last letter of its sandbox.
    pub fn label(&self) -> String {
        let data = &self.body()["data"];
        let sandbox = data["sandbox"].as_str().unwrap_or_default();
        format!(
            "{}{}",
            &sandbox[sandbox.len().saturating_sub(1)..],
            data["data"]["fields"][0].as_str().unwrap_or("?")
        )
    }

    /// Verifies a signature as the specification says, without the code of hostd.
    pub fn is_signed_by(&self, secret: &str) -> bool {
        let key = decode(secret.strip_prefix("whsec_").expect("a prefix"));
        let message = format!("{}.{}.{}", self.id, self.timestamp, self.text);
        let expected = hmac(&key, message.as_bytes());
        let mut signatures = self.signature.split(' ').filter_map(|one| one.strip_prefix("v1,"));
        signatures.any(|one| decode(one) == expected)
    }
}

/// HMAC by its definition.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |byte: u8| block.map(|each| each ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

fn decode(text: &str) -> Vec<u8> {
    use base64::{Engine, prelude::BASE64_STANDARD};
    BASE64_STANDARD.decode(text).expect("base64")
}

#[derive(Debug, Clone)]
pub enum Answer {
    Status(u16),
    Redirect(String),
    /// Never.
    Hang,
}

type Script = dyn Fn(&Received, usize) -> Answer + Send + Sync;

pub struct Endpoint {
    pub url: String,
    received: Arc<Mutex<Vec<Received>>>,
    count: watch::Receiver<usize>,
}

impl Endpoint {
    /// `script` answers a request, by how many came before it.
    pub async fn start(script: impl Fn(&Received, usize) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let (sender, count) = watch::channel(0);
        let received = Arc::new(Mutex::new(Vec::new()));
        let state = (Arc::new(script) as Arc<Script>, received.clone(), Arc::new(sender));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = state.clone();
                let service = service_fn(move |request| answer(state.clone(), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { url, received, count }
    }

    pub fn received(&self) -> Vec<Received> {
        self.received.lock().expect("not poisoned").clone()
    }

    pub fn labels(&self) -> Vec<String> {
        self.received().iter().map(Received::label).collect()
    }

    /// Waits until so many requests came.
    pub async fn until(&self, count: usize) -> Vec<Received> {
        let mut counted = self.count.clone();
        timeout(PATIENCE, counted.wait_for(|have| *have >= count))
            .await
            .expect("requests come")
            .expect("open");
        self.received()
    }
}

type State = (Arc<Script>, Arc<Mutex<Vec<Received>>>, Arc<watch::Sender<usize>>);

async fn answer(
    (script, received, count): State,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| {
        request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let (id, timestamp, signature) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let bytes = request.into_body().collect().await.expect("a body").to_bytes();
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let request = Received { id, timestamp, signature, text };
    let before = {
        let mut all = received.lock().expect("not poisoned");
        all.push(request.clone());
        all.len() - 1
    };
    let answer = script(&request, before);
    count.send_replace(before + 1);
    let response = |status: u16| Response::builder().status(status);
    Ok(match answer {
        Answer::Status(status) => response(status).body(Full::from("no \u{1b}[31mthanks")),
        Answer::Redirect(to) => response(307).header("location", to).body(Full::default()),
        Answer::Hang => std::future::pending().await,
    }
    .expect("a response"))
}
