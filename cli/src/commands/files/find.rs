//! `slipway files find`, and the flags that it shares with `grep`.

use super::open;
use crate::{
    client::ApiRequest,
    context::Context,
    failure::{Failure, eprint_line},
    files::{SandboxPath, joined},
    text::plain,
};
use clap::Args;
use protocol::api::SearchView;

/// Where is searched.
#[derive(Debug, Args)]
pub struct SearchFlags {
    /// Names that begin with a dot too
    #[arg(long, short)]
    all: bool,
    /// Also what .gitignore files name
    #[arg(long)]
    no_ignore: bool,
    /// Leave out what matches; may be repeated
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    exclude: Vec<String>,
    /// Matches at most
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
}

impl SearchFlags {
    pub fn apply(&self, request: ApiRequest) -> ApiRequest {
        request
            .query_if("hidden", self.all.then_some(true))
            .query_if("ignore", (!self.no_ignore).then_some(true))
            .query_if("limit", self.limit)
            .query_if("exclude", joined(&self.exclude))
    }
}

#[derive(Debug, Args)]
pub struct FindArgs {
    /// Directory to search
    #[arg(value_name = "SANDBOX:PATH", value_parser = super::sandbox_path())]
    path: SandboxPath,
    /// Pattern of the name, as in '*.rs' or 'src/**/*.ts'; everything by default
    #[arg(default_value = "*")]
    glob: String,
    #[command(flatten)]
    flags: SearchFlags,
}

pub async fn run(context: &Context, args: FindArgs) -> Result<(), Failure> {
    let api = open(context, &args.path).await?;
    let request = args.flags.apply(api.search_request(&args.path.path).query("name", &args.glob));
    let found = api.search(request).await?;
    if context.output.json {
        return context.output.json(&found);
    }
    let lines: String = found.items.iter().map(|item| format!("{}\n", plain(&item.path))).collect();
    context.output.text(&lines)?;
    report_truncated(&found);
    Ok(())
}

/// Says that there may be more.
pub fn report_truncated(found: &SearchView) {
    if found.truncated {
        let why = found.reason.as_deref().unwrap_or("there are more matches than its limit");
        eprint_line(&format!("slipway: the search ended early: {}", plain(why)));
    }
}
