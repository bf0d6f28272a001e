//! How hostd itself reaches the world: names to addresses, and connections to those. Used by the gateway and by
//! the proxy; which addresses may be reached is decided by whoever asks.

mod connect;
mod names;

pub use connect::{Outside, OutsideError};
pub use names::Names;
