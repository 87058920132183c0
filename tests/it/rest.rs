//! The REST door: what it takes, what it refuses, and with which status.

use reqwest::Method;
use serde_json::{Value, json};

use crate::house::{Agent, Answer, House, send};

/// A route with a JSON body that sends mail.
const MESSAGES: &str = "/api/v1/mailbox/messages";

async fn raw(house: &House, key: Option<&str>, kind: Option<&str>, body: impl Into<reqwest::Body>) -> Answer {
    let request = house.http().post(format!("{}{MESSAGES}", house.url(0))).body(body);
    let request = kind.into_iter().fold(request, |request, kind| request.header("content-type", kind));
    house.send(request, key).await
}

/// A request of an owner.
async fn owner(house: &House, agent: &Agent, method: Method, path: &str, body: Option<Value>) -> Answer {
    let request = house.http().request(method, format!("{}{path}", house.url(0)));
    let request = request.header("x-owner-key", &agent.owner_key);
    let request = body.iter().fold(request, |request, body| request.json(body));
    house.send(request, None).await
}

async fn stored(house: &House) -> i64 {
    sqlx::query_scalar("select count(*) from message").fetch_one(&house.db).await.unwrap()
}

fn is_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.body["type"], "about:blank");
    assert_eq!(answer.body["status"], status);
    assert_eq!(answer.body["detail"], answer.body["message"]);
    assert!(answer.body["title"].is_string() && answer.body["retryable"].is_boolean());
}

#[tokio::test]
async fn what_makes_something_is_201_and_all_else_200() {
    let house = House::open().await;
    let ada = house.register().await;
    let key = Some(ada.key.as_str());
    let rooms = house.post(0, "/api/v1/rooms/register", None, &json!({ "display_name": "Bo" })).await;
    assert_eq!((rooms.status, &rooms.body["scope"]), (201, &json!("rooms")));

    let letter = json!({ "recipient_agent_id": ada.id, "body": "hello", "client_message_id": "1" });
    let first = house.post(0, MESSAGES, key, &letter).await;
    let again = house.post(0, MESSAGES, key, &letter).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!(again.body["deduplicated"], true);
    assert_eq!(first.headers["content-type"], "application/json");
    assert_eq!(first.headers["cache-control"], "no-store");

    let id = first.body["message_id"].as_str().unwrap();
    for path in ["/api/v1/whoami", MESSAGES, "/api/v1/mailbox/summary", &format!("{MESSAGES}/{id}")] {
        assert_eq!(house.get(0, path, key).await.status, 200, "{path}");
    }
    assert_eq!(house.post(0, "/api/v1/mailbox/claim", key, &json!({})).await.status, 200);
    assert_eq!(house.post(0, "/api/v1/mailbox/ack", key, &json!({ "message_ids": [id] })).await.status, 200);
    assert_eq!(house.post(0, "/api/v1/tools/register", None, &json!({})).await.status, 200);
}

#[tokio::test]
async fn an_owners_routes_take_the_agent_from_the_path() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, house.register().await);
    let root = format!("/api/v1/agents/{}", ada.id);
    let keys = owner(&house, &ada, Method::POST, &format!("{root}/keys"), None).await;
    assert_eq!(keys.status, 201);
    let made = format!("{root}/keys/{}", keys.body["key_id"].as_str().unwrap());
    assert_eq!(owner(&house, &ada, Method::DELETE, &made, None).await.status, 200);
    assert_eq!(owner(&house, &ada, Method::POST, &format!("{root}/probe"), None).await.status, 201);
    assert_eq!(owner(&house, &ada, Method::GET, "/api/v1/agents?limit=1", None).await.status, 200);
    let block = format!("{root}/blocks/{}", bob.id);
    assert_eq!(owner(&house, &ada, Method::PUT, &block, None).await.status, 200);
    assert_eq!(owner(&house, &ada, Method::DELETE, &block, None).await.status, 200);
    let inbound = format!("{root}/inbound");
    let set = owner(&house, &ada, Method::PUT, &inbound, Some(json!({ "inbound": "known" }))).await;
    assert_eq!((set.status, &set.body["inbound"]), (200, &json!("known")));
    assert_eq!(owner(&house, &ada, Method::GET, &inbound, None).await.status, 200);

    let twice = json!({ "inbound": "open", "agent_id": ada.id });
    let twice = owner(&house, &ada, Method::PUT, &inbound, Some(twice)).await;
    is_problem(&twice, 422, "unknown_field");
    assert_eq!(twice.body["details"]["field"], "agent_id");
    let fixed = house.post(0, "/api/v1/rooms/register", None, &json!({ "scope": "rooms" })).await;
    is_problem(&fixed, 422, "unknown_field");
    assert_eq!(owner(&house, &ada, Method::POST, "/api/v1/api-keys", None).await.status, 201);
}

