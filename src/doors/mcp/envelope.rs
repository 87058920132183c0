//! The JSON-RPC envelope: what was posted, before anyone asks what it means.

use http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fault::Fault;
use crate::call::json::{self, Refused};

/// One message of a client.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants an answer.
    Request(Request<'a>),
    /// Wants none.
    Notification {
        /// Its method.
        method: String,
    },
    /// Answers something; this server never asks.
    Response,
}

/// A message that wants an answer.
#[derive(Debug)]
pub struct Request<'a> {
    /// A string or an integer, echoed byte for byte.
    pub id: &'a RawValue,
    /// What is asked for.
    pub method: String,
    /// `params` as they came.
    pub params: Option<&'a RawValue>,
}

/// The members of `params`.
#[derive(Debug, Default)]
pub struct Params<'a> {
    /// All but `arguments`.
    pub members: Map<String, Value>,
    /// Judged apart: what is wrong with a tool's arguments is the tool's answer.
    pub arguments: Option<&'a RawValue>,
}

/// Deeper than any member of a request needs to be.
const DEPTH: usize = 64;

/// Reads what was posted.
///
/// # Errors
/// -32700 for what is not JSON; -32600 for a batch, repeated keys, or a member that JSON-RPC does not allow so.
pub fn read(body: &[u8]) -> Result<Message<'_>, Fault> {
    let members = json::object(body).map_err(|refused| match refused {
        Refused::NotAnObject => Fault::request("Send one JSON-RPC object; batches are not taken."),
        refused => unreadable(&refused),
    })?;
    let (mut version, mut method, mut id, mut params, mut is_response) = (None, None, None, None, false);
    for (name, raw) in members {
        match name.as_str() {
            "jsonrpc" => version = text(raw)?,
            "method" => method = Some(text(raw)?.ok_or_else(|| Fault::request("method must be a string."))?),
            "id" => id = Some(raw),
            "params" => params = Some(raw),
            "result" | "error" => is_response = true,
            _ => {}
        }
    }
    if version.as_deref() != Some("2.0") {
        return Err(Fault::request("jsonrpc must be \"2.0\"."));
    }
    match (method, id) {
        (Some(_), _) if is_response => Err(Fault::request("A message has a method or a result, not both.")),
        (Some(method), None) => Ok(Message::Notification { method }),
        (Some(method), Some(id)) => {
            judge_id(id)?;
            Ok(Message::Request(Request { id, method, params }))
        }
        (None, Some(_)) if is_response => Ok(Message::Response),
        (None, _) => Err(Fault::request("method is missing.")),
    }
}

/// The id of what was posted, if it can be read: refusals of the HTTP layer echo it.
pub fn id_of(body: &[u8]) -> Option<&RawValue> {
    let members = json::object(body).ok()?;
    let id = members.into_iter().find_map(|(name, raw)| (name == "id").then_some(raw))?;
    judge_id(id).is_ok().then_some(id)
}

