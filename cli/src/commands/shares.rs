//! `slipway shares`: lists with whom a sandbox is shared.

use crate::{
    client::ApiRequest, context::Context, failure::Failure, humanize::age, output::Output, table::Table,
    text::wire_name,
};
use clap::Args;
use protocol::api::ShareView;

#[derive(Debug, Args)]
pub struct SharesArgs {
    /// Id, prefix of an id, or name
    #[arg(value_name = "SANDBOX")]
    sandbox: String,
}

pub async fn run(context: &Context, args: SharesArgs) -> Result<(), Failure> {
    let sandbox = context.sandbox(&args.sandbox).await?;
    let request = ApiRequest::get(format!("/v1/sandboxes/{sandbox}/shares"));
    let output = context.output;
    context.show_list(request, |shares: Vec<ShareView>| table(&shares, output)).await
}

fn table(shares: &[ShareView], output: Output) -> String {
    let mut table = Table::new(["WITH", "ACCESS", "BY", "AGE"]);
    for share in shares {
        let with = share.principal.as_ref().map_or("(whole tenant)", |principal| principal.as_str());
        table.row([
            with.into(),
            wire_name(&share.access).into(),
            share.created_by.clone().into(),
            age(&share.created_at).into(),
        ]);
    }
    table.render(output)
}
