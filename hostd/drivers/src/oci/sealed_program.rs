//! A sealed copy of the runtime's program in memory. Runtimes protect their binary themselves, by copying or
//! binding it and executing again at every launch: started from a sealed file, they skip that.

use super::files::failed;
use crate::DriverError;
use nix::{
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    fs::File,
    io::{self, Read},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

/// Larger than any runtime.
const PROGRAM_MAX_BYTES: u64 = 64 << 20;

pub struct SealedProgram {
    program: File,
}

impl SealedProgram {
    /// Copies a program; `None` for a script, which an interpreter runs.
    pub fn of(program: &Path) -> Result<Option<Self>, DriverError> {
        Self::copy(program).map_err(failed(format!("copy {} into memory", program.display())))
    }

    fn copy(program: &Path) -> io::Result<Option<Self>> {
        let mut source = File::open(program)?.take(PROGRAM_MAX_BYTES);
        let mut magic = [0; 4];
        if source.read_exact(&mut magic).is_err() || magic != *b"\x7fELF" {
            return Ok(None);
        }
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let mut copy = File::from(memfd_create(c"runtime", flags)?);
        io::copy(&mut magic.chain(&mut source), &mut copy)?;
        let seals =
            SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
        fcntl(&copy, FcntlArg::F_ADD_SEALS(seals))?;
        Ok(Some(Self { program: copy }))
    }

    /// A path where another process can execute it, while this process lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.program.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_copy_runs_and_cannot_be_written() {
        let sealed_program = SealedProgram::of(Path::new("/bin/true")).expect("copied").expect("a program");
        assert!(std::process::Command::new(sealed_program.path()).status().expect("started").success());
        assert!((&sealed_program.program).write_all(b"x").is_err());
    }

    #[test]
    fn a_script_is_left_where_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = dir.path().join("crun");
        std::fs::write(&script, "#!/bin/sh\nexec crun \"$@\"\n").expect("written");
        assert!(SealedProgram::of(&script).expect("readable").is_none());
    }
}
