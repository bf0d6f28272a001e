//! A bare git repository of a server of a test.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct BareRepository {
    path: PathBuf,
}

impl BareRepository {
    pub fn create(path: PathBuf) -> Result<Self> {
        let parent = path.parent().context("a directory")?;
        std::fs::create_dir_all(parent)?;
        git(parent, &["init", "--quiet", "--bare", "--initial-branch=main", text(&path)?])?;
        Ok(Self { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn configure(&self, key: &str, value: &str) -> Result<()> {
        git(&self.path, &["config", key, value])
    }

    /// The commit of a branch.
    pub fn commit(&self, branch: &str) -> Result<Option<String>> {
        let output = Command::new("git")
            .args(["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")])
            .current_dir(&self.path)
            .output()?;
        Ok(output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    }

    /// Adds a commit with one file to a branch.
    pub fn add_commit(&self, branch: &str, file: &str, content: &str) -> Result<String> {
        let work = tempfile::tempdir()?;
        git(work.path(), &["clone", "--quiet", text(&self.path)?, "work"])?;
        let work = work.path().join("work");
        let exists = self.commit(branch)?.is_some();
        let switch: &[&str] = if exists { &["checkout", "--quiet"] } else { &["checkout", "--quiet", "-B"] };
        git(&work, &[switch, &[branch]].concat())?;
        std::fs::write(work.join(file), content)?;
        git(&work, &["add", "--all"])?;
        git(
            &work,
            &["-c", "user.name=Server", "-c", "user.email=s@example", "commit", "--quiet", "-m", file],
        )?;
        git(&work, &["push", "--quiet", "origin", branch])?;
        self.commit(branch)?.context("a commit")
    }

    /// Runs git in the repository.
    pub fn run(&self, args: &[&str]) -> Result<()> {
        git(&self.path, args)
    }

    /// Puts a branch on a commit whose header is written as it is, faults included.
    pub fn add_raw_commit(&self, branch: &str, header: &str) -> Result<()> {
        // The empty tree.
        let script = "tree=$(git mktree </dev/null) && printf 'tree %s\\n%b\\nold\\n' \"$tree\" \"$2\" | \
            git hash-object -t commit -w --stdin --literally | xargs git update-ref \"refs/heads/$1\"";
        let output =
            Command::new("sh").args(["-c", script, "sh", branch, header]).current_dir(&self.path).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

fn git(dir: &Path, args: &[&str]) -> Result<()> {
    let output = Command::new("git").args(args).current_dir(dir).output()?;
    ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path")
}
