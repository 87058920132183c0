//! What programs and people ask for before they know the API: `/llms.txt`, `/`, and the addresses at which an
//! authorization server would announce itself.

use axum::Router;
use axum::response::Response;
use axum::routing::any;
use http::StatusCode;

use super::document::Document;
use super::refusal::Refusal;
use crate::call::{Entry, Registry};

/// Where clients look for an authorization server (RFC 8414, RFC 9728, OpenID Connect Discovery). There is
/// none, and they must be told so by a real 404: any 200 sends them into a login that does not exist.
const DISCOVERY: [&str; 3] =
    ["oauth-authorization-server", "oauth-protected-resource", "openid-configuration"];

/// The routes. `public_url` is the service's URL as clients use it, without a trailing slash.
pub fn router(registry: &Registry, public_url: &str) -> Router {
    let text = Document::new("text/plain; charset=utf-8", llms_txt(registry, public_url));
    let mut router = Router::new().route("/llms.txt", text.clone().route()).route("/", text.route());
    for name in DISCOVERY {
        router = router
            .route(&format!("/.well-known/{name}"), any(no_issuer))
            .route(&format!("/.well-known/{name}/{{*resource}}"), any(no_issuer));
    }
    router
}

async fn no_issuer() -> Response {
    let message = "There is no authorization server here. Call register without a key, then send its api_key as Authorization: Bearer.";
    // A problem for resources at /mcp too: this address is not the MCP endpoint.
    Refusal::new(StatusCode::NOT_FOUND, "not_found", message).answer(false, None)
}

/// What an agent needs to begin, in Markdown: what this is, how to register, and every tool in a line.
pub fn llms_txt(registry: &Registry, public_url: &str) -> String {
    let mut text = format!(
        "# Waypost\n\n> The inbox for agents. Register in one call, then send messages to other agents, wait for mail, \
         claim it, and ack it when it is done. Served over MCP and REST; every tool is the same at both.\n\n\
         ## Begin\n\n\
         MCP endpoint (Streamable HTTP): {public_url}/mcp\n\n\
         Call the tool `register`; it needs no key and no arguments. Over REST:\n\n\
         ```\ncurl -X POST {public_url}/api/v1/onboard -H 'Content-Type: application/json' -d '{{}}'\n```\n\n\
         Over MCP, without a client library:\n\n\
         ```\ncurl -X POST {public_url}/mcp -H 'Content-Type: application/json' \\\n  \
         -H 'Accept: application/json, text/event-stream' \\\n  \
         -d '{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"register\",\"arguments\":{{}}}}}}'\n```\n\n\
         Keep `api_key` and `owner_key` of the answer: they are shown once. Send `api_key` with every later call, as \
         `Authorization: Bearer`, as `X-API-Key`, or as the argument `box_key` where headers cannot be set; never in a \
         URL. `next_actions` of the answer says what to do next.\n\n\
         Over REST every tool is `POST {public_url}/api/v1/tools/NAME` with its arguments as a JSON object. All routes \
         and schemas: {public_url}/openapi.yaml. Arguments, answers, errors and examples, to read: {public_url}/docs\n"
    );
    for toolset in registry.toolsets() {
        text.push_str(&format!("\n## Tools: {}\n\n{}\n\n", toolset.name, toolset.about));
        let listed = toolset.entries().iter().filter(|entry| entry.is_listed());
        listed.for_each(|entry| text.push_str(&line(entry)));
    }
    text
}

/// `- name: the first paragraph of its description`.
fn line(entry: &Entry) -> String {
    let about = entry.description.split("\n\n").next().unwrap_or_default();
    format!("- `{}`: {}\n", entry.spec.name, about.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_for_agents_names_every_tool_and_the_addresses_to_begin_at() {
        let registry = crate::registry();
        let text = llms_txt(&registry, "https://inbox.example");
        for entry in registry.listed() {
            assert!(text.contains(&format!("- `{}`: ", entry.spec.name)));
        }
        for address in ["https://inbox.example/mcp", "https://inbox.example/api/v1/onboard"] {
            assert!(text.contains(address), "{address}");
        }
        assert!(text.starts_with("# Waypost\n\n> ") && text.contains("-d '{}'"));
    }
}
