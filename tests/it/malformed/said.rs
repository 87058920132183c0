//! An answer in two words, so that a table can name it.

use serde_json::Value;

use super::wire::Answer;

/// `STATUS WORD`. Answers of the doors must also say it as their door does, which is checked on the way.
pub fn said(answer: &Answer) -> String {
    format!("{} {}", answer.status, word(answer))
}

fn word(answer: &Answer) -> String {
    if answer.body.is_empty() {
        return "-".into();
    }
    let Ok(body) = serde_json::from_str::<Value>(&answer.body) else { return "ok".into() };
    match answer.header("content-type").unwrap_or_default() {
        "application/problem+json" => of_problem(answer, &body),
        "application/json" if body.get("jsonrpc").is_some() => of_rpc(answer, &body),
        "application/json" if answer.status < 300 => "ok".into(),
        other => format!("a body of {other:?}"),
    }
}

fn of_problem(answer: &Answer, body: &Value) -> String {
    let whole = body["status"] == answer.status
        && body["title"].is_string()
        && body["detail"] == body["message"]
        && body["retryable"].is_boolean();
    let code = body["code"].as_str().unwrap_or("no code");
    if whole { code.into() } else { format!("{code} in half a problem: {body}") }
}

fn of_rpc(answer: &Answer, body: &Value) -> String {
    let result = &body["result"];
    let error = &body["error"];
    if let Some(code) =
        result["structuredContent"]["error"]["code"].as_str().filter(|_| result["isError"] == true)
    {
        return code.into();
    }
    match (result.is_object(), error["code"].as_i64(), error["data"]["code"].as_str()) {
        (true, None, _) => "ok".into(),
        (false, Some(code), Some(word)) if code == i64::from(answer.status) => word.into(),
        (false, Some(code), None) if code < 0 => code.to_string(),
        _ => format!("no JSON-RPC: {body}"),
    }
}
