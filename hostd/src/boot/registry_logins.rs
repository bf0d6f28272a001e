//! The logins of tenants at image registries: secrets named `registry.HOST`, with a value `user:password`.

use hostd_drivers::LoginLookup;
use hostd_images::RegistryLogin;
use hostd_store::{Clock, SecretError, Secrets};
use protocol::api::{Label, SecretName, SecretRef};
use std::sync::Arc;

/// Begins the name of a secret with the login at a registry. The colon before a port is written as `_`.
const PREFIX: &str = "registry.";

/// Looks logins up when they are used: a new value is in force for the next pull.
pub fn registry_logins(secrets: Secrets, clock: Clock) -> LoginLookup {
    Arc::new(move |tenant, registry| {
        let secrets = secrets.clone();
        Box::pin(async move { find_login(&secrets, &tenant, &registry, clock.now_ms()).await })
    })
}

async fn find_login(
    secrets: &Secrets,
    tenant: &str,
    registry: &str,
    now_ms: u64,
) -> Result<Option<RegistryLogin>, String> {
    // A registry or tenant that cannot be the name of a secret has none.
    let (Ok(tenant), Some(reference)) = (Label::parse(tenant), secret_of(registry)) else { return Ok(None) };
    let value = match secrets.resolve(&tenant, &reference).await {
        Ok(value) => value,
        Err(SecretError::Missing { .. }) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    secrets.note_use(&tenant, &reference, now_ms);
    let name = reference.name();
    let login = parse_login(value.as_str());
    login.map(Some).ok_or_else(|| format!("the secret {name} must be a user name, a colon and a password"))
}

fn secret_of(registry: &str) -> Option<SecretRef> {
    let name = format!("{PREFIX}{}", registry.replace(':', "_"));
    SecretName::parse(&name).ok().map(SecretRef::new)
}

fn parse_login(value: &str) -> Option<RegistryLogin> {
    let (username, password) = value.trim_end_matches(['\r', '\n']).split_once(':')?;
    let (username, password) = (username.to_owned(), password.to_owned().into());
    Some(RegistryLogin { username, password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_of_a_registry_has_its_name() {
        for (registry, expected) in [
            ("docker.io", Some("registry.docker.io")),
            ("127.0.0.1:5000", Some("registry.127.0.0.1_5000")),
            ("a/b", None),
        ] {
            let found = secret_of(registry);
            assert_eq!(found.as_ref().map(|found| found.name().as_str()), expected, "{registry}");
        }
    }

    #[test]
    fn a_login_is_a_user_and_a_password_which_may_have_colons() {
        for (value, expected) in [("ann:a:b\n", Some(("ann", "a:b"))), (":x", Some(("", "x"))), ("ann", None)]
        {
            let found = parse_login(value);
            let found = found.as_ref().map(|login| (login.username.as_str(), login.password.as_str()));
            assert_eq!(found, expected, "{value:?}");
        }
    }
}
