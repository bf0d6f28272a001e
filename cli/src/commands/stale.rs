//! `slipway stale`: foreign or damaged resources with marks of this hostd.

use crate::{
    client::ApiRequest, context::Context, failure::Failure, output::Output, table::Table, text::plain,
};
use protocol::api::StaleList;

pub async fn run(context: &Context) -> Result<(), Failure> {
    let output = context.output;
    context.show(ApiRequest::get("/v1/host/stale"), |list: StaleList| Ok(format_list(&list, output))).await
}

fn format_list(list: &StaleList, output: Output) -> String {
    let mut text = if list.items.is_empty() {
        "nothing stale was found\n".to_owned()
    } else {
        let mut table = Table::new(["DRIVER", "NAME", "WHY IT IS NOT TOUCHED"]);
        for stale in &list.items {
            table.row([stale.driver.clone().into(), stale.name.clone().into(), stale.why.clone().into()]);
        }
        table.render(output)
    };
    if list.more {
        text.push_str("… and more\n");
    }
    for unasked in &list.unasked {
        let line = format!("resources of {} are unknown: {}", unasked.driver, unasked.why);
        text.push_str(&format!("{}\n", plain(&line)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::api::{StaleView, Unasked};

    #[test]
    fn what_is_not_known_is_said() {
        let output = Output { json: false, colour: false };
        assert_eq!(format_list(&StaleList::default(), output), "nothing stale was found\n");
        let list = StaleList {
            items: vec![StaleView {
                driver: "docker".into(),
                name: "slipway-a-b".into(),
                why: "its seal is wrong".into(),
            }],
            unasked: vec![Unasked { driver: "oci".into(), why: "it is away".into() }],
            more: false,
        };
        insta::assert_snapshot!(format_list(&list, output), @r"
        DRIVER  NAME         WHY IT IS NOT TOUCHED
        docker  slipway-a-b  its seal is wrong
        resources of oci are unknown: it is away
        ");
    }
}
