//! Sets the time of the last modification. Nothing depends on it: a time that the file system refuses stays as it is.

use nix::sys::{
    stat::{UtimensatFlags, futimens, utimensat},
    time::TimeSpec,
};
use protocol::files::FileTime;
use std::{ffi::CStr, os::fd::AsFd};

pub fn set_modified(file: &impl AsFd, modified: FileTime) {
    let _ = futimens(file, &TimeSpec::UTIME_OMIT, &spec(modified));
}

/// As [`set_modified`], of a name below a directory, never of what a link points to.
pub fn set_modified_below(parent: &impl AsFd, name: &CStr, modified: FileTime) {
    let flags = UtimensatFlags::NoFollowSymlink;
    let _ = utimensat(parent, name, &TimeSpec::UTIME_OMIT, &spec(modified), flags);
}

fn spec(time: FileTime) -> TimeSpec {
    TimeSpec::new(time.seconds, i64::from(time.nanos.min(999_999_999)))
}
