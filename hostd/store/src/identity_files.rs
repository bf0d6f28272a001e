//! The identity of this hostd, created at its first start: the instance id, the key that authenticates
//! badges, the administrator's token.

use hostd_core::ADMIN_PREFIX;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

const TOKEN_BYTES: usize = 32;
const FILE_MAX_BYTES: u64 = 4096;

pub struct IdentityFiles {
    pub instance: String,
    pub key: [u8; 32],
    pub admin_token: String,
}

pub fn load_or_create(data_dir: &Path) -> io::Result<IdentityFiles> {
    let instance = read_or_create(&data_dir.join("instance"), || Ok(hex(&random::<8>()?)))?;
    let key = read_or_create(&data_dir.join("key"), || Ok(hex(&random::<32>()?)))?;
    let admin_token = read_or_create(&data_dir.join("token"), || {
        Ok(format!("{ADMIN_PREFIX}{}", hex(&random::<TOKEN_BYTES>()?)))
    })?;
    let key = unhex(&key).ok_or_else(|| {
        let why = format!("{} is not a key of 64 hexadecimal digits", data_dir.join("key").display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })?;
    Ok(IdentityFiles { instance, key, admin_token })
}

/// Reads a file, or creates it with a new text. It is written whole or not at all.
pub fn read_or_create(path: &Path, make: impl Fn() -> io::Result<String>) -> io::Result<String> {
    match File::open(path) {
        Ok(file) => {
            let mut text = String::new();
            file.take(FILE_MAX_BYTES).read_to_string(&mut text)?;
            let text = text.trim().to_owned();
            if !text.is_empty() {
                return Ok(text);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let text = make()?;
    let new = path.with_extension("new");
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(text)
}

pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_second_start_is_the_same_hostd() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = load_or_create(dir.path()).expect("written");
        let second = load_or_create(dir.path()).expect("read");
        assert_eq!(
            (&first.instance, first.key, &first.admin_token),
            (&second.instance, second.key, &second.admin_token)
        );
        let mode = fs::metadata(dir.path().join("token")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(dir.path().join("key"), "zz").expect("written");
        assert!(load_or_create(dir.path()).is_err());
    }
}
