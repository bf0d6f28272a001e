//! The suite for every driver, through hostd's API, so that a sandbox is the same wherever it runs. The
//! results of each driver are a column of docs/conformance.md: checked here, and written with
//! `UPDATE_CONFORMANCE=1`.
//!
//! `CONFORMANCE_ROW=<part of a row's text>` runs a single row and leaves the table alone.

mod drift;
mod driver_column;
mod fixture;
mod identity;
mod images;
mod isolation;
mod life;
mod limits;
mod outages;
mod rows;
mod snapshots;
mod table;
mod work;

use anyhow::Result;
use driver_column::Column;
use tests::engines::{Engine, Kind};

#[test]
fn oci_with_crun() -> Result<()> {
    Column::oci("crun").check()
}

#[test]
fn oci_with_runc() -> Result<()> {
    Column::oci("runc").check()
}

#[test]
fn docker() -> Result<()> {
    Column::of("docker", Engine::shared(Kind::Docker)?).check_undisturbed()
}

#[test]
fn docker_outages() -> Result<()> {
    Column::of("docker", Engine::docker()?).check_outages()
}

#[test]
fn podman() -> Result<()> {
    Column::of("podman", Engine::shared(Kind::Podman)?).check_undisturbed()
}

#[test]
fn podman_outages() -> Result<()> {
    Column::of("podman", Engine::podman()?).check_outages()
}
