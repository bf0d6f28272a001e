//! Progress of a pull, from the engine's lines about each layer.

use super::{error_response, limits::LAYERS_MAX};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One line of the response to a pull or an import.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProgressLine {
    id: String,
    status: String,
    progress_detail: Option<ProgressDetail>,
    error: Option<String>,
    error_detail: Option<ErrorDetail>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ProgressDetail {
    current: u64,
    total: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorDetail {
    message: String,
}

impl ProgressLine {
    /// The error in this line, if any: the engine reports failures after a 200 status.
    pub fn failure(&self) -> Option<String> {
        let detail = self.error_detail.as_ref().map(|detail| detail.message.as_str());
        let text = detail.filter(|text| !text.is_empty()).or(self.error.as_deref())?;
        Some(error_response::sanitize(text))
    }
}

#[derive(Default)]
struct Layer {
    fetched: u64,
    total: u64,
    done: bool,
}

#[derive(Default)]
pub struct PullProgress {
    layers: BTreeMap<String, Layer>,
}

impl PullProgress {
    pub fn record(&mut self, step: &ProgressLine) {
        // The line that names the tag has an id too, and is no layer.
        let layer_words = ["Pull", "Download", "Verify", "Extract", "Waiting", "Already exists"];
        if step.id.is_empty() || !layer_words.iter().any(|word| step.status.starts_with(word)) {
            return;
        }
        if step.status.starts_with("Pulling from") || self.is_full(&step.id) {
            return;
        }
        let layer = self.layers.entry(step.id.clone()).or_default();
        let status = step.status.as_str();
        if let ("Downloading", Some(detail)) = (status, &step.progress_detail) {
            layer.fetched = detail.current;
            layer.total = layer.total.max(detail.total);
        } else if ["Pull complete", "Already exists"].contains(&status) {
            layer.done = true;
            layer.fetched = layer.total;
        } else if ["Download complete", "Extracting"].contains(&status) {
            layer.fetched = layer.total;
        }
    }

    /// Progress as text for users.
    pub fn summary(&self, image: &str) -> String {
        let image = error_response::sanitize(image);
        if self.layers.is_empty() {
            return format!("pulling {image}");
        }
        let done = self.layers.values().filter(|layer| layer.done).count();
        let mut text = format!("pulling {image}: {done} of {} layers", self.layers.len());
        let sum = |of: fn(&Layer) -> u64| self.layers.values().map(of).fold(0, u64::saturating_add);
        let (fetched, total) = (sum(|layer| layer.fetched.min(layer.total)), sum(|layer| layer.total));
        if total > 0 {
            text.push_str(&format!(", {} of {} MB", megabytes(fetched), megabytes(total)));
        }
        text
    }

    fn is_full(&self, id: &str) -> bool {
        self.layers.len() >= LAYERS_MAX && !self.layers.contains_key(id)
    }
}

/// Megabytes with one decimal.
fn megabytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(line: &str) -> ProgressLine {
        serde_json::from_str(line).unwrap()
    }

    #[test]
    fn layers_and_bytes_are_counted() {
        let mut pulled = PullProgress::default();
        assert_eq!(pulled.summary("app"), "pulling app");
        for line in [
            r#"{"status":"Pulling from library/app","id":"latest"}"#,
            r#"{"status":"Pulling fs layer","progressDetail":{},"id":"a"}"#,
            r#"{"status":"Already exists","progressDetail":{},"id":"b"}"#,
            r#"{"status":"Downloading","progressDetail":{"current":500000,"total":3000000},"id":"a"}"#,
            r#"{"status":"Digest: sha256:00"}"#,
        ] {
            pulled.record(&step(line));
        }
        assert_eq!(pulled.summary("app"), "pulling app: 1 of 2 layers, 0.5 of 3.0 MB");
        pulled.record(&step(r#"{"status":"Pull complete","progressDetail":{},"id":"a"}"#));
        assert_eq!(pulled.summary("app"), "pulling app: 2 of 2 layers, 3.0 of 3.0 MB");
    }

    #[test]
    fn lying_counters_and_endless_layers_are_harmless() {
        let mut pulled = PullProgress::default();
        for n in 0..2 * LAYERS_MAX {
            let total = u64::MAX;
            pulled.record(&step(&format!(
                r#"{{"status":"Downloading","id":"{n}","progressDetail":{{"current":{total},"total":{total}}}}}"#
            )));
        }
        assert_eq!(pulled.layers.len(), LAYERS_MAX);
        assert!(pulled.summary("app").starts_with("pulling app: 0 of 1024 layers, "));
    }

    #[test]
    fn a_failure_in_the_stream_is_seen() {
        assert_eq!(step(r#"{"status":"Downloading"}"#).failure(), None);
        let docker = r#"{"errorDetail":{"message":"no space left"},"error":"no space"}"#;
        assert_eq!(step(docker).failure().as_deref(), Some("no space left"));
        assert_eq!(step(r#"{"error":"broken"}"#).failure().as_deref(), Some("broken"));
    }
}
