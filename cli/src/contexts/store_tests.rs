use super::*;
use crate::{
    client::Trust,
    contexts::{SavedContext, error::UnsafeFile},
};
use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    thread,
};

fn name(text: &str) -> ContextName {
    text.parse().expect("a name")
}

fn add(store: &ContextStore, context: &str, token: &str, replace: bool) -> Result<(), ContextsError> {
    let context = name(context);
    let new = NewToken { name: &context, text: token };
    store.update(Some(new), |saved, file| {
        let url = format!("https://{context}").parse().expect("a URL");
        saved.add(&context, SavedContext::new(url, &Trust::System, file), replace)
    })
}

fn token_of(store: &ContextStore, context: &str) -> String {
    let saved = store.load().expect("contexts");
    let file = saved.get(&name(context)).expect("it exists").token_file.clone().expect("a token");
    store.token(&file).expect("readable")
}

fn token_files(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory.join("tokens"))
        .expect("it exists")
        .map(|entry| entry.expect("an entry").path())
        .collect()
}

#[test]
fn files_are_for_their_user_only_and_a_wider_directory_is_narrowed() {
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().join("config/slipway");
    fs::create_dir_all(&directory).expect("made");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("changed");
    let store = ContextStore::at(directory.clone());
    add(&store, "prod", "secret", false).expect("added");
    let mode = |path: &Path| fs::metadata(path).expect("it exists").mode() & 0o7777;
    assert_eq!((mode(&directory), mode(&directory.join("tokens"))), (0o700, 0o700));
    assert_eq!(mode(&directory.join(CONTEXTS)), 0o600);
    let tokens = token_files(&directory);
    assert_eq!((tokens.len(), mode(&tokens[0])), (1, 0o600));
    assert_eq!(token_of(&store, "prod"), "secret");
    let content = fs::read_to_string(directory.join(CONTEXTS)).expect("text");
    assert!(!content.contains("secret"), "{content}");
}

#[test]
fn a_token_that_others_could_read_is_not_used() {
    let home = tempfile::tempdir().expect("a directory");
    let store = ContextStore::at(home.path().join("slipway"));
    add(&store, "prod", "secret", false).expect("added");
    let path = token_files(&store.directory).remove(0);
    let file = path.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
    assert!(matches!(
        store.token(&file),
        Err(ContextsError::Unsafe { why: UnsafeFile::Readable(0o644), .. })
    ));
    fs::remove_file(&path).expect("removed");
    let elsewhere = home.path().join("elsewhere");
    fs::write(&elsewhere, "secret").expect("written");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).expect("changed");
    symlink(&elsewhere, &path).expect("linked");
    assert!(matches!(store.token(&file), Err(ContextsError::Unsafe { why: UnsafeFile::Link, .. })));
}

#[test]
fn links_other_kinds_and_files_that_others_may_write_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let real = home.path().join("real");
    fs::create_dir(&real).expect("made");
    symlink(&real, home.path().join("link")).expect("linked");
    fs::write(home.path().join("file"), "").expect("written");
    for (path, why) in [("link", UnsafeFile::Link), ("file", UnsafeFile::OtherKind("directory"))] {
        let store = ContextStore::at(home.path().join(path));
        assert!(
            matches!(store.load(), Err(ContextsError::Unsafe { why: found, .. }) if found == why),
            "{path}"
        );
        let added = add(&store, "prod", "secret", false);
        assert!(matches!(added, Err(ContextsError::Unsafe { why: found, .. }) if found == why), "{path}");
    }
    let store = ContextStore::at(real.clone());
    let contexts = real.join(CONTEXTS);
    fs::write(&contexts, "").expect("written");
    fs::set_permissions(&contexts, fs::Permissions::from_mode(0o664)).expect("changed");
    assert!(matches!(store.load(), Err(ContextsError::Unsafe { why: UnsafeFile::Writable(0o664), .. })));
    fs::set_permissions(&contexts, fs::Permissions::from_mode(0o644)).expect("changed");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).expect("changed");
    assert!(matches!(store.load(), Err(ContextsError::Unsafe { why: UnsafeFile::Writable(0o777), .. })));
}

#[test]
fn changes_at_once_are_all_kept() {
    const WRITERS: usize = 16;
    let home = tempfile::tempdir().expect("a directory");
    let directory = home.path().join("slipway");
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = ContextStore::at(directory.clone());
            scope.spawn(move || {
                add(&store, &format!("c{writer}"), &format!("t{writer}"), false).expect("added");
            });
        }
    });
    let store = ContextStore::at(directory);
    assert_eq!(store.load().expect("contexts").contexts.len(), WRITERS);
    for writer in 0..WRITERS {
        assert_eq!(token_of(&store, &format!("c{writer}")), format!("t{writer}"));
    }
}

#[test]
fn what_a_killed_writer_left_changes_nothing_and_is_removed_by_the_next() {
    let home = tempfile::tempdir().expect("a directory");
    let store = ContextStore::at(home.path().join("slipway"));
    add(&store, "prod", "old", false).expect("added");
    let before = store.load().expect("contexts");
    // Killed after the token, and in the middle of the contexts.
    let orphan = store.directory.join("tokens/prod.orphan");
    fs::write(&orphan, "new").expect("written");
    fs::write(store.directory.join("contexts.toml.new"), "current = \"pr").expect("written");
    assert_eq!(store.load().expect("contexts"), before);
    assert_eq!(token_of(&store, "prod"), "old");
    add(&store, "prod", "new", true).expect("replaced");
    assert_eq!(token_of(&store, "prod"), "new");
    assert_eq!((token_files(&store.directory).len(), orphan.exists()), (1, false));
    assert!(!store.directory.join("contexts.toml.new").exists());
}

#[test]
fn a_change_that_is_refused_leaves_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let store = ContextStore::at(home.path().join("slipway"));
    add(&store, "prod", "old", false).expect("added");
    assert!(matches!(add(&store, "prod", "new", false), Err(ContextsError::Exists(_))));
    assert_eq!(token_of(&store, "prod"), "old");
    assert_eq!(token_files(&store.directory).len(), 1);
}