/// A string or an integer; null is neither.
fn judge_id(id: &RawValue) -> Result<(), Fault> {
    match id.get().as_bytes() {
        [b'"', ..] => text(id).map(drop),
        [b'-' | b'0'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => Ok(()),
        _ => Err(Fault::request("id must be a string or an integer. Leave it out only in notifications.")),
    }
}

impl<'a> Params<'a> {
    /// Reads `params`; missing and null are empty.
    ///
    /// # Errors
    /// -32602 when they are no object; -32600 for repeated keys and the like in any member but `arguments`;
    /// -32700 for text that is not Unicode.
    pub fn read(params: Option<&'a RawValue>) -> Result<Params<'a>, Fault> {
        let mut read = Params::default();
        let Some(params) = params.filter(|params| params.get() != "null") else { return Ok(read) };
        let members = json::object(params.get().as_bytes()).map_err(|refused| match refused {
            Refused::NotAnObject => Fault::params("params must be an object."),
            refused => unreadable(&refused),
        })?;
        for (name, raw) in members {
            if name == "arguments" {
                read.arguments = Some(raw);
                continue;
            }
            let value = json::parse(raw.get().as_bytes(), DEPTH).map_err(|refused| unreadable(&refused))?;
            read.members.insert(name, value);
        }
        Ok(read)
    }

    /// A member of `_meta`.
    pub fn meta(&self, name: &str) -> Option<&Value> {
        self.members.get("_meta")?.get(name)
    }

    /// A member that is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.members.get(name)?.as_str()
    }
}

/// The text of a member, or `None` when it is something else.
fn text(raw: &RawValue) -> Result<Option<String>, Fault> {
    if !raw.get().starts_with('"') {
        return Ok(None);
    }
    match json::parse(raw.get().as_bytes(), 1) {
        Ok(Value::String(text)) => Ok(Some(text)),
        Ok(_) => Ok(None),
        Err(refused) => Err(unreadable(&refused)),
    }
}

fn unreadable(refused: &Refused) -> Fault {
    match refused {
        Refused::Broken(_) => Fault::new(StatusCode::BAD_REQUEST, Fault::PARSE, sentence(refused)),
        _ => Fault::request(sentence(refused)),
    }
}

fn sentence(refused: &Refused) -> String {
    match refused {
        Refused::Broken(fault) => format!("This is not valid JSON: {fault}. Send one UTF-8 JSON object."),
        refused => format!("In the JSON-RPC message {refused}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> i32 {
        read(body.as_bytes()).unwrap_err().code
    }

    #[test]
    fn an_id_is_a_string_or_an_integer_and_kept_byte_for_byte() {
        for id in [r#""a\u0041""#, "7", "-3", "123456789012345678901234567890", r#""""#] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let Ok(Message::Request(request)) = read(body.as_bytes()) else { panic!("{id}") };
            assert_eq!(request.id.get(), id);
            assert_eq!(id_of(body.as_bytes()).unwrap().get(), id);
        }
        for id in ["null", "1.5", "1e3", "true", "[1]", "{}", r#""\u0000""#] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(code(&body), Fault::REQUEST, "{id}");
            assert!(id_of(body.as_bytes()).is_none(), "{id}");
        }
    }

    #[test]
    fn a_message_without_an_id_is_a_notification() {
        let read = read(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert!(
            matches!(read, Ok(Message::Notification { method }) if method == "notifications/initialized")
        );
    }

    #[test]
    fn answers_of_clients_are_known_as_such() {
        for body in [r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, r#"{"id":1,"error":{},"jsonrpc":"2.0"}"#] {
            assert!(matches!(read(body.as_bytes()), Ok(Message::Response)));
        }
    }

    #[test]
    fn what_is_not_json_is_a_parse_error() {
        for body in ["", "{", "{}x", r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, "\u{feff}{}"] {
            assert_eq!(code(body), Fault::PARSE, "{body}");
        }
        assert_eq!(read(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}").unwrap_err().code, Fault::PARSE);
    }

    #[test]
    fn what_is_no_single_request_is_an_invalid_request() {
        for body in [
            "[]",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            "1",
            "null",
            "{}",
            r#"{"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
        ] {
            assert_eq!(code(body), Fault::REQUEST, "{body}");
        }
    }

    #[test]
    fn params_are_judged_but_for_the_arguments() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let code = |text: &str| Params::read(Some(&raw(text))).unwrap_err().code;
        assert_eq!(code("[]"), Fault::PARAMS);
        assert_eq!(code(r#"{"name":1,"name":1}"#), Fault::REQUEST);
        assert_eq!(code(r#"{"_meta":{"a":1,"a":2}}"#), Fault::REQUEST);
        assert_eq!(code(r#"{"name":"\udfff"}"#), Fault::PARSE);
        let raw = raw(r#"{"arguments":{"a":1,"a":"\ud800"},"_meta":{"x":5}}"#);
        let params = Params::read(Some(&raw)).unwrap();
        assert_eq!(params.arguments.unwrap().get(), r#"{"a":1,"a":"\ud800"}"#);
        assert_eq!(params.meta("x"), Some(&Value::from(5)));
        assert!(Params::read(None).unwrap().members.is_empty());
    }
}
