//! Classifies the errors of engines about images.

use super::super::engine::EngineError;
use crate::{DriverError, local::images::ImageError};

/// Messages of engines and registries for a missing image or missing access.
const MISSING: [&str; 10] = [
    "manifest unknown",
    "manifest for",
    "name unknown",
    "not found",
    "no such image",
    "image not known",
    "pull access denied",
    "repository does not exist",
    "access to the resource is denied",
    "unauthorized",
];
/// Messages of network failures, which may contain one of `MISSING`.
const NETWORK: [&str; 6] =
    ["dial tcp", "no such host", "connection refused", "i/o timeout", "tls handshake", "server misbehaving"];

/// Messages for a host name that does not resolve.
const NOWHERE: [&str; 3] = ["no such host", "server misbehaving", "name resolution"];

impl ImageError {
    /// Classifies a failed pull by its message: engines have no codes for it.
    pub fn of_pull(error: EngineError) -> Self {
        let message = error.to_string();
        let lower = message.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        match error {
            EngineError::NotFound(why) | EngineError::Conflict(why) if !says(&NETWORK) => {
                Self::Missing { why }
            }
            EngineError::Refused { message, .. } | EngineError::Failed { message, .. }
                if says(&MISSING) && !says(&NETWORK) =>
            {
                Self::Missing { why: message }
            }
            EngineError::Failed { .. } if says(&["no space left on device"]) => Self::DiskFull,
            // A host name that does not resolve stays so: fail at once instead of retrying.
            EngineError::NotFound(message) | EngineError::Failed { message, .. } if says(&NOWHERE) => {
                Self::Failed { message: format!("could not pull the image: {message}") }
            }
            EngineError::Refused { .. } => Self::Missing { why: message },
            EngineError::NotFound(_)
            | EngineError::Conflict(_)
            | EngineError::Failed { .. }
            | EngineError::Unreachable { .. }
            | EngineError::TimedOut { .. }
            | EngineError::InvalidResponse { .. }
            | EngineError::UnsupportedVersion { .. } => Self::Unavailable { message },
        }
    }

    /// Classifies a failed import.
    pub fn of_import(error: EngineError) -> Self {
        Self::of_driver(DriverError::from(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_image_is_told_from_a_network_failure() {
        let failed = |text: &str| EngineError::Failed { what: "pull", message: text.to_owned() };
        let missing = |error| matches!(ImageError::of_pull(error), ImageError::Missing { .. });
        for text in [
            "manifest for alpine:9 not found: manifest unknown: manifest unknown",
            "pull access denied for x, repository does not exist or may require 'docker login'",
            "initializing source docker://localhost/x:latest: reading manifest latest: name unknown",
        ] {
            assert!(missing(failed(text)), "{text}");
        }
        for text in [
            "Get \"http://127.0.0.1:5000/v2/\": dial tcp 127.0.0.1:5000: connect: connection refused",
            "unexpected EOF",
        ] {
            assert!(matches!(ImageError::of_pull(failed(text)), ImageError::Unavailable { .. }), "{text}");
        }
        for text in [
            "Get \"https://registry/v2/\": dial tcp: lookup registry: no such host",
            "dial tcp: lookup x on 127.0.0.53:53: server misbehaving: not found",
        ] {
            let ImageError::Failed { message } = ImageError::of_pull(failed(text)) else { panic!("{text}") };
            assert!(message.ends_with(text), "{message}");
        }
        assert!(missing(EngineError::NotFound("no such image".into())));
        assert_eq!(ImageError::of_pull(failed("write /x: no space left on device")), ImageError::DiskFull);
        let timed_out = EngineError::TimedOut { what: "pull", after_ms: 1 };
        assert!(matches!(ImageError::of_pull(timed_out), ImageError::Unavailable { .. }));
    }
}
