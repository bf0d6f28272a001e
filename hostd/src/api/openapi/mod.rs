//! The OpenAPI document, written from the table of routes and the types: it cannot name a route that is
//! not there, or leave one out. Bodies of requests are checked against it, so it says what is enforced.

mod constraints;
mod document;
mod flatten;
mod operation;
pub mod route_doc;

pub use document::{document, openapi_json, request_schema};

#[cfg(test)]
pub use operation::TAGS;
