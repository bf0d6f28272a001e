//! `slipway context`: what is stored and how, which hostd a command goes to, and with which token.

use super::{
    CommandOutput, completes_with, ended,
    fake::{BAD_TOKEN, Certificate, FakeHostd, Speaks, TlsFront},
    slipway, with_env,
};
use nix::pty::openpty;
use std::{
    fs,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
};
use tempfile::TempDir;
use tokio::{io::AsyncReadExt as _, process::Command};

/// The home directory of a user with two hosts, each with a certificate of its own.
struct User {
    home: TempDir,
    hosts: [Host; 2],
}

struct Host {
    fake: FakeHostd,
    front: TlsFront,
    fingerprint: String,
}

impl Host {
    async fn start(directory: &Path, label: &str) -> Self {
        let certificate = Certificate::self_signed(directory, label, "DNS:localhost");
        let fake = FakeHostd::start();
        let front = TlsFront::start(&fake, Speaks::tls(&certificate)).await;
        Self { fake, front, fingerprint: certificate.fingerprint() }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.front.port())
    }

    fn tokens(&self) -> Vec<String> {
        let mut tokens: Vec<String> =
            self.fake.tokens().into_iter().map(|token| token.unwrap_or("none".to_owned())).collect();
        tokens.dedup();
        tokens
    }
}

