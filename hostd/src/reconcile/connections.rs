//! The connections between hostd and the running processes of one sandbox. All of them end with the run.

use super::actor::SandboxActor;
use crate::inside::{InsideListener, ServedSandbox};
use hostd_drivers::control::Control;
use hostd_edge::upstream::UpstreamPool;
use tokio_util::sync::DropGuard;

pub(super) struct Connections {
    pub(super) control: Control,
    /// Follows runtimed's events until it is dropped.
    pub(super) follower: Option<DropGuard>,
    /// The listener inside, open until it is dropped.
    pub(super) inside_listener: Option<InsideListener>,
    /// Connections of the edge to ports of the sandbox.
    upstream: UpstreamPool,
}

impl Connections {
    pub(super) fn new(control: Control, upstream: UpstreamPool) -> Self {
        Self { control, follower: None, inside_listener: None, upstream }
    }

    pub(super) fn close(&mut self) {
        self.follower = None;
        self.inside_listener = None;
        self.control.close_idle();
        self.upstream.clear();
    }
}

impl SandboxActor {
    /// Nothing of the sandbox runs any more: no connection is good.
    pub(super) fn disconnect(&mut self) {
        self.situation.run_ended();
        self.connections.close();
    }

    /// Opens the listener inside, until the run ends.
    pub(super) fn open_inside_listener(&mut self) {
        if self.connections.inside_listener.is_some() {
            return;
        }
        let (record, control) = (self.publisher.subscribe(), self.connections.control.clone());
        let served = ServedSandbox::new(record, control, self.driver.clone());
        let (listener, serve) = self.fleet.inside.open(served, self.stop());
        self.fleet.tasks.spawn(serve);
        self.connections.inside_listener = Some(listener);
    }
}
