//! Entries as clients of E2B see them.

use super::{
    messages::{EntryInfo, EntryType},
    place::on_path,
};
use crate::e2b::envd::{paths::ClientPath, sandbox_api::SandboxApi, user::USER};
use protocol::{api::FileView, files::FileType};
use serde_json::{Value, json};

const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

/// An entry at this path; of a link, its target is looked up, too.
pub async fn entry(api: &SandboxApi, path: &ClientPath, found: &FileView) -> EntryInfo {
    let target = match found.kind {
        FileType::Symlink => {
            let followed = on_path(path, |query| async move {
                api.get::<FileView>(&format!("/files/stat?{query}&follow=1")).await
            });
            followed.await.ok()
        }
        FileType::File | FileType::Directory | FileType::Fifo | FileType::Socket | FileType::Device => None,
    };
    describe(path, found, target.as_ref())
}

/// `target` is what a link leads to.
fn describe(path: &ClientPath, found: &FileView, target: Option<&FileView>) -> EntryInfo {
    let is_symlink = found.kind == FileType::Symlink;
    let kind = match target.map_or(found.kind, |target| target.kind) {
        FileType::File => EntryType::File,
        FileType::Directory => EntryType::Directory,
        FileType::Symlink => EntryType::Symlink,
        FileType::Fifo | FileType::Socket | FileType::Device => EntryType::Unspecified,
    };
    EntryInfo {
        name: path.name().to_owned(),
        kind,
        path: path.as_str().to_owned(),
        size: found.size.to_string(),
        mode: mode_of(target.unwrap_or(found)),
        permissions: permissions(found),
        owner: owner(found.uid, path),
        group: owner(found.gid, path),
        modified_time: found.modified_at.clone(),
        symlink_target: found.target.as_deref().map(|target| path.target(target).as_str().to_owned()),
        is_symlink,
    }
}

fn mode_of(found: &FileView) -> u32 {
    u32::from_str_radix(&found.mode, 8).unwrap_or(0) & 0o777
}

/// The letters of type and permissions.
fn permissions(found: &FileView) -> String {
    let kind = match found.kind {
        FileType::File => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'L',
        FileType::Fifo => 'p',
        FileType::Socket => 'S',
        FileType::Device => 'D',
    };
    let mode = mode_of(found);
    let letters = [6, 3, 0].into_iter().flat_map(|shift| {
        [(READ, 'r'), (WRITE, 'w'), (EXECUTE, 'x')]
            .into_iter()
            .map(move |(bit, letter)| if mode >> shift & bit != 0 { letter } else { '-' })
    });
    std::iter::once(kind).chain(letters).collect()
}

/// The name of an owner inside the sandbox. Files of the workspace belong to the sandbox's user.
fn owner(id: Option<u32>, path: &ClientPath) -> String {
    match (id, path.in_workspace()) {
        (None, _) | (Some(1000), _) => USER.to_owned(),
        (Some(0), _) => "root".to_owned(),
        // Files of the image: their owner is not in the namespace of the sandbox.
        (Some(65_534), _) => "nobody".to_owned(),
        (Some(other), _) => other.to_string(),
    }
}

/// A file that was written, as an upload is answered.
pub fn written(path: &ClientPath) -> Value {
    json!({"name": path.name(), "type": "file", "path": path.as_str()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: FileType, mode: &str) -> FileView {
        FileView {
            path: "a/x".to_owned(),
            path_base64: None,
            kind,
            size: 5,
            mode: mode.to_owned(),
            links: 1,
            modified_at: "2026-01-02T03:04:05.006Z".to_owned(),
            etag: String::new(),
            target: (kind == FileType::Symlink).then(|| "../y".to_owned()),
            uid: None,
            gid: None,
        }
    }

    #[test]
    fn an_entry_has_the_fields_of_the_protocol() {
        let path = ClientPath::parse("a/x").expect("a path");
        let file = found(FileType::File, "0640");
        insta::assert_json_snapshot!(describe(&path, &file, None), @r#"
        {
          "name": "x",
          "type": "FILE_TYPE_FILE",
          "path": "/home/user/a/x",
          "size": "5",
          "mode": 416,
          "permissions": "-rw-r-----",
          "owner": "user",
          "group": "user",
          "modifiedTime": "2026-01-02T03:04:05.006Z"
        }
        "#);
        let link =
            describe(&path, &found(FileType::Symlink, "0777"), Some(&found(FileType::Directory, "0755")));
        assert_eq!(link.symlink_target.as_deref(), Some("/home/user/y"));
        assert_eq!((link.kind, link.is_symlink, link.mode), (EntryType::Directory, true, 0o755));
        assert_eq!(link.permissions, "Lrwxrwxrwx");
        let dangling = describe(&path, &found(FileType::Symlink, "0777"), None);
        assert_eq!(dangling.kind, EntryType::Symlink);
    }
}
