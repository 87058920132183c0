//! Seals what must be kept and never shown: nobody reads it in the database without the deployment's secret key.

use std::fmt;
use std::sync::Arc;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::{Digest, Sha256};

use super::{Error, Result};
use crate::keys;

/// Which key sealed it stands first.
const KEY_ID: usize = 4;

/// Seals and opens, with a key of its own. Cheap to clone.
#[derive(Clone)]
pub struct Seal(Arc<Keyed>);

struct Keyed {
    id: [u8; KEY_ID],
    key: LessSafeKey,
}

impl fmt::Debug for Seal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Seal")
    }
}

impl Seal {
    /// The one of a deployment, by its secret key.
    #[expect(clippy::expect_used, reason = "the key is as long as the cipher's")]
    pub fn new(secret: &[u8; 32]) -> Seal {
        let key = keys::of_purpose(secret, "waypost seal");
        let digest = Sha256::new_with_prefix("waypost seal id").chain_update(key).finalize();
        let mut id = [0; KEY_ID];
        id.copy_from_slice(&digest[..KEY_ID]);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &key).expect("32 bytes");
        Seal(Arc::new(Keyed { id, key: LessSafeKey::new(key) }))
    }

    /// Seals `plain`. It opens only with the same `context`, which says whose it is.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn close(&self, context: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|error| Error::internal(error.to_string()))?;
        let mut sealed = plain.to_vec();
        let closed = self.0.key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(context),
            &mut sealed,
        );
        closed.map_err(|_| Error::internal("the cipher refused"))?;
        Ok([&self.0.id[..], &nonce, &sealed].concat())
    }

    /// Opens what was sealed.
    ///
    /// # Errors
    /// When it was sealed with another key or for another context, or was changed.
    pub fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>> {
        let wrong = || Error::internal("what is sealed does not open: another key, or another row's");
        let (id, rest) = sealed.split_at_checked(KEY_ID).ok_or_else(wrong)?;
        let (nonce, rest) = rest.split_at_checked(NONCE_LEN).ok_or_else(wrong)?;
        if id != self.0.id {
            return Err(wrong());
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| wrong())?;
        let mut text = rest.to_vec();
        let plain = self.0.key.open_in_place(nonce, Aad::from(context), &mut text).map_err(|_| wrong())?;
        Ok(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_only_with_its_key_in_its_context_and_unchanged() {
        let (seal, other) = (Seal::new(&[7; 32]), Seal::new(&[8; 32]));
        let sealed = seal.close(b"mine", b"a secret").unwrap();
        assert_eq!(seal.open(b"mine", &sealed).unwrap(), b"a secret");
        assert_ne!(seal.close(b"mine", b"a secret").unwrap(), sealed, "never the same twice");
        assert!(!sealed.windows(8).any(|part| part == b"a secret"));
        assert!(seal.open(b"theirs", &sealed).is_err());
        assert!(other.open(b"mine", &sealed).is_err());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(seal.open(b"mine", &changed).is_err(), "byte {place}");
            assert!(seal.open(b"mine", &sealed[..place]).is_err(), "cut at {place}");
        }
    }
}
