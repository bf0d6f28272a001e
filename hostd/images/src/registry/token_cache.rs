//! Tokens, and what registries want instead of them, by registry, repository and login.

use super::{login::RegistryLogin, token::Token};
use crate::{Digest, ImageReference, digest::Hasher, limits::TOKENS_MAX};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use zeroize::Zeroizing;

/// Whose requests an authorization is for. Of the login it has a digest.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TokenKey {
    registry: String,
    repository: String,
    login: Option<Digest>,
}

/// How requests are authorized.
#[derive(Clone, PartialEq, Eq)]
pub enum Authorization {
    Anonymous,
    /// With the login itself.
    Basic,
    Bearer(Zeroizing<String>),
}

struct Cached {
    authorization: Authorization,
    until: Instant,
}

#[derive(Default)]
pub struct TokenCache(Mutex<HashMap<TokenKey, Cached>>);

impl TokenKey {
    pub fn of(image: &ImageReference, login: Option<&RegistryLogin>) -> Self {
        let digest = |login: &RegistryLogin| {
            let mut hasher = Hasher::default();
            // A name has no NUL, so that no two logins are hashed alike.
            for part in [login.username.as_bytes(), &[0], login.password.as_bytes()] {
                hasher.update(part);
            }
            hasher.finish()
        };
        Self {
            registry: image.registry_host().to_ascii_lowercase(),
            repository: image.repository().to_owned(),
            login: login.map(digest),
        }
    }
}

impl TokenCache {
    /// Returns what is known now; nothing known is `Anonymous`.
    pub fn get(&self, key: &TokenKey, now: Instant) -> Authorization {
        let cached = self.lock();
        let cached = cached.get(key).filter(|cached| now < cached.until);
        cached.map_or(Authorization::Anonymous, |cached| cached.authorization.clone())
    }

    pub fn put_token(&self, key: &TokenKey, token: &Token, now: Instant) {
        self.put(
            key,
            Cached { authorization: Authorization::Bearer(token.text.clone()), until: now + token.life },
            now,
        );
    }

    /// Remembers for as long as a token would live that the registry wants the login.
    pub fn put_basic(&self, key: &TokenKey, now: Instant) {
        let until = now + std::time::Duration::from_secs(crate::limits::TOKEN_LIFE_MAX_S);
        self.put(key, Cached { authorization: Authorization::Basic, until }, now);
    }

    pub fn remove(&self, key: &TokenKey) {
        self.lock().remove(key);
    }

    fn put(&self, key: &TokenKey, cached: Cached, now: Instant) {
        let mut all = self.lock();
        if all.len() >= TOKENS_MAX && !all.contains_key(key) {
            all.retain(|_, cached| now < cached.until);
        }
        if all.len() >= TOKENS_MAX
            && !all.contains_key(key)
            && let Some(first) = all.iter().min_by_key(|(_, cached)| cached.until).map(|(key, _)| key.clone())
        {
            all.remove(&first);
        }
        all.insert(key.clone(), cached);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenKey, Cached>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(image: &str, password: Option<&str>) -> TokenKey {
        let login = password
            .map(|password| RegistryLogin { username: "u".into(), password: password.to_owned().into() });
        TokenKey::of(&ImageReference::parse(image).expect(image), login.as_ref())
    }

    fn token(text: &str, seconds: u64) -> Token {
        Token { text: text.to_owned().into(), life: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_token_is_for_one_registry_repository_and_login_until_it_ends() {
        let (cache, now) = (TokenCache::default(), Instant::now());
        let own = key("ghcr.io/a:1", Some("one"));
        cache.put_token(&own, &token("t", 10), now);
        let bearer = Authorization::Bearer("t".to_owned().into());
        assert!(cache.get(&key("GHCR.io/a:2", Some("one")), now) == bearer);
        for other in [key("ghcr.io/b", Some("one")), key("quay.io/a", Some("one")), key("ghcr.io/a", None)] {
            assert!(cache.get(&other, now) == Authorization::Anonymous);
        }
        assert!(cache.get(&key("ghcr.io/a", Some("two")), now) == Authorization::Anonymous);
        assert!(cache.get(&own, now + Duration::from_secs(10)) == Authorization::Anonymous);
        cache.put_basic(&own, now);
        assert!(cache.get(&own, now) == Authorization::Basic);
        cache.remove(&own);
        assert!(cache.get(&own, now) == Authorization::Anonymous);
    }

    #[test]
    fn a_bounded_number_of_tokens_is_kept_and_the_first_to_end_goes() {
        let (cache, now) = (TokenCache::default(), Instant::now());
        for number in 0..TOKENS_MAX + 5 {
            cache.put_token(
                &key(&format!("ghcr.io/a{number}"), None),
                &token("t", 1_000 - number as u64),
                now,
            );
        }
        assert_eq!(cache.lock().len(), TOKENS_MAX);
        assert!(cache.get(&key("ghcr.io/a0", None), now) != Authorization::Anonymous);
        assert!(
            cache.get(&key(&format!("ghcr.io/a{}", TOKENS_MAX - 1), None), now) == Authorization::Anonymous
        );
    }
}
