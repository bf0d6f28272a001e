//! A `PreviewAuth` over a store of its own.

use super::super::{AuthDecision, PreviewAuth};
use crate::preview_links::PreviewLinks;
use hostd_core::{
    Blueprint, Environment, LinkId, PassPurpose, PassSigner, Preview, PreviewPass, Previews, Provisioning,
    Scheme, State, token_hash,
};
use hostd_store::{Clock, LinkRecord, NewSandbox, Secret, Store, TokenRecord};
use hyper::{Method, Request};
use protocol::api::{AttemptRelation, Label, Owner, TokenScope, Visibility};
use std::{collections::BTreeMap, sync::Arc};
use tempfile::TempDir;

pub const ADMIN: &str = "slipway_admin";

pub struct AuthFixture {
    pub auth: PreviewAuth,
    pub links: PreviewLinks,
    pub store: Store,
    _dir: TempDir,
}

fn label(text: &str) -> Label {
    Label::parse(text).unwrap()
}

pub fn preview(number: u64, port: u16) -> Preview {
    Preview { sandbox: format!("{number:026}").parse().unwrap(), port }
}

impl AuthFixture {
    /// Creates two sandboxes: number 1 of ann, number 2 of bob.
    pub async fn new(scheme: Scheme) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("slipway.db")).unwrap();
        for (number, principal) in [(1, "ann"), (2, "bob")] {
            store.insert_sandbox(sandbox(number, principal), AttemptRelation::Create).await.unwrap();
        }
        let previews =
            Previews { domain: "localhost".into(), scheme, port: 8080, visibility: Visibility::Private };
        let links = PreviewLinks::new(store.clone(), PassSigner::new(&[7; 32], previews.clone()));
        let auth = PreviewAuth::new(links.clone(), ADMIN, previews, Clock::new());
        Self { auth, links, store, _dir: dir }
    }

    pub async fn link(&self, preview: Preview, good_for_ms: u64) -> PreviewPass {
        let created_ms = self.auth.clock.now_ms();
        let expires_ms = created_ms + good_for_ms;
        let link = LinkRecord {
            id: LinkId::generate(),
            preview,
            created_by: "ann".into(),
            created_ms,
            expires_ms,
            revoked_ms: None,
        };
        self.links.create(link.clone()).await.unwrap();
        PreviewPass { link: link.id, preview, expires_ms }
    }

    pub async fn token(&self, name: &str, principal: &str, scope: TokenScope) -> String {
        let record = TokenRecord {
            id: name.into(),
            tenant: label("acme"),
            principal: label(principal),
            scope,
            created_ms: 1,
            expires_ms: None,
            revoked_ms: None,
        };
        let token = format!("slw_{name}");
        self.store.insert_token(record, token_hash(&token)).await.unwrap();
        token
    }

    pub async fn private(&self, at: Preview, request: Request<()>) -> AuthDecision {
        self.auth.admit(&at, true, &request.into_parts().0).await.unwrap().0
    }

    pub async fn public(&self, at: Preview, request: Request<()>) -> AuthDecision {
        self.auth.admit(&at, false, &request.into_parts().0).await.unwrap().0
    }

    pub fn cookie(&self, pass: &PreviewPass) -> String {
        let name = match self.auth.previews.scheme {
            Scheme::Http => "slipway-preview",
            Scheme::Https => "__Host-slipway-preview",
        };
        format!("{name}={}", self.links.pass_text(pass, PassPurpose::Cookie))
    }

    pub fn text(&self, pass: &PreviewPass) -> String {
        self.links.pass_text(pass, PassPurpose::Link)
    }
}

fn sandbox(number: u64, principal: &str) -> NewSandbox {
    NewSandbox {
        id: preview(number, 1).sandbox,
        name: format!("box {number}"),
        owner: Owner { tenant: label("acme"), principal: label(principal), project: label("default") },
        scope: None,
        blueprint: Arc::new(Blueprint::sample()),
        metadata: BTreeMap::new(),
        env: Secret(Environment::default()),
        dotfiles: None,
        provisioning: Provisioning::default(),
        state: State::new(60_000),
        created_ms: 1,
        expires_ms: None,
    }
}

pub fn get(path: &str, headers: &[(&str, &str)]) -> Request<()> {
    ask(Method::GET, path, headers)
}

pub fn ask(method: Method, path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let request = Request::builder().method(method).uri(path);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(()).unwrap()
}
