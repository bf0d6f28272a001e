//! The drivers of this host, by name.

use super::{Driver, DriverError, not_configured::NotConfigured};
use hostd_core::unsupported_driver;
use std::{path::PathBuf, sync::Arc};

#[derive(Clone)]
pub struct Drivers {
    all: Vec<Arc<dyn Driver>>,
    absent: Vec<AbsentDriver>,
}

/// A driver that hostd supports and was started without.
#[derive(Debug, Clone)]
pub struct AbsentDriver {
    pub name: &'static str,
    /// The backend is installed if any of these exists.
    pub backend_paths: Vec<PathBuf>,
    /// Reason, and what to do about it.
    pub why: String,
}

impl AbsentDriver {
    pub fn backend_present(&self) -> bool {
        self.backend_paths.iter().any(|path| path.exists())
    }
}

impl Drivers {
    pub fn new(all: Vec<Arc<dyn Driver>>) -> Self {
        Self { all, absent: Vec::new() }
    }

    pub fn with_absent(self, absent: Vec<AbsentDriver>) -> Self {
        Self { absent, ..self }
    }

    pub fn all(&self) -> &[Arc<dyn Driver>] {
        &self.all
    }

    pub fn absent(&self) -> &[AbsentDriver] {
        &self.absent
    }

    /// The driver that a caller requests.
    pub fn require(&self, name: &str) -> Result<&Arc<dyn Driver>, DriverError> {
        self.all.iter().find(|driver| driver.name() == name).ok_or_else(|| self.refusal(name))
    }

    fn refusal(&self, name: &str) -> DriverError {
        let absent = self.absent.iter().find(|absent| absent.name == name).map(|absent| absent.why.as_str());
        let why = absent.or_else(|| unsupported_driver(name).map(|known| known.reason));
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        DriverError::Refused {
            field: "driver",
            message: format!("this host has no driver {name}{why}"),
            supported: self.all.iter().map(|driver| driver.name().to_owned()).collect(),
        }
    }

    /// The driver of an existing sandbox; a stand-in if hostd was started without it.
    pub fn get(&self, name: &str) -> Arc<dyn Driver> {
        match self.require(name) {
            Ok(driver) => driver.clone(),
            Err(_) => Arc::new(NotConfigured::new(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::fake::FakeDriver, *};

    #[test]
    fn an_absent_driver_is_refused_with_the_reason_and_the_supported_ones() {
        let absent = AbsentDriver {
            name: "docker",
            backend_paths: vec!["/there/is/none".into()],
            why: "no socket".to_owned(),
        };
        let drivers = Drivers::new(vec![Arc::new(FakeDriver::default())]).with_absent(vec![absent]);
        assert!(drivers.require("fake").is_ok());
        assert!(!drivers.absent()[0].backend_present());
        let table = [
            ("docker", "this host has no driver docker: no socket"),
            ("lima", "this host has no driver lima: hostd does not start virtual machines"),
            ("nonsense", "this host has no driver nonsense"),
        ];
        for (name, begins) in table {
            let Err(DriverError::Refused { field, message, supported }) = drivers.require(name) else {
                panic!("{name} is refused");
            };
            assert_eq!((field, supported), ("driver", vec!["fake".to_owned()]));
            assert!(message.starts_with(begins), "{message}");
        }
    }
}
