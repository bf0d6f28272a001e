//! `slipway sh`, `exec -t` and `attach` on a terminal, as a person uses them.

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::json;
use std::process::Stdio;
use tests::launch::program;
use tests::pty::OnTerminal;
use tests::sandbox::PATIENCE;
use tests::{Caller, Hostd};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const ESCAPE: &str = "\u{1b}";

struct Fixture {
    hostd: Hostd,
    caller: Caller,
    id: String,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let hostd = Hostd::start().await?;
        let caller = hostd.local();
        let id = caller.create(&json!({"name": "web"})).await?;
        Ok(Self { hostd, caller, id })
    }

    fn slipway(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(program("slipway")?);
        self.hostd.address(command.args(arguments)).env("TERM", "vt100").kill_on_drop(true);
        Ok(command)
    }

    /// A shell on a terminal that has shown its prompt.
    async fn shell(&self) -> Result<OnTerminal> {
        let mut shell = OnTerminal::start(&self.slipway(&["sh", "web", "-e", "PS1=$ "])?)?;
        shell.types("PS1='> '; echo re''ady\r")?;
        shell.sees("ready").await?;
        shell.sees("> ").await?;
        Ok(shell)
    }
}

#[tokio::test]
async fn a_shell_is_a_login_shell_in_the_app_directory_and_its_exit_code_is_ours() -> Result<()> {
    let place = Fixture::new().await?;
    let mut shell = place.shell().await?;
    ensure!(!shell.as_before()?, "it is raw meanwhile");
    for (line, printed) in [
        ("pwd", "/home/sandbox/workspace/app\r\n"),
        ("shopt login_shell", "on\r\n"),
        ("echo $TERM", "vt100\r\n"),
        ("stty size", "24 80\r\n"),
        ("tty", "/dev/pts/"),
    ] {
        shell.types(&format!("{line}\r"))?;
        shell.sees(printed).await.with_context(|| line.to_owned())?;
        shell.sees("> ").await?;
    }
    shell.types("exit 42\r")?;
    let (status, rest) = shell.ends().await?;
    ensure!(status.code() == Some(42), "{status} {rest:?}");

    let mut other = OnTerminal::start(&place.slipway(&["sh", "web", "--", "sh", "-c", "echo mine; cat"])?)?;
    other.sees("mine").await?;
    other.types(CTRL_D)?;
    ensure!(other.ends().await?.0.success());
    Ok(())
}

#[tokio::test]
async fn ctrl_c_interrupts_what_runs_and_the_shell_lives_on() -> Result<()> {
    let place = Fixture::new().await?;
    let mut shell = place.shell().await?;
    shell.types("sleep 100\r")?;
    shell.sees("sleep 100").await?;
    // Once it runs: before that the shell itself would take it.
    let running = async || Ok(place.caller.prints(&place.id, "pgrep -x sleep").await.ok());
    tests::host::until("it sleeps", running).await?;
    shell.types(CTRL_C)?;
    shell.sees("^C").await?;
    shell.types("echo code $?\r")?;
    shell.sees("code 130").await?;
    // Also in the middle of a flood.
    shell.types("yes\r")?;
    shell.sees("y\r\ny\r\n").await?;
    shell.types(CTRL_C)?;
    shell.sees("^C").await?;
    shell.types("echo al''ive\r")?;
    shell.sees("alive").await?;
    shell.types(CTRL_D)?;
    shell.ends().await?;
    Ok(())
}

#[tokio::test]
async fn a_full_screen_editor_edits_and_follows_the_size_of_the_window() -> Result<()> {
    let place = Fixture::new().await?;
    let mut shell = place.shell().await?;
    shell.types("busybox vi note.txt\r")?;
    shell.sees("note.txt").await?;
    shell.sees("1/1").await?;
    shell.types("ihello from vi")?;
    shell.sees("hello from vi").await?;
    shell.resizes(100, 31).await?;
    // Its last line is the 31st now.
    shell.sees("\u{1b}[31;").await?;
    // By itself: with what follows it would be a key with a name.
    shell.types(ESCAPE)?;
    shell.sees("- note.txt").await?;
    shell.types(":wq\r")?;
    shell.sees("> ").await?;
    shell.types("stty size\r")?;
    shell.sees("31 100").await?;
    let note = place.caller.prints(&place.id, "cat note.txt").await?;
    ensure!(note == "hello from vi\n", "{note:?}");
    shell.types("exit\r")?;
    ensure!(shell.ends().await?.0.success());
    Ok(())
}

