//! One key per purpose, all of them made from the deployment's secret key: what is signed or encrypted for one
//! purpose is worth nothing for another.

use hkdf::Hkdf;
use sha2::Sha256;

/// The key of a purpose (HKDF-SHA256, RFC 5869). The same on every pod of a deployment.
#[expect(clippy::expect_used, reason = "HKDF gives up to 255 times 32 bytes")]
pub(crate) fn of_purpose(secret: &[u8; 32], purpose: &str) -> [u8; 32] {
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(None, secret).expand(purpose.as_bytes(), &mut key).expect("32 bytes are few enough");
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_deployments_have_keys_of_their_own_that_stay() {
        let key = of_purpose(&[7; 32], "one");
        assert_eq!(key, of_purpose(&[7; 32], "one"));
        assert_ne!(key, of_purpose(&[7; 32], "other"));
        assert_ne!(key, of_purpose(&[8; 32], "one"));
        assert_ne!(key, [7; 32]);
    }
}
