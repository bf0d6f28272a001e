//! Programs that tests run in sandboxes, built when they are needed.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use tokio::process::Command;

/// A tree of processes that is hard to kill; what it can do stands at its head.
pub const FORKER: &str = include_str!("forker.c");

/// Tries what a debugger would on the process named by its argument, and prints `EPERM` for each of
/// [`SPY_TRIES`] that was refused.
pub const SPY: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
def call(name, *arguments):
    ctypes.set_errno(0)
    return "EPERM" if getattr(libc, name)(*arguments) == -1 and ctypes.get_errno() == 1 else f"{name}: allowed"
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
print(call("ptrace", PTRACE_ATTACH, pid, None, None))
print(call("ptrace", PTRACE_SEIZE, pid, None, None))
buffer = ctypes.create_string_buffer(64)
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
local = Vector(ctypes.addressof(buffer), 64)
remote = Vector(0x400000, 64)
print(call("process_vm_readv", pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
print(call("process_vm_writev", pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
for name in ["environ", "mem", "maps", "stack", "auxv", "fd", "map_files", "root", "cwd", "exe", "syscall"]:
    path = f"/proc/{pid}/{name}"
    try:
        if name in ("fd", "map_files"): os.listdir(path)
        elif name in ("root", "cwd", "exe"): os.readlink(path)
        else: open(path, "rb").read(1)
        print(name, "allowed")
    except PermissionError:
        print("EPERM")
for name in ["mem", "oom_score_adj", "coredump_filter", "comm"]:
    try:
        open(f"/proc/{pid}/{name}", "wb").write(b"0")
        print(name, "written")
    except PermissionError:
        print("EPERM")
"#;

pub const SPY_TRIES: usize = 19;

/// Builds a C program; everybody may run it.
pub async fn build(source: &str, program: &Path) -> Result<()> {
    let file = program.with_extension("c");
    std::fs::write(&file, source)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-pthread", "-o"]).arg(program).arg(&file);
    let built = compiler.output().await.context("run cc")?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(())
}