#[tokio::test]
async fn leaving_keeps_the_terminal_and_attach_comes_back_to_it() -> Result<()> {
    let place = Fixture::new().await?;
    let mut shell = place.shell().await?;
    shell.types("kept=here\r")?;
    shell.sees("> ").await?;
    shell.types("~~\u{15}~?")?;
    shell.types("\r~?")?;
    shell.sees("leave").await?;
    shell.types("\r~.")?;
    let (status, rest) = shell.ends().await?;
    ensure!(status.success(), "{status}");
    let told = rest.split("slipway attach web ").nth(1).with_context(|| format!("{rest:?}"))?;
    let exec = told.split('`').next().context("its id")?.to_owned();

    let mut back = OnTerminal::start(&place.slipway(&["attach", "web", &exec])?)?;
    back.types("echo $kept $((1+1))\r")?;
    back.sees("here 2").await?;
    back.signal(Signal::SIGTERM)?;
    let (status, rest) = back.ends().await?;
    ensure!(status.code() == Some(143) && rest.contains("slipway attach"), "{status} {rest:?}");

    let mut back = OnTerminal::start(&place.slipway(&["attach", "web", &exec])?)?;
    back.types("exit 9\r")?;
    ensure!(back.ends().await?.0.code() == Some(9));
    // An ended terminal shows its output and exits with its code.
    let (status, rest) = OnTerminal::start(&place.slipway(&["attach", "web", &exec])?)?.ends().await?;
    ensure!(status.code() == Some(9) && rest.contains("here 2"), "{status} {rest:?}");
    Ok(())
}

/// The output without what the command says when hostd is away for more than a second, as on a machine with much to do.
fn without_notices(shown: &str) -> String {
    let mut pieces = shown.split("slipway: connection lost");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |all, piece| all + piece.split_once("\r\n").map_or("", |(_, rest)| rest))
}

#[tokio::test]
async fn a_shell_goes_on_when_hostd_is_killed_and_nothing_is_missing_or_twice() -> Result<()> {
    let mut place = Fixture::new().await?;
    let mut shell = place.shell().await?;
    shell.types("for i in $(seq 1 2000); do echo line $i; sleep 0.001; done; echo do''ne\r")?;
    let mut all = shell.sees("line 300\r\n").await?;
    place.hostd.crash().await?;
    all += &shell.sees("line 1200\r\n").await?;
    place.hostd.crash().await?;
    all += &shell.sees("done\r\n").await?;
    let lines: String = (1..=2000).map(|n| format!("line {n}\r\n")).collect();
    let all = without_notices(&all);
    ensure!(all.contains(&(lines + "done\r\n")), "{} bytes, {all:?}", all.len());
    // Keys typed during an outage are kept, also those that the command read before it noticed; detaching works too.
    for round in 0..5 {
        place.hostd.kill().await?;
        shell.types(&format!("echo $((20+22)) in {round}\r"))?;
        place.hostd.crash().await?;
        shell.sees(&format!("42 in {round}\r\n")).await?;
    }
    place.hostd.kill().await?;
    shell.types("\r~.")?;
    ensure!(shell.ends().await?.0.success());
    Ok(())
}

#[tokio::test]
async fn a_sandbox_that_stops_ends_the_shell_and_says_so() -> Result<()> {
    let place = Fixture::new().await?;
    let shell = place.shell().await?;
    place.caller.post(&format!("/v1/sandboxes/{}/stop", place.id), &json!({})).await?;
    let (status, rest) = shell.ends().await?;
    ensure!(!status.success() && status.code().is_some(), "{status} {rest:?}");
    Ok(())
}

#[tokio::test]
async fn exec_on_a_terminal_is_the_same() -> Result<()> {
    let place = Fixture::new().await?;
    let line = "stty size; read x; echo got $x; exit 5";
    let mut exec = OnTerminal::start(&place.slipway(&["exec", "-it", "web", "--", "sh", "-c", line])?)?;
    exec.sees("24 80").await?;
    exec.resizes(44, 11).await?;
    exec.types("the ~. keys\r")?;
    exec.sees("got the ~. keys").await?;
    let (status, rest) = exec.ends().await?;
    ensure!(status.code() == Some(5), "{status} {rest:?}");
    Ok(())
}

