//! What arguments pass, in which form, and what is said of the others.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const TOOLS: &str = include_str!("../../../tests/data/tools.json");

fn schemas() -> Map<String, Value> {
    let tools: Map<String, Value> = serde_json::from_str(TOOLS).unwrap();
    tools.into_iter().map(|(name, tool)| (name, tool["inputSchema"].clone())).collect()
}

fn tool(name: &str) -> Shape {
    Shape::compile(&schemas()[name]).unwrap()
}

fn check(shape: &Shape, arguments: Value) -> Result<Value, Fault> {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    shape.check(arguments).map(Value::Object)
}

/// A shape of one field `x`.
fn one(schema: Value) -> Shape {
    Shape::compile(&json!({"type": "object", "properties": {"x": schema}, "additionalProperties": false}))
        .unwrap()
}

fn x(schema: Value, value: Value) -> Option<Value> {
    check(&one(schema), json!({"x": value})).ok().map(|judged| judged["x"].clone())
}

fn fault(shape: &Shape, arguments: Value) -> (String, String) {
    match check(shape, arguments).unwrap_err() {
        Fault::Invalid { field, problem } => (field, problem),
        Fault::Unknown { field, suggestion } => (field, suggestion.unwrap_or_default()),
    }
}

fn at(field: &str, said: &str) -> (String, String) {
    (field.to_owned(), said.to_owned())
}

#[test]
fn every_published_schema_compiles() {
    assert_eq!(schemas().len(), 50);
    for (name, schema) in schemas() {
        assert!(Shape::compile(&schema).is_ok(), "{name}: {:?}", Shape::compile(&schema));
    }
}

#[test]
fn a_schema_beyond_the_subset_does_not_compile() {
    for schema in [
        json!(true),
        json!({"type": "string"}),
        json!({"type": "object", "anyOf": []}),
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}),
        json!({"type": "object", "properties": {"x": {"type": ["string", "null"]}}}),
        json!({"type": "object", "properties": {"x": {"type": "string", "format": "email"}}}),
        json!({"type": "object", "properties": {"x": {"type": "string", "pattern": "("}}}),
        json!({"type": "object", "properties": {"x": {"type": "string", "minimum": 1}}}),
        json!({"type": "object", "properties": {"x": {"type": "integer", "maximum": 5, "default": 6}}}),
    ] {
        assert!(Shape::compile(&schema).is_err(), "{schema}");
    }
}

#[test]
fn whole_numbers_are_taken_in_every_spelling_and_nothing_else_is() {
    let schema = json!({"type": "integer", "minimum": -9, "maximum": 9});
    for five in [json!(5), json!(5.0), json!("5"), json!("5.0"), json!("5e0")] {
        assert_eq!(x(schema.clone(), five), Some(json!(5)));
    }
    assert_eq!(x(schema.clone(), json!(-0.0)), Some(json!(0)));
    for other in [
        json!(5.5),
        json!(true),
        json!("abc"),
        json!("5.5"),
        json!(""),
        json!(" 5"),
        json!("+5"),
        json!("0x5"),
        json!("05"),
        json!("1e999"),
        json!([5]),
        json!({}),
        json!(10),
        json!(-10),
        json!(1e300),
        json!(u64::MAX),
    ] {
        assert_eq!(x(schema.clone(), other.clone()), None, "{other}");
    }
}

#[test]
fn a_whole_number_beyond_2_53_is_refused_where_bounded_and_saturates_elsewhere() {
    let (open, floor) = (json!({"type": "integer"}), json!({"type": "integer", "minimum": 0}));
    let most = 9_007_199_254_740_991_i64;
    assert_eq!(x(floor.clone(), json!(most)), Some(json!(most)));
    assert_eq!(x(floor.clone(), json!(most + 1)), None);
    assert_eq!(x(open.clone(), json!(most + 1)), Some(json!(most)));
    assert_eq!(x(open.clone(), json!(u64::MAX)), Some(json!(most)));
    assert_eq!(x(open.clone(), json!("99999999999999999999999")), Some(json!(most)));
    assert_eq!(x(open.clone(), json!(-1e300)), Some(json!(-most)));
    assert_eq!(x(open, json!(i64::MIN)), Some(json!(-most)));
}

