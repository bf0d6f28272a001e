//! `slipway mcp`: the Model Context Protocol on standard input and output, for clients that start a command. The tools are
//! those of hostd at `/mcp`; this is a bridge:
//!
//! ```text
//!  stdin ─▶ bridge ─ one line, one message ─▶ exchange ─▶ POST /mcp
//!  stdout ◀──────── one message, one line ◀──┘    │  cut: GET, Last-Event-ID
//!                                                 └─ 404: initialize again (session)
//! ```
//!
//! A restart of hostd is not seen by the client: a request without a response is sent again, and hostd finds what the
//! first one started; a stream is resumed after the last event that was written out.

mod bridge;
mod exchange;
mod message;
mod session;

pub use bridge::serve;
