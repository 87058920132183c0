//! Registering under an owner one has, and organizations that take nobody else.

use reqwest::Method;
use serde_json::json;
use waypost::config::Registration;

use super::{organization, owned, register_at};
use crate::house::{Agent, House, until};

#[tokio::test]
async fn an_owner_key_adds_an_agent_to_its_owner() {
    let house = House::open().await;
    let first = house.post(0, "/api/v1/onboard", None, &json!({})).await.body;
    let key = first["owner_key"].as_str().unwrap();
    let second = house.post(0, "/api/v1/onboard", None, &json!({ "owner_key": key })).await;
    assert_eq!((second.status, &second.body["owner_id"]), (201, &first["owner_id"]));
    assert!(second.body.get("owner_key").is_none());
    let by_header = owned(&house, 0, key, Method::POST, "/onboard", json!({})).await;
    assert_eq!((by_header.status, &by_header.body["owner_id"]), (201, &first["owner_id"]));

    let mut mistyped = key.to_owned();
    mistyped.replace_range(10..11, if &key[10..11] == "a" { "b" } else { "a" });
    let refused = house.post(0, "/api/v1/onboard", None, &json!({ "owner_key": mistyped })).await;
    assert_eq!((refused.status, &refused.body["code"]), (401, &json!("unauthorized")));
    let wrong = house.post(0, "/api/v1/onboard", None, &json!({ "owner_key": first["api_key"] })).await;
    assert_eq!((wrong.status, &wrong.body["code"]), (403, &json!("forbidden")));
}

#[tokio::test]
async fn a_closed_organization_takes_registrations_with_an_owner_key_only() {
    let house = House::open().await;
    organization(&house, "acme", Registration::Open).await;
    let first = register_at(&house, "acme", json!({})).await;
    assert_eq!(first.status, 201);
    sqlx::query("update organization set registration = 'closed' where slug = 'acme'")
        .execute(&house.db)
        .await
        .unwrap();
    until("acme is closed", async || register_at(&house, "acme", json!({})).await.status == 403).await;
    let refused = register_at(&house, "acme", json!({})).await;
    assert_eq!(refused.body["code"], "forbidden");
    let rooms = house.post(0, "/o/acme/api/v1/rooms/register", None, &json!({})).await;
    assert_eq!(rooms.body, refused.body, "by the other route too");
    let invited = register_at(&house, "acme", json!({ "owner_key": first.body["owner_key"] })).await;
    assert_eq!(
        (invited.status, &invited.body["owner_id"]),
        (201, &first.body["owner_id"]),
        "{}",
        invited.body
    );
    let who = house.ok(&Agent::of(&invited.body), "who_am_i", json!({})).await;
    assert_eq!(who["org"], "acme");
    let stranger = house.register().await;
    let refused = register_at(&house, "acme", json!({ "owner_key": stranger.owner_key })).await;
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("wrong_organization")));
}
