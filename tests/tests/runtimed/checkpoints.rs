//! Checkpoints: what changed is right, and no repository, however hostile, makes anything run.

use anyhow::{Context, Result, ensure};
use protocol::{ChangeKind, Checkpoint, FileChange, TaskFact, TaskResult, TaskStatus};
use tests::Sandbox;
use tests::launch::{Launched, directory, script};
use tests::shell::shell;
use tests::tasks::{run, story, task};
use tokio::process::Command;

type Row = (String, ChangeKind, Option<u64>, Option<u64>);

fn rows(result: &TaskResult) -> Result<Vec<Row>> {
    let changes = result.files_changed.as_ref().with_context(|| format!("no changes in {result:?}"))?;
    let row = |file: &protocol::FileChange| {
        (file.path.data.clone(), file.change, file.added_lines, file.deleted_lines)
    };
    let mut rows: Vec<Row> = changes.files.iter().map(row).collect();
    rows.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(rows)
}

#[tokio::test]
async fn what_a_task_changed_is_told_with_its_lines() -> Result<()> {
    use ChangeKind::{Added, Deleted, Modified};
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    shell(client, "git init -q . && git config user.email a@b && git config user.name x && seq 5 > a && echo o > 'old name' && printf '\\0\\1' > bin && echo v > .gitignore && git add a && git commit -qm one && git checkout -qb topic && echo staged > s && git add s").await?;
    let state = "git rev-parse HEAD; git branch --show-current; git status --porcelain; sha1sum .git/index .git/config; git stash list; git for-each-ref";
    let before = shell(client, state).await?;
    let same = run(client, task("same", "true")).await?;
    ensure!(rows(&same)?.is_empty(), "{same:?}");
    ensure!(shell(client, state).await? == before, "the repository changed");
    let line = "seq 2 6 > a; mv 'old name' 'new name'; printf '\\0\\2' > bin; echo x > \"$(printf 'with\\nline')\"; echo ignored > v; rm s; ln -s a link";
    let result = run(client, task("changes", line)).await?;
    let row = |name: &str, change, lines: Option<(u64, u64)>| {
        (name.to_owned(), change, lines.map(|l| l.0), lines.map(|l| l.1))
    };
    let expected = [
        row("a", Modified, Some((1, 1))),
        row("bin", Modified, None),
        row("link", Added, Some((1, 0))),
        row("new name", Added, Some((1, 0))),
        row("old name", Deleted, Some((0, 1))),
        row("s", Deleted, Some((0, 1))),
        row("with\nline", Added, Some((1, 0))),
    ];
    ensure!(rows(&result)? == expected, "{result:?}");
    // Each of them is an event too, after what the agent said and before the end.
    let events = story(client, "changes").await?;
    let told: Vec<FileChange> = events
        .iter()
        .filter_map(|event| if let TaskFact::File { file } = &event.fact { Some(file.clone()) } else { None })
        .collect();
    ensure!(result.files_changed.as_ref().is_some_and(|changes| changes.files == told), "{told:?}");
    let Checkpoint::Taken { id, .. } = &result.checkpoint else { anyhow::bail!("{result:?}") };
    let kept = shell(
        client,
        "git --git-dir=$HOME/.slipway/checkpoints.git for-each-ref --format='%(objectname) %(refname)'",
    )
    .await?;
    ensure!(kept.contains(&format!("{id} refs/checkpoints/changes")), "{kept}");
    let content =
        shell(client, &format!("git --git-dir=$HOME/.slipway/checkpoints.git show '{id}:old name'")).await?;
    ensure!(content == "o\n", "{content:?}");
    sandbox.stop().await
}

/// Everything in a repository that makes git run something, each leaving a mark.
const HOSTILE: &str = r#"
mark="$HOME/ran"
evil() { printf '#!/bin/sh\ntouch "%s-%s"\ncat\n' "$mark" "$1" > "$HOME/evil-$1"; chmod +x "$HOME/evil-$1"; echo "$HOME/evil-$1"; }
git init -q .
for hook in pre-commit post-commit post-index-change reference-transaction post-checkout fsmonitor-watchman pre-auto-gc post-rewrite; do
    cp "$(evil hook-$hook)" .git/hooks/$hook
