//! The client against a scripted registry on loopback, and against a real one where that is installed.

mod authorization;
mod blobs;
mod fake_registry;
mod manifests;
mod real_registry;
mod redirects;
mod retries;

use super::{RegistryClient, RegistryError, RegistryLogin, waits::Waits};
use crate::{Descriptor, Digest, ImageReference, RegistryAllowlist};
use fake_registry::FakeRegistry;
use hostd_core::Backoff;
use hostd_net::outbound::{DnsResolver, OutboundConnector};
use std::{net::IpAddr, time::Duration};

const QUICK: Backoff = Backoff { attempts_max: 3, first_ms: 1, wait_max_ms: 2, retry_after_max_ms: 2_000 };
/// Long enough for any server that answers at all, unless a test waits for one that does not.
const PATIENT: Duration = Duration::from_secs(60);
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const PASSWORD: &str = "hunter2";

/// A client that may pull from these registries.
fn client(listed: &[&str]) -> RegistryClient {
    client_with(listed, PATIENT)
}

/// A client that waits so long for a server.
fn client_with(listed: &[&str], wait: Duration) -> RegistryClient {
    let waits = Waits { backoff: QUICK, head: wait, document: wait, stall_window: wait };
    let names = |name: &str| -> Vec<IpAddr> {
        let address = match name {
            "private.test" => "10.1.2.3",
            "other.test" | "registry.test" => "127.0.0.1",
            _ => return vec![],
        };
        vec![address.parse().expect("an address")]
    };
    let connector = OutboundConnector::with_resolver(DnsResolver::fixed(names));
    let listed = listed.iter().map(|one| (*one).to_owned()).collect();
    RegistryClient::with_waits(connector, RegistryAllowlist::new(listed), waits)
}

/// A client that may pull from one scripted registry.
fn client_of(registry: &FakeRegistry) -> RegistryClient {
    client(&[&registry.authority])
}

fn image(registry: &FakeRegistry, name: &str) -> ImageReference {
    ImageReference::parse(&format!("{}/{name}", registry.authority)).expect("a name")
}

fn login() -> RegistryLogin {
    RegistryLogin { username: "ann".into(), password: PASSWORD.to_owned().into() }
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Descriptor {
    Descriptor { media_type: media_type.to_owned(), digest: Digest::of(bytes), size: bytes.len() as u64 }
}

/// Checked by the compiler: pulls run on the threads of hostd.
#[allow(dead_code)]
fn verbs_are_send(client: &RegistryClient, image: &ImageReference, blob: &Descriptor) {
    fn is_send(_: impl Send) {}
    is_send(client.resolve(image, None));
    is_send(client.check(image, None));
    is_send(client.fetch_config(image, blob, None));
    is_send(client.fetch_blob(image, blob, None, std::path::Path::new(""), &|_| ()));
}

/// The text of an error, which has no credential.
fn text(error: &RegistryError) -> String {
    let text = format!("{error} {error:?}");
    for secret in [PASSWORD, "YW5u", "token-", "signature"] {
        assert!(!text.contains(secret), "{text}");
    }
    error.to_string()
}
