//! Why an image is not available. Cloned for every request that waited for it.

use crate::DriverError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageError {
    Missing {
        why: String,
    },
    /// A retry may succeed.
    Unavailable {
        message: String,
    },
    DiskFull,
    Failed {
        message: String,
    },
}

impl ImageError {
    /// Returns the error of a launch that needs this image.
    pub fn of_name(self, name: &str) -> DriverError {
        match self {
            Self::Missing { why } => DriverError::ImageMissing { name: name.to_owned(), why: Some(why) },
            Self::Unavailable { message } => DriverError::Unavailable { message },
            Self::DiskFull => DriverError::DiskFull,
            Self::Failed { message } => DriverError::Failed { message, output: vec![] },
        }
    }

    /// Classifies an error of a driver that made an image available.
    pub fn of_driver(error: DriverError) -> Self {
        match error {
            DriverError::DiskFull | DriverError::NoDiskRoom { .. } => Self::DiskFull,
            DriverError::Unavailable { message } => Self::Unavailable { message },
            error @ (DriverError::Refused { .. }
            | DriverError::ImageMissing { .. }
            | DriverError::NameTaken { .. }
            | DriverError::Conflict { .. }
            | DriverError::Failed { .. }
            | DriverError::TimedOut { .. }
            | DriverError::Damaged { .. }
            | DriverError::OtherPidNamespace { .. }
            | DriverError::MemoryInUse { .. }
            | DriverError::Io { .. }) => Self::Failed { message: error.to_string() },
        }
    }
}
