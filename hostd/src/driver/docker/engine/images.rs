//! Images: there, fetched, or made of a root file system.

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
/// The API that only Podman has, of any version since 4.
const LIBPOD_API: &str = "/v4.0.0/libpod";

impl Engine {
    pub async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        self.call_optional(EngineRequest::new("inspect the image", Method::GET, request_path::image(name)?))
            .await
    }

    /// Fetches an image from where its name says; tells how far it is, in words. `NotFound`: there is none, or
    /// it is not for us.
    pub async fn pull(&self, name: &str, report: &(dyn Fn(&str) + Send + Sync)) -> Result<(), EngineError> {
        timeout(PULL_DEADLINE, self.pull_to_end(name, report))
            .await
            .unwrap_or_else(|_| Err(timed_out(PULL, PULL_DEADLINE)))
    }

    /// Makes an image `name:tag` of a root file system as a tar archive.
    pub async fn import(&self, name: &str, tag: &str, tar: Tar) -> Result<(), EngineError> {
        let failure = Arc::new(OnceLock::new());
        let seen = failure.clone();
        let tar = tar.inspect(move |piece| {
            if let Err(error) = piece {
                // The first one counts.
                seen.get_or_init(|| error_response::sanitize(&error.to_string()));
            }
        });
        let request = |path: String| {
            EngineRequest::new(IMPORT, Method::POST, path).deadline(IMPORT_DEADLINE).tar(Box::pin(tar))
        };
        let image = request_path::query_value(&format!("{name}:{tag}"));
        let response = if self.negotiated().await?.podman {
            // What it takes by Docker's address, it leaves in its temporary directory for ever.
            self.call_unversioned(request(format!("{LIBPOD_API}/images/import?reference={image}"))).await
        } else {
            let tag = request_path::query_value(tag);
            self.call(request(format!("/images/create?fromSrc=-&repo={image}&tag={tag}"))).await
        };
        let response = match response {
            // A connection that we broke ourselves is not the engine's fault.
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
        // An answer that was cut where a line ends looks like a whole one.
        match self.image(&name).await? {
            Some(_) => Ok(()),
            None => Err(EngineError::Failed { what: PULL, message: format!("{name} is not there after it") }),
        }
    }
}

/// Without a tag Docker fetches all there are.
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

/// Registries do not say whether it is missing or private.
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
