//! Image endpoints: inspect, pull, import.

use super::{
    EngineError, Image,
    client::{Engine, EngineRequest, Tar, parse_json, timed_out},
    error_response,
    limits::{IMPORT_DEADLINE, PULL_DEADLINE, PULL_IDLE_TIMEOUT, REPORT_EVERY},
    line_reader::LineReader,
    pull_progress::{ProgressLine, PullProgress},
    request_path,
};
use futures_util::StreamExt as _;
use hyper::Method;
use std::sync::{Arc, OnceLock};
use tokio::time::{Instant, timeout};

const PULL: &str = "pull the image";
const IMPORT: &str = "import the image";
/// The API that only Podman has, in any version since 4.
const LIBPOD_API: &str = "/v4.0.0/libpod";

impl Engine {
    pub async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        self.call_optional(EngineRequest::new("inspect the image", Method::GET, request_path::image(name)?))
            .await
    }

    /// Pulls an image from the registry that its name says, and reports progress as text. `NotFound`: no such
    /// image, or no access to it.
    pub async fn pull(&self, name: &str, report: &(dyn Fn(&str) + Send + Sync)) -> Result<(), EngineError> {
        timeout(PULL_DEADLINE, self.pull_to_end(name, report))
            .await
            .unwrap_or_else(|_| Err(timed_out(PULL, PULL_DEADLINE)))
    }

    /// Imports a root file system, as a tar archive, under `name:tag`.
    pub async fn import(&self, name: &str, tag: &str, tar: Tar) -> Result<(), EngineError> {
        let failure = Arc::new(OnceLock::new());
        let seen = failure.clone();
        let tar = tar.inspect(move |piece| {
            if let Err(error) = piece {
                // The first error is the cause; later ones follow from it.
                seen.get_or_init(|| error_response::sanitize(&error.to_string()));
            }
        });
        let request = |path: String| {
            EngineRequest::new(IMPORT, Method::POST, path).deadline(IMPORT_DEADLINE).tar(Box::pin(tar))
        };
        let image = request_path::query_value(&format!("{name}:{tag}"));
        let response = if self.negotiated().await?.podman {
            // Podman never deletes the temporary file of an import through Docker's endpoint.
            self.call_unversioned(request(format!("{LIBPOD_API}/images/import?reference={image}"))).await
        } else {
            let tag = request_path::query_value(tag);
            self.call(request(format!("/images/create?fromSrc=-&repo={image}&tag={tag}"))).await
        };
        let response = match response {
            // When our own archive failed, the broken connection is not the engine's fault.
            Err(error) => {
                return Err(match failure.get() {
                    Some(why) => EngineError::Failed { what: IMPORT, message: format!("its files: {why}") },
                    None => error,
                });
            }
            Ok(response) => response,
        };
        response
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
            .try_for_each(|line| check_line(IMPORT, &parse_json(IMPORT, line)?))
    }

    async fn pull_to_end(
        &self,
        name: &str,
        report: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), EngineError> {
        let name = with_tag(name);
        let path = format!("/images/create?fromImage={}", request_path::query_value(&name));
        let body =
            self.stream(EngineRequest::new(PULL, Method::POST, path).deadline(PULL_IDLE_TIMEOUT)).await?;
        let mut lines = LineReader::of(self, PULL, body, Some(PULL_IDLE_TIMEOUT));
        let mut pulled = PullProgress::default();
        let mut reported_at: Option<Instant> = None;
        while let Some(line) = lines.next().await? {
            let step: ProgressLine = parse_json(PULL, &line)?;
            check_line(PULL, &step)?;
            pulled.record(&step);
            if reported_at.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
                report(&pulled.summary(&name));
                reported_at = Some(Instant::now());
            }
        }
        // A response that was cut at the end of a line looks complete: check that the image exists.
        match self.image(&name).await? {
            Some(_) => Ok(()),
            None => {
                Err(EngineError::Failed { what: PULL, message: format!("{name} is missing after the pull") })
            }
        }
    }
}

/// Adds `:latest` where there is neither tag nor digest: without a tag Docker pulls every tag.
fn with_tag(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

fn check_line(what: &'static str, step: &ProgressLine) -> Result<(), EngineError> {
    match step.failure() {
        None => Ok(()),
        Some(message) if is_missing(&message) => Err(EngineError::NotFound(message)),
        Some(message) => Err(EngineError::Failed { what, message }),
    }
}

/// Recognizes a missing image. Registries do not tell a missing image from a private one.
fn is_missing(message: &str) -> bool {
    ["manifest unknown", "repository does not exist", "pull access denied", "not found", "name unknown"]
        .iter()
        .any(|known| message.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_tag_means_the_latest() {
        for (name, full) in [
            ("alpine", "alpine:latest"),
            ("alpine:3", "alpine:3"),
            ("host:5000/app", "host:5000/app:latest"),
            ("host:5000/app:1", "host:5000/app:1"),
            ("app@sha256:00", "app@sha256:00"),
        ] {
            assert_eq!(with_tag(name), full);
        }
    }
}
