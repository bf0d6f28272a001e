//! The network of sandboxes: the way out, the listener inside, connections made by hostd.

mod egress;
mod inside;
mod network;