#[tokio::test]
async fn a_query_is_judged_like_any_arguments() {
    let house = House::open().await;
    let ada = house.register().await;
    let key = Some(ada.key.as_str());
    let page = house.get(0, &format!("{MESSAGES}?since=0&limit=%31&wait=0"), key).await;
    assert_eq!(page.body["messages"].as_array().map(Vec::len), Some(1), "{}", page.body);
    for (query, status, code) in [
        ("cursor=1", 422, "unknown_field"),
        ("since=1&since=1", 422, "validation_error"),
        ("since=1&sin%63e=1", 422, "validation_error"),
        ("since=-1", 422, "validation_error"),
        ("since=null", 422, "validation_error"),
        ("since=", 422, "validation_error"),
        ("since=9007199254740993", 422, "validation_error"),
        ("limit=0", 422, "validation_error"),
        ("limit=5.5", 422, "validation_error"),
        ("limit=%00", 422, "validation_error"),
        ("limit=%FF", 400, "malformed_request"),
        (&format!("box_key={}", ada.key), 422, "unknown_field"),
        (&format!("{}=1", ada.key), 422, "unknown_field"),
    ] {
        let answer = house.get(0, &format!("{MESSAGES}?{query}"), key).await;
        is_problem(&answer, status, code);
        assert!(!answer.body.to_string().contains(&ada.key));
    }
    let suggested = house.get(0, &format!("{MESSAGES}?cursor=1"), key).await;
    assert_eq!(suggested.body["suggestion"], "since");
    let keyed = house.get(0, &format!("{MESSAGES}?box_key={}", ada.key), None).await;
    is_problem(&keyed, 422, "unknown_field");
    is_problem(&house.get(0, &format!("{MESSAGES}/%FF"), key).await, 400, "malformed_request");
    is_problem(&house.get(0, "/o/%FF/api/v1/whoami", key).await, 400, "malformed_request");
    is_problem(&house.get(0, "/api/v1/whoami?verbose=1", key).await, 422, "unknown_field");
    let posted = house.post(0, "/api/v1/mailbox/claim?limit=1", key, &json!({})).await;
    is_problem(&posted, 422, "unknown_field");
}

