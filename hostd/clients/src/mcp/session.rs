//! Sessions. The id of a session is everything there is of it: revision of the protocol, time and a random part, signed
//! together with the hash of the credential that made it. So a restart of hostd loses none, and no other credential can
//! use one.

use super::{limits, revision::Revision};
use crate::ClientKey;
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};

const PURPOSE: &str = "mcp session";
/// Changes with the form of the id.
const FORM: u8 = 1;
const NONCE_BYTES: usize = 16;
const BODY_BYTES: usize = 2 + 8 + NONCE_BYTES;
const SIGNATURE_BYTES: usize = 32;

/// Hash of the credential of a request.
pub type CredentialHash = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    pub revision: Revision,
    pub created_ms: u64,
    nonce: [u8; NONCE_BYTES],
}

impl Session {
    pub fn new(revision: Revision, now_ms: u64) -> Self {
        // The random part of a ULID is 80 bits; the time in it does no harm.
        Self { revision, created_ms: now_ms, nonce: ulid::Ulid::generate().to_bytes() }
    }

    /// Returns the id for the client. Only this credential can use it.
    pub fn id(&self, key: &ClientKey, credential: &CredentialHash) -> String {
        let body = self.body();
        let mut whole = body.to_vec();
        whole.extend(key.sign(PURPOSE, &[&body, credential]));
        BASE64.encode(whole)
    }

    /// Returns the session of an id; `None` where it is unknown, of another credential or too old.
    pub fn open(key: &ClientKey, id: &str, credential: &CredentialHash, now_ms: u64) -> Option<Self> {
        if id.len() > limits::SIGNED_ID_MAX_BYTES {
            return None;
        }
        let whole = BASE64.decode(id).ok().filter(|whole| whole.len() == BODY_BYTES + SIGNATURE_BYTES)?;
        let (body, signature) = whole.split_at(BODY_BYTES);
        if !key.verify(PURPOSE, &[body, credential], signature) || body[0] != FORM {
            return None;
        }
        let created_ms = u64::from_be_bytes(body[2..10].try_into().ok()?);
        let revision = Revision::from_number(body[1])?;
        let session = Self { revision, created_ms, nonce: body[10..].try_into().ok()? };
        (now_ms.saturating_sub(created_ms) <= limits::SESSION_MAX_MS).then_some(session)
    }

    /// Tells the sessions of one credential apart.
    pub fn nonce(&self) -> &[u8] {
        &self.nonce
    }

    fn body(&self) -> [u8; BODY_BYTES] {
        let mut body = [0; BODY_BYTES];
        body[0] = FORM;
        body[1] = self.revision.number();
        body[2..10].copy_from_slice(&self.created_ms.to_be_bytes());
        body[10..].copy_from_slice(&self.nonce);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    #[test]
    fn a_session_reads_back_for_its_credential_only_and_for_a_month() {
        let (key, ours, other) = (ClientKey::new(&[1; 32]), [7; 32], [8; 32]);
        let session = Session::new(Revision::LATEST, NOW_MS);
        let id = session.id(&key, &ours);
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        assert_eq!(Session::open(&key, &id, &ours, NOW_MS), Some(session));
        assert_eq!(Session::open(&key, &id, &other, NOW_MS), None, "another credential");
        assert_eq!(Session::open(&ClientKey::new(&[2; 32]), &id, &ours, NOW_MS), None, "another instance");
        assert_eq!(Session::open(&key, &id, &ours, NOW_MS + limits::SESSION_MAX_MS), Some(session));
        assert_eq!(Session::open(&key, &id, &ours, NOW_MS + limits::SESSION_MAX_MS + 1), None, "too old");
    }

    #[test]
    fn no_changed_id_is_a_session() {
        let (key, ours) = (ClientKey::new(&[1; 32]), [7; 32]);
        let id = Session::new(Revision::LATEST, NOW_MS).id(&key, &ours);
        for at in 0..id.len() {
            let mut changed = id.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(Session::open(&key, &changed, &ours, NOW_MS), None, "{changed}");
        }
        for odd in ["", "A", "not base64 !", &id[1..], &id.repeat(20)] {
            assert_eq!(Session::open(&key, odd, &ours, NOW_MS), None, "{odd}");
        }
    }
}
