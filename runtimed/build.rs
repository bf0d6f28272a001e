//! How PID 1 is linked. Relocations of a static binary that may lie anywhere are read once and stay in memory in
//! every sandbox: packed, 80 kB of them are 2. Code that an idle PID 1 does not run lies apart (`apart.ld`).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=apart.ld");
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("musl") {
        let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{here}/apart.ld");
    }
}
