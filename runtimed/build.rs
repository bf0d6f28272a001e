//! Link options of PID 1. Relocations of a position-independent static binary are read once and stay in
//! memory in every sandbox: packed, 80 kB of them are 2. Code that an idle PID 1 does not run is placed apart
//! (`apart.rs`).

mod apart;

use std::{env, fs, path::Path};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=apart.rs");
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        let out = env::var_os("OUT_DIR").expect("cargo says where build scripts write");
        let script = Path::new(&out).join("apart.ld");
        fs::write(&script, apart::linker_script()).expect("the linker script is written");
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
}
