//! Stock clients, as people install them, against a real hostd.

mod e2b;
mod envd;
mod acp;
mod cloudflare;
mod open_sandbox;
mod mcp;
