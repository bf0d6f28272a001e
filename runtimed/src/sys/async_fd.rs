//! Descriptors that tokio polls.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use tokio::io::unix::AsyncFd;

/// A type that owns one descriptor.
pub trait OwnsFd: AsFd {}

impl OwnsFd for OwnedFd {}
impl OwnsFd for nix::sys::inotify::Inotify {}

/// Wraps an owner for tokio's poll.
pub struct PolledFd<T>(pub T);

impl<T: OwnsFd> AsRawFd for PolledFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl<T: OwnsFd> AsFd for PolledFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub fn watch<T: OwnsFd>(owner: T) -> io::Result<AsyncFd<PolledFd<T>>> {
    // SAFETY: the owner keeps its one descriptor open until it is dropped, which the AsyncFd does last, and
    // returns the same number each time.
    unsafe { AsyncFd::register(PolledFd(owner)) }.map_err(io::Error::from)
}
