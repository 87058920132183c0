//! The documents for people and agents: complete, linked, safe to show, and true where they show calls.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use regex::Regex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;
use waypost::call::Entry;

use crate::house::{Agent, Answer, House, send};

/// What a call is refused with that no client should have been told to send.
const MISTAKES: [&str; 5] =
    ["validation_error", "unknown_field", "malformed_request", "unsupported_media", "unauthorized"];

async fn text(house: &House, path: &str) -> String {
    let answer = house.get(0, path, None).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body.as_str().unwrap_or_else(|| panic!("{path} is no text")).to_owned()
}

/// The part of its toolset's page that is about a tool.
async fn section(house: &House, entry: &Entry) -> String {
    let page = text(house, &format!("/docs/{}", entry.toolset)).await;
    let begin = page.find(&format!("<section id=\"{}\"", entry.spec.name));
    let section = &page[begin.unwrap_or_else(|| panic!("{} is not there", entry.spec.name))..];
    section[..section.find("</section>").unwrap()].to_owned()
}

#[tokio::test]
async fn every_tool_stands_on_its_page_with_its_arguments_answer_routes_and_refusals() {
    let house = House::open().await;
    for entry in waypost::registry().entries() {
        let section = section(&house, entry).await;
        let name = entry.spec.name;
        assert!(section.contains(entry.spec.title), "{name}");
        for (field, schema) in entry.input["properties"].as_object().unwrap() {
            let about = escaped(schema["description"].as_str().unwrap());
            assert!(section.contains(&format!("<dt><code>{field}</code>")), "{field} of {name}");
            assert!(section.contains(&format!("<dd>{about}</dd>")), "what {field} of {name} means");
        }
        for field in entry.answer["properties"].as_object().into_iter().flatten().map(|(field, _)| field) {
            assert!(
                section.contains(&format!("<dt><code>{field}</code>")),
                "{field} in the answer of {name}"
            );
        }
        for route in entry.spec.routes {
            assert!(section.contains(&format!(" {}</code>", route.path)), "{} of {name}", route.path);
        }
        for code in entry.refuses {
            assert!(section.contains(&format!("href=\"/docs#{code}\"")), "{code} of {name}");
        }
        assert_eq!(section.contains("tools/call"), entry.is_listed(), "{name} over MCP");
    }
}

#[tokio::test]
async fn the_index_names_every_tool_and_every_page_carries_its_title_and_language() {
    let house = House::open().await;
    let index = text(&house, "/docs").await;
    let registry = waypost::registry();
    for entry in registry.entries() {
        assert!(index.contains(&format!("href=\"/docs/{}#{}\"", entry.toolset, entry.spec.name)));
    }
    let toolsets = registry.toolsets().iter().map(|toolset| toolset.name);
    for name in toolsets {
        let page = text(&house, &format!("/docs/{name}")).await;
        assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"), "{name}");
        assert!(page.contains(&format!("<title>{name} · Waypost</title>")), "{name}");
        assert_eq!(page.matches("<h1>").count(), 1, "{name}");
    }
    let llms = text(&house, "/llms.txt").await;
    assert!(llms.contains(&format!("{}/docs", house.url(0))));
}

#[tokio::test]
async fn every_link_leads_somewhere() {
    let house = House::open().await;
    let link = Regex::new("href=\"([^\"#]*)(?:#([^\"]*))?\"").unwrap();
    let (mut pages, mut seen) = (HashMap::new(), BTreeSet::new());
    let mut waiting = vec![("/docs".to_owned(), String::new())];
    while let Some((path, anchor)) = waiting.pop() {
        if !seen.insert((path.clone(), anchor.clone())) {
            continue;
        }
        if !pages.contains_key(&path) {
            pages.insert(path.clone(), text(&house, &path).await);
        }
        let page = &pages[&path];
        assert!(anchor.is_empty() || page.contains(&format!(" id=\"{anchor}\"")), "{path}#{anchor}");
        if !path.starts_with("/docs") {
            continue;
        }
        for found in link.captures_iter(page) {
            let to = if found[1].is_empty() { path.clone() } else { found[1].to_owned() };
            waiting.push((to, found.get(2).map_or(String::new(), |anchor| anchor.as_str().to_owned())));
        }
    }
    assert!(pages.contains_key("/openapi.yaml") && pages.contains_key("/llms.txt"), "{:?}", pages.keys());
    assert_eq!(pages.len(), 3 + waypost::registry().toolsets().len());
}