#[test]
fn numbers_come_as_numbers_or_numeric_text() {
    let schema = json!({"type": "number", "exclusiveMinimum": 0});
    assert_eq!(x(schema.clone(), json!(1.5)), Some(json!(1.5)));
    assert_eq!(x(schema.clone(), json!("1.5")), Some(json!(1.5)));
    assert_eq!(x(schema.clone(), json!("2.0")), Some(json!(2)));
    assert_eq!(x(schema.clone(), json!(1e300)), Some(json!(1e300)));
    for other in [json!(0), json!(-1), json!(false), json!("NaN"), json!("inf"), json!("1,5")] {
        assert_eq!(x(schema.clone(), other), None);
    }
    assert_eq!(fault(&one(schema), json!({"x": 0})), at("x", "must be a number above 0"));
}

#[test]
fn a_text_with_a_pattern_may_come_as_a_number() {
    let price = json!({"type": "string", "pattern": "^[0-9]{1,12}([.][0-9]{1,6})?$"});
    for (given, text) in [
        (json!(5), "5"),
        (json!(5.0), "5"),
        (json!(0.25), "0.25"),
        (json!(0.000001), "0.000001"),
        (json!("1.50"), "1.50"),
    ] {
        assert_eq!(x(price.clone(), given), Some(json!(text)));
    }
    for other in [json!(-1), json!(1e-7), json!(1e300), json!(true), json!("1\n"), json!("٣")] {
        assert_eq!(x(price.clone(), other), None);
    }
    let revision = json!({"type": "string", "pattern": "^(0|[1-9][0-9]{0,18})$"});
    assert_eq!(x(revision.clone(), json!(i64::MAX)), Some(json!("9223372036854775807")));
    assert_eq!(x(revision, json!(9_223_372_036_854_775_807_f64)), None, "digits that were not sent");
    assert_eq!(x(json!({"type": "string"}), json!(5)), None);
}

#[test]
fn booleans_are_json_booleans_only() {
    let schema = json!({"type": "boolean"});
    assert_eq!(x(schema.clone(), json!(false)), Some(json!(false)));
    for other in [json!("true"), json!(1), json!("")] {
        assert_eq!(x(schema.clone(), other), None);
    }
}

#[test]
fn an_id_has_one_spelling() {
    let schema = json!({"type": "string", "format": "uuid"});
    let id = "0192d3c4-5b6a-7c8d-9e0f-a1b2c3d4e5f6";
    assert_eq!(x(schema.clone(), json!(id)), Some(json!(id)));
    assert_eq!(x(schema.clone(), json!(id.to_uppercase())), Some(json!(id)));
    for other in [
        "",
        &id[1..],
        &id.replace('-', ""),
        &format!("{{{id}}}"),
        &format!("urn:uuid:{id}"),
        &format!(" {id}"),
    ] {
        assert_eq!(x(schema.clone(), json!(other)), None, "{other}");
    }
    let send = tool("mailbox_send");
    let (field, problem) = fault(&send, json!({"body": "x", "thread_id": ""}));
    assert!(field == "thread_id" && problem.starts_with("must be a UUID"), "{field} {problem}");
}

#[test]
fn a_time_needs_its_offset() {
    let schema = json!({"type": "string", "format": "date-time"});
    for time in ["2030-01-31T12:00:00Z", "2030-01-31T12:00:00.123+05:30"] {
        assert_eq!(x(schema.clone(), json!(time)), Some(json!(time)));
    }
    for other in ["2030-01-31T12:00:00", "2030-01-31", "2030-02-30T12:00:00Z", "tomorrow", ""] {
        assert_eq!(x(schema.clone(), json!(other)), None, "{other}");
    }
}

#[test]
fn null_counts_as_absent_outside_free_form_objects_and_defaults_are_filled_in() {
    let parts = json!([{"kind": null, "nested": {"n": null}}]);
    let judged = check(
        &tool("mailbox_send"),
        json!({"body": "hi", "thread_id": null, "ack_requested": null,
        "parts": parts, "_meta": {"progressToken": 1}}),
    );
    let wanted = json!({"body": "hi", "parts": parts, "message_type": "direct", "ack_requested": false});
    assert_eq!(judged, Ok(wanted));
    let manifest = json!({"capability_manifest": [{"name": "sum", "description": null}]});
    let judged = check(&tool("register"), manifest).unwrap();
    assert_eq!(judged["capability_manifest"], json!([{"name": "sum"}]));
    let versions =
        json!({"documents": [{}], "baseVersions": {"a": "3", "b": null}, "envelope": {"intent": "x"}});
    assert_eq!(check(&tool("apply"), versions).unwrap()["baseVersions"], json!({"a": 3}));
}

