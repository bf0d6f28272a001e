//! `slipway doctor`.

use crate::{
    client::{Ask, ClientError},
    context::Context,
    doctor::{Check, Facts, Level, judge},
    failure::Failure,
    output::{Colour, Output},
};
use protocol::api::{ApiErrorCode, HostView};

/// Gives 1 when something that is needed is missing. Another machine's hostd is all that there is to
/// check where one is set.
pub async fn run(output: Output) -> Result<u8, Failure> {
    let (mut checks, hostd) = match Context::from_environment(output) {
        Ok(context) => {
            let remote = matches!(context.client.target(), crate::client::Target::Tcp(_));
            let local = if remote { Vec::new() } else { judge(&Facts::gather(&context.data_dir)) };
            (local, hostd(&context, remote).await)
        }
        Err(error) => {
            (judge(&Facts::gather(std::path::Path::new("/var/lib/slipway"))), vec![bad_address(&error)])
        }
    };
    checks.extend(hostd);
    if output.json {
        output.json(&serde_json::json!({ "checks": checks }))?;
    } else {
        output.bytes(text(&checks, output).as_bytes())?;
    }
    Ok(u8::from(checks.iter().any(|check| check.level == Level::Missing)))
}

fn bad_address(error: &ClientError) -> Check {
    Check::missing("hostd", error.to_string(), "correct SLIPWAY_URL")
}

/// Whether hostd answers, and what it says about itself. Here it can be started; elsewhere it must run.
async fn hostd(context: &Context, remote: bool) -> Vec<Check> {
    let host: Result<HostView, ClientError> = match context.client.send(Ask::get("/v1/host")).await {
        Ok(answer) => answer.parse(),
        Err(error) => Err(error),
    };
    match host {
        Ok(host) => {
            let answers =
                Check::fine("hostd", format!("{} answers, driver {}", host.version, host.default_driver));
            let warnings = host.warnings.iter().map(|warning| Check::warning("hostd", warning.clone(), None));
            std::iter::once(answers).chain(warnings).collect()
        }
        // Only the administrator of the host is told more.
        Err(error) if error.is(ApiErrorCode::Forbidden) => vec![Check::fine("hostd", "answers".to_owned())],
        Err(error) => {
            let fix = error.next();
            let level = if remote { Level::Missing } else { Level::Warning };
            vec![Check { name: "hostd", level, found: error.to_string(), fix }]
        }
    }
}

fn text(checks: &[Check], output: Output) -> String {
    let mut text = String::new();
    for check in checks {
        let (word, colour) = match check.level {
            Level::Fine => ("ok", Colour::Green),
            Level::Warning => ("warning", Colour::Yellow),
            Level::Missing => ("missing", Colour::Red),
        };
        let word = output.paint(colour, &format!("{word:<7}"));
        text.push_str(&format!("{word}  {:<15}  {}\n", check.name, check.found));
        if let Some(fix) = &check.fix {
            text.push_str(&format!("{:26}fix: {fix}\n", ""));
        }
    }
    let missing = checks.iter().filter(|check| check.level == Level::Missing).count();
    let last = match missing {
        0 => "nothing that is needed is missing".to_owned(),
        1 => "1 thing that is needed is missing".to_owned(),
        count => format!("{count} things that are needed are missing"),
    };
    text + &format!("\n{last}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_says_how_to_fix_it() {
        let checks = [
            Check::fine("root", "yes".into()),
            Check::warning("inotify", "128 instances".into(), Some("sysctl -w x=1".into())),
            Check::missing("runtime", "none".into(), "apt-get install -y crun"),
        ];
        insta::assert_snapshot!(text(&checks, Output { json: false, colour: false }), @r"
        ok       root             yes
        warning  inotify          128 instances
                                  fix: sysctl -w x=1
        missing  runtime          none
                                  fix: apt-get install -y crun

        1 thing that is needed is missing
        ");
    }
}
