//! Connections of hostd, whatever they carry: accepted up to a limit (`connections`), served by threads of their own
//! (`connection_threads`), encrypted (`tls`), opened to the outside (`outbound`), used for HTTP (`http1`), closed once the
//! client could read its answer (`lingering`), and relayed no faster than their reader reads (`backpressure`). Also locks (`keyed_locks`) and limits (`keyed_limiter`) by key. Knows nothing of
//! sandboxes.

// A new variant of an enum must break every match that does not deal with it.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod backpressure;
pub mod connection_threads;
pub mod connections;
pub mod http1;
pub mod keyed_limiter;
pub mod keyed_locks;
pub mod lingering;
pub mod outbound;
pub mod tls;
pub mod websocket;
