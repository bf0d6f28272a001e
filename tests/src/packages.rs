//! How npm of this machine reaches its registry: what a user of a sandbox would set, too.

use anyhow::{Context, Result};
use std::process::Command;

pub struct Npm {
    pub registry: String,
    /// A file of certificates; `null` where npm has none of its own.
    pub authorities: String,
}

impl Npm {
    pub fn of_this_machine() -> Result<Self> {
        Ok(Self { registry: setting("registry")?, authorities: setting("cafile")? })
    }

    /// For `SLIPWAY_EGRESS_PRIVATE`: a mirror may have an address that is not public.
    pub fn exception(&self) -> Result<String> {
        let (scheme, rest) = self.registry.split_once("://").context("a registry has a scheme")?;
        let authority = rest.split('/').next().context("a registry has a host")?;
        let usual = if scheme == "http" { 80 } else { 443 };
        Ok(if authority.contains(':') { authority.to_owned() } else { format!("{authority}:{usual}") })
    }
}

fn setting(name: &str) -> Result<String> {
    let output = Command::new("npm").args(["config", "get", name]).output().context("run npm")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
