//! What tells a replay from a conflict: a hash of the judged arguments.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

/// SHA-256 over arguments as they were judged: defaults filled in, absent ones
/// and credentials left out, members of objects in the order of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// The fingerprint of `arguments`, from which credentials have been taken out.
pub fn of(arguments: &Map<String, Value>) -> Fingerprint {
    let mut digest = Sha256::new();
    feed_object(&mut digest, arguments);
    Fingerprint(digest.finalize().into())
}

fn feed(digest: &mut Sha256, value: &Value) {
    match value {
        Value::Object(members) => feed_object(digest, members),
        Value::Array(items) => {
            digest.update(b"[");
            for item in items {
                feed(digest, item);
                digest.update(b",");
            }
            digest.update(b"]");
        }
        scalar => feed_text(digest, scalar),
    }
}

fn feed_object(digest: &mut Sha256, members: &Map<String, Value>) {
    let mut members: Vec<(&String, &Value)> = members.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    digest.update(b"{");
    for (name, value) in members {
        feed_text(digest, name);
        digest.update(b":");
        feed(digest, value);
        digest.update(b",");
    }
    digest.update(b"}");
}

/// The JSON text of what is no object and no list.
fn feed_text(digest: &mut Sha256, scalar: &impl Serialize) {
    // Nothing that is hashed fails to be written.
    let _ = serde_json::to_writer(Hashed(digest), scalar);
}

struct Hashed<'a>(&'a mut Sha256);

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sha2::{Digest, Sha256};

    #[test]
    fn member_order_does_not_matter_and_content_does() {
        let print = |value: serde_json::Value| super::of(value.as_object().unwrap());
        let one = print(json!({"a": 1, "b": {"x": [1, 2], "y": null}}));
        assert_eq!(one, print(json!({"b": {"y": null, "x": [1, 2]}, "a": 1})));
        assert_ne!(one, print(json!({"b": {"y": null, "x": [2, 1]}, "a": 1})));
        assert_ne!(print(json!({"a": "1"})), print(json!({"a": 1})));
    }

    #[test]
    fn what_was_stored_by_an_earlier_version_is_still_known() {
        let arguments = json!({"b": "ü\"\n", "a": [1, 2.5, null, true, {"z": 1, "y": ""}]});
        let text = r#"{"a":[1,2.5,null,true,{"y":"","z":1,},],"b":"ü\"\n",}"#;
        let stored: [u8; 32] = Sha256::digest(text).into();
        assert_eq!(super::of(arguments.as_object().unwrap()).0, stored);
    }
}
