//! Backups that are whole, damaged, and hostile.

use super::{
    encryption::{OpenWith, SealWith},
    entry::{EntryName, FORMAT, KeyFile, Manifest, SettingFile, Tree},
    error::RestoreError,
    reader::{Piece, WholeBackup, read_backup},
    writer::EntryWriter,
};
use age::{secrecy::ExposeSecret, x25519::Identity};
use hostd_drivers::compress_into;
use hostd_store::SecretValue;
use protocol::api::{BackupSummary, SandboxId};

const PASSPHRASE: &str = "correct horse";

fn id(number: u64) -> SandboxId {
    format!("{number:026}").parse().expect("an id")
}

fn manifest() -> Manifest {
    Manifest {
        format: FORMAT,
        hostd_version: "1".to_owned(),
        instance: "one".to_owned(),
        schema: 3,
        created_ms: 7,
        sandboxes: vec![id(1)],
        snapshots: vec![],
    }
}

fn list(manifest: &Manifest) -> Vec<u8> {
    serde_json::to_vec(manifest).expect("JSON")
}

/// Entries as they are written, in any order, and the end.
fn pack(entries: &[(EntryName, Vec<u8>)], ends: bool) -> Vec<u8> {
    let mut tar = Vec::new();
    let mut writer = EntryWriter::new(&mut tar);
    for (name, content) in entries {
        writer.bytes(name, content).expect("written");
    }
    if ends {
        writer.end(&BackupSummary { sandboxes: vec![id(1)], ..BackupSummary::default() }).expect("written");
    }
    tar
}

fn good() -> Vec<(EntryName, Vec<u8>)> {
    vec![
        (EntryName::Manifest, list(&manifest())),
        (EntryName::Database, vec![5; 70_000]),
        (EntryName::Key(KeyFile::Secrets), b"ab".to_vec()),
        (EntryName::Setting(SettingFile::Toml), b"x = 1".to_vec()),
        (EntryName::Part(Tree::Sandbox(id(1)), 0), vec![1; 600]),
        (EntryName::Part(Tree::Sandbox(id(1)), 1), vec![2; 600]),
        (EntryName::Part(Tree::Sandbox(id(2)), 0), vec![3; 10]),
    ]
}

fn seal(tar: &[u8], with: &SealWith) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sealed = with.wrap(&mut out).expect("a key");
    compress_into(&mut sealed, |packed| packed.write_all(tar)).expect("compressed");
    sealed.finish().expect("sealed");
    out
}

fn recipient(identity: &Identity) -> SealWith {
    SealWith::parse(None, &[identity.to_public().to_string()]).expect("a recipient")
}

fn open(backup: &[u8], with: &OpenWith) -> Result<(WholeBackup, Vec<String>), RestoreError> {
    let mut seen = vec![];
    let whole = read_backup(backup, with, 3, &mut |piece| {
        match piece {
            Piece::Begin(name) => seen.push(name.to_string()),
            Piece::Content(bytes) => assert!(!bytes.is_empty()),
            Piece::TreeEnd => seen.push("end".to_owned()),
        }
        Ok(())
    })?;
    Ok((whole, seen))
}

/// Packs and opens with a new key.
fn opened(tar: &[u8]) -> Result<(WholeBackup, Vec<String>), RestoreError> {
    let identity = Identity::generate();
    let sealed = seal(tar, &recipient(&identity));
    open(&sealed, &OpenWith::Identities(vec![identity]))
}

