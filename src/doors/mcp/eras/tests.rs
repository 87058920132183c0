//! Every way in which a request shows its era or fails to.

use http::{HeaderName, HeaderValue};
use serde_json::value::RawValue;

use super::*;

/// What is judged: headers, method, params.
struct Asked {
    headers: Vec<(&'static str, &'static [u8])>,
    method: &'static str,
    params: Value,
}

impl Asked {
    /// As a modern client asks.
    fn modern() -> Asked {
        Asked {
            headers: vec![
                ("mcp-protocol-version", b"2026-07-28"),
                ("mcp-method", b"tools/call"),
                ("mcp-name", b"who_am_i"),
            ],
            method: "tools/call",
            params: json!({ "name": "who_am_i", "_meta": {
                PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {} } }),
        }
    }

    /// As a legacy client asks after its handshake.
    fn legacy(version: &'static [u8]) -> Asked {
        Asked { headers: vec![("mcp-protocol-version", version)], method: "tools/list", params: json!({}) }
    }

    fn header(mut self, name: &'static str, value: &'static [u8]) -> Asked {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value));
        self
    }

    fn without(mut self, name: &str) -> Asked {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    fn again(mut self, name: &'static str, value: &'static [u8]) -> Asked {
        self.headers.push((name, value));
        self
    }

    fn meta(mut self, name: &str, value: Value) -> Asked {
        self.params["_meta"][name] = value;
        self
    }

    fn method(mut self, method: &'static str) -> Asked {
        self.method = method;
        self
    }

    fn judged(&self) -> Result<Era, i32> {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()));
        let mut map = HeaderMap::new();
        headers.for_each(|(name, value)| _ = map.append(name, value));
        let raw = RawValue::from_string(self.params.to_string()).unwrap();
        let judged = of_request(&map, self.method, &Params::read(Some(&raw)).unwrap());
        judged.map_err(|fault| {
            assert_eq!(fault.status, StatusCode::BAD_REQUEST, "{fault:?}");
            fault.code
        })
    }
}

#[test]
fn a_modern_request_is_complete_or_refused_in_the_documented_order() {
    let modern = Asked::modern;
    let version = "mcp-protocol-version";
    let rows = [
        ("as it should be", modern(), Ok(Era::Modern)),
        ("no version header", modern().without(version), Err(-32020)),
        (
            "no version header, incomplete",
            modern().without(version).meta(CLIENT_CAPABILITIES, json!(1)),
            Err(-32020),
        ),
        ("two version headers", modern().again(version, b"2026-07-28"), Err(-32020)),
        ("a version header of other bytes", modern().header(version, b"2026\xff"), Err(-32020)),
        ("the version in _meta is no text", modern().meta(PROTOCOL_VERSION, json!(7)), Err(-32602)),
        ("no capabilities", modern().meta(CLIENT_CAPABILITIES, Value::Null), Err(-32602)),
        ("capabilities of another kind", modern().meta(CLIENT_CAPABILITIES, json!([])), Err(-32602)),
        (
            "incomplete before different",
            modern().header(version, b"2025-11-25").meta(CLIENT_CAPABILITIES, json!(1)),
            Err(-32602),
        ),
        ("header and _meta differ", modern().header(version, b"2025-11-25"), Err(-32020)),
        (
            "both unknown",
            modern().header(version, b"1999-01-01").meta(PROTOCOL_VERSION, json!("1999-01-01")),
            Err(-32022),
        ),
        (
            "a legacy version in _meta",
            modern().header(version, b"2025-11-25").meta(PROTOCOL_VERSION, json!("2025-11-25")),
            Err(-32022),
        ),
        ("no method header", modern().without("mcp-method"), Err(-32020)),
        ("another method", modern().header("mcp-method", b"tools/list"), Err(-32020)),
        ("values have a case", modern().header("mcp-method", b"Tools/Call"), Err(-32020)),
        ("two method headers", modern().again("mcp-method", b"tools/call"), Err(-32020)),
        ("no name header", modern().without("mcp-name"), Err(-32020)),
        ("another name", modern().header("mcp-name", b"register"), Err(-32020)),
        ("a name in base64", modern().header("mcp-name", b"=?base64?d2hvX2FtX2k=?="), Ok(Era::Modern)),
        ("another name in base64", modern().header("mcp-name", b"=?base64?cmVnaXN0ZXI=?="), Err(-32020)),
        ("broken base64", modern().header("mcp-name", b"=?base64?!!?="), Err(-32020)),
        ("markers have a case", modern().header("mcp-name", b"=?BASE64?d2hvX2FtX2k=?="), Err(-32020)),
        (
            "no name needed",
            modern().method("tools/list").header("mcp-method", b"tools/list").without("mcp-name"),
            Ok(Era::Modern),
        ),
        (
            "initialize of a modern client",
            modern().method("initialize").header("mcp-method", b"initialize"),
            Ok(Era::Modern),
        ),
    ];
    for (what, asked, expected) in rows {
        assert_eq!(asked.judged(), expected, "{what}");
    }
}

#[test]
fn a_request_without_modern_marks_is_legacy() {
    for version in LEGACY {
        assert_eq!(Asked::legacy(version.as_bytes()).judged(), Ok(Era::Legacy));
    }
    let legacy = || Asked::legacy(b"2025-11-25");
    let version = "mcp-protocol-version";
    let rows = [
        ("no header at all", legacy().without(version), Ok(Era::Legacy)),
        ("a modern header without _meta", legacy().header(version, b"2026-07-28"), Err(-32602)),
        ("an unknown header", legacy().header(version, b"1999-01-01"), Err(-32022)),
        (
            "initialize whatever the header",
            legacy().method("initialize").header(version, b"2026-07-28"),
            Ok(Era::Legacy),
        ),
        (
            "initialize of an unknown version",
            legacy().method("initialize").header(version, b"1999-01-01"),
            Ok(Era::Legacy),
        ),
        ("discover is modern only", legacy().method("server/discover"), Err(-32602)),
        ("discover without a header", legacy().method("server/discover").without(version), Err(-32020)),
        ("a progress token is no mark", legacy().meta("progressToken", json!(1)), Ok(Era::Legacy)),
    ];
    for (what, asked, expected) in rows {
        assert_eq!(asked.judged(), expected, "{what}");
    }
}

#[test]
fn a_refused_version_is_told_with_those_that_are_spoken() {
    let fault = unsupported("1999-01-01");
    let data = fault.data.unwrap();
    assert_eq!(data["requested"], "1999-01-01");
    assert_eq!(data["supported"], json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"]));
    assert!(unsupported(&"x".repeat(100)).data.unwrap()["requested"].as_str().unwrap().len() < 70);
}

#[test]
fn notifications_and_responses_go_by_the_version_header_alone() {
    let judged = |version: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        version.map(|version| headers.insert("mcp-protocol-version", HeaderValue::from_static(version)));
        of_message(&headers).map_err(|fault| fault.code)
    };
    assert_eq!(judged(None), Ok(Era::Legacy));
    assert_eq!(judged(Some("2025-06-18")), Ok(Era::Legacy));
    assert_eq!(judged(Some("2026-07-28")), Ok(Era::Modern));
    assert_eq!(judged(Some("1999-01-01")), Err(-32022));
}
