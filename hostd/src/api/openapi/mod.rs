//! The OpenAPI document, written from the table of routes and the types: it cannot name a route that is
//! not there, or leave one out. Bodies of requests are checked against it, so it says what is enforced.

mod bounds;
mod flatten;
mod operation;

pub use document::{document, openapi_json, request_schema};

mod document;
#[cfg(test)]
pub use operation::TAGS;