#[tokio::test]
async fn from_a_pipe_a_shell_reads_its_commands_and_exec_t_types_them() -> Result<()> {
    let place = Fixture::new().await?;
    for (arguments, input, code, printed) in [
        (vec!["sh", "web"], "echo $((6*7)); test -t 0 || echo no terminal; exit 4", 4, "42\nno terminal\n"),
        // The echo, and what is only printed when all was read.
        (vec!["exec", "-t", "web", "--", "sort"], "one\ntwo", 0, "one\r\ntwoone\r\ntwo\r\n"),
    ] {
        let mut command = place.slipway(&arguments)?;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("its input")?;
        stdin.write_all(input.as_bytes()).await?;
        drop(stdin);
        let output = timeout(PATIENCE, child.wait_with_output()).await.context("does not end")??;
        let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
        ensure!(output.status.code() == Some(code) && out == printed, "{arguments:?}: {out:?} {err:?}");
    }
    Ok(())
}

/// The output of an app that takes over a terminal: title, screen, clipboard, cursor.
const HOSTILE: &str = r"printf '\033]0;owned\007\033[2J\033[31mred\033]52;c;cm0gLXJm\007 '; printf '\302\2332J\033[1;1Hoops' >&2; printf 'end'";

/// Whether every sequence in what was shown is a colour.
fn only_colours(shown: &str) -> bool {
    let colour = |piece: &str| {
        let parameters = piece.strip_prefix('[').and_then(|rest| rest.split_once('m'));
        parameters.is_some_and(|(text, _)| text.bytes().all(|byte| matches!(byte, b'0'..=b';')))
    };
    !shown.contains(['\u{7}', '\u{9b}']) && shown.split(ESCAPE).skip(1).all(colour)
}

#[tokio::test]
async fn output_cannot_steer_a_terminal_unless_that_is_asked_for() -> Result<()> {
    let place = Fixture::new().await?;
    let run = ["web", "--", "sh", "-c", HOSTILE];
    let (status, shown) = OnTerminal::start(&place.slipway(&[&["exec"], &run[..]].concat())?)?.ends().await?;
    ensure!(status.success() && only_colours(&shown), "{shown:?}");
    ensure!(shown.contains("\u{1b}[31mred ") && shown.contains("oops") && shown.contains("end"), "{shown:?}");
    ensure!(shown.trim_end().ends_with("\u{1b}[0m"), "the colour stays in force: {shown:?}");
    for flag in ["--raw", "-t"] {
        let (_, raw) =
            OnTerminal::start(&place.slipway(&[&["exec", flag], &run[..]].concat())?)?.ends().await?;
        ensure!(
            raw.contains("\u{1b}]0;owned\u{7}\u{1b}[2J") && raw.contains("\u{1b}[1;1Hoops"),
            "{flag}: {raw:?}"
        );
    }
    let piped = place.hostd.ran(&[&["exec"], &run[..]].concat()).await?;
    ensure!(
        piped.out == "\u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\u{1b}]52;c;cm0gLXJm\u{7} end",
        "{piped:?}"
    );
    Ok(())
}

#[tokio::test]
async fn logs_take_the_only_service_and_leave_the_terminal_as_it_was() -> Result<()> {
    let place = Fixture::new().await?;
    let hostile = json!({"name": "hostile", "command": format!("{HOSTILE}; exec sleep 100000")});
    place.caller.create(&json!({"name": "app", "services": [hostile]})).await?;
    let mut logs = OnTerminal::start(&place.slipway(&["logs", "-f", "app"])?)?;
    let mut shown = logs.sees("end").await?;
    logs.types(CTRL_C)?;
    let (status, rest) = logs.ends().await?;
    shown.push_str(&rest);
    ensure!(status.code() == Some(130) && only_colours(&shown), "{status} {shown:?}");
    ensure!(shown.trim_end().ends_with("\u{1b}[0m"), "the colour stays in force: {shown:?}");
    let none = place.hostd.ran(&["logs", "web"]).await?;
    ensure!(none.code == Some(1) && none.err.contains("sandbox web has no services"), "{none:?}");
    Ok(())
}
