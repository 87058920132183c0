//! Secrets of a registration: shown once, stored nowhere.

use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Row as _};

use super::owned;
use crate::house::{Agent, House, send};

#[tokio::test]
async fn secrets_are_shown_once_and_stored_nowhere() {
    let house = House::open().await;
    let answer = house.post(0, "/api/v1/onboard", None, &json!({ "agent_name": "Findable" })).await;
    let agent = Agent::of(&answer.body);
    let other = house.register().await;
    send(&house, &agent, &other, "hello").await;
    let dump = dump(&house).await;
    assert!(dump.contains("findable"), "the dump is no dump");
    assert!(dump.contains(&answer.body["wallet_address"].as_str().unwrap().to_lowercase()));
    let private = answer.body["wallet_private_key"].as_str().unwrap();
    let raw = private.strip_prefix("0x").unwrap();
    for secret in [raw, &agent.key, &agent.owner_key] {
        assert!(!dump.contains(&secret.to_lowercase()), "a secret is stored");
    }
    let listed = owned(&house, 0, &agent.owner_key, Method::GET, "/agents", Value::Null).await;
    assert!(!listed.body.to_string().contains(raw) && !listed.body.to_string().contains(&agent.key));
}

/// Every row of every table as text, in lower case; binary columns as hexadecimal digits.
async fn dump(house: &House) -> String {
    let tables: Vec<String> =
        sqlx::query_scalar("select tablename::text from pg_tables where schemaname = 'public'")
            .fetch_all(&house.db)
            .await
            .unwrap();
    let mut dump = String::new();
    for table in tables {
        let read = format!("select t::text from {table} t");
        let rows = sqlx::query(AssertSqlSafe(read)).fetch_all(&house.db).await.unwrap();
        rows.iter().for_each(|row| dump.push_str(&row.get::<String, _>(0).to_lowercase()));
    }
    dump
}

#[tokio::test]
async fn a_wallet_is_made_only_where_there_is_none_and_it_was_not_declined() {
    let house = House::open().await;
    let lower = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
    let own = house.post(0, "/api/v1/onboard", None, &json!({ "withdrawal_address": lower })).await.body;
    assert_eq!(own["wallet_address"], "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed");
    assert!(own.get("wallet_private_key").is_none());
    let declined = json!({ "auto_provision_testnet_wallet": false });
    let declined = house.post(0, "/api/v1/onboard", None, &declined).await.body;
    assert!(declined["wallet_address"].is_null() && declined.get("wallet_private_key").is_none());
}
