//! Images: there, fetched, or made of a root file system.

use super::{
    EngineError, Image,
    client::{Ask, Engine, Tar, late, parsed},
    limits::{IMPORT_WITHIN, PULL_SILENCE, PULL_WITHIN, TELL_EVERY},
    lines::Lines,
    path,
    progress::{Pulled, Step},
    words,
};
use futures_util::StreamExt as _;
use hyper::Method;
use std::sync::{Arc, OnceLock};
use tokio::time::{Instant, timeout};

const PULL: &str = "pull the image";
const IMPORT: &str = "import the image";
/// The API that only Podman has, of any version since 4.
const PODMANS_OWN: &str = "/v4.0.0/libpod";

impl Engine {
    pub async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        self.find(Ask::new("inspect the image", Method::GET, path::image(name)?)).await
    }

    /// Fetches an image from where its name says; tells how far it is, in words. `NotFound`: there is none, or
    /// it is not for us.
    pub async fn pull(&self, name: &str, tell: &(dyn Fn(&str) + Send + Sync)) -> Result<(), EngineError> {
        timeout(PULL_WITHIN, self.pulled(name, tell)).await.unwrap_or_else(|_| Err(late(PULL, PULL_WITHIN)))
    }

    /// Makes an image `name:tag` of a root file system as a tar archive.
    pub async fn import(&self, name: &str, tag: &str, tar: Tar) -> Result<(), EngineError> {
        let failure = Arc::new(OnceLock::new());
        let seen = failure.clone();
        let tar = tar.inspect(move |piece| {
            if let Err(error) = piece {
                // The first one counts.
                seen.get_or_init(|| words::short(&error.to_string()));
            }
        });
        let ask =
            |path: String| Ask::new(IMPORT, Method::POST, path).within(IMPORT_WITHIN).tar(Box::pin(tar));
        let image = path::value(&format!("{name}:{tag}"));
        let answer = if self.agreement().await?.podman {
            // What it takes by Docker's address, it leaves in its temporary directory for ever.
            self.ask_plainly(ask(format!("{PODMANS_OWN}/images/import?reference={image}"))).await
        } else {
            let tag = path::value(tag);
            self.ask(ask(format!("/images/create?fromSrc=-&repo={image}&tag={tag}"))).await
        };
        let answer = match answer {
            // A connection that we broke ourselves is not the engine's fault.
            Err(error) => {
                return Err(match failure.get() {
                    Some(why) => EngineError::Failed { what: IMPORT, message: format!("its files: {why}") },
                    None => error,
                });
            }
            Ok(answer) => answer,
        };
        answer
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
            .try_for_each(|line| check(IMPORT, &parsed(IMPORT, line)?))
    }

    async fn pulled(&self, name: &str, tell: &(dyn Fn(&str) + Send + Sync)) -> Result<(), EngineError> {
        let name = tagged(name);
        let path = format!("/images/create?fromImage={}", path::value(&name));
        let body = self.open(Ask::new(PULL, Method::POST, path).within(PULL_SILENCE)).await?;
        let mut lines = Lines::of(self, PULL, body, Some(PULL_SILENCE));
        let mut pulled = Pulled::default();
        let mut told: Option<Instant> = None;
        while let Some(line) = lines.next().await? {
            let step: Step = parsed(PULL, &line)?;
            check(PULL, &step)?;
            pulled.hear(&step);
            if told.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
                tell(&pulled.text(&name));
                told = Some(Instant::now());
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
fn tagged(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    if last.contains([':', '@']) { name.to_owned() } else { format!("{name}:latest") }
}

fn check(what: &'static str, step: &Step) -> Result<(), EngineError> {
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
            assert_eq!(tagged(name), full);
        }
    }
}
