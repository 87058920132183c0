//! What the path of a request says: the organization, and arguments of the tool.

use axum::RequestPartsExt;
use axum::extract::RawPathParams;
use axum::extract::rejection::RawPathParamsRejection;
use http::StatusCode;
use http::request::Parts;

use crate::doors::refusal::Refusal;

/// The name of the organization's place in paths; no tool's argument may be called that in a path.
pub(super) const ORG: &str = "org";

/// The places in braces, percent-decoded.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// The organization of `/o/{org}`.
    pub org: Option<String>,
    /// The others, in order.
    pub arguments: Vec<(String, String)>,
}

impl Path {
    /// Takes one argument out.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let place = self.arguments.iter().position(|(argument, _)| argument == name)?;
        Some(self.arguments.remove(place).1)
    }
}

/// Reads the places in braces of the route that matched.
///
/// # Errors
/// 400 when one is no UTF-8 once decoded, or holds a NUL, which no identifier does.
pub(super) async fn read(parts: &mut Parts) -> Result<Path, Refusal> {
    let params = match parts.extract::<RawPathParams>().await {
        Ok(params) => params,
        Err(RawPathParamsRejection::MissingPathParams(_)) => return Ok(Path::default()),
        Err(_) => return Err(broken()),
    };
    let mut path = Path::default();
    for (name, value) in &params {
        if value.contains('\0') {
            return Err(broken());
        }
        match name {
            ORG => path.org = Some(value.to_owned()),
            _ => path.arguments.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok(path)
}

fn broken() -> Refusal {
    let message = "The path is not readable: percent-encode UTF-8 text without NUL.";
    Refusal::new(StatusCode::BAD_REQUEST, "malformed_request", message)
}
