//! JSON-RPC errors, and the two ways in which a request is turned away.

use std::borrow::Cow;

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::call::Error;
use crate::doors::media;
use crate::doors::refusal::{Refusal, json_rpc_error};

/// A JSON-RPC error: the request is not one that MCP knows.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The HTTP status.
    pub status: StatusCode,
    /// The JSON-RPC code.
    pub code: i32,
    /// What is wrong and what to do; holds no rejected value.
    pub message: Cow<'static, str>,
    /// What the specification puts beside some codes.
    pub data: Option<Value>,
}

impl Fault {
    /// Not JSON.
    pub const PARSE: i32 = -32700;
    /// JSON, but no request.
    pub const REQUEST: i32 = -32600;
    /// No such method in this era.
    pub const METHOD: i32 = -32601;
    /// `params` do not fit the method.
    pub const PARAMS: i32 = -32602;
    /// A header is missing, unreadable, repeated or at odds with the body.
    pub const HEADER: i32 = -32020;
    /// A protocol version that is not spoken here. (-32021, a client capability that is needed, is never said:
    /// no tool needs one.)
    pub const VERSION: i32 = -32022;

    /// An error without data.
    pub fn new(status: StatusCode, code: i32, message: impl Into<Cow<'static, str>>) -> Fault {
        Fault { status, code, message: message.into(), data: None }
    }

    /// 400: JSON, but no request.
    pub fn request(message: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, Fault::REQUEST, message)
    }

    /// 200: `params` do not fit the method.
    pub fn params(message: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(StatusCode::OK, Fault::PARAMS, message)
    }
}

/// Why a request is turned away.
#[derive(Debug)]
pub enum Away {
    /// As HTTP: who calls, what is sent, how much of it.
    Http(Refusal),
    /// As JSON-RPC.
    Rpc(Fault),
}

impl Away {
    /// The answer, with the request's id where it could be read.
    pub fn answer(&self, id: Option<&RawValue>) -> Response<Body> {
        match self {
            Away::Http(refusal) => refusal.answer(true, id),
            Away::Rpc(fault) => {
                let mut error = json!({ "code": fault.code, "message": fault.message });
                if let Some(data) = &fault.data {
                    error["data"] = data.clone();
                }
                media::json(fault.status, json_rpc_error(id, &error).into())
            }
        }
    }
}

impl From<Fault> for Away {
    fn from(fault: Fault) -> Away {
        Away::Rpc(fault)
    }
}

impl From<Refusal> for Away {
    fn from(refusal: Refusal) -> Away {
        Away::Http(refusal)
    }
}

impl From<Error> for Away {
    fn from(error: Error) -> Away {
        Away::Http(Refusal::from(&error))
    }
}
