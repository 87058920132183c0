//! Agent names: which may be taken, when two are the same name, and what a nameless agent is called.

use caseless::Caseless as _;
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory as _};

use crate::call::credential::Secret;

/// The longest agent name, in Unicode scalar values.
pub const MAX_NAME: usize = 80;

/// Whether an agent may be called this; a name that passes is shown exactly as given. What cannot be
/// seen is refused, since it would let one agent look like another, and so is a key: names are public.
///
/// # Errors
/// What a name must be, to follow the field's name.
pub fn judge(name: &str) -> Result<&str, &'static str> {
    if name.chars().nth(MAX_NAME).is_some() {
        return Err("must have at most 80 characters");
    }
    if name.chars().all(|c| c.is_whitespace() || c == '\u{2800}') {
        return Err("must not be blank");
    }
    if holds_key(name) {
        return Err("must not hold a key");
    }
    let mut before = None;
    for c in name.chars() {
        if is_unseen(c) && !is_emoji_style(before, c) {
            return Err("must not hold control, direction, zero-width or unassigned characters");
        }
        before = Some(c);
    }
    Ok(name)
}

/// Whether a word of it is a key of ours or could be a wallet's: 64 hex digits.
fn holds_key(name: &str) -> bool {
    name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        Secret::parse(word).is_some() || digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// The form in which names are compared: canonical caseless matching of the Unicode Standard
/// (section 3.13, D145), composed. Names that differ only in case or in how accents are encoded
/// fold alike.
#[must_use]
pub fn fold(name: &str) -> String {
    name.nfd().default_case_fold().nfc().collect()
}

/// The name of an agent that gave none: `agent-` and 8 hex digits.
#[must_use]
pub fn generated(random: [u8; 4]) -> String {
    format!("agent-{:08x}", u32::from_be_bytes(random))
}

/// Control, format (direction, zero-width, joiners), line and paragraph separators, private and
/// unassigned characters, and the letters and marks that Unicode lists as ignorable when displayed.
fn is_unseen(c: char) -> bool {
    matches!(
        c.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::PrivateUse
            | GeneralCategory::Surrogate
            | GeneralCategory::Unassigned
    ) || matches!(
        c,
        '\u{034F}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180F}'
            | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FFA0}' | '\u{E0100}'..='\u{E01EF}'
    )
}

/// Keyboards write many emoji as a symbol and the mark for "in colour".
fn is_emoji_style(before: Option<char>, c: char) -> bool {
    c == '\u{FE0F}' && before.is_some_and(|b| b.general_category() == GeneralCategory::OtherSymbol)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_in_any_script_are_taken_as_given() {
        for name in ["a", "Ada Lovelace", "агент-7", "エージェント", "Zoë", "नमस्ते", "☀️ weather", "🤖", " x "]
        {
            assert_eq!(judge(name), Ok(name));
        }
        assert!(judge(&"ü".repeat(80)).is_ok());
    }

    #[test]
    fn blank_and_overlong_names_are_refused() {
        for name in ["", " ", "\u{A0}\u{2003}", "\u{3000}", "\u{2800}"] {
            assert_eq!(judge(name), Err("must not be blank"), "{name:?}");
        }
        assert!(judge(&"ü".repeat(81)).is_err());
    }

    #[test]
    fn a_key_is_no_name() {
        let key = Secret::mint(crate::call::credential::Kind::Agent).expose().to_owned();
        let wallet = format!("0x{}", "0a".repeat(32));
        for name in [&*key, &format!("Bearer {key}"), &wallet, &wallet[2..]] {
            assert_eq!(judge(name), Err("must not hold a key"));
        }
        assert!(judge("wpa_fan").is_ok() && judge(&"0a".repeat(31)).is_ok());
    }

    #[test]
    fn characters_that_cannot_be_seen_are_refused() {
        for c in [
            '\0',
            '\n',
            '\u{7F}',
            '\u{85}',
            '\u{AD}',
            '\u{200B}',
            '\u{200D}',
            '\u{200E}',
            '\u{202E}',
            '\u{2066}',
            '\u{2028}',
            '\u{2029}',
            '\u{2060}',
            '\u{FEFF}',
            '\u{61C}',
            '\u{180E}',
            '\u{034F}',
            '\u{3164}',
            '\u{FE0F}',
            '\u{E000}',
            '\u{FFFF}',
            '\u{E0041}',
            '\u{E0100}',
            '\u{0378}',
        ] {
            assert!(judge(&format!("Bob{c}")).is_err(), "{:x}", c as u32);
        }
    }

    #[test]
    fn names_that_differ_in_case_or_encoding_fold_alike() {
        for (one, other) in [
            ("Ada", "aDA"),
            ("Zo\u{EB}", "ZOE\u{308}"),
            ("Straße", "STRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("\u{212B}", "\u{E5}"),
            ("\u{1FC3}", "\u{397}\u{345}"),
        ] {
            assert_eq!(fold(one), fold(other), "{one} {other}");
        }
        assert_ne!(fold("Ada"), fold("Adа"), "a Cyrillic а is another letter");
    }

    #[test]
    fn a_generated_name_is_eight_hex_digits_and_may_be_taken() {
        assert_eq!(generated([0, 0x1a, 0xff, 7]), "agent-001aff07");
        assert!(judge(&generated([0; 4])).is_ok());
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing_more(name in "\\PC{0,20}") {
            prop_assert_eq!(fold(&fold(&name)), fold(&name));
        }

        #[test]
        fn judging_never_panics_and_gives_the_name_back(name in any::<String>()) {
            if let Ok(given) = judge(&name) {
                prop_assert_eq!(given, &name);
                prop_assert!(!fold(&name).trim().is_empty());
            }
        }
    }
}