done
git config core.fsmonitor "$(evil fsmonitor)"
git config core.hooksPath "$PWD/.git/hooks"
git config filter.evil.clean "$(evil clean)"
git config filter.evil.smudge "$(evil smudge)"
git config filter.evil.process "$(evil process)"
git config filter.evil.required true
git config diff.evil.textconv "$(evil textconv)"
git config diff.evil.command "$(evil diff)"
git config diff.external "$(evil external)"
git config core.pager "$(evil pager)"
git config core.sshCommand "$(evil ssh)"
git config credential.helper "$(evil credential)"
git config gpg.program "$(evil gpg)"
git config commit.gpgSign true
git config alias.add "!$(evil alias)"
cp .git/config "$HOME/included"
printf '[include]\n\tpath = %s/included\n[includeIf "gitdir:/"]\n\tpath = %s/included\n' "$HOME" "$HOME" >> .git/config
cp .git/config "$HOME/.gitconfig"
mkdir -p "$HOME/.config/git" && cp .git/config "$HOME/.config/git/config"
echo '* filter=evil diff=evil' > .gitattributes
cp .gitattributes "$HOME/.config/git/attributes"
mkdir -p nested/sub unreadable && cp -r .git nested/.git && echo n > nested/n && cp .gitattributes nested/
printf 'gitdir: %s/.git\n' "$PWD" > nested/sub/.git
echo secret > unreadable/x; chmod 000 unreadable
echo closed > closed; chmod 000 closed
mkfifo fifo; python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.bind("socket")'
truncate -s 70000000 huge
ln -s /etc/passwd link; ln -s fifo link-to-fifo; ln -s . loop
echo text > a
rm -f "$mark"-*
"#;

#[tokio::test]
async fn a_hostile_repository_runs_nothing_and_still_gets_its_checkpoint() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    shell(client, HOSTILE).await?;
    let state = "sha1sum .git/config .git/HEAD; find .git -newer a | grep -v '^.git$' || true";
    let before = shell(client, state).await?;
    let result = run(client, task("t", "echo more >> a; echo n2 >> nested/n; echo new > nested/new")).await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    let Checkpoint::Taken { skipped, .. } = result.checkpoint else { anyhow::bail!("{result:?}") };
    ensure!(skipped == 2, "the huge file and the closed one: {skipped}");
    let changed: Vec<String> = rows(&result)?.into_iter().map(|row| row.0).collect();
    ensure!(changed == ["a", "nested/n", "nested/new"], "{changed:?}");
    let ran = shell(client, "ls $HOME | grep '^ran-' || true").await?;
    ensure!(ran.is_empty(), "ran: {ran}");
    ensure!(shell(client, state).await? == before, "the repository was touched");
    shell(client, "chmod 755 unreadable; chmod 644 closed; rm fifo; git add -A >/dev/null 2>&1 || true")
        .await?;
    let ran = shell(client, "ls $HOME | grep -c '^ran-' || true").await?;
    ensure!(ran.trim() != "0", "the trap is none: git itself ran nothing either");
    sandbox.stop().await
}

#[tokio::test]
async fn only_the_newest_checkpoints_are_kept() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    let client = sandbox.client();
    run(client, task("first", "true")).await?;
    let many = "cd $HOME/.slipway/checkpoints.git; id=$(git --git-dir=. rev-parse refs/checkpoints/first); \
                for i in $(seq 150); do mkdir -p refs/checkpoints; echo $id > refs/checkpoints/old-$i; done";
    shell(client, many).await?;
    run(client, task("last", "true")).await?;
    let refs =
        shell(client, "git --git-dir=$HOME/.slipway/checkpoints.git for-each-ref --format='%(refname)'")
            .await?;
    let kept = refs.lines().filter(|name| name.starts_with("refs/checkpoints/")).count();
    ensure!(kept == 100 && refs.contains("refs/checkpoints/last"), "{refs}");
    ensure!(refs.contains("refs/ends/last"), "{refs}");
    sandbox.stop().await
}

#[tokio::test]
async fn without_git_the_task_goes_on() -> Result<()> {
    let dir = directory()?;
    let mut command = Command::new("unshare");
    let hide = "mount --make-rprivate /; for git in /usr/bin/git /usr/local/bin/git /bin/git; do [ -e $git ] && mount --bind /dev/null $git; done; exec \"$@\"";
    command.args(["--mount", "sh", "-c", hide, "sh"]).arg(script("pid1")?).arg(dir.path());
    let launched = Launched::start(dir, command, "control/sock").await?;
    let result = run(launched.client(), task("t", "echo x > made")).await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    ensure!(
        matches!(&result.checkpoint, Checkpoint::Unavailable { why } if why.contains("git")),
        "{result:?}"
    );
    ensure!(result.files_changed.is_none(), "{result:?}");
    launched.stop().await
}

#[tokio::test]
async fn a_repository_of_checkpoints_that_cannot_be_made_is_said_so() -> Result<()> {
    let sandbox = Sandbox::start().await?;
    shell(sandbox.client(), "echo in the way > $HOME/.slipway").await?;
    let result = run(sandbox.client(), task("t", "true")).await?;
    ensure!(result.status == TaskStatus::Succeeded, "{result:?}");
    ensure!(matches!(&result.checkpoint, Checkpoint::Unavailable { .. }), "{result:?}");
    sandbox.stop().await
}