impl User {
    async fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let hosts = [Host::start(home.path(), "a").await, Host::start(home.path(), "b").await];
        for name in ["a", "b"] {
            fs::write(home.path().join(format!("token-{name}")), format!("token-of-{name}\n"))
                .expect("written");
        }
        Self { home, hosts }
    }

    /// Puts paths, URLs and fingerprints into a line.
    fn line(&self, line: &str) -> String {
        let [a, b] = &self.hosts;
        line.replace("HOME", &self.home.path().display().to_string())
            .replace("URL-A", &a.url())
            .replace("URL-B", &b.url())
            .replace("PIN-A", &a.fingerprint)
            .replace("PIN-B", &b.fingerprint)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = slipway(self.home.path(), &self.line(line));
        command.env_remove("SLIPWAY_DATA_DIR").env_remove("XDG_CONFIG_HOME").env("HOME", self.home.path());
        command
    }

    async fn run(&self, line: &str) -> CommandOutput {
        ended(self.command(line)).await
    }

    async fn prints(&self, line: &str) -> String {
        let output = self.run(line).await;
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{line}");
        self.neutral(&output.stdout)
    }

    async fn fails(&self, line: &str, code: i32) -> String {
        let output = self.run(line).await;
        assert_eq!((output.code, output.stdout.as_str()), (Some(code), ""), "{line}: {}", output.stderr);
        self.neutral(&output.stderr)
    }

    /// Replaces the parts that differ from run to run.
    fn neutral(&self, text: &str) -> String {
        let [a, b] = &self.hosts;
        text.replace(&a.url(), "URL-A")
            .replace(&b.url(), "URL-B")
            .replace(&a.fingerprint, "PIN-A")
            .replace(&b.fingerprint, "PIN-B")
            .replace(&self.home.path().display().to_string(), "HOME")
    }

    async fn add_both(&self) {
        self.prints("context add a --url URL-A --fingerprint PIN-A --token-file HOME/token-a").await;
        self.prints("context add b --url URL-B --ca-file HOME/b.crt --token-file HOME/token-b --use").await;
        for host in &self.hosts {
            host.tokens();
        }
    }

    fn directory(&self) -> PathBuf {
        self.home.path().join(".config/slipway")
    }

    fn token_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory().join("tokens")).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_drives_two_hosts() {
    let user = User::new().await;
    insta::assert_snapshot!(
        user.prints("context add a --url URL-A --fingerprint PIN-A --token-file HOME/token-a").await, @r"
    a added: URL-A, verified by fingerprint PIN-A
    hostd answers and accepts the token
    `slipway context use a` makes it the current one; `slipway --context a …` uses it once
    ");
    insta::assert_snapshot!(
        user.prints("context add b --url URL-B --ca-file HOME/b.crt --token-file HOME/token-b --use").await, @r"
    b added: URL-B, verified by CA file HOME/b.crt
    hostd answers and accepts the token
    b is the current context
    ");
    assert_eq!(user.hosts.each_ref().map(Host::tokens), [["token-of-a"], ["token-of-b"]]);
    user.prints("ls").await;
    assert_eq!(user.hosts.each_ref().map(Host::tokens), [vec![], vec!["token-of-b".to_owned()]]);
    user.prints("--context a ls").await;
    assert_eq!(user.hosts.each_ref().map(Host::tokens), [vec!["token-of-a".to_owned()], vec![]]);
    insta::assert_snapshot!(user.prints("context use a").await, @"a is the current context");
    user.prints("ls").await;
    assert_eq!(user.hosts.each_ref().map(Host::tokens), [vec!["token-of-a".to_owned()], vec![]]);
    insta::assert_snapshot!(user.prints("context show").await, @r"
    chosen by    context a (current)
    address      URL-A
    verified by  fingerprint PIN-A
    token        yes
    ");
    let listed = user.prints("context ls").await + &user.prints("--json context ls").await;
    assert!(listed.contains("a *") && listed.contains("CA file HOME/b.crt"), "{listed}");
    assert!(!listed.contains("token-of"), "{listed}");
    let removed = user.run("context rm a").await;
    assert_eq!((removed.code, removed.stdout.as_str()), (Some(0), "a removed\n"));
    assert!(removed.stderr.contains("commands now go to local"), "{}", removed.stderr);
    assert_eq!(user.token_files().len(), 1);
    assert!(user.fails("--context a ls", 1).await.contains("no context a\n"));
    insta::assert_snapshot!(user.prints("context show").await, @r"
    chosen by    context local (no other is current)
    address      the socket /var/lib/slipway/hostd.sock
    verified by  the permissions of the socket
    token        none
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_goes_to_its_own_address_only() {
    let user = User::new().await;
    user.add_both().await;
    let [a, b] = &user.hosts;
    // The variables of another address beside a context, and the other way round.
    let mut command = user.command("--context a ls");
    command.env("SLIPWAY_TOKEN", "of-elsewhere").env("SLIPWAY_URL", b.url());
    assert_eq!(ended(command).await.code, Some(0));
    assert_eq!((a.tokens(), b.tokens()), (vec!["token-of-a".to_owned()], vec![]));
    let mut command = user.command("ls");
    command.env("SLIPWAY_URL", a.url()).env("SLIPWAY_FINGERPRINT", &a.fingerprint);
    assert_eq!(ended(command).await.code, Some(0));
    assert_eq!((a.tokens(), b.tokens()), (vec!["none".to_owned()], vec![]));
    let command = with_env(user.command("ls"), "SLIPWAY_CONTEXT", "a");
    assert_eq!(ended(with_env(command, "SLIPWAY_TOKEN", "x")).await.code, Some(0));
    assert_eq!((a.tokens(), b.tokens()), (vec!["token-of-a".to_owned()], vec![]));
    // A token that is kept stays at its URL.
    let told = user.fails("context add a --replace --keep-token --url URL-B --ca-file HOME/b.crt", 1).await;
    assert!(told.contains("is for URL-A, and is not sent to another address"), "{told}");
    assert_eq!((a.tokens(), b.tokens()), (vec![], vec![]));
    // The certificate of a was renewed.
    let renewed = Certificate::self_signed(user.home.path(), "renewed", "DNS:localhost");
    a.front.change(Speaks::tls(&renewed));
    assert!(user.fails("--context a ls", 1).await.contains("is not the pinned one"));
    let replace =
        format!("context add a --replace --keep-token --url URL-A --fingerprint {}", renewed.fingerprint());
    user.prints(&replace).await;
    user.prints("--context a ls").await;
    assert_eq!((a.tokens(), b.tokens()), (vec!["token-of-a".to_owned()], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_unless_the_server_is_verified_and_takes_the_token() {
    let user = User::new().await;
    fs::write(user.home.path().join("bad"), BAD_TOKEN).expect("written");
    fs::write(user.home.path().join("empty"), "\n").expect("written");
    let table = [
        ("context add a --url URL-A --token-file HOME/token-a", 1, "--fingerprint PIN-A"),
        (
            "context add a --url URL-A --token-file HOME/token-a --fingerprint PIN-B",
            1,
            "pinned PIN-B, presented PIN-A",
        ),
        ("context add a --url URL-A --token-file HOME/bad --fingerprint PIN-A", 1, "the token is not valid"),
        (
            "context add a --url URL-A --token-file HOME/empty --fingerprint PIN-A",
            2,
            "the token of a is empty",
        ),
        ("context add a --url URL-A --fingerprint PIN-A", 2, "the token of a is empty"),
        ("context add a --url URL-A --token-file HOME/token-a --insecure", 2, "a context is always verified"),
        ("context add a --url http://localhost:1 --fingerprint PIN-A --no-token", 2, "are for https://"),
        ("context add a --url URL-A/path --fingerprint PIN-A --no-token", 2, "without a path"),
        ("context add local --url URL-A --fingerprint PIN-A --no-token", 2, "reserved"),
        ("context add ../a --url URL-A --fingerprint PIN-A --no-token", 2, "letters, digits"),
        ("context add a --url https://localhost:1 --fingerprint PIN-A --no-token", 1, "hostd is not running"),
        ("context use a", 1, "no context a"),
        ("context rm a", 1, "no context a"),
    ];
    for (line, code, told) in table {
        let error = user.fails(line, code).await;
        assert!(error.contains(told), "{line}: {error}");
        assert_eq!(user.token_files(), Vec::<PathBuf>::new(), "{line}");
    }
    assert!(!user.prints("context ls").await.contains("URL-A"));
    let secrets: Vec<String> = user.hosts.iter().flat_map(Host::tokens).collect();
    // One server was verified and refused its token; the others never saw one.
    assert_eq!(secrets, [BAD_TOKEN]);
    // Without a connection nothing is checked, which is said.
    let printed = user.prints("context add a --url URL-A --no-check --token-file HOME/bad").await;
    assert!(printed.contains("not checked"), "{printed}");
    let told = user.fails("context add a --url URL-A --no-check --no-token", 1).await;
    assert!(told.contains("context a exists") && told.contains("--replace"), "{told}");
}

/// Runs `context add` on a terminal where this is typed.
async fn add_at_a_terminal(user: &User, typed: &str) -> (Option<i32>, String) {
    let terminal = openpty(None, None).expect("a terminal");
    let mut keyboard = fs::File::from(terminal.master);
    keyboard.write_all(typed.as_bytes()).expect("typed");
    let mut command = user.command("context add a --url URL-A --token-file HOME/token-a");
    command.stdin(Stdio::from(terminal.slave)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    drop(command);
    let mut told = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut told).await.expect("text");
    (child.wait().await.expect("it ends").code(), user.neutral(&told))
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_terminal_an_unknown_certificate_is_shown_and_asked_about() {
    let user = User::new().await;
    for answer in ["n\n", "\n", "later\n"] {
        let (code, told) = add_at_a_terminal(&user, answer).await;
        assert!(code == Some(1) && told.contains("nothing was stored"), "{answer:?}: {told}");
        assert_eq!(user.token_files(), Vec::<PathBuf>::new());
    }
    let (code, told) = add_at_a_terminal(&user, "y\n").await;
    assert_eq!(code, Some(0), "{told}");
    insta::assert_snapshot!(told, @r"
    the certificate of URL-A has an unknown issuer. Its SHA-256 fingerprint is
      PIN-A
    Compare it with the one that the host shows: openssl x509 -noout -fingerprint -sha256 -in CERTIFICATE
    Pin it: context a trusts this certificate and no other? [y/N]
    ");
    user.prints("--context a ls").await;
    assert!(user.prints("context show a").await.contains("fingerprint PIN-A"));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_private_and_refused_where_they_are_not() {
    let user = User::new().await;
    user.add_both().await;
    let mode = |path: &Path| fs::metadata(path).expect("it exists").mode() & 0o7777;
    let (directory, token) = (
        user.directory(),
        user.token_files().into_iter().find(|path| path.to_string_lossy().contains("/b.")),
    );
    let token = token.expect("the token of b");
    assert_eq!(
        (mode(&directory), mode(&token), mode(&directory.join("contexts.toml"))),
        (0o700, 0o600, 0o600)
    );
    fs::set_permissions(&token, fs::Permissions::from_mode(0o640)).expect("changed");
    let told = user.fails("ls", 1).await;
    assert!(told.contains("other users may read it (mode 0640)") && told.contains("chmod 600"), "{told}");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("changed");
    user.prints("ls").await;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o770)).expect("changed");
    let told = user.fails("ls", 1).await;
    assert!(told.contains("other users may write to it (mode 0770)"), "{told}");
    // Others may look, until the next change takes that away.
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("changed");
    user.prints("ls").await;
    user.prints("context use a").await;
    assert_eq!(mode(&directory), 0o700);
    // A file of another user, and a link. The socket of this machine needs neither.
    let contexts = directory.join("contexts.toml");
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&contexts, Some(12345), None).expect("given away");
        assert!(user.fails("ls", 1).await.contains("it belongs to user 12345"));
        std::os::unix::fs::chown(&contexts, Some(0), None).expect("taken back");
    }
    fs::rename(&contexts, user.home.path().join("elsewhere.toml")).expect("moved");
    std::os::unix::fs::symlink(user.home.path().join("elsewhere.toml"), &contexts).expect("linked");
    assert!(user.fails("ls", 1).await.contains("it is a symbolic link"));
    assert!(user.prints("--context local context show").await.contains("hostd.sock"));
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_added_at_once_are_all_kept() {
    const COMMANDS: usize = 8;
    let user = User::new().await;
    let added: Vec<_> = (0..COMMANDS)
        .map(|n| {
            user.command(&format!("context add c{n} --url URL-A --no-check --token-file HOME/token-a"))
                .spawn()
                .expect("it runs")
        })
        .collect();
    for mut child in added {
        assert_eq!(child.wait().await.expect("it ends").code(), Some(0));
    }
    let listed = user.prints("--json context ls").await;
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["items"].as_array().expect("a list").len(), COMMANDS + 1, "{listed}");
    assert_eq!(user.token_files().len(), COMMANDS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_command_leaves_the_old_contexts_or_the_new_ones() {
    let user = User::new().await;
    user.add_both().await;
    for n in 0..30_u64 {
        let line = format!("context add k{n} --url URL-A --no-check --token-file HOME/token-a --use");
        let mut child = user.command(&line).spawn().expect("it runs");
        // Wherever it is by then.
        tokio::time::sleep(std::time::Duration::from_micros(n * 800)).await;
        child.kill().await.expect("killed or ended");
        let shown = user.prints("context ls").await;
        assert!(shown.contains("URL-B"), "{n}: {shown}");
    }
    user.prints("context use b").await;
    user.prints("ls").await;
    // What they left is gone, and every context has its token.
    let listed: serde_json::Value =
        serde_json::from_str(&user.prints("--json context ls").await).expect("JSON");
    let with_token =
        listed["items"].as_array().expect("a list").iter().filter(|item| item["has_token"] == true);
    assert_eq!(user.token_files().len(), with_token.count());
    assert!(!user.directory().join("contexts.toml.new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_about_this_machine_say_so_under_another_context() {
    let user = User::new().await;
    user.add_both().await;
    insta::assert_snapshot!(user.fails("up", 1).await, @r"
    slipway: `slipway up` works on this machine only, and context b (current) is URL-B
      next: `slipway create` creates a sandbox there; `slipway --context local up` is for this machine
    ");
    insta::assert_snapshot!(user.fails("down --all", 1).await, @r"
    slipway: `slipway down --all` works on this machine only, and context b (current) is URL-B
      next: `slipway --context local down --all` is for this machine
    ");
    let output = user.run("doctor").await;
    let told = user.neutral(&output.stderr);
    assert!(told.contains("checks the hostd of context b (current), URL-B"), "{told}");
    // The environment comes before the current context, and that is said where it surprises.
    let output = ended(with_env(user.command("context use a"), "SLIPWAY_DATA_DIR", user.home.path())).await;
    assert!(output.stderr.contains("SLIPWAY_DATA_DIR is set here, and comes before"), "{}", output.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_contexts_and_their_sandboxes_are_completed() {
    let user = User::new().await;
    user.add_both().await;
    for (words, expected) in [
        (vec!["slipway", "--context", ""], "a\nb\nlocal"),
        (vec!["slipway", "context", "use", "l"], "local"),
        (vec!["slipway", "context", "rm", "a", "b"], "b"),
        (vec!["slipway", "--context", "a", "get", "w"], "web"),
    ] {
        let ended = completes_with(user.command("--"), &words).await;
        let names: Vec<&str> = ended.stdout.lines().filter(|line| !line.starts_with('-')).collect();
        assert_eq!((names.join("\n").as_str(), ended.stderr.as_str()), (expected, ""), "{words:?}");
    }
}