#[test]
fn unknown_fields_come_first_then_missing_ones_then_the_schemas_order() {
    let send = tool("mailbox_send");
    assert_eq!(fault(&send, json!({"thread_id": "", "bdy": "x"})), at("bdy", "body"));
    assert_eq!(fault(&send, json!({"thread_id": ""})), at("body", "is required"));
    assert_eq!(fault(&send, json!({"body": null})), at("body", "is required"));
    assert_eq!(fault(&send, json!({"thread_id": "", "body": ""})), at("body", "must not be empty"));
    let register = tool("register");
    let manifest = |item: Value| json!({"capability_manifest": [{"name": "a"}, item]});
    assert_eq!(fault(&register, manifest(json!({"nme": "x"}))), at("capability_manifest[1].nme", "name"));
    assert_eq!(fault(&register, manifest(json!({}))), at("capability_manifest[1].name", "is required"));
    assert_eq!(fault(&register, manifest(json!(null))), at("capability_manifest[1]", "must be an object"));
}

#[test]
fn what_is_wanted_is_said_without_the_rejected_value() {
    let claim = tool("mailbox_claim");
    let problem = |arguments: Value| fault(&claim, arguments).1;
    assert_eq!(problem(json!({"limit": 4711})), "must be a whole number from 1 to 100");
    assert_eq!(problem(json!({"message_ids": "secret"})), "must be a list");
    assert_eq!(fault(&tool("mailbox_check"), json!({"since": -1})).1, "must be a whole number of at least 0");
    assert_eq!(fault(&tool("register"), json!({"scope": "secret"})).1, "must be one of: platform, rooms");
    assert_eq!(
        fault(&tool("register"), json!({"agent_name": "x".repeat(81)})).1,
        "must have at most 80 characters"
    );
    let again = json!({"idempotency_key": "k", "inbox_seqs": ["1", 1]});
    assert_eq!(fault(&tool("inbox_ack"), again), at("inbox_seqs", "must not hold the same item twice"));
    let key = format!("wpa_{}", "a".repeat(49));
    assert_eq!(fault(&claim, json!({key: 1})).0, "…");
}

#[test]
fn an_unknown_field_is_met_with_the_one_that_was_meant() {
    let send = tool("mailbox_send").also_called(&[
        ("to", "recipient_agent_id"),
        ("text", "body"),
        ("message", "body"),
    ]);
    for (given, meant) in [
        ("to_agent", "recipient_agent_id"),
        ("recipient", "recipient_agent_id"),
        ("recipientAgentName", "recipient_agent_name"),
        ("agent_name", "recipient_agent_name"),
        ("threadid", "thread_id"),
        ("request_ack", "ack_requested"),
        ("bodyy", "body"),
        ("to", "recipient_agent_id"),
        ("text", "body"),
        ("message", "body"),
        ("zzz", ""),
        ("", ""),
    ] {
        assert_eq!(fault(&send, json!({"body": "x", given: 1})), at(given, meant));
    }
}

#[test]
fn a_field_name_of_a_megabyte_costs_nothing() {
    let (field, _) = fault(&tool("mailbox_send"), json!({"é ".repeat(1 << 19): 1}));
    assert_eq!(field.chars().count(), 64);
}

/// An independent, plain reading of the schema, to hold what passed against.
fn conforms(schema: &Value, value: &Value) -> bool {
    let within = |count: usize, min: &str, max: &str| {
        schema[min].as_u64().is_none_or(|min| count as u64 >= min)
            && schema[max].as_u64().is_none_or(|max| count as u64 <= max)
    };
    let typed = match (schema["type"].as_str(), value) {
        (None, _) | (Some("boolean"), Value::Bool(_)) => true,
        (Some("integer" | "number"), Value::Number(number)) => {
            let float = number.as_f64().unwrap();
            (number.is_i64() || number.is_u64() || schema["type"] == "number")
                && schema["minimum"].as_f64().is_none_or(|min| float >= min)
                && schema["maximum"].as_f64().is_none_or(|max| float <= max)
        }
        (Some("string"), Value::String(text)) => {
            within(text.chars().count(), "minLength", "maxLength")
                && schema["pattern"]
                    .as_str()
                    .is_none_or(|pattern| Regex::new(pattern).unwrap().is_match(text))
                && (schema["format"] != "uuid"
                    || uuid::Uuid::parse_str(text).is_ok_and(|id| id.to_string() == *text))
        }
        (Some("array"), Value::Array(items)) => {
            within(items.len(), "minItems", "maxItems")
                && items.iter().all(|item| schema.get("items").is_none_or(|schema| conforms(schema, item)))
                && (schema["uniqueItems"] != true
                    || !items.iter().enumerate().any(|(i, item)| items[..i].contains(item)))
        }
        (Some("object"), Value::Object(members)) => {
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            required.iter().all(|name| members.contains_key(name.as_str().unwrap()))
                && members.iter().all(|(name, member)| {
                    match (schema["properties"].get(name), &schema["additionalProperties"]) {
                        (Some(property), _) => conforms(property, member),
                        (None, rest) => {
                            rest != &json!(false) && (!rest.is_object() || conforms(rest, member))
                        }
                    }
                })
        }
        _ => false,
    };
    typed && schema["enum"].as_array().is_none_or(|options| options.contains(value))
}

