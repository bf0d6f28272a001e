use super::{
    super::engine::fake_engine::{FakeEngine, FakeReply, chunked, response},
    *,
};
use std::sync::{Arc, Mutex};

/// Checked by the compiler: futures of driver verbs must be `Send`.
#[allow(dead_code)]
fn prepare_is_send(images: &EngineImages, progress: &ProgressSink) {
    fn is_send(_: impl Send) {}
    is_send(images.prepare(&ImageRequest { image: "host", tenant: "t", progress }));
}

/// The progress reported while an engine without the image sends `begun` and then falls silent.
async fn progress_reported(
    image: &str,
    begun: &'static [&'static str],
) -> (Result<PreparedImage, DriverError>, Vec<String>) {
    let fake = FakeEngine::new(|line| match line.starts_with("POST") {
        true => FakeReply::Hang(if begun.is_empty() { vec![] } else { chunked(begun) }),
        false => response("404 Not Found", r#"{"message":"no such image"}"#),
    });
    let images = fixture::images(&fake.engine, fake.dir.path());
    let reported: Arc<Mutex<Vec<String>>> = Arc::default();
    let listener = reported.clone();
    let progress = ProgressSink::new(move |text| listener.lock().expect("one writer").push(text.to_owned()));
    let ended = images.prepare(&ImageRequest { image, tenant: "t", progress: &progress }).await;
    let reported = reported.lock().expect("reported").clone();
    (ended, reported)
}

#[tokio::test(start_paused = true)]
async fn progress_is_repeated_every_second_while_the_engine_is_silent() {
    const LAYER: &str = "{\"status\":\"Extracting\",\"id\":\"a\"}\n";
    for (image, begun, words, seconds) in [
        ("alpine:3", &[][..], "alpine:3", 290),
        ("alpine:3", &[LAYER][..], "0 of 1 layers", 290),
        ("host", &[][..], "importing the image host into the container engine", 1_700),
    ] {
        let (ended, reported) = progress_reported(image, begun).await;
        // The wait is bounded.
        assert!(matches!(ended, Err(DriverError::Unavailable { .. })), "{image}: {ended:?}");
        let fitting = reported.iter().filter(|text| text.contains(words)).count();
        assert!(fitting > seconds, "{image}: {fitting} of {}: {:?}", reported.len(), reported.last());
    }
}
