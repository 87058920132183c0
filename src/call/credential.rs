//! What a key looks like: `wpa_` (agent) or `wpo_` (owner), 43 base62 digits that carry 32 random
//! bytes, and a checksum of 6 more. Secret scanners can know it, and a mistyped key is refused
//! without asking the database.

use std::fmt;

use sha2::{Digest as _, Sha256};

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PREFIX_LEN: usize = 4;
const RANDOM_DIGITS: usize = 43;
const CHECK_DIGITS: usize = 6;
/// Characters of a whole key.
pub const KEY_LEN: usize = PREFIX_LEN + RANDOM_DIGITS + CHECK_DIGITS;

/// Whose key it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `wpa_…`: acts as one agent.
    Agent,
    /// `wpo_…`: owns agents.
    Owner,
}

impl Kind {
    /// The four characters such a key begins with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Agent => "wpa_",
            Self::Owner => "wpo_",
        }
    }
}

/// A whole key. Only [`Secret::expose`] gives its text; `Debug` shows the prefix alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new key from the operating system's randomness.
    #[must_use]
    pub fn mint(kind: Kind) -> Self {
        let mut random = [0; 32];
        #[expect(
            clippy::expect_used,
            reason = "without randomness no key may be made; the system always has some"
        )]
        getrandom::fill(&mut random).expect("the operating system gives randomness");
        Self::from_random(kind, random)
    }

    /// Reads a key, checking prefix, length, alphabet and checksum; `None` when any is wrong. A key
    /// that passes is well formed, not yet known.
    #[must_use]
    pub fn parse(text: &str) -> Option<(Kind, Self)> {
        let kind = [Kind::Agent, Kind::Owner].into_iter().find(|kind| text.starts_with(kind.prefix()))?;
        let digits = text.as_bytes().get(PREFIX_LEN..)?;
        if text.len() != KEY_LEN || !digits.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        let (signed, check) = text.split_at(KEY_LEN - CHECK_DIGITS);
        (checksum(signed) == check.as_bytes()).then(|| (kind, Self(text.to_owned())))
    }

    /// The whole key, to be handed to its owner once.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// SHA-256 of the whole text: what is stored and looked up. The look-up needs no constant-time
    /// comparison, and the hash no salt or stretching: the index compares hashes of 256 random
    /// bits, so timing tells about a hash that nobody can steer towards a stored one.
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The prefix and 6 more characters: enough for people to tell keys apart.
    #[must_use]
    pub fn shown_prefix(&self) -> &str {
        self.0.get(..PREFIX_LEN + 6).unwrap_or_default()
    }

    fn from_random(kind: Kind, random: [u8; 32]) -> Self {
        let mut text = kind.prefix().to_owned();
        text.extend(base62::<RANDOM_DIGITS>(random).map(char::from));
        text.extend(checksum(&text).map(char::from));
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({}…)", self.0.get(..PREFIX_LEN).unwrap_or_default())
    }
}

/// CRC-32 rather than a cut hash: it finds every single wrong character and every swap of two
/// neighbours, not merely most of them.
fn checksum(text: &str) -> [u8; CHECK_DIGITS] {
    base62::<CHECK_DIGITS>(crc32(text.as_bytes()).to_be_bytes())
}

/// The big-endian number in exactly `DIGITS` base62 digits, by long division.
fn base62<const DIGITS: usize>(mut number: impl AsMut<[u8]>) -> [u8; DIGITS] {
    let number = number.as_mut();
    let mut digits = [b'0'; DIGITS];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0_u32;
        for byte in number.iter_mut() {
            let dividend = (rest << 8) | u32::from(*byte);
            *byte = (dividend / 62) as u8;
            rest = dividend % 62;
        }
        *digit = BASE62[rest as usize];
    }
    digits
}

/// The CRC-32 of zip, PNG and Ethernet (reflected polynomial 0xEDB88320).
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| (crc >> 8) ^ CRC[usize::from(crc as u8 ^ byte)])
}

/// What a byte makes of the CRC-32: it is computed for every key that is presented.
const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_kind() -> impl Strategy<Value = Kind> {
        prop_oneof![Just(Kind::Agent), Just(Kind::Owner)]
    }

    #[test]
    fn the_checksum_is_the_common_crc_32() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }

    #[test]
    fn the_format_stays_as_published() {
        let secret = Secret::from_random(Kind::Agent, [0; 32]);
        assert!(secret.expose().starts_with(&format!("wpa_{}", "0".repeat(43))));
        assert_eq!(base62::<6>(61_u32.to_be_bytes()), *b"00000z");
        assert_eq!(base62::<6>(62_u32.to_be_bytes()), *b"000010");
        assert_eq!(secret.shown_prefix(), "wpa_000000");
    }

    #[test]
    fn a_key_is_never_shown_by_debug() {
        let secret = Secret::mint(Kind::Owner);
        assert_eq!(format!("{secret:?}"), "Secret(wpo_…)");
    }

    #[test]
    fn two_minted_keys_differ() {
        assert_ne!(Secret::mint(Kind::Agent).expose(), Secret::mint(Kind::Agent).expose());
    }

    #[test]
    fn other_shapes_are_refused() {
        let good = Secret::mint(Kind::Agent).expose().to_owned();
        for bad in ["", "wpa_", "wpx_", "wpa_é", &good[..52], &format!("{good}0"), &format!(" {good}")] {
            assert!(Secret::parse(bad).is_none(), "{bad}");
        }
        assert!(Secret::parse(&good.to_uppercase()).is_none());
    }

    proptest! {
        #[test]
        fn a_minted_key_is_read_back(kind in any_kind(), random: [u8; 32]) {
            let secret = Secret::from_random(kind, random);
            prop_assert_eq!(secret.expose().len(), KEY_LEN);
            let (read, again) = Secret::parse(secret.expose()).unwrap();
            prop_assert_eq!(read, kind);
            prop_assert_eq!(again.hash(), secret.hash());
        }

        #[test]
        fn any_single_character_typo_is_refused(
            kind in any_kind(), random: [u8; 32], at in 0..KEY_LEN, wrong in 0x20_u8..0x7F,
        ) {
            let mut bytes = Secret::from_random(kind, random).0.into_bytes();
            prop_assume!(bytes[at] != wrong);
            bytes[at] = wrong;
            prop_assert!(Secret::parse(std::str::from_utf8(&bytes).unwrap()).is_none());
        }

        #[test]
        fn swapped_neighbours_are_refused(random: [u8; 32], at in 4..KEY_LEN - 1) {
            let mut bytes = Secret::from_random(Kind::Agent, random).0.into_bytes();
            prop_assume!(bytes[at] != bytes[at + 1]);
            bytes.swap(at, at + 1);
            prop_assert!(Secret::parse(std::str::from_utf8(&bytes).unwrap()).is_none());
        }

        #[test]
        fn no_text_causes_a_panic(text in ".{0,60}", tail in "wp[ao]_.{45,52}") {
            let _ = Secret::parse(&text);
            let _ = Secret::parse(&tail);
        }
    }
}