/// Values of every kind, among them the spellings that are normalized.
fn noise() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| json!(float)),
        "[0-9]{1,20}([.][0-9]{1,8})?(e[0-9]{1,3})?".prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(json!("0192D3C4-5B6A-7C8D-9E0F-A1B2C3D4E5F6")),
        Just(json!("2030-01-31T12:00:00Z")),
    ];
    let nested = leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,8}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    });
    nested.boxed()
}

/// Values that a schema mostly accepts, with noise among them.
fn plausible(schema: &Value) -> BoxedStrategy<Value> {
    if let Some(options) = schema["enum"].as_array() {
        return prop::sample::select(options.clone()).boxed();
    }
    let good = match schema["type"].as_str() {
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        Some("integer" | "number") => prop_oneof![
            (0..120_i64).prop_map(Value::from),
            (0..120_u8).prop_map(|n| json!(f64::from(n))),
            (0..120_i64).prop_map(|n| json!(n.to_string())),
        ]
        .boxed(),
        Some("string") if schema["format"] == "uuid" => {
            any::<u128>().prop_map(|id| json!(uuid::Uuid::from_u128(id).to_string().to_uppercase())).boxed()
        }
        Some("string") if schema["format"] == "date-time" => Just(json!("2030-01-31T12:00:00Z")).boxed(),
        Some("string") if schema["pattern"].is_string() => {
            let text =
                proptest::string::string_regex(schema["pattern"].as_str().unwrap().trim_matches(['^', '$']));
            prop_oneof![text.unwrap().prop_map(Value::from), (0..99_i64).prop_map(Value::from)].boxed()
        }
        Some("string") => ".{1,20}".prop_map(Value::from).boxed(),
        Some("array") => {
            let items = schema.get("items").map_or_else(noise, plausible);
            prop::collection::vec(items, 0..4).prop_map(Value::from).boxed()
        }
        Some("object") if schema["properties"].is_object() => object(schema),
        _ => prop::collection::vec((".{0,8}", noise()), 0..3)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
            .boxed(),
    };
    prop_oneof![30 => good, 1 => noise()].boxed()
}

fn object(schema: &Value) -> BoxedStrategy<Value> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let members: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            let share = if required.contains(&json!(name)) { 0.97 } else { 0.3 };
            prop::option::weighted(share, plausible(property)).prop_map({
                let name = name.clone();
                move |value| value.map(|value| (name.clone(), value))
            })
        })
        .collect();
    let stray = prop::option::weighted(0.03, (".{0,8}", noise()));
    (members, stray).prop_map(|(members, stray)| members.into_iter().flatten().chain(stray).collect()).boxed()
}

#[test]
fn no_arguments_panic_and_what_passes_conforms_and_passes_again_unchanged() {
    let mut passed = 0_u32;
    for (name, schema) in schemas() {
        let shape = Shape::compile(&schema).unwrap();
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(60));
        let given = std::cell::Cell::new(0_u32);
        let outcome = runner.run(&prop_oneof![9 => object(&schema), 1 => noise()], |arguments| {
            let Value::Object(arguments) = arguments else { return Ok(()) };
            if let Ok(judged) = shape.check(arguments) {
                given.set(given.get() + 1);
                prop_assert!(conforms(&schema, &Value::Object(judged.clone())), "{:?}", judged);
                prop_assert_eq!(shape.check(judged.clone()), Ok(judged));
            }
            Ok(())
        });
        assert!(outcome.is_ok(), "{name}: {outcome:?}");
        assert!(given.get() > 0, "{name}: nothing passed, so nothing was tested");
        passed += given.get();
    }
    assert!(passed > 500, "only {passed} passed");
}
