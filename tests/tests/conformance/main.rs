//! One suite for every driver, through hostd's API, so that a sandbox is the same wherever it runs. What each
//! driver does is a column of docs/conformance.md: checked here, and written with `UPDATE_CONFORMANCE=1`.
//!
//! A single row is tried with `CONFORMANCE_ROW=<a part of its words>`; the table is then left alone.

mod column;
mod drift;
mod identity;
mod images;
mod life;
mod limits;
mod place;
mod rows;
mod table;
mod trouble;
mod walls;
mod work;

use anyhow::Result;
use column::Column;
use tests::engines::Engine;

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
    Column::of("docker", Engine::docker()?).check()
}

#[test]
fn podman() -> Result<()> {
    Column::of("podman", Engine::podman()?).check()
}
