//! The fake model by hand: `fake-model [ADDRESS]`, then point an agent at it. It writes a file, runs a shell, edits
//! the file and says so, in the directory that SCRIPT_DIR names, and prints what it is asked, one line each.
//! SCRIPT_FILE names a JSON script instead: `[{"say": …} | {"think": …} | {"shell": …} | {"write": [path, text]} |
//! {"edit": [path, old, new]} | {"read": path} | {"status": code}]`, one turn each.

use anyhow::{Context, Result};
use serde_json::Value;
use std::time::Duration;
use tests::model::{FakeModel, Fault, Script, Turn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8999".to_owned());
    let dir = std::env::var("SCRIPT_DIR").unwrap_or_else(|_| "/tmp".to_owned());
    let script = match std::env::var("SCRIPT_FILE") {
        Ok(file) => read(&std::fs::read_to_string(file)?)?,
        Err(_) => usual(&dir),
    };
    let model = FakeModel::start_at(&address, None).await?;
    model.script(script);
    println!("serving at http://{}", model.address());
    let mut shown = 0;
    loop {
        for heard in model.heard().iter().skip(shown) {
            let tools = heard.json()["tools"].as_array().map_or(0, Vec::len);
            let (key, status) = (heard.key().unwrap_or_default(), heard.status.unwrap_or_default());
            println!(
                "{} {} {status} key {key:?} {tools} tools {} B",
                heard.method,
                heard.path,
                heard.body.len()
            );
            if std::env::var_os("SHOW").is_some() {
                println!("{}", heard.everything());
            }
            shown += 1;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn usual(dir: &str) -> Script {
    let file = format!("{dir}/hello.txt");
    let mut first = Turn::think("I write a file first.").and_say("I begin with a file. ");
    first.parts.extend(Turn::write(&file, "hello\nworld\n").parts);
    Script::new([
        first,
        Turn::shell(&format!("cat {file}; exit 7")),
        Turn::edit(&file, "world", "there"),
        Turn::say("All is done and the file is there."),
    ])
}

fn read(text: &str) -> Result<Script> {
    let turns: Vec<Value> = serde_json::from_str(text)?;
    Ok(Script::new(turns.iter().map(turn).collect::<Result<Vec<_>>>()?))
}

fn turn(value: &Value) -> Result<Turn> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
    let (kind, given) = value.as_object().and_then(|turn| turn.iter().next()).context("a turn")?;
    Ok(match kind.as_str() {
        "say" => Turn::say(&text(given)?),
        "think" => Turn::think(&text(given)?).and_say("So be it."),
        "shell" => Turn::shell(&text(given)?),
        "read" => Turn::read(&text(given)?),
        "write" => Turn::write(&text(&given[0])?, &text(&given[1])?),
        "edit" => Turn::edit(&text(&given[0])?, &text(&given[1])?, &text(&given[2])?),
        "status" => {
            Turn::always(Fault::status(u16::try_from(given.as_u64().context("a code")?)?, "as scripted"))
        }
        other => anyhow::bail!("unknown turn {other}"),
    })
}