#[tokio::test]
async fn input_that_is_not_plain_json_is_refused_and_nothing_is_stored() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, house.register().await);
    let before = stored(&house).await;
    let to = format!(r#""recipient_agent_id":"{}""#, bob.id);
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let parts = |data: String| format!(r#"{{{to},"body":"b","parts":[{{"data":{data}}}]}}"#);
    for (body, status, code) in [
        ("{".to_owned(), 400, "malformed_request"),
        (format!(r#"{{{to},"body":"b"}} "#) + "{}", 400, "malformed_request"),
        (format!(r#"{{{to},"body":"\ud800"}}"#), 400, "malformed_request"),
        (format!(r#"{{{to},"body":"b","ack_requested":NaN}}"#), 400, "malformed_request"),
        (format!(r#"{{{to},"body":"a\u0000b"}}"#), 422, "validation_error"),
        (format!(r#"{{{to},"body":"b","a\u0000b":1}}"#), 422, "validation_error"),
        (format!(r#"{{{to},"body":"a","body":"b"}}"#), 422, "validation_error"),
        (parts(r#"{"a":1,"a":1}"#.to_owned()), 422, "validation_error"),
        (parts(deep(30)), 422, "validation_error"),
        (parts(deep(5000)), 422, "validation_error"),
        (format!(r#"{{{to},"body":"b","thread_id":"null"}}"#), 422, "validation_error"),
        (format!(r#"{{{to},"body":"b","thread_id":""}}"#), 422, "validation_error"),
        (format!(r#"{{{to},"body":"b","ack_requested":"true"}}"#), 422, "validation_error"),
        (format!(r#"{{{to},"body":"b","text":"c"}}"#), 422, "unknown_field"),
        ("[]".to_owned(), 422, "validation_error"),
        ("null".to_owned(), 422, "validation_error"),
        (format!(r#"{{{to},"body":"{}"}}"#, "x".repeat(8001)), 400, "message_too_large"),
        (format!(r#"{{{to},"body":"{}"}}"#, "x".repeat(256 * 1024)), 413, "payload_too_large"),
    ] {
        let answer = raw(&house, Some(&ada.key), Some("application/json"), body.clone()).await;
        assert_eq!(
            answer.status,
            status,
            "{} for {}",
            answer.body,
            body.chars().take(200).collect::<String>()
        );
        is_problem(&answer, status, code);
    }
    let bad_utf8 = raw(&house, Some(&ada.key), Some("application/json"), vec![b'"', 0xFF, b'"']).await;
    is_problem(&bad_utf8, 400, "malformed_request");
    let lease = json!({ "lease_seconds": 9_007_199_254_740_993_i64 });
    is_problem(
        &house.post(0, "/api/v1/mailbox/claim", Some(&ada.key), &lease).await,
        422,
        "validation_error",
    );
    assert_eq!(stored(&house).await, before);

    let taken = raw(&house, Some(&ada.key), Some("application/json"), parts(deep(28))).await;
    assert_eq!(taken.status, 201, "{}", taken.body);
}

#[tokio::test]
async fn a_body_must_be_declared_as_json() {
    let house = House::open().await;
    let ada = house.register().await;
    let body = format!(r#"{{"recipient_agent_id":"{}","body":"b"}}"#, ada.id);
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("text/json")] {
        is_problem(&raw(&house, Some(&ada.key), kind, body.clone()).await, 415, "unsupported_media");
    }
    let declared = raw(&house, Some(&ada.key), Some("application/json; charset=utf-8"), body).await;
    assert_eq!(declared.status, 201);
    let empty = house.http().post(format!("{}/api/v1/onboard", house.url(0)));
    assert_eq!(house.send(empty, None).await.status, 201, "an empty body is no arguments");
    let get = house.http().get(format!("{}{MESSAGES}", house.url(0))).body(r#"{"since":1}"#);
    is_problem(&house.send(get, Some(&ada.key)).await, 422, "validation_error");
}

#[tokio::test]
async fn a_credential_is_judged_wherever_it_may_stand() {
    let house = House::open().await;
    let ada = house.register().await;
    for key in [None, Some("wpa_mistyped"), Some("")] {
        let answer = house.get(0, "/api/v1/whoami", key).await;
        is_problem(&answer, 401, "unauthorized");
        assert!(answer.headers.contains_key("www-authenticate"));
    }
    let as_argument = json!({ "box_key": ada.key });
    assert_eq!(house.post(0, "/api/v1/tools/who_am_i", None, &as_argument).await.body["agent_id"], ada.id);
    let wrong = json!({ "box_key": "wpa_mistyped" });
    let wrong = house.post(0, "/api/v1/tools/who_am_i", None, &wrong).await;
    is_problem(&wrong, 401, "unauthorized");
    assert!(wrong.headers.contains_key("www-authenticate"));
    is_problem(&house.get(0, "/api/v1/whoami", Some(&ada.owner_key)).await, 403, "forbidden");
    assert_eq!(house.get(0, "/o/public/api/v1/whoami", Some(&ada.key)).await.status, 200);
    let ghost = house.get(0, "/o/ghost/api/v1/whoami", Some(&ada.key)).await;
    is_problem(&ghost, 403, "wrong_organization");
}

#[tokio::test]
async fn a_tool_that_does_not_exist_is_404_with_the_nearest_name() {
    let house = House::open().await;
    let ada = house.register().await;
    let mistyped = house.call(0, &ada, "mailbox_sent", json!({})).await;
    is_problem(&mistyped, 404, "not_found");
    assert_eq!(mistyped.body["suggestion"], "mailbox_send");
    let unlike = house.call(0, &ada, "zzz", json!({})).await;
    is_problem(&unlike, 404, "not_found");
    let by_routes_alone = house.call(0, &ada, "block_remove", json!({})).await;
    is_problem(&by_routes_alone, 404, "not_found");
    assert_eq!(house.post(0, "/o/public/api/v1/tools/zzz", None, &json!({})).await.body, unlike.body);

    for (path, allowed) in [("/api/v1/tools/mailbox_send", "POST"), ("/api/v1/mailbox/ack", "POST")] {
        let answer = house.get(0, path, Some(&ada.key)).await;
        assert_eq!((answer.status, answer.headers["allow"].to_str().unwrap()), (405, allowed));
        assert_eq!(answer.body["code"], "method_not_allowed");
    }
}

#[tokio::test]
async fn another_agents_message_is_one_that_does_not_exist() {
    let house = House::open().await;
    let (ada, bob, eve) = (house.register().await, house.register().await, house.register().await);
    let id = send(&house, &ada, &bob, "for bob").await;
    let foreign = house.get(0, &format!("{MESSAGES}/{id}"), Some(&eve.key)).await;
    let unknown = house.get(0, &format!("{MESSAGES}/{}", uuid::Uuid::nil()), Some(&eve.key)).await;
    is_problem(&foreign, 404, "not_found");
    assert_eq!(foreign.body, unknown.body);
    assert_eq!(house.get(0, &format!("{MESSAGES}/{id}"), Some(&bob.key)).await.status, 200);
}

#[tokio::test]
async fn there_is_no_authorization_server_and_the_texts_are_text() {
    let house = House::open().await;
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource",
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource/o/public/mcp",
        "/.well-known/openid-configuration",
    ] {
        let answer = house.get(0, path, None).await;
        assert_eq!((answer.status, &answer.body["code"]), (404, &json!("not_found")), "{path}");
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
    for path in ["/", "/llms.txt"] {
        let answer = house.get(0, path, None).await;
        assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
        assert!(answer.body.as_str().unwrap().contains(&format!("{}/mcp", house.url(0))), "{path}");
    }
    let openapi = house.get(0, "/openapi.yaml", None).await;
    assert_eq!(openapi.headers["content-type"], "application/yaml");
    assert_eq!(openapi.body.as_str(), Some(include_str!("../../openapi.yaml")));
}
