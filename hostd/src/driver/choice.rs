//! The drivers of this host, by name.

use super::{Driver, DriverError, missing::Missing};
use std::sync::Arc;

#[derive(Clone)]
pub struct Drivers {
    all: Vec<Arc<dyn Driver>>,
}

impl Drivers {
    pub fn new(all: Vec<Arc<dyn Driver>>) -> Self {
        Self { all }
    }

    pub fn all(&self) -> &[Arc<dyn Driver>] {
        &self.all
    }

    /// The driver that a caller asks for.
    pub fn wanted(&self, name: &str) -> Result<&Arc<dyn Driver>, DriverError> {
        let found = self.all.iter().find(|driver| driver.name() == name);
        found.ok_or_else(|| DriverError::Refused {
            field: "driver",
            message: format!("this host has no driver {name}"),
            supported: self.all.iter().map(|driver| driver.name().to_owned()).collect(),
        })
    }

    /// The driver of a sandbox that exists: perhaps one that this hostd was not given.
    pub fn get(&self, name: &str) -> Arc<dyn Driver> {
        match self.wanted(name) {
            Ok(driver) => driver.clone(),
            Err(_) => Arc::new(Missing::new(name)),
        }
    }
}
