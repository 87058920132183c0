//! `register`: an identity in one call, judged before it is made, its secrets shown once.

use serde_json::{Value, json};
use waypost::mailbox::wallet;

use super::{bodies, members, owned};
use crate::house::{Agent, House};
use reqwest::Method;

const ROOMS_FIELDS: [&str; 6] = ["agent_id", "agent_name", "api_key", "next_action", "ok", "scope"];

#[tokio::test]
async fn registering_without_arguments_gives_an_identity_a_mailbox_and_a_wallet() {
    let house = House::open().await;
    let answer = house.post(0, "/api/v1/onboard", None, &json!({})).await;
    assert_eq!(answer.status, 201);
    let registered = &answer.body;
    let fields = "agent_id agent_name api_key inbox_url mcp_url next_actions ok owner_id owner_key scope wallet_address wallet_private_key";
    assert_eq!(members(registered).join(" "), fields);
    let agent = Agent::of(registered);
    let hex8 = agent.name.strip_prefix("agent-").unwrap();
    assert!(hex8.len() == 8 && hex8.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{hex8}");
    assert!(agent.key.starts_with("wpa_") && agent.owner_key.starts_with("wpo_"));
    assert_eq!((&registered["ok"], &registered["scope"]), (&json!(true), &json!("platform")));
    assert_eq!(registered["mcp_url"], format!("{}/mcp", house.url(0)));
    assert_eq!(registered["inbox_url"], format!("{}/api/v1/mailbox/messages", house.url(0)));
    assert!(!registered["next_actions"].as_array().unwrap().is_empty());
    let address = registered["wallet_address"].as_str().unwrap();
    assert_eq!(wallet::judge_address(address), Ok(address.to_owned()));
    assert_eq!(registered["wallet_private_key"].as_str().unwrap().len(), 66);

    let checked = house.ok(&agent, "mailbox_check", json!({})).await;
    let [welcome] = checked["messages"].as_array().unwrap().as_slice() else { panic!("{checked}") };
    assert_eq!((&welcome["sender_type"], &welcome["seq"]), (&json!("system"), &json!(1)));
    let text = bodies(&checked["messages"])[0].to_owned();
    for tool in ["mailbox_check", "mailbox_claim", "mailbox_ack"] {
        assert!(text.contains(tool), "{text}");
    }
}

#[tokio::test]
async fn the_rooms_scope_answers_exactly_six_fields() {
    let house = House::open().await;
    let short = json!({ "scope": "rooms" });
    let named = json!({ "display_name": "  Ada " });
    for (path, arguments, name) in [
        ("/api/v1/onboard", &short, None),
        ("/api/v1/tools/register", &short, None),
        ("/api/v1/rooms/register", &json!({}), None),
        ("/api/v1/rooms/register", &named, Some("Ada")),
    ] {
        let answer = house.post(0, path, None, arguments).await;
        assert_eq!(members(&answer.body), ROOMS_FIELDS, "{path} {}", answer.body);
        assert_eq!(answer.body["scope"], "rooms");
        assert!(name.is_none_or(|name| answer.body["agent_name"] == name), "{}", answer.body);
        house.ok(&Agent::of(&answer.body), "who_am_i", json!({})).await;
    }
}

#[tokio::test]
async fn a_display_name_is_for_rooms_only_and_never_beside_an_agent_name() {
    let house = House::open().await;
    for (arguments, field) in [
        (json!({ "display_name": "Ada" }), "display_name"),
        (json!({ "scope": "rooms", "display_name": "Ada", "agent_name": "Ada" }), "display_name"),
        (json!({ "scope": "rooms", "display_name": "x".repeat(65) }), "display_name"),
    ] {
        let refused = house.post(0, "/api/v1/onboard", None, &arguments).await;
        assert_eq!((refused.status, &refused.body["code"]), (422, &json!("validation_error")), "{arguments}");
        assert_eq!(refused.body["details"]["field"], field, "{}", refused.body);
    }
}

#[tokio::test]
async fn what_an_agent_declares_is_judged_before_anything_is_made() {
    let house = House::open().await;
    for (arguments, field) in [
        (json!({ "agent_name": "x".repeat(81) }), "agent_name"),
        (json!({ "agent_name": "a\u{202E}b" }), "agent_name"),
        (json!({ "agent_name": "a\u{200B}b" }), "agent_name"),
        (json!({ "agent_name": "a\nb" }), "agent_name"),
        (json!({ "scope": "rooms", "display_name": "a\u{2066}b" }), "display_name"),
        (json!({ "endpoint": "not a url" }), "endpoint"),
        (json!({ "endpoint": "ftp://example.com" }), "endpoint"),
        (json!({ "endpoint": "" }), "endpoint"),
        (json!({ "wallet_address": "0x12" }), "wallet_address"),
        (json!({ "withdrawal_address": "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" }), "withdrawal_address"),
        (json!({ "capability_manifest": [{ "name": "" }] }), "capability_manifest[0].name"),
    ] {
        let refused = house.post(0, "/api/v1/onboard", None, &arguments).await;
        assert_eq!((refused.status, &refused.body["code"]), (422, &json!("validation_error")), "{arguments}");
        assert_eq!(refused.body["details"]["field"], field, "{}", refused.body);
    }
    let unknown = house.post(0, "/api/v1/onboard", None, &json!({ "name": "Ada" })).await;
    assert_eq!(
        (&unknown.body["code"], &unknown.body["suggestion"]),
        (&json!("unknown_field"), &json!("agent_name"))
    );
    let rows: i64 = sqlx::query_scalar("select count(*) from agent").fetch_one(&house.db).await.unwrap();
    let counted: i64 =
        sqlx::query_scalar("select count(*) from registration").fetch_one(&house.db).await.unwrap();
    assert_eq!((rows, counted), (0, 0), "what was refused left a trace");
}

#[tokio::test]
async fn a_name_is_shown_as_given_and_a_blank_one_is_made() {
    let house = House::open().await;
    for name in ["Zoe\u{308}", "エージェント", &"ü".repeat(80)] {
        assert_eq!(house.register_with(json!({ "agent_name": name })).await.name, *name);
    }
    let blank = house.register_with(json!({ "agent_name": " " })).await;
    assert!(blank.name.starts_with("agent-"), "{}", blank.name);
}

#[tokio::test]
async fn a_channel_is_trimmed_and_lowered_before_it_is_judged() {
    let house = House::open().await;
    let agent = house.register_with(json!({ "channel": "  Hacker-News\n" })).await;
    let kept: Vec<String> =
        sqlx::query_scalar("select channel from registration").fetch_all(&house.db).await.unwrap();
    assert_eq!(kept, ["hacker-news"]);
    let listed = owned(&house, 0, &agent.owner_key, Method::GET, "/agents", Value::Null).await;
    assert!(!listed.body.to_string().contains("hacker"), "{}", listed.body);
    for channel in ["data_listing", " DATA_Listing ", "", "-x", "a b", "é", &"x".repeat(65)] {
        let refused = house.post(0, "/api/v1/onboard", None, &json!({ "channel": channel })).await;
        assert_eq!(refused.body["details"]["field"], "channel", "{channel:?} {}", refused.body);
    }
}

#[tokio::test]
async fn prices_and_caps_may_be_text_or_numbers() {
    let house = House::open().await;
    for (price, cap, shown) in [
        (json!(0.5), json!(10), ("0.5", "10")),
        (json!("0.50"), json!("10.25"), ("0.50", "10.25")),
        (json!(100), json!(2.5), ("100", "2.5")),
    ] {
        let arguments =
            json!({ "price_per_call": price, "spending_cap_mode": "fixed", "spending_cap_amount": cap });
        let agent = house.register_with(arguments).await;
        let listed = owned(&house, 0, &agent.owner_key, Method::GET, "/agents", Value::Null).await;
        let profile = &listed.body["agents"][0]["profile"];
        assert_eq!(
            (&profile["price_per_call"], &profile["spending_cap_amount"]),
            (&json!(shown.0), &json!(shown.1))
        );
    }
    for arguments in [
        json!({ "price_per_call": 0 }),
        json!({ "price_per_call": "0.0" }),
        json!({ "price_per_call": -1 }),
        json!({ "price_per_call": 100.01 }),
        json!({ "price_per_call": "abc" }),
        json!({ "price_per_call": true }),
        json!({ "spending_cap_amount": 0 }),
        json!({ "spending_cap_mode": "fixed" }),
        json!({ "spending_cap_mode": "other" }),
    ] {
        let refused = house.post(0, "/api/v1/onboard", None, &arguments).await;
        assert_eq!(refused.body["code"], "validation_error", "{arguments} {}", refused.body);
    }
}

#[tokio::test]
async fn who_am_i_tells_what_a_key_stands_for() {
    let house = House::open().await;
    let agent = house.register_with(json!({ "agent_name": "Ada" })).await;
    let who = house.ok(&agent, "who_am_i", json!({})).await;
    let fields =
        "agent_id agent_name created_at key_prefix monitored org owner_id permanent session_id verified";
    assert_eq!(members(&who).join(" "), fields);
    assert_eq!(
        (&who["agent_id"], &who["agent_name"], &who["org"]),
        (&json!(agent.id), &json!("Ada"), &json!("public"))
    );
    assert_eq!(who["key_prefix"], agent.key[..10]);
    assert_eq!(
        (&who["permanent"], &who["verified"], &who["monitored"]),
        (&json!(false), &json!(false), &json!(false))
    );
    house.ok(&agent, "mailbox_claim", json!({})).await;
    assert_eq!(house.ok(&agent, "who_am_i", json!({})).await["permanent"], true);
}
