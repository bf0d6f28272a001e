//! Logs of services that do not exist: removed, or not requested yet since the boot. They are kept in case
//! the name returns, count against the quota of all logs, and are trimmed first.

use super::output_log::{LogKey, OutputLog};
use crate::core::log_retention::LogUsage;
use crate::limits::SERVICE_LOGS_RETIRED_MAX;
use crate::sys::clock::wall_ms;
use protocol::ServiceName;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub struct RetiredLogs {
    /// Parent of the log directories, which are named after services.
    dir: PathBuf,
    logs: BTreeMap<ServiceName, RetiredLog>,
}

struct RetiredLog {
    log: OutputLog,
    since_ms: u64,
}

impl RetiredLogs {
    /// Finds the logs of an earlier boot.
    pub fn load(dir: &Path) -> Self {
        let mut retired = Self { dir: dir.to_owned(), logs: BTreeMap::new() };
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if let Some(name) = entry.file_name().to_str().and_then(|name| ServiceName::parse(name).ok()) {
                retired.logs.insert(name, RetiredLog { log: OutputLog::existing(entry.path()), since_ms: 0 });
            }
        }
        retired.forget_oldest();
        retired
    }

    /// The log of a service that is added, or returns.
    pub fn restore(&mut self, name: &ServiceName) -> OutputLog {
        let retired = self.logs.remove(name).map(|retired| retired.log);
        retired.unwrap_or_else(|| OutputLog::existing(self.dir.join(name.as_str())))
    }

    /// Keeps the log of a removed service. Followers of `log` see its end.
    pub fn retire(&mut self, name: ServiceName, log: OutputLog) {
        let end = log.head().end;
        let mut kept = OutputLog::existing(log.dir);
        kept.grew(end);
        self.logs.insert(name, RetiredLog { log: kept, since_ms: wall_ms() });
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        while self.logs.len() > SERVICE_LOGS_RETIRED_MAX {
            let oldest = self.logs.iter().min_by_key(|(_, retired)| retired.since_ms);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
            if let Some(RetiredLog { log, .. }) = self.logs.remove(&name)
                && let Err(error) = std::fs::remove_dir_all(&log.dir)
            {
                tracing::warn!(service = %name, %error, "failed to remove retired log");
            }
        }
    }

    pub fn get_mut(&mut self, name: &ServiceName) -> Option<&mut OutputLog> {
        self.logs.get_mut(name).map(|retired| &mut retired.log)
    }

    pub fn bytes(&self) -> u64 {
        self.logs.values().map(|retired| retired.log.bytes()).sum()
    }

    pub fn uses(&self) -> impl Iterator<Item = LogUsage<LogKey>> {
        self.logs.iter().map(|(name, retired)| LogUsage {
            key: LogKey::Service(name.clone()),
            finished_ms: Some(retired.since_ms),
            segments: retired.log.segments.clone(),
        })
    }
}
