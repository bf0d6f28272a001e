//! Stock clients, as people install them, against a real hostd.

mod acp;
mod cloudflare;
mod e2b;
mod envd;
mod interpreter;
mod mcp;
mod open_sandbox;
mod sdk;
