use super::{
    super::engine::fake::{Fake, Reply, answer, chunks},
    *,
};
use std::sync::{Arc, Mutex};

/// Checked by the compiler: a driver's verbs go from thread to thread.
#[allow(dead_code)]
fn preparing_may_change_threads(images: &Images, progress: &ProgressSink) {
    fn is_send(_: impl Send) {}
    is_send(images.prepare(&Wish { image: "host", tenant: "t", progress }));
}

/// What is told while an engine that has no image says so much and then nothing.
async fn told_of(
    image: &str,
    begun: &'static [&'static str],
) -> (Result<Prepared, DriverError>, Vec<String>) {
    let fake = Fake::new(|line| match line.starts_with("POST") {
        true => Reply::Hang(if begun.is_empty() { vec![] } else { chunks(begun) }),
        false => answer("404 Not Found", r#"{"message":"no such image"}"#),
    });
    let images = fixture::images(&fake.engine, fake.dir.path());
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = heard.clone();
    let progress = ProgressSink::new(move |text| listener.lock().expect("one writer").push(text.to_owned()));
    let ended = images.prepare(&Wish { image, tenant: "t", progress: &progress }).await;
    let heard = heard.lock().expect("all is told").clone();
    (ended, heard)
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_silent_while_it_fetches_or_keeps_an_image_is_told_of_every_second() {
    const LAYER: &str = "{\"status\":\"Extracting\",\"id\":\"a\"}\n";
    for (image, begun, words, seconds) in [
        ("alpine:3", &[][..], "alpine:3", 290),
        ("alpine:3", &[LAYER][..], "0 of 1 layers", 290),
        ("host", &[][..], "giving the image host to the container engine", 1_700),
    ] {
        let (ended, heard) = told_of(image, begun).await;
        // And not for ever.
        assert!(matches!(ended, Err(DriverError::Unavailable { .. })), "{image}: {ended:?}");
        let fitting = heard.iter().filter(|text| text.contains(words)).count();
        assert!(fitting > seconds, "{image}: {fitting} of {}: {:?}", heard.len(), heard.last());
    }
}
