//! A secret in every form it could leave in.

use sha2::{Digest as _, Sha256};

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Characters of a key that are shown on purpose, to tell keys apart.
const SHOWN: usize = 10;

/// What to look for, in lower case: search in lower case too, and the case it left in does not matter.
/// Halves of the secret are looked for as the whole is, since a log may cut long lines.
pub fn of(secret: &str) -> Vec<String> {
    let hidden = &secret[SHOWN..];
    let (first, second) = hidden.split_at(hidden.len() / 2);
    let mut forms: Vec<String> =
        [hidden, first, second].iter().flat_map(|part| of_bytes(part.as_bytes())).collect();
    forms.extend([hidden, first, second].map(|part| part.chars().rev().collect()));
    // A wallet's key is a number: its bytes count as much as its digits.
    let digits = secret.trim_start_matches("0x");
    if digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        let bytes: Vec<u8> =
            (0..64).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
        forms.extend(of_bytes(&bytes[SHOWN / 2..]).into_iter().skip(1));
    }
    forms.into_iter().map(|form| form.to_lowercase()).collect()
}

/// The SHA-256 of the whole secret, which is stored: in the same forms.
pub fn of_hash(secret: &str) -> Vec<String> {
    of_bytes(&Sha256::digest(secret.as_bytes())).into_iter().skip(1).map(|form| form.to_lowercase()).collect()
}

/// The hexadecimal text of that hash, which signs notices: in the same forms.
pub fn of_signing_key(secret: &str) -> Vec<String> {
    let hash = Sha256::digest(secret.as_bytes());
    let key: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    of_bytes(key.as_bytes()).into_iter().map(|form| form.to_lowercase()).collect()
}

/// As text, hexadecimal, percent-encoded, as a list of numbers, and in both Base64 at each of the three places
/// that the bytes before it can shift it to.
fn of_bytes(bytes: &[u8]) -> Vec<String> {
    let list = |separator: &str| bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(separator);
    let mut forms = vec![
        String::from_utf8_lossy(bytes).into_owned(),
        bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        bytes.iter().map(|byte| format!("%{byte:02x}")).collect(),
        bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect(),
        list(","),
        list(", "),
    ];
    for alphabet in [STANDARD, URL_SAFE] {
        forms.extend((0..3).map(|shift| base64(bytes, shift, alphabet)));
    }
    forms
}

/// The digits that `bytes` alone decide when `shift` bytes stand before them.
fn base64(bytes: &[u8], shift: usize, alphabet: &[u8; 64]) -> String {
    let padded: Vec<u8> = [0].repeat(shift).into_iter().chain(bytes.iter().copied()).collect();
    let digit = |at: usize| {
        let (byte, bit) = (at * 6 / 8, at * 6 % 8);
        let pair = u16::from(padded[byte]) << 8 | u16::from(padded.get(byte + 1).copied().unwrap_or(0));
        char::from(alphabet[usize::from(pair >> (10 - bit) & 0x3F)])
    };
    ((shift * 8).div_ceil(6)..padded.len() * 8 / 6).map(digit).collect()
}

#[test]
fn a_secret_is_known_again_in_every_form() {
    let secret = "wpa_abcdefGHIJKLMNOPQR";
    let forms = of(secret);
    // From `printf %s | base64`, with nothing, one and two characters before it.
    for seen in [
        "d3BhX2FiY2RlZkdISUpLTE1OT1BRUg==",
        "IHdwYV9hYmNkZWZHSElKS0xNTk9QUVI=",
        "ICB3cGFfYWJjZGVmR0hJSktMTU5PUFFS",
        "wpa%5Fabcdefghijklmnopqr",
        "WPA_ABCDEFGHIJKLMNOPQR",
        "4748494a4b4c4d4e4f505152",
        "RQPONMLKJIHG",
        "[71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82]",
    ] {
        let seen = seen.to_lowercase();
        assert!(forms.iter().any(|form| seen.contains(form)), "{seen}");
    }
    assert!(!forms.iter().any(|form| "shown_prefix: wpa_abcdef".contains(form)));
}
