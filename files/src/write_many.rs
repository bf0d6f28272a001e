//! Writes many files, each as one `write` does. The first that fails ends it; those before it are written.

use crate::{
    BodyReader, Exchange, FilesError, Workspace,
    exchange::gone,
    limits::{MANY_MAX, MANY_MAX_BYTES},
    write::write_whole,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use protocol::files::{FilesReply, ManyFile};
use std::io::Read;

pub fn write_many(workspace: &Workspace, exchange: &mut dyn Exchange) -> Result<(), FilesError> {
    let mut body = Vec::new();
    let limited = BodyReader::new(exchange).take(MANY_MAX_BYTES as u64 + 1).read_to_end(&mut body);
    limited.map_err(FilesError::BodyCut)?;
    if body.len() > MANY_MAX_BYTES {
        return Err(FilesError::TooLarge {
            message: format!("the files have more than {MANY_MAX_BYTES} bytes"),
        });
    }
    let files: Vec<ManyFile> =
        serde_json::from_slice(&body).map_err(|error| FilesError::invalid(error.to_string()))?;
    drop(body);
    if files.len() > MANY_MAX {
        return Err(FilesError::TooMany { message: format!("at most {MANY_MAX} files at a time") });
    }
    for file in &files {
        let content = BASE64_STANDARD.decode(&file.content);
        let content = content.map_err(|error| FilesError::invalid(format!("base64: {error}")))?;
        write_whole(workspace, &file.path, &content, file.mode)?;
    }
    exchange.reply(FilesReply::Written { files: files.len() }).map_err(gone)
}