#[tokio::test]
async fn pages_run_nothing_load_nothing_and_show_no_key() {
    let house = House::open().await;
    let key = Regex::new("wp[ao]_[A-Za-z0-9]{8}").unwrap();
    for path in ["/docs", "/docs/mailbox"] {
        let answer = house.get(0, path, None).await;
        let page = answer.body.as_str().unwrap();
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert!(!key.is_match(page), "{path}");
        for tag in ["<script", "<link", "<img", "<iframe", " style=", "http-equiv", " onclick"] {
            assert!(!page.contains(tag), "{path}: {tag}");
        }
        let style = page.split("<style>").nth(1).and_then(|rest| rest.split("</style>").next()).unwrap();
        let hash = BASE64_STANDARD.encode(Sha256::digest(style));
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with(&format!("default-src 'none'; style-src 'sha256-{hash}';")), "{policy}");
    }
}

#[tokio::test]
async fn who_has_a_document_already_is_told_so() {
    let house = House::open().await;
    for path in ["/docs", "/docs/mailbox", "/openapi.yaml", "/llms.txt"] {
        let first = house.get(0, path, None).await;
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        assert_eq!(first.headers["cache-control"], "public, max-age=300", "{path}");
        for (tags, status) in [
            (tag.clone(), 304),
            (format!("W/{tag}"), 304),
            (format!("\"other\", {tag}"), 304),
            ("\"other\"".into(), 200),
        ] {
            let request = house.http().get(format!("{}{path}", house.url(0))).header("if-none-match", &tags);
            let again = house.send(request, None).await;
            assert_eq!(
                (again.status, again.headers["etag"].to_str().unwrap()),
                (status, &*tag),
                "{path} {tags}"
            );
            let is_empty = again.body.as_str().is_some_and(str::is_empty);
            assert_eq!(is_empty, status == 304, "{path} {tags}");
        }
    }
}

#[tokio::test]
async fn a_page_that_does_not_exist_is_a_problem() {
    let house = House::open().await;
    for path in
        ["/docs/", "/docs/nothing", "/docs/mailbox/mailbox_send", "/docs/%6Dailboxes", "/o/public/docs"]
    {
        let answer = house.get(0, path, None).await;
        assert_eq!((answer.status, &answer.body["code"]), (404, &json!("not_found")), "{path}");
        assert_eq!(answer.headers["content-type"], "application/problem+json", "{path}");
    }
}

#[tokio::test]
async fn the_examples_are_taken_as_they_stand_at_both_doors() {
    let house = House::open().await;
    house.register_with(json!({ "agent_name": "writer" })).await;
    for entry in waypost::registry().entries() {
        let section = section(&house, entry).await;
        let name = entry.spec.name;
        let over_rest =
            by_curl(&listing(&section, &format!("{name} over REST")), &caller(&house).await).await;
        taken(entry, &over_rest);
        if entry.is_listed() {
            let call = listing(&section, &format!("{name} over MCP"));
            let answer = over_mcp(&house, &call, &caller(&house).await).await;
            assert!(answer.body["result"].is_object(), "{name}: {}", answer.body);
            taken(entry, &answer.body["result"]["structuredContent"]["error"]);
        }
    }
}

#[tokio::test]
async fn examples_that_tools_give_fit_their_schemas() {
    for entry in waypost::registry().entries() {
        let Some(example) = entry.example else { continue };
        let arguments: Map<String, Value> = serde_json::from_str(example).unwrap();
        assert!(Arc::clone(entry).read(arguments).is_ok(), "{}", entry.spec.name);
    }
}

/// Somebody with mail, so that nothing is held for long.
async fn caller(house: &House) -> Agent {
    let (agent, peer) = (house.register().await, house.register().await);
    send(house, &peer, &agent, "hello").await;
    agent
}

/// The text of a `pre`.
fn listing(section: &str, label: &str) -> String {
    let begin =
        section.find(&format!("<figcaption>{label}</figcaption>")).unwrap_or_else(|| panic!("no {label}"));
    let text = section[begin..].split("<code>").nth(1).unwrap().split("</code>").next().unwrap();
    text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Runs an example as printed.
async fn by_curl(command: &str, caller: &Agent) -> Value {
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", command]).env("NO_PROXY", "127.0.0.1");
    bash.env("API_KEY", &caller.key).env("OWNER_KEY", &caller.owner_key);
    let output = bash.output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{command}");
    if said.starts_with("retry: ") {
        assert!(said.contains("event: message") && said.contains("event: reconnect"), "{command}\n{said}");
        return json!({});
    }
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{command}\n{said}"))
}

async fn over_mcp(house: &House, call: &str, caller: &Agent) -> Answer {
    let call: Value = serde_json::from_str(&call.replace("<owner_key>", &caller.owner_key)).unwrap();
    house.post(0, "/mcp", Some(&caller.key), &call).await
}

/// An answer or a refusal, but none of what was sent.
fn taken(entry: &Entry, answer: &Value) {
    let code = answer["code"].as_str().unwrap_or_default();
    assert!(!MISTAKES.contains(&code), "{}: {answer}", entry.spec.name);
    assert_ne!(answer["message"], "There is nothing at this path.", "{}", entry.spec.name);
}
