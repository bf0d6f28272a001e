//! The OpenAPI document, generated from the table of routes and the types: it cannot name a route that does
//! not exist, or leave one out. Request bodies are checked against it, so it states what is enforced.

mod constraints;
mod document;
mod events;
mod flatten;
mod operation;
pub mod route_doc;
mod webhook_constraints;

pub use document::{document, openapi_json, request_schema};

#[cfg(test)]
pub use operation::TAGS;
