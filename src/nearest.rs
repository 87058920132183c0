//! Which real name was meant by one that does not exist: arguments, tools, settings.

use strsim::jaro_winkler;

/// Below this two words are not the same word mistyped.
const SAME_WORD: f64 = 0.85;
/// One shared word in five is enough (`to_agent` for `recipient_agent_id`); a guess below is noise.
const PLAUSIBLE: f64 = 0.35;
/// Longer names are cut: a name of megabytes must cost nothing.
const LONGEST: usize = 64;

/// The name that `given` most likely means, out of `(word, name)` pairs; of equals the first. `None` when
/// nothing is alike.
pub fn nearest<'a>(given: &str, words: impl Iterator<Item = (&'a str, &'a str)>) -> Option<&'a str> {
    let given: String = given.chars().take(LONGEST).collect();
    let given = tokens(&given);
    let mut best = (PLAUSIBLE, None);
    for (word, name) in words {
        let score = similarity(&given, &tokens(word));
        if score > best.0 {
            best = (score, Some(name));
        }
    }
    best.1
}

/// The better of two views: the whole name with a typo, or the share of words in common.
fn similarity(given: &[String], real: &[String]) -> f64 {
    if given.is_empty() || real.is_empty() {
        return 0.0;
    }
    let whole = same_word(&given.concat(), &real.concat());
    let shared: f64 =
        given.iter().map(|word| real.iter().map(|other| same_word(word, other)).fold(0.0, f64::max)).sum();
    f64::max(whole, 2.0 * shared / (given.len() + real.len()) as f64)
}

fn same_word(one: &str, other: &str) -> f64 {
    let score = jaro_winkler(one, other);
    if score >= SAME_WORD { score } else { 0.0 }
}

/// `recipientAgent-id` → recipient, agent, id.
fn tokens(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (after_lower && c.is_uppercase()) {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        after_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}
