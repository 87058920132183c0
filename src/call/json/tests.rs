//! What strict parsing accepts and refuses.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parsed(text: &str) -> Result<Value, Refused> {
    parse(text.as_bytes(), ARGUMENTS_DEPTH)
}

fn is_broken(bytes: &[u8]) -> bool {
    matches!(parse(bytes, ARGUMENTS_DEPTH), Err(Refused::Broken(_)))
}

#[test]
fn ordinary_json_is_read_in_the_order_sent() {
    let value = parsed(r#" {"b":[1,-2,2.5,null,true],"a":{"ü":"\ud83d\ude00"},"":"x"} "#).unwrap();
    assert_eq!(value.to_string(), r#"{"b":[1,-2,2.5,null,true],"a":{"ü":"😀"},"":"x"}"#);
}

#[test]
fn a_repeated_key_is_refused_at_any_depth_with_its_place() {
    let path = |text: &str| match parsed(text) {
        Err(Refused::Duplicate { path }) => path,
        other => panic!("{other:?}"),
    };
    assert_eq!(path(r#"{"a":1,"b":2,"a":1}"#), "a");
    assert_eq!(path(r#"{"parts":[{"metadata":{"k":1,"\u006b":2}}]}"#), "parts[0].metadata.k");
    let key = format!("wpa_{}", "a".repeat(49));
    assert_eq!(path(&format!(r#"{{"x":{{"{key}":1,"{key}":2}}}}"#)), "x.…");
    let long = "long name ".repeat(20);
    assert_eq!(path(&format!(r#"{{"{long}":1,"{long}":2}}"#)).chars().count(), 64);
}

#[test]
fn nul_is_refused_in_texts_and_keys() {
    assert_eq!(parsed(r#"{"a":["x\u0000y"]}"#), Err(Refused::Nul { path: "a[0]".to_owned() }));
    assert_eq!(parsed(r#"{"a\u0000":1}"#), Err(Refused::Nul { path: "a\u{FFFD}".to_owned() }));
}

#[test]
fn depth_is_counted_from_the_value_itself() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parsed(&nested(32)).is_ok());
    assert_eq!(parsed(&nested(33)), Err(Refused::TooDeep { path: "[0]".repeat(32) }));
    assert!(parse(b"1", 0).is_ok());
    assert!(matches!(parse(b"{}", 0), Err(Refused::TooDeep { .. })));
    assert!(matches!(parse(nested(200).as_bytes(), usize::MAX), Err(Refused::TooDeep { .. })));
}

#[test]
fn a_megabyte_of_brackets_neither_overflows_nor_stalls() {
    assert!(is_broken(&vec![b'['; 1 << 20]));
    assert!(is_broken("{\"a\":".repeat(1 << 18).as_bytes()));
    let closed = [vec![b'['; 1 << 19], vec![b']'; 1 << 19]].concat();
    assert!(matches!(parse(&closed, ARGUMENTS_DEPTH), Err(Refused::TooDeep { .. })));
}

#[test]
fn what_is_not_json_is_broken_and_its_text_holds_no_input() {
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\" 1}",
        "{'a':1}",
        "nul",
        "01",
        "1e999",
        "1 2",
        "{} x",
        "\u{FEFF}{}",
        r#""\ud800""#,
        r#""\udc00\ud800""#,
        r#"{"\ud800":1}"#,
        r#""\x""#,
        "\"secret\u{1}\"",
        "[secret]",
    ] {
        let refused = parsed(text);
        let Err(Refused::Broken(said)) = &refused else { panic!("{text:?} gave {refused:?}") };
        assert!(!said.contains("secret"), "{said}");
    }
    for bytes in [&b"\"\xff\""[..], b"\xff", b"{\"\xc3\":1}", b"\"\xed\xa0\x80\"", b"\"a\0b\""] {
        assert!(is_broken(bytes), "{bytes:?}");
    }
}

#[test]
fn broken_json_wins_over_earlier_faults() {
    assert!(is_broken(br#"{"a":1,"a":2"#));
    assert!(is_broken(b"{\"a\":1,\"a\":\"\xff\"}"));
    assert!(matches!(object(br#"[1"#), Err(Refused::Broken(_))));
}

#[test]
fn a_key_the_parser_keeps_for_itself_cannot_smuggle_unjudged_json() {
    let smuggled = r#"{"state":{"$serde_json::private::RawValue":"{\"a\":1,\"a\":\"\\u0000\"}"}}"#;
    assert!(matches!(parsed(smuggled), Err(Refused::Reserved { .. })));
}

#[test]
fn one_level_of_an_object_is_read_without_judging_its_values() {
    let body = br#"{"id":1,"params":{"name":"x","arguments":{"a":1,"a":2}}}"#;
    let members = object(body).unwrap();
    assert_eq!(members[0].0, "id");
    let params = object(members[1].1.get().as_bytes()).unwrap();
    assert_eq!(params[1].1.get(), r#"{"a":1,"a":2}"#);
    assert!(matches!(parsed(params[1].1.get()), Err(Refused::Duplicate { .. })));
    let twice = object(br#"{"id":1,"id":1}"#).unwrap_err();
    assert_eq!(twice, Refused::Duplicate { path: "id".to_owned() });
    assert!(matches!(object(br#"{"i\u0000":1}"#), Err(Refused::Nul { .. })));
    for other in ["[]", "\"text\"", "1", "null", "true", "[{\"a\":1}]"] {
        assert!(matches!(object(other.as_bytes()), Err(Refused::NotAnObject)), "{other}");
    }
    for broken in [&b"{\"a\":}"[..], b"{} {}", b"{\"a\":\"\xff\"}", b"", b"nul"] {
        assert!(matches!(object(broken), Err(Refused::Broken(_))), "{broken:?}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| json!(f64::from(n) / 64.0)),
        "[^\\x00]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[^\\x00]{0,6}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn whatever_json_is_written_is_read_back(value in any_json()) {
        prop_assert_eq!(parse(value.to_string().as_bytes(), ARGUMENTS_DEPTH), Ok(value));
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, ARGUMENTS_DEPTH);
        let _ = object(&bytes);
    }

    #[test]
    fn no_json_like_text_causes_a_panic(text in r#"([\[\]{}:,"0-9eE.\-]|\\u0000|\\ud8|"a":|null| ){0,40}"#) {
        let strict = parsed(&text);
        if let Ok(value) = strict {
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        } else if matches!(strict, Err(Refused::Broken(_))) {
            prop_assert!(serde_json::from_str::<Value>(&text).is_err());
        }
    }
}
