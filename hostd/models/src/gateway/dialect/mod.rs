//! The dialects of model APIs that agents speak, one file each: what a request must say and may not say, and
//! what a response says of its usage, its errors and its end. Pure.
//!
//! A further dialect is a variant of `models::ModelApi` and a file here with `parse_request`, `read_event`
//! and `read_json`; the compiler then asks for its paths (`route`), its errors (`error_body`), its credential
//! (`headers`) and its list of models (`list_models`).

mod anthropic_messages;
mod dispatch;
mod error_body;
mod gemini_generate;
mod openai_chat;
mod openai_responses;
mod response_facts;

pub use dispatch::{parse_request, read_event, read_json};
pub use error_body::{error_response, final_error_event, json_response};
pub use response_facts::ResponseFacts;
