//! The text of all metrics, for the route of the API and for the listener of their own. It is made of what is in memory
//! and of small files of the kernel; nothing in it waits for a sandbox, a driver or the database.

use super::Api;
use std::sync::Arc;

impl Api {
    /// Reads the gauges that are read when they are asked for, and returns the text of all families.
    pub fn metrics_text(self: &Arc<Self>) -> String {
        self.metrics.refresh_gauges(&self.fleet.records(), &self.drivers, &self.disk.state());
        self.metrics.refresh_memory(self.fleet.memory());
        self.metrics.usage.refresh(self);
        self.store.refresh_gauges();
        hostd_metrics::text(&self.registry)
    }
}
