//! The ways out of a sandbox against a direct connection, in the same run: the gateway to models, and the proxy.

pub mod agent;
pub mod client;
pub mod egress;
mod fixture;
pub mod gateway;
mod provider;
pub mod relay;
