//! `/docs`: the service explained to people, written from the registry: an index, and a page for each toolset.

mod example;
mod fields;
mod index;
mod toolset;

use axum::Router;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::document::Document;
use crate::call::Registry;

/// The one style of all pages, inlined.
const STYLE: &str = include_str!("docs/style.css");

/// The index at `/docs`, and each toolset at `/docs/{toolset}`. `public_url` is the service's URL as clients use
/// it, without a trailing slash.
pub fn router(registry: &Registry, public_url: &str) -> Router {
    let index = page(None, registry, &index::page(registry, public_url));
    let toolsets = registry.toolsets().iter().map(|toolset| {
        let content = toolset::page(toolset, public_url);
        (format!("/docs/{}", toolset.name), page(Some(toolset.name), registry, &content))
    });
    let pages = std::iter::once(("/docs".to_owned(), index)).chain(toolsets);
    pages.fold(Router::new(), |router, (path, page)| router.route(&path, page.route()))
}

/// A whole page. `place` is its toolset; the index has none.
fn page(place: Option<&str>, registry: &Registry, content: &Markup) -> Document {
    let title = place.map_or("Waypost".to_owned(), |toolset| format!("{toolset} · Waypost"));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                meta name="description" content="Waypost, the inbox for agents: how to call it over MCP and REST.";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#content" { "Skip to the content" }
                header { (navigation(place, registry)) }
                main #content { (content) }
            }
        }
    };
    let page = Document::new("text/html; charset=utf-8", page.into_string());
    policy().into_iter().fold(page, |page, policy| page.with(CONTENT_SECURITY_POLICY, policy))
}

fn navigation(place: Option<&str>, registry: &Registry) -> Markup {
    let current = |is_here: bool| is_here.then_some("page");
    html! {
        nav aria-label="Documentation" {
            a href="/docs" aria-current=[current(place.is_none())] { "Waypost" }
            @for toolset in registry.toolsets() {
                a href={ "/docs/" (toolset.name) } aria-current=[current(place == Some(toolset.name))] {
                    (toolset.name)
                }
            }
            a href="/openapi.yaml" { "openapi.yaml" }
            a href="/llms.txt" { "llms.txt" }
        }
    }
}

/// Nothing may be loaded or run but the page's own style, by its hash.
fn policy() -> Option<HeaderValue> {
    let style = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    HeaderValue::try_from(format!(
        "default-src 'none'; style-src 'sha256-{style}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ))
    .ok()
}

/// Text to be copied, which may be wider than the page: it scrolls by itself, with the keyboard too.
fn listing(label: &str, text: &str) -> Markup {
    html! { figure { figcaption { (label) } pre tabindex="0" { code { (text) } } } }
}

/// Text of several paragraphs.
fn paragraphs(text: &str) -> Markup {
    html! { @for paragraph in text.split("\n\n") { p { (paragraph) } } }
}
