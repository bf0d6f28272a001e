//! The PID namespace of hostd.

use super::{super::DriverError, files::failed, host_checks::unavailable};
use hostd_core::PidNamespace;
use std::{os::unix::fs::MetadataExt, path::Path};

/// The PID namespace of this process. An error where /proc shows another one: hostd would not find any
/// process that it starts.
pub fn own() -> Result<PidNamespace, DriverError> {
    let look = || failed("read the PID namespace of hostd");
    let shown = std::fs::read_link("/proc/self").map_err(look())?;
    if shown != Path::new(&std::process::id().to_string()) {
        let why =
            "/proc shows another PID namespace than that of hostd: mount it anew (unshare --mount-proc)";
        return Err(unavailable(why));
    }
    let namespace = std::fs::metadata("/proc/self/ns/pid").map_err(look())?;
    Ok(PidNamespace(namespace.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_one_namespace_report_the_same_one() {
        let parent = format!("/proc/{}/ns/pid", std::os::unix::process::parent_id());
        let parent = std::fs::metadata(parent).expect("it has a parent").ino();
        assert_eq!(own().expect("it has one"), PidNamespace(parent));
    }
}
