//! `slipway files`, against files of the fake hostd.

use super::{fake::FakeHostd, run, slipway};
use std::{fs, os::unix::fs::symlink};

#[tokio::test(flavor = "multi_thread")]
async fn files_are_listed_found_and_printed() {
    let fake = FakeHostd::start();
    fake.files.put("app/src/main.rs", "fn main() {}\n");
    fake.files.put("app/.env", "SECRET=1\n");
    fake.files.put("app/evil\u{1b}[2J", "");
    symlink("src", fake.files.path("app/link")).expect("made");
    for (line, code, expected) in [
        ("files ls web:app", 0, "evil\nlink\nsrc/\n"),
        ("files ls -a web:app", 0, ".env\nevil\nlink\nsrc/\n"),
        ("files ls -R web:app/src", 0, "main.rs\n"),
        ("files ls web:app/src/main.rs", 0, "main.rs\n"),
        ("files cat web:app/src/main.rs web:app/.env", 0, "fn main() {}\nSECRET=1\n"),
        ("files find web:app *.rs", 0, "app/src/main.rs\n"),
        ("files grep web:app main", 0, "app/src/main.rs:1:fn main() {}\n"),
        ("files grep -l web:app main", 0, "app/src/main.rs\n"),
        ("files grep web:app nothing", 1, ""),
    ] {
        let ended = run(&fake.data_dir(), line).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), expected), "{line}: {}", ended.stderr);
    }
    insta::assert_snapshot!(run(&fake.data_dir(), "files tree web:app").await.stdout, @r"
    app
    ├── evil
    ├── link -> src
    └── src/
        └── main.rs

    1 directories, 3 files
    ");
    fs::set_permissions(fake.files.path("app/src"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("set");
    let listed = run(&fake.data_dir(), "files ls -l web:app").await.stdout;
    assert!(listed.contains("drwxr-xr-x  -") && listed.contains("link -> src"), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&run(&fake.data_dir(), "files ls web:app --json").await.stdout).expect("JSON");
    assert_eq!(json["items"].as_array().expect("items").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_written_moved_and_deleted() {
    let (fake, here) = (FakeHostd::start(), tempfile::tempdir().expect("a directory"));
    let local = here.path().join("local");
    fs::write(&local, "text").expect("written");
    let local = local.display();
    for (line, code) in [
        (format!("files put web:a/new {local} --mode 0600"), 0),
        (format!("files put web:a/new {local} --append"), 0),
        (format!("files put web:a/new {local} --new"), 1),
        ("files mkdir web:b web:c/d".to_owned(), 0),
        ("files mv web:a/new b".to_owned(), 0),
        ("files mv web:b/new web:c/renamed".to_owned(), 0),
        ("files mv web:c/renamed api:x".to_owned(), 2),
        ("files rm web:c".to_owned(), 1),
        ("files rm web:missing".to_owned(), 1),
        ("files rm -f web:missing".to_owned(), 0),
        ("files rm -r web:b web:c/d".to_owned(), 0),
    ] {
        let ended = run(&fake.data_dir(), &line).await;
        assert_eq!(ended.code, Some(code), "{line}: {}{}", ended.stdout, ended.stderr);
    }
    assert_eq!(fake.files.read("c/renamed").as_deref(), Some("texttext"));
    assert!(!fake.files.path("b").exists() && !fake.files.path("c/d").exists());
}

/// Runs `files edit` with an editor that is a line of shell.
async fn edit(fake: &FakeHostd, path: &str, editor: &str) -> (Option<i32>, String) {
    let script = fake.data_dir().join("editor.sh");
    fs::write(&script, format!("{editor}\n")).expect("written");
    let mut command = slipway(&fake.data_dir(), &format!("files edit {path}"));
    command.env_remove("VISUAL").env("EDITOR", format!("sh {}", script.display()));
    let output = command.output().await.expect("it runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_is_saved_unless_the_file_changed_meanwhile() {
    let fake = FakeHostd::start();
    fake.files.put("notes", "old\n");
    let (code, said) = edit(&fake, "web:notes", "echo new >> \"$1\"").await;
    assert_eq!((code, fake.files.read("notes").as_deref()), (Some(0), Some("old\nnew\n")), "{said}");
    let (code, _) = edit(&fake, "web:deep/fresh", "echo hello > \"$1\"").await;
    assert_eq!((code, fake.files.read("deep/fresh").as_deref()), (Some(0), Some("hello\n")));
    let (code, said) = edit(&fake, "web:notes", "true").await;
    assert!(code == Some(0) && said.contains("nothing was changed"), "{said}");
    let (code, said) = edit(&fake, "web:notes", "echo x >> \"$1\"; exit 3").await;
    assert!(code == Some(1) && said.contains("nothing was written"), "{said}");
    // Another version appears while the editor is open.
    let theirs = fake.files.path("notes");
    let editor = format!("echo mine >> \"$1\"; echo theirs > {}", theirs.display());
    let (code, said) = edit(&fake, "web:notes", &editor).await;
    assert!(code == Some(1) && said.contains("was changed in the sandbox meanwhile"), "{said}");
    assert_eq!(fake.files.read("notes").as_deref(), Some("theirs\n"));
    let kept = said.split("your version is in ").nth(1).expect("a path").trim();
    assert_eq!(fs::read_to_string(kept).expect("it is kept"), "old\nnew\nmine\n");
    fs::remove_dir_all(std::path::Path::new(kept).parent().expect("a directory")).expect("removed");
}
