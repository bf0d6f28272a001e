//! `sandbox.yaml`: the services of a workspace, and how it is built. Text in, validated specs out; reads no
//! file and starts nothing.
//!
//! ```yaml
//! version: 1
//! services:
//!   web:
//!     command: npm run dev
//!     port: 5173
//!     env: { NODE_ENV: development, WORKERS: 2 }
//!     cwd: packages/web
//!     depends_on: [db]
//!     health: { http: /healthz, interval: 10s, timeout: 2s }
//!     restart: always
//!     restart_after_task: false
//!     watch: [package.json, src/config]
//! build: { command: npm run build, timeout: 2m }
//! ```
//!
//! bytes ─`yaml`─► `yaml_node` with lines ─`specs`─► specs ─`validate`─► valid specs. `specs` and `validate`
//! name the wrong field; `parse` finds its line.

mod error;
mod field;
mod parse;
mod specs;
mod syntax;
mod validate;
mod yaml;
mod yaml_node;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod rejection_tests;
#[cfg(test)]
mod tests;

pub use error::{Invalid, ManifestError};
pub use parse::{Document, parse};
pub use validate::{log_pattern, validate, validate_all};
