//! `slipway files grep`.

use super::{
    find::{SearchFlags, report_truncated},
    open,
};
use crate::{
    context::Context,
    failure::Failure,
    files::SandboxPath,
    output::{Colour, Output},
    text::plain,
};
use clap::Args;
use protocol::api::SearchMatchView;

/// As with grep.
const NOTHING_FOUND: u8 = 1;

#[derive(Debug, Args)]
pub struct GrepArgs {
    /// Directory or file to search
    #[arg(value_name = "SANDBOX:PATH", value_parser = super::sandbox_path())]
    path: SandboxPath,
    /// Regular expression
    #[arg(value_name = "REGEX")]
    pattern: String,
    /// Upper and lower case are the same
    #[arg(long, short)]
    ignore_case: bool,
    /// Print names of files only
    #[arg(long, short = 'l')]
    files_with_matches: bool,
    /// Only in files whose name matches, as in '*.rs'
    #[arg(long, value_name = "GLOB")]
    name: Option<String>,
    #[command(flatten)]
    flags: SearchFlags,
}

pub async fn run(context: &Context, args: GrepArgs) -> Result<u8, Failure> {
    let api = open(context, &args.path).await?;
    let request = api
        .search_request(&args.path.path)
        .query("content", &args.pattern)
        .query_if("name", args.name.as_ref())
        .query_if("ignore_case", args.ignore_case.then_some(true));
    let found = api.search(args.flags.apply(request)).await?;
    if context.output.json {
        context.output.json(&found)?;
    } else if args.files_with_matches {
        let mut paths: Vec<String> = found.items.iter().map(|item| plain(&item.path)).collect();
        paths.dedup();
        context.output.text(&paths.iter().map(|path| format!("{path}\n")).collect::<String>())?;
    } else {
        let lines = found.items.iter().map(|item| line(item, context.output));
        context.output.text(&lines.collect::<String>())?;
    }
    report_truncated(&found);
    Ok(if found.items.is_empty() { NOTHING_FOUND } else { 0 })
}

/// `path:line:text`.
fn line(item: &SearchMatchView, output: Output) -> String {
    let path = output.paint(Colour::Bold, &plain(&item.path));
    let number = item.line.map(|line| format!(":{}", output.paint(Colour::Green, &line.to_string())));
    let text = item.text.as_deref().map(|text| format!(":{}", plain(text)));
    format!("{path}{}{}\n", number.unwrap_or_default(), text.unwrap_or_default())
}
