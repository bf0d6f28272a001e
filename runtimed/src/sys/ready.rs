//! Descriptors that tasks wait for.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use tokio::io::unix::AsyncFd;

/// A descriptor that owns itself, whatever it is wrapped in.
pub trait Owned: AsFd {}

impl Owned for OwnedFd {}
impl Owned for nix::sys::inotify::Inotify {}

/// What tokio polls.
pub struct Descriptor<T>(pub T);

impl<T: Owned> AsRawFd for Descriptor<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl<T: Owned> AsFd for Descriptor<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub fn watch<T: Owned>(owner: T) -> io::Result<AsyncFd<Descriptor<T>>> {
    // SAFETY: the owner keeps its one descriptor open until it is dropped, which the AsyncFd does last,
    // and gives the same number each time.
    unsafe { AsyncFd::register(Descriptor(owner)) }.map_err(io::Error::from)
}
