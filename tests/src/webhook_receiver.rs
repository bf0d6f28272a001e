//! An endpoint of webhooks on loopback: it records what it gets, and verifies signatures without the code of hostd.

use crate::sandbox::PATIENCE;
use anyhow::{Context, Result};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

/// A request that came.
#[derive(Debug, Clone)]
pub struct Told {
    pub id: String,
    pub timestamp: String,
    pub signature: String,
    pub text: String,
}

impl Told {
    pub fn body(&self) -> Result<Value> {
        serde_json::from_str(&self.text).with_context(|| self.text.clone())
    }

    /// Whether one of the signatures is HMAC-SHA256 of `id.timestamp.body` with this secret.
    pub fn is_signed_by(&self, secret: &str) -> Result<bool> {
        let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").context("whsec_")?)?;
        let expected = hmac(&key, format!("{}.{}.{}", self.id, self.timestamp, self.text).as_bytes());
        let signatures = self.signature.split(' ').filter_map(|one| one.strip_prefix("v1,"));
        Ok(signatures.filter_map(|one| BASE64_STANDARD.decode(one).ok()).any(|one| one == expected))
    }
}

/// HMAC by its definition, for keys that fit into a block.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let pad = |byte: u8| block.map(|each| each ^ byte);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

/// Returns the status that answers a request, by how many came before it; none for no answer at all.
type Script = dyn Fn(&Told, usize) -> Option<u16> + Send + Sync;

pub struct WebhookReceiver {
    /// `127.0.0.1:port`, also for `SLIPWAY_WEBHOOK_ALLOW`.
    pub authority: String,
    told: Arc<Mutex<Vec<Told>>>,
    count: watch::Receiver<usize>,
}

impl WebhookReceiver {
    pub async fn start(script: impl Fn(&Told, usize) -> Option<u16> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let authority = listener.local_addr()?.to_string();
        let (sender, count) = watch::channel(0);
        let told = Arc::new(Mutex::new(Vec::new()));
        let state = (Arc::new(script) as Arc<Script>, told.clone(), Arc::new(sender));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = state.clone();
                let service = service_fn(move |request| answer(state.clone(), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(Self { authority, told, count })
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.authority)
    }

    pub fn told(&self) -> Vec<Told> {
        self.told.lock().expect("no panic while held").clone()
    }

    /// Waits until what was told is as wanted.
    pub async fn until(&self, wanted: impl Fn(&[Told]) -> bool) -> Result<Vec<Told>> {
        let mut count = self.count.clone();
        let waiting = async {
            loop {
                let told = self.told();
                if wanted(&told) {
                    return anyhow::Ok(told);
                }
                count.changed().await?;
            }
        };
        let found = timeout(PATIENCE, waiting).await;
        found.with_context(|| format!("it stays at {:?}", self.told()))?
    }
}

type State = (Arc<Script>, Arc<Mutex<Vec<Told>>>, Arc<watch::Sender<usize>>);

async fn answer(
    (script, told, count): State,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header = |name: &str| {
        let value = request.headers().get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let (id, timestamp, signature) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let Ok(body) = request.into_body().collect().await else { return std::future::pending().await };
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    let one = Told { id, timestamp, signature, text };
    let before = {
        let mut told = told.lock().expect("no panic while held");
        told.push(one.clone());
        told.len() - 1
    };
    let status = script(&one, before);
    count.send_replace(before + 1);
    let Some(status) = status else { return std::future::pending().await };
    let mut response = Response::new(Full::default());
    *response.status_mut() = status.try_into().unwrap_or_default();
    Ok(response)
}
