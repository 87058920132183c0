use axum::body::Body;
use http::HeaderMap;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http_body_util::BodyExt;
use serde_json::json;

use super::*;
use crate::call::dialect::Dialect;
use crate::doors::refusal::Refusal;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn code(refused: &Refused) -> &str {
    match refused {
        Refused::AtTheDoor(refusal) => refusal.code,
        Refused::Call(error) => error.verdict().0,
    }
}

async fn body_of(kind: Option<&'static str>, body: &'static str) -> Result<Map<String, Value>, Refused> {
    let mut headers = HeaderMap::new();
    kind.into_iter().for_each(|kind| _ = headers.insert(CONTENT_TYPE, kind.parse().unwrap()));
    body::arguments(&headers, Body::from(body), 64).await
}

async fn read(response: Response) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

#[test]
fn a_query_is_read_as_text_decoded_once() {
    for (text, arguments) in [
        ("", json!({})),
        ("&&", json!({})),
        ("since=5&limit=", json!({"since": "5", "limit": ""})),
        ("name=a+b%2Bc%20%C3%A9&x", json!({"name": "a b+c é", "x": ""})),
        ("a=1=2&%62=%2525", json!({"a": "1=2", "b": "%25"})),
        ("a=%zz%4&b=100%", json!({"a": "%zz%4", "b": "100%"})),
    ] {
        assert_eq!(query::arguments(text).unwrap(), object(arguments), "{text}");
    }
}

#[test]
fn a_query_never_carries_credentials_twice_told_names_nul_or_broken_text() {
    for (text, word) in [
        ("box_key=x", "unknown_field"),
        ("owner%5Fkey=x", "unknown_field"),
        ("_meta=x", "unknown_field"),
        ("a=1&a=1", "validation_error"),
        ("a=1&%61=2", "validation_error"),
        ("a=%00", "validation_error"),
        ("a=%FF", "malformed_request"),
        ("%C3=1", "malformed_request"),
        ("a=%ED%A0%80", "malformed_request"),
    ] {
        assert_eq!(code(&query::arguments(text).unwrap_err()), word, "{text}");
    }
    assert!(query::refuse("").is_ok());
    assert_eq!(code(&query::refuse("a=1").unwrap_err()), "unknown_field");
}

#[test]
fn a_name_that_looks_like_a_credential_is_not_echoed() {
    let key = format!("wpa_{}", "x".repeat(49));
    let Err(Refused::Call(error)) = query::refuse(&format!("{key}=1")) else { panic!() };
    assert!(!error.to_string().contains("wpa_"));
}

#[test]
fn what_the_address_says_may_not_be_said_again() {
    let address = || [("agent_id", "7")].into_iter();
    let merged = merge(object(json!({"limit": 3, "agent_id": null})), address()).unwrap();
    assert_eq!(merged, object(json!({"limit": 3, "agent_id": "7"})));
    for again in [json!("7"), json!(7), json!({})] {
        let refused = merge(object(json!({"agent_id": again})), address()).unwrap_err();
        assert!(matches!(refused, Error::UnknownField { field, .. } if field == "agent_id"));
    }
}

