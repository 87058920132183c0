//! Which toolsets a request lists and calls.

use http::StatusCode;
use http::request::Parts;
use serde_json::json;

use crate::call::{Entry, Registry};
use crate::doors::pairs::pairs;
use crate::doors::reception::Reception;
use crate::doors::refusal::Refusal;

const HEADER: &str = "x-mcp-toolsets";

/// Some of the registry's toolsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// One bit a toolset, in the registry's order.
    bits: usize,
    /// Chosen by a header, so that the same address may list something else to others.
    pub is_private: bool,
}

impl Selection {
    /// What `?toolsets=` names, else the header `X-MCP-Toolsets`, else the defaults of the address: all
    /// toolsets at `/o/{org}/mcp`.
    ///
    /// # Errors
    /// `unknown_toolset`, with the known ones; 400 for a query that is not readable.
    pub fn read(head: &Parts, is_org_named: bool, reception: &Reception) -> Result<Selection, Refusal> {
        let registry = &reception.registry;
        let mut asked = Vec::new();
        for pair in pairs(head.uri.query().unwrap_or_default()) {
            let (name, value) = pair?;
            if name == "toolsets" {
                asked.push(value);
            }
        }
        if let Some(bits) = named(asked.iter().flat_map(|names| names.split(',')), registry)? {
            return Ok(Selection { bits, is_private: false });
        }
        let headers = head.headers.get_all(HEADER).iter();
        // What is not ASCII is no toolset: an empty name would pass as none.
        let names = headers.flat_map(|value| value.to_str().unwrap_or("?").split(','));
        if let Some(bits) = named(names, registry)? {
            return Ok(Selection { bits, is_private: true });
        }
        let bits = match is_org_named {
            true => all(registry),
            false => {
                let defaults = reception.default_toolsets.iter().map(String::as_str);
                named(defaults, registry)?.unwrap_or(all(registry))
            }
        };
        Ok(Selection { bits, is_private: false })
    }

    /// Whether a tool is among them.
    pub fn holds(self, entry: &Entry, registry: &Registry) -> bool {
        bit(entry.toolset, registry).is_some_and(|bit| self.bits & bit != 0)
    }

    /// A number below [`Selection::count`], the same for the same toolsets.
    pub fn index(self) -> usize {
        self.bits
    }

    /// How many selections there are.
    pub fn count(registry: &Registry) -> usize {
        1 << registry.toolsets().len()
    }
}

/// `None` when nothing is named.
fn named<'a>(names: impl Iterator<Item = &'a str>, registry: &Registry) -> Result<Option<usize>, Refusal> {
    let mut bits = 0;
    for name in names.map(str::trim).filter(|name| !name.is_empty()) {
        bits |= bit(name, registry).ok_or_else(|| unknown(registry))?;
    }
    Ok((bits != 0).then_some(bits))
}

fn bit(name: &str, registry: &Registry) -> Option<usize> {
    registry.toolsets().iter().position(|toolset| toolset.name == name).map(|place| 1 << place)
}

fn all(registry: &Registry) -> usize {
    Selection::count(registry) - 1
}

fn unknown(registry: &Registry) -> Refusal {
    let known: Vec<&str> = registry.toolsets().iter().map(|toolset| toolset.name).collect();
    let message = format!("There is no such toolset. Known are: {}.", known.join(", "));
    let mut refusal = Refusal::new(StatusCode::BAD_REQUEST, "unknown_toolset", message);
    refusal.details.insert("known".to_owned(), json!(known));
    refusal
}
