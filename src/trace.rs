//! The trace that a caller's request belongs to, by W3C Trace Context.

use std::sync::Arc;

use http::HeaderMap;

/// A `traceparent` of version 00: 32 hexadecimal digits name a trace, 16 a span in it, 2 are flags.
///
/// It is handed on as it came: Waypost makes no spans of its own that a new parent could stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace(Arc<str>);

impl Trace {
    /// The name of the header, and of the member of MCP's `_meta`.
    pub const NAME: &str = "traceparent";

    /// The one in a request's headers; `None` where there is none, where there are several, and for anything else.
    pub fn of_headers(headers: &HeaderMap) -> Option<Trace> {
        let mut values = headers.get_all(Trace::NAME).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        Trace::read(value.to_str().ok()?)
    }

    /// Reads one of version 00; `None` for anything else.
    pub fn read(text: &str) -> Option<Trace> {
        let mut parts = text.split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let names_one = |id: &str| id.bytes().any(|digit| digit != b'0');
        let is_one = version == "00"
            && is_hex(trace, 32)
            && is_hex(parent, 16)
            && is_hex(flags, 2)
            && names_one(trace)
            && names_one(parent)
            && parts.next().is_none();
        is_one.then(|| Trace(text.into()))
    }

    /// The text, 55 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_the_grammar_does_not_allow_is_no_trace() {
        assert_eq!(Trace::read(ONE).unwrap().as_str(), ONE);
        let none = [
            ONE.to_uppercase(),
            ONE.replacen("00", "01", 1),
            ONE.replacen("00", "ff", 1),
            ONE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            ONE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            ONE.replace('b', "g"),
            format!("{ONE}-more"),
            format!("{ONE}-"),
            ONE[..54].to_owned(),
            ONE.replace('-', ""),
            String::new(),
        ];
        for text in none {
            assert_eq!(Trace::read(&text), None, "{text}");
        }
    }

    #[test]
    fn of_two_headers_none_is_taken() {
        let mut headers = HeaderMap::new();
        assert_eq!(Trace::of_headers(&headers), None);
        headers.append(Trace::NAME, ONE.parse().unwrap());
        assert_eq!(Trace::of_headers(&headers), Trace::read(ONE));
        headers.append(Trace::NAME, ONE.parse().unwrap());
        assert_eq!(Trace::of_headers(&headers), None);
    }
}