#[test]
fn a_backup_is_read_as_it_was_written() {
    let (whole, seen) = opened(&pack(&good(), true)).expect("whole");
    assert_eq!((whole.manifest, whole.end.entries), (manifest(), 7));
    assert_eq!(whole.end.summary.sandboxes, [id(1)]);
    let (first, second) = (id(1), id(2));
    let expected = [
        "slipway.db".to_owned(),
        "keys/secrets.key".to_owned(),
        "configuration/slipway.toml".to_owned(),
        format!("sandboxes/{first}/0"),
        format!("sandboxes/{first}/1"),
        "end".to_owned(),
        format!("sandboxes/{second}/0"),
        "end".to_owned(),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn only_the_right_key_opens_it() {
    let identity = Identity::generate();
    let tar = pack(&good(), true);
    let passphrase = |text: &str| OpenWith::Passphrase(SecretValue::from(text.to_owned()));
    let identities = |identity: &Identity| {
        OpenWith::identities(&format!("# created\n{}\n", identity.to_string().expose_secret()))
            .expect("an identity")
    };
    let by_key = seal(&tar, &recipient(&identity));
    assert!(open(&by_key, &identities(&identity)).is_ok());
    assert!(matches!(open(&by_key, &identities(&Identity::generate())), Err(RestoreError::WrongKey)));
    assert!(matches!(open(&by_key, &passphrase(PASSPHRASE)), Err(RestoreError::OtherKey(_))));
    let seal_with = SealWith::parse(Some(PASSPHRASE.to_owned()), &[]).expect("a passphrase");
    let by_passphrase = seal(&tar, &seal_with);
    assert!(open(&by_passphrase, &passphrase(PASSPHRASE)).is_ok());
    assert!(matches!(open(&by_passphrase, &passphrase("wrong horse")), Err(RestoreError::WrongKey)));
    assert!(matches!(open(&by_passphrase, &identities(&identity)), Err(RestoreError::OtherKey(_))));
    assert!(matches!(open(&tar, &passphrase(PASSPHRASE)), Err(RestoreError::NotEncrypted)));
    for content in [&by_key, &by_passphrase] {
        assert!(!content.windows(20).any(|window| window == [5; 20]), "it is ciphertext");
    }
}

#[test]
fn a_key_is_needed_and_only_one_kind_of_it() {
    let key = Identity::generate().to_public().to_string();
    let field = |passphrase: Option<&str>, recipients: &[&str]| {
        let recipients: Vec<_> = recipients.iter().map(|key| (*key).to_owned()).collect();
        SealWith::parse(passphrase.map(str::to_owned), &recipients).err().map(|wrong| wrong.field)
    };
    assert_eq!(field(Some("12345678"), &[]), None);
    assert_eq!(field(None, &[&key, &key]), None);
    assert_eq!(field(None, &[]), Some("passphrase"));
    assert_eq!(field(Some("1234567"), &[]), Some("passphrase"));
    assert_eq!(field(Some(&"x".repeat(1025)), &[]), Some("passphrase"));
    assert_eq!(field(Some("12345678"), &[&key]), Some("recipients"));
    assert_eq!(field(None, &["age1nonsense"]), Some("recipients"));
    assert_eq!(field(None, &vec![key.as_str(); 33]), Some("recipients"));
}

#[test]
fn what_is_cut_short_or_changed_is_refused() {
    let identity = Identity::generate();
    let sealed = seal(&pack(&good(), true), &recipient(&identity));
    let with = OpenWith::Identities(vec![identity]);
    assert!(open(&sealed, &with).is_ok());
    // Every place in turn would take long, and the same code at each.
    let places = (0..sealed.len()).step_by(sealed.len() / 97 + 1).chain([sealed.len() - 1]);
    for place in places {
        assert!(open(&sealed[..place], &with).is_err(), "cut at {place}");
        let mut flipped = sealed.clone();
        flipped[place] ^= 0x10;
        assert!(open(&flipped, &with).is_err(), "flipped at {place}");
    }
    let longer = [&sealed[..], b"x"].concat();
    assert!(open(&longer, &with).is_err());
}

#[test]
fn an_archive_of_another_form_is_refused() {
    let part = |number| (EntryName::Part(Tree::Sandbox(id(1)), number), vec![1]);
    let of_two = (EntryName::Part(Tree::Sandbox(id(2)), 0), vec![1]);
    let toml = || (EntryName::Setting(SettingFile::Toml), vec![1]);
    let begin = || good()[..2].to_vec();
    let with = |more: &[(EntryName, Vec<u8>)]| pack(&[&begin()[..], more].concat(), true);
    let newer = |format, schema| {
        let manifest = Manifest { format, schema, ..manifest() };
        pack(&[(EntryName::Manifest, list(&manifest)), begin()[1].clone()], true)
    };
    let table = [
        ("no end", pack(&good(), false), "it has no end"),
        ("no manifest", pack(&good()[1..], true), "it begins with slipway.db"),
        ("no database", pack(&good()[..1], true), "end.json is not in its place"),
        (
            "the database later",
            pack(&[begin()[0].clone(), toml(), begin()[1].clone()], true),
            "not in its place",
        ),
        ("two databases", with(&begin()[1..]), "slipway.db is not in its place"),
        ("two manifests", with(&begin()[..1]), "manifest.json is not in its place"),
        ("a file twice", with(&[toml(), toml()]), "slipway.toml is not in its place"),
        ("a part is missing", with(&[part(0), part(2)]), "/2 is not in its place"),
        ("the first part is missing", with(&[part(1)]), "/1 is not in its place"),
        ("a tree twice", with(&[part(0), of_two, part(0)]), "/0 is not in its place"),
        ("a key after the files", with(&[part(0), toml()]), "slipway.toml is not in its place"),
        ("a large key", with(&[(EntryName::Key(KeyFile::Models), vec![0; 4097])]), "more than 4096 bytes"),
        ("a newer format", newer(FORMAT + 1, 3), "format 2"),
        ("a newer database", newer(FORMAT, 4), "schema 4, and this hostd knows up to 3"),
        ("entries after the end", [pack(&good(), true), vec![0; 512]].concat(), ""),
    ];
    for (name, tar, expected) in table {
        match opened(&tar) {
            Err(error) => assert!(error.to_string().contains(expected), "{name}: {error}"),
            // Blocks of zeros belong to the end of an archive.
            Ok(_) => assert_eq!(name, "entries after the end"),
        }
    }
}

/// Entries that no backup has: names that lead elsewhere, links, devices.
#[test]
fn an_entry_with_another_name_or_kind_is_refused() {
    let names = [
        "../escaped",
        "/etc/passwd",
        "./manifest.json",
        "keys/../key",
        "keys/token",
        "keys/secrets.key/",
        "sandboxes/../../x/0",
        "sandboxes/01jb9xyzabcdefghjkmnpqrstv/00",
        "sandboxes/01JB9XYZABCDEFGHJKMNPQRSTV/0",
        "sandboxes/x/0",
        "configuration/../../x",
        "slipway.db-wal",
        "",
    ];
    for name in names {
        assert_eq!(EntryName::parse(name.as_bytes()), None, "{name}");
    }
    let good = pack(&good(), true);
    let database = good.windows(11).position(|window| window == b"slipway.db\0").expect("its header");
    // The byte of the kind: a link, a symbolic link, a device, a directory.
    for kind in *b"1235" {
        let mut tar = good.clone();
        tar[database + 156] = kind;
        let header = &mut tar[database..database + 512];
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let error = opened(&tar).expect_err("no file");
        assert!(error.to_string().contains("has no entry"), "{error}");
    }
}
