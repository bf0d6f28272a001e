//! The configuration that a backup has: the file as it is written, every key with its value, and the certificates.

use super::entry::SettingFile;
use crate::config::WrittenConfig;
use serde_json::json;
use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
};

/// What a backup reads of the configuration, when it is made.
#[derive(Debug, Clone, Default)]
pub struct BackupSettings {
    pub written: WrittenConfig,
    /// Certificate and key.
    pub api_tls: Option<(PathBuf, PathBuf)>,
    pub preview_tls: Option<(PathBuf, PathBuf)>,
}

impl BackupSettings {
    /// Reads a file of the configuration; `None` where there is none.
    pub fn read(&self, file: SettingFile) -> io::Result<Option<Vec<u8>>> {
        let path = match file {
            SettingFile::Toml => return Ok(self.written.file.clone().map(String::into_bytes)),
            SettingFile::Values => return self.values().map(Some),
            SettingFile::ApiCertificate => self.api_tls.as_ref().map(|(cert, _)| cert),
            SettingFile::ApiKey => self.api_tls.as_ref().map(|(_, key)| key),
            SettingFile::PreviewCertificate => self.preview_tls.as_ref().map(|(cert, _)| cert),
            SettingFile::PreviewKey => self.preview_tls.as_ref().map(|(_, key)| key),
        };
        let Some(path) = path else { return Ok(None) };
        let mut bytes = Vec::new();
        File::open(path)?.take(super::limits::SETTING_MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    fn values(&self) -> io::Result<Vec<u8>> {
        let values = self.written.values.iter();
        let values = values.map(|value| {
            (value.key.to_owned(), json!({ "value": value.value, "from": value.source.word() }))
        });
        serde_json::to_vec_pretty(&values.collect::<serde_json::Map<_, _>>()).map_err(io::Error::other)
    }
}
