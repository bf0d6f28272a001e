//! The memory of hostd about clients. Its loss costs repeated output and watchers that are made again, never data.

use super::{filesystem::Watchers, paths::UserHomes, process::Deliveries};
use crate::e2b::interpreter::RunningCodes;

#[derive(Default)]
pub struct EnvdState {
    pub deliveries: Deliveries,
    pub watchers: Watchers,
    pub homes: UserHomes,
    pub codes: RunningCodes,
}
