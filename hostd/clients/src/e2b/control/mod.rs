//! E2B's control plane: its calls become calls of Slipway's own API, made with the key of the request.

mod call;
mod connect;
mod create;
mod error;
mod fork;
mod lifecycle;
mod limits;
mod list;
mod network;
mod observe;
mod query;
mod request;
mod route;
mod serve;
mod snapshots;
mod template;
mod view;

pub use serve::serve;
