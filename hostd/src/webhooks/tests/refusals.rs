//! Endpoints that are not reached, and answers that are not followed.

use super::{Endpoint, Fixture, endpoint::Answer, webhooks};
use protocol::api::DeliveryState;

#[tokio::test]
async fn a_private_address_is_not_connected_to_whatever_its_name() {
    let mut fixture = Fixture::new(1).await;
    let endpoint = Endpoint::start(|_, _| Answer::Status(200)).await;
    fixture.webhooks = webhooks(&fixture.store, &fixture.dir, 1, &["10.0.0.0/8", "local.test"]);
    let port = endpoint.url.rsplit_once(':').expect("a port").1.to_owned();
    let urls = [
        endpoint.url.clone(),
        format!("http://local.test:{port}"),
        format!("https://127.1:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        "http://none.test/".to_owned(),
        "https://169.254.169.254/latest".to_owned(),
    ];
    let mut rows = Vec::new();
    for url in &urls {
        rows.push(fixture.add(url, &["*"]).await.0);
    }
    fixture.start();
    fixture.event(1, 1).await;
    for (row, url) in rows.iter().zip(&urls) {
        let dead = fixture.until(row, DeliveryState::Dead, 1).await;
        let error = dead[0].last_error.clone().unwrap_or_default();
        let why = if url.contains("none.test") { "there is no host" } else { "SLIPWAY_WEBHOOK_ALLOW" };
        assert!(error.contains(why), "{url}: {error}");
    }
    assert_eq!(endpoint.received().len(), 0);
}

#[tokio::test]
async fn a_redirect_is_a_failure_and_not_followed() {
    let mut fixture = Fixture::new(1).await;
    let target = Endpoint::start(|_, _| Answer::Status(200)).await;
    let to = target.url.clone();
    let endpoint = Endpoint::start(move |_, _| Answer::Redirect(to.clone())).await;
    let (webhook, _) = fixture.add(&endpoint.url, &["*"]).await;
    fixture.start();
    fixture.event(1, 1).await;
    let dead = fixture.until(&webhook, DeliveryState::Dead, 1).await;
    let error = dead[0].last_error.clone().unwrap_or_default();
    assert!(error.starts_with("status 307: redirects are not followed"), "{error}");
    assert_eq!((dead[0].last_status, target.received().len()), (Some(307), 0));
}
