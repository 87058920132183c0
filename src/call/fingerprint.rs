//! What tells a replay from a conflict: a hash of the judged arguments.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// SHA-256 over arguments as they were judged: defaults filled in, absent ones
/// and credentials left out, members of objects in the order of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// The fingerprint of `arguments`, leaving out the members named in `but`.
pub fn of(arguments: &Map<String, Value>, but: &[&str]) -> Fingerprint {
    let mut digest = Sha256::new();
    let kept = arguments.iter().filter(|(name, _)| !but.contains(&name.as_str()));
    feed_object(&mut digest, kept.collect());
    Fingerprint(digest.finalize().into())
}

fn feed(digest: &mut Sha256, value: &Value) {
    match value {
        Value::Object(members) => feed_object(digest, members.iter().collect()),
        Value::Array(items) => {
            digest.update(b"[");
            for item in items {
                feed(digest, item);
                digest.update(b",");
            }
            digest.update(b"]");
        }
        scalar => digest.update(scalar.to_string()),
    }
}

fn feed_object(digest: &mut Sha256, mut members: Vec<(&String, &Value)>) {
    members.sort_unstable_by_key(|(name, _)| *name);
    digest.update(b"{");
    for (name, value) in members {
        digest.update(Value::from(name.as_str()).to_string());
        digest.update(b":");
        feed(digest, value);
        digest.update(b",");
    }
    digest.update(b"}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn member_order_does_not_matter_and_content_does() {
        let print = |value: serde_json::Value| super::of(value.as_object().unwrap(), &["box_key"]);
        let one = print(json!({"a": 1, "b": {"x": [1, 2], "y": null}, "box_key": "k"}));
        assert_eq!(one, print(json!({"b": {"y": null, "x": [1, 2]}, "a": 1})));
        assert_ne!(one, print(json!({"b": {"y": null, "x": [2, 1]}, "a": 1})));
        assert_ne!(print(json!({"a": "1"})), print(json!({"a": 1})));
    }
}