#[tokio::test]
async fn a_body_is_one_json_object_declared_as_such() {
    for kind in ["application/json", "Application/JSON ; charset=utf-8"] {
        assert_eq!(body_of(Some(kind), r#"{"a": 1}"#).await.unwrap(), object(json!({"a": 1})));
    }
    assert_eq!(body_of(None, "").await.unwrap(), Map::new());
    assert_eq!(body_of(Some("text/plain"), "").await.unwrap(), Map::new());
    for kind in [None, Some("text/plain"), Some("application/jsonp"), Some("application/problem+json")] {
        assert_eq!(code(&body_of(kind, "{}").await.unwrap_err()), "unsupported_media", "{kind:?}");
    }
}

#[tokio::test]
async fn a_body_that_could_be_read_in_two_ways_is_refused() {
    for (text, word) in [
        ("{", "malformed_request"),
        (" ", "malformed_request"),
        (r#"{"a":"\ud800"}"#, "malformed_request"),
        (r#"{"a":1}{}"#, "malformed_request"),
        (r#"{"a":1,"a":1}"#, "validation_error"),
        (r#"{"a":"\u0000"}"#, "validation_error"),
        ("[]", "validation_error"),
        ("null", "validation_error"),
        (r#""{}""#, "validation_error"),
        (
            concat!("{\"a\":", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "}"),
            "payload_too_large",
        ),
    ] {
        assert_eq!(code(&body_of(Some("application/json"), text).await.unwrap_err()), word, "{text}");
    }
}

#[tokio::test]
async fn a_route_without_a_body_refuses_one() {
    assert!(body::refuse(Body::empty()).await.is_ok());
    assert_eq!(code(&body::refuse(Body::from("{}")).await.unwrap_err()), "validation_error");
}

#[tokio::test]
async fn a_problem_has_the_standards_members_and_the_dialects() {
    let error = Error::MailboxFull { per_sender: true, liveness: Box::default() };
    let answer = problem::of_error(&error, Dialect::Mailbox);
    assert_eq!(answer.status(), 409);
    assert_eq!(answer.headers()[CONTENT_TYPE], "application/problem+json");
    assert_eq!(answer.headers()[CACHE_CONTROL], "no-store");
    assert_eq!(answer.headers()[RETRY_AFTER], "60");
    let problem = read(answer).await;
    assert_eq!(problem["type"], "about:blank");
    assert_eq!(problem["title"], "Conflict");
    assert_eq!(problem["status"], 409);
    assert_eq!(problem["detail"], problem["message"]);
    assert_eq!(problem["code"], "mailbox_full_per_sender");
    assert_eq!(problem["retryable"], true);
    assert_eq!(problem["hint"], "recipient_never_polled");
    assert_eq!(problem["details"]["retry_after"], 60);

    let answer = problem::of_error(&Error::Unauthorized("no"), Dialect::Mailbox);
    assert!(answer.headers().contains_key(WWW_AUTHENTICATE));
    assert!(!answer.headers().contains_key(RETRY_AFTER));
}

#[tokio::test]
async fn refusals_of_the_door_and_of_tools_have_the_same_members() {
    let members = |problem: &Value| problem.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let refusal = Refusal::new(StatusCode::NOT_FOUND, "not_found", "Nothing.");
    let at_the_door = read(refusal.answer(false, None)).await;
    let of_a_tool = read(problem::of_error(&Error::NotFound("agent"), Dialect::Mailbox)).await;
    let of_no_tool = read(problem::unknown_tool(None)).await;
    assert_eq!(members(&at_the_door), members(&of_a_tool));
    assert_eq!(members(&at_the_door), members(&of_no_tool));
    assert_eq!(read(problem::unknown_tool(Some("mailbox_send"))).await["suggestion"], "mailbox_send");
}

#[test]
fn the_nearest_tool_is_one_that_can_be_called_by_name() {
    let registry = crate::registry();
    assert_eq!(nearest_tool(&registry, "mailbox_sent"), Some("mailbox_send"));
    assert_eq!(nearest_tool(&registry, "whoami"), Some("who_am_i"));
    assert_eq!(nearest_tool(&registry, "zzz"), None);
    let by_name = |name: &str| registry.find(name).is_some_and(|entry| entry.is_listed());
    assert!(nearest_tool(&registry, "agents_list").is_none_or(by_name));
}

#[test]
fn what_was_made_before_is_not_made_again() {
    let ran = |replayed| Ran { answer: "{}".to_owned(), replayed, awaits: None };
    let route = Route::post("/x").creating();
    assert_eq!(success(route, ran(false)).status(), 201);
    assert_eq!(success(route, ran(true)).status(), 200);
    assert_eq!(success(Route::post("/x"), ran(false)).status(), 200);
}
