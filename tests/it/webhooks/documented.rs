//! The verification code of docs/webhooks.md takes what a pod sends, and nothing else.

use std::collections::HashMap;
use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::genuine::is_genuine;
use super::receiver::Notice;
use super::{told, with_endpoint};

const PAGE: &str = include_str!("../../../docs/webhooks.md");

/// A secret, headers and a body, and whether that is genuine.
type Case = (&'static str, HashMap<String, String>, String, bool);

#[tokio::test]
async fn the_code_in_three_languages_takes_genuine_notices_and_refuses_all_others() {
    let (house, receiver) = with_endpoint().await;
    told(&house, &receiver, "/a").await;
    let cases = cases(&receiver.notices("/a")[0]);
    for (secret, headers, body, genuine) in &cases {
        assert_eq!(is_genuine(secret, headers, body.as_bytes()), Some(*genuine), "{headers:?} {body}");
    }
    let expected: Vec<bool> = cases.iter().map(|case| case.3).collect();
    let python = format!(
        "{}\nimport json, sys\nprint(json.dumps([is_genuine(s, h, b.encode()) for s, h, b, _ in json.load(sys.stdin)]))",
        block("python")
    );
    assert_eq!(run("python3", &["-c", &python], &cases).await, expected);
    // Not every node takes types: they are left out here.
    let types = [": string", ": Record<string, string>", ": Buffer", ": boolean"];
    let plain = types.iter().fold(block("typescript"), |code, of_type| code.replace(of_type, ""));
    let node = format!(
        "{plain}\nimport {{ readFileSync }} from 'node:fs';\nconst cases = JSON.parse(readFileSync(0, 'utf8'));
         console.log(JSON.stringify(cases.map(([s, h, b]) => isGenuine(s, h, Buffer.from(b)))));"
    );
    assert_eq!(run("node", &["--input-type=module", "-e", &node], &cases).await, expected);
}

#[test]
fn the_rust_code_of_the_page_is_the_code_that_is_tested() {
    let (_, code) = include_str!("genuine.rs").split_once("\n\n").unwrap();
    assert_eq!(block("rust"), code);
}

fn cases(notice: &Notice) -> Vec<Case> {
    let (headers, body) = (notice.headers.clone(), notice.body.clone());
    let with = |name: &str, value: String| {
        let mut headers = headers.clone();
        headers.insert(name.to_owned(), value);
        headers
    };
    let sent_at: i64 = notice.header("webhook-timestamp").parse().unwrap();
    let rotated = format!("v1,AAAA {}", notice.header("webhook-signature"));
    vec![
        ("hunter2", headers.clone(), body.clone(), true),
        ("hunter2", with("webhook-signature", rotated), body.clone(), true),
        ("hunter3", headers.clone(), body.clone(), false),
        ("hunter2", headers.clone(), format!("{body} "), false),
        ("hunter2", with("webhook-id", "msg_other".to_owned()), body.clone(), false),
        ("hunter2", with("webhook-timestamp", (sent_at - 301).to_string()), body.clone(), false),
        ("hunter2", with("webhook-signature", "v1,".to_owned()), body, false),
    ]
}

/// The code of that language on the page.
fn block(language: &str) -> String {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

async fn run(program: &str, arguments: &[&str], cases: &[Case]) -> Vec<bool> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    let mut input = child.stdin.take().unwrap();
    input.write_all(json!(cases).to_string().as_bytes()).await.unwrap();
    drop(input);
    let output = child.wait_with_output().await.unwrap();
    assert!(output.status.success(), "{program}");
    serde_json::from_slice(&output.stdout).unwrap()
}
