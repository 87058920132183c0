//! Testnet wallets: a fresh secp256k1 key with its address, and the judging of addresses that
//! callers bring. Addresses are Ethereum's, with the checksum of EIP-55.

use std::fmt;

use k256::{SecretKey, elliptic_curve::sec1::ToSec1Point as _};
use sha3::{Digest as _, Keccak256};

/// A new key pair. The private key is shown to its owner once and stored nowhere.
pub struct Wallet {
    /// `0x` and 40 hex digits, EIP-55.
    pub address: String,
    /// What spends from the address.
    pub private_key: PrivateKey,
}

/// A private key as text: `0x` and 64 lower-case hex digits. It has neither `Debug` nor `Display`,
/// so that it cannot reach a log by accident.
pub struct PrivateKey(String);

impl PrivateKey {
    /// The key, for the one answer that shows it.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }
}

impl Wallet {
    /// A wallet whose key comes from the operating system's randomness.
    #[must_use]
    pub fn provision() -> Self {
        loop {
            let mut random = [0; 32];
            #[expect(
                clippy::expect_used,
                reason = "without randomness no key may be made; the system always has some"
            )]
            getrandom::fill(&mut random).expect("the operating system gives randomness");
            // 0 and what exceeds the curve's order are no keys: about one draw in 2^128.
            if let Some(wallet) = Self::from_private(&random) {
                return wallet;
            }
        }
    }

    fn from_private(private: &[u8; 32]) -> Option<Self> {
        let public = SecretKey::from_slice(private).ok()?.public_key().to_sec1_point(false);
        let (_tag, point) = public.as_bytes().split_first()?;
        let address = hex(Keccak256::digest(point).get(12..)?);
        Some(Self { address: eip55(&address), private_key: PrivateKey(format!("0x{}", hex(private))) })
    }
}

impl fmt::Debug for Wallet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wallet").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Reads an address and gives its EIP-55 spelling. All-lower and all-upper digits carry no checksum
/// and are taken; mixed case must carry the right one, or a digit was mistyped.
///
/// # Errors
/// What an address must be, to follow the field's name.
pub fn judge_address(text: &str) -> Result<String, &'static str> {
    let digits = text
        .strip_prefix("0x")
        .filter(|digits| digits.len() == 40 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
        .ok_or("must be an address: 0x and 40 hex digits")?;
    let right = eip55(&digits.to_ascii_lowercase());
    let has_lower = digits.bytes().any(|b| b.is_ascii_lowercase());
    let has_upper = digits.bytes().any(|b| b.is_ascii_uppercase());
    if has_lower && has_upper && right != text {
        return Err("has a wrong EIP-55 checksum: a digit is mistyped");
    }
    Ok(right)
}

/// EIP-55: a letter is upper case where the hash of the lower-case digits has a nibble of 8 or more.
fn eip55(lower: &str) -> String {
    let hash = hex(&Keccak256::digest(lower.as_bytes()));
    let cased = lower.chars().zip(hash.chars());
    let cased = cased.map(|(digit, nibble)| if nibble >= '8' { digit.to_ascii_uppercase() } else { digit });
    "0x".chars().chain(cased).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The test cases of EIP-55 itself: all caps, all lower, normal.
    const EIP55: [&str; 8] = [
        "0x52908400098527886E0F7030069857D2E4169EE7",
        "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
        "0xde709f2102306220921060314715629080e2fb77",
        "0x27b1fdb04752bbc536007a920d24acb045561c26",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
    ];

    fn private(last: u8) -> [u8; 32] {
        let mut key = [0; 32];
        key[31] = last;
        key
    }

    #[test]
    fn a_known_key_has_its_known_address() {
        let wallet = Wallet::from_private(&private(1)).unwrap();
        assert_eq!(wallet.address, "0x7E5F4552091A69125d5DfCb7b8C2659029395Bdf");
        assert_eq!(
            Wallet::from_private(&private(2)).unwrap().address,
            "0x2B5AD5c4795c026514f8317c7a215E218DcCD6cF"
        );
        assert_eq!(wallet.private_key.into_text(), format!("0x{}1", "0".repeat(63)));
    }

    #[test]
    fn zero_and_the_order_of_the_curve_are_no_keys() {
        assert!(Wallet::from_private(&private(0)).is_none());
        assert!(Wallet::from_private(&[0xFF; 32]).is_none());
    }

    #[test]
    fn a_provisioned_wallet_holds_a_fresh_key_that_debug_does_not_show() {
        let (one, other) = (Wallet::provision(), Wallet::provision());
        assert_eq!(judge_address(&one.address).unwrap(), one.address);
        assert_ne!(one.address, other.address);
        assert_eq!(format!("{one:?}"), format!("Wallet {{ address: {:?}, .. }}", one.address));
        let key = one.private_key.into_text();
        assert!(key.len() == 66 && key.starts_with("0x"));
    }

    #[test]
    fn addresses_are_given_back_with_their_checksum() {
        for address in EIP55 {
            assert_eq!(judge_address(address), Ok(address.to_owned()));
            let digits = &address[2..];
            assert_eq!(judge_address(&format!("0x{}", digits.to_lowercase())), Ok(address.to_owned()));
            assert_eq!(judge_address(&format!("0x{}", digits.to_uppercase())), Ok(address.to_owned()));
        }
    }

    #[test]
    fn a_wrong_checksum_and_other_shapes_are_refused() {
        assert!(judge_address("0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed").is_err());
        let good = EIP55[4];
        for bad in ["", "0x", &good[2..], &good[..41], &good.replacen("0x", "0X", 1), &format!("{good}0")] {
            assert!(judge_address(bad).is_err(), "{bad}");
        }
        assert!(judge_address(&format!("0x{}é", "0".repeat(38))).is_err());
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic_and_what_passes_passes_again(text in "(0x)?[0-9a-fA-F]{38,41}|.{0,50}") {
            if let Ok(address) = judge_address(&text) {
                prop_assert_eq!(judge_address(&address), Ok(address.clone()));
            }
        }
    }
}
