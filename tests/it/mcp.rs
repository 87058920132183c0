//! The MCP endpoint over real sockets, as clients of both eras use it.

pub mod client;
mod golden;
mod progress;
mod published;

use serde_json::{Value, json};
use waypost::config::Config;

use crate::house::{House, settings};
use client::{Client, Keys, Said};

#[tokio::test]
async fn a_modern_client_discovers_registers_and_goes_on_in_one_conversation() {
    let house = House::open().await;
    let client = Client::modern(&house);
    let discovered = client.ask("server/discover", json!({})).await.result();
    assert_eq!(discovered["resultType"], "complete");
    assert_eq!(
        discovered["supportedVersions"],
        json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"])
    );
    assert_eq!(discovered["capabilities"], json!({ "tools": {} }));
    assert!(discovered["instructions"].as_str().unwrap().contains("Call register"));
    assert!(discovered["ttlMs"].as_u64().is_some() && discovered["cacheScope"] == "public");
    let server = &discovered["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(*server, json!({ "name": "waypost", "version": env!("CARGO_PKG_VERSION") }));

    let registered = client.call("register", json!({ "agent_name": "ada" })).await.structured();
    let key = registered["api_key"].as_str().unwrap();
    let me = client.call("who_am_i", json!({ "box_key": key })).await.result();
    assert_eq!(me["structuredContent"]["agent_name"], "ada");
    assert_eq!((&me["resultType"], &me["isError"]), (&json!("complete"), &json!(false)));
    assert_eq!(me["content"][0]["type"], "text");
    let text: Value = serde_json::from_str(me["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, me["structuredContent"]);
    assert!(me.get("ttlMs").is_none());
}

#[tokio::test]
async fn a_legacy_client_shakes_hands_and_calls() {
    let house = House::open().await;
    let client = Client::legacy(&house);
    for (asked, given) in [("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25"), ("1.0", "2025-11-25")]
    {
        let said = client.ask("initialize", json!({ "protocolVersion": asked, "capabilities": {} })).await;
        assert!(said.headers.get("mcp-session-id").is_none());
        let result = said.result();
        assert_eq!(result["protocolVersion"], given);
        assert_eq!(result["serverInfo"]["name"], "waypost");
        assert!(result.get("resultType").is_none() && result.get("_meta").is_none());
    }
    let said = client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    assert_eq!((said.status, said.text.as_str()), (202, ""));
    assert_eq!(client.ask("ping", json!({})).await.result(), json!({}));
    let listed = client.ask("tools/list", json!({})).await.result();
    assert_eq!(listed.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
    let registered = client.call("register", json!({})).await.result();
    assert!(registered.get("resultType").is_none());
    let key = registered["structuredContent"]["api_key"].as_str().unwrap();
    let me = client.with(Keys::bearer(key)).call("who_am_i", Value::Null).await;
    assert_eq!(me.structured()["agent_id"], registered["structuredContent"]["agent_id"]);
}

#[tokio::test]
async fn the_list_holds_every_tool_with_both_schemas_and_explicit_hints() {
    let house = House::open().await;
    let listed = Client::modern(&house).ask("tools/list", json!({})).await.result();
    assert!(listed["ttlMs"].as_u64().is_some() && listed["cacheScope"] == "public");
    assert!(listed.get("nextCursor").is_none());
    let tools = listed["tools"].as_array().unwrap();
    let registry = waypost::registry();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["register", "renew_agent_key", "who_am_i"]);
    assert!(!names.contains(&"mailbox_summary"), "only reached by its route");
    for tool in tools {
        let entry = registry.find(tool["name"].as_str().unwrap()).unwrap();
        assert_eq!(tool["inputSchema"], entry.input);
        assert_eq!(tool["outputSchema"]["type"], "object");
        assert_eq!(tool["outputSchema"]["anyOf"].as_array().unwrap().len(), 2);
        let hints = tool["annotations"].as_object().unwrap();
        assert_eq!(hints["title"], tool["title"]);
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(hints[hint].is_boolean(), "{hint}");
        }
    }
}

#[tokio::test]
async fn keys_are_judged_where_they_come_from() {
    let house = House::open().await;
    let client = Client::modern(&house);
    let ada = client.call("register", json!({})).await.structured();
    let (key, owner_key) = (ada["api_key"].as_str().unwrap(), ada["owner_key"].as_str().unwrap());
    let wrong = "wpa_0000000000000000000000000000000000000000000000000";

    let none = client.call("who_am_i", json!({})).await;
    assert_eq!(
        none.failure("unauthorized")["message"].as_str().map(|text| text.contains("Call register")),
        Some(true)
    );
    client.call("who_am_i", json!({ "box_key": wrong })).await.failure("unauthorized");
    client.with(Keys::api(key)).call("who_am_i", json!({})).await.structured();
    client.with(Keys::bearer(key)).call("who_am_i", json!({ "box_key": key })).await.structured();
    let differ = client.with(Keys::bearer(key)).call("who_am_i", json!({ "box_key": wrong })).await;
    differ.failure("unauthorized");

    let bad = client.with(Keys::bearer(wrong)).call("who_am_i", json!({})).await;
    bad.refusal(401, "unauthorized");
    assert!(bad.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    client.with(Keys::bearer(wrong)).ask("tools/list", json!({})).await.refusal(401, "unauthorized");
    client.with(Keys::bearer(owner_key)).call("who_am_i", json!({})).await.refusal(403, "forbidden");
    client
        .with(Keys { bearer: Some(key.into()), api: Some(wrong.into()) })
        .call("who_am_i", json!({}))
        .await
        .refusal(401, "unauthorized");
}

#[tokio::test]
async fn an_organization_that_is_not_the_keys_is_refused_alike_whether_it_exists_or_not() {
    let house = House::open().await;
    sqlx::query("insert into organization (org_id, slug) values (gen_random_uuid(), 'acme')")
        .execute(&house.db)
        .await
        .unwrap();
    let client = Client::modern(&house);
    let ada = client.call("register", json!({})).await.structured();
    let key = Keys::bearer(ada["api_key"].as_str().unwrap());
    let foreign = client.at("/o/acme/mcp").with(key.clone()).call("who_am_i", json!({})).await;
    foreign.refusal(403, "wrong_organization");
    let unknown = client.at("/o/nowhere/mcp").with(key).call("who_am_i", json!({})).await;
    assert_eq!((foreign.status, &foreign.text), (unknown.status, &unknown.text));

    let acme = client.at("/o/acme/mcp");
    let bob = acme.call("register", json!({})).await.structured();
    let me = acme.call("who_am_i", json!({ "box_key": bob["api_key"] })).await.structured();
    assert_eq!(me["org"], "acme");
    client.at("/o/nowhere/mcp").ask("tools/list", json!({})).await.refusal(404, "not_found");
    client.at("/o/nowhere/mcp").call("register", json!({})).await.failure("not_found");
    client.at("/o/%ff/mcp").ask("tools/list", json!({})).await.refusal_without_id(404, "not_found");
}

#[tokio::test]
async fn toolsets_are_chosen_by_query_then_header_then_address() {
    let mut house = House::empty().await;
    let toolsets = vec![waypost::mailbox::toolset(), progress::toolset()];
    house.add_pod(Config { ..settings() }, waypost::call::Registry::new(toolsets)).await;
    sqlx::query("insert into organization (org_id, slug) values (gen_random_uuid(), 'acme')")
        .execute(&house.db)
        .await
        .unwrap();
    let client = Client::modern(&house);
    let listed = |said: Said| {
        let tools = said.result()["tools"].clone();
        let has = |name: &str| tools.as_array().unwrap().iter().any(|tool| tool["name"] == name);
        (has("register"), has("count_to_three"))
    };
    let rows = [
        ("/mcp", None, (true, false)),
        ("/o/acme/mcp", None, (true, true)),
        ("/mcp?toolsets=testing", None, (false, true)),
        ("/mcp?toolsets=testing%2Cmailbox&x=1", None, (true, true)),
        ("/mcp?toolsets=testing&toolsets=mailbox", None, (true, true)),
        ("/mcp?toolsets=", None, (true, false)),
        ("/mcp", Some("testing, mailbox"), (true, true)),
        ("/mcp?toolsets=mailbox", Some("testing"), (true, false)),
    ];
    for (path, header, expected) in rows {
        let client = client.at(path).narrowed(header);
        assert_eq!(listed(client.ask("tools/list", json!({})).await), expected, "{path} {header:?}");
    }
    let private = client.narrowed(Some("testing")).ask("tools/list", json!({})).await.result();
    assert_eq!(private["cacheScope"], "private");
    client.call("count_to_three", json!({})).await.error(200, -32602);
    for client in [client.at("/mcp?toolsets=mailbox,gone"), client.narrowed(Some("gone"))] {
        let refused = client.ask("tools/list", json!({})).await.refusal(400, "unknown_toolset");
        assert_eq!(refused["data"]["details"]["known"], json!(["mailbox", "testing"]));
        assert!(refused["message"].as_str().unwrap().contains("mailbox, testing"));
    }
}

#[tokio::test]
async fn arguments_are_judged_strictly_and_as_the_tools_answer() {
    let house = House::open().await;
    let client = Client::modern(&house);
    let deep = format!(r#"{{"capabilities":{}{}}}"#, "[".repeat(40), "]".repeat(40));
    for (arguments, code, field) in [
        (r#"{"agent_name":"a","agent_name":"b"}"#, "validation_error", "agent_name"),
        (
            r#"{"capability_manifest":[{"name":"a","name":"b"}]}"#,
            "validation_error",
            "capability_manifest[0].name",
        ),
        (r#"{"agent_name":"a\u0000b"}"#, "validation_error", "agent_name"),
        (r#"{"agent_nam":"a"}"#, "unknown_field", "agent_nam"),
        (r#"{"agent_name":5}"#, "validation_error", "agent_name"),
    ] {
        let failure = client.call_raw("register", arguments).await.failure(code);
        assert_eq!(failure["details"]["field"], field, "{arguments}");
    }
    client.call_raw("register", &deep).await.failure("validation_error");
    for arguments in ["[]", "5", r#""{}""#, "false"] {
        client.call_raw("register", arguments).await.error(200, -32602);
    }
    for arguments in [r#"{"agent_name":"\ud800"}"#, r#"{"agent_name":1e999}"#] {
        client.call_raw("register", arguments).await.error(400, -32700);
    }
    client.call_raw("register", "null").await.structured();
    client.call_raw("register", r#"{"_meta":{"a":1},"agent_name":null}"#).await.structured();
}
