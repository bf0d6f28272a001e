//! Types of arguments that many tools have, with their schemas.

use protocol::api::SandboxId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

macro_rules! text_schema {
    ($(#[$doc:meta])* $name:ident, $schema:tt) => {
        $(#[$doc])*
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

text_schema!(
    /// The schema of ids that hostd generates.
    UlidText,
    {"type": "string", "pattern": "^[0-9a-hjkmnp-tv-zA-HJKMNP-TV-Z]{26}$"}
);
text_schema!(
    /// The schema of names that clients choose.
    NameText,
    {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}
);
text_schema!(
    /// The schema of a path in a workspace.
    PathText,
    {"type": "string", "minLength": 1, "maxLength": 4095}
);
text_schema!(
    /// The schema of a duration.
    DurationText,
    {"type": "string", "pattern": "^[1-9][0-9]{0,5}[smhd]$"}
);

/// The arguments of a tool that needs a sandbox only.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SandboxArgs {
    /// Id of the sandbox, from create_sandbox or list_sandboxes.
    #[schemars(with = "UlidText")]
    pub sandbox: SandboxId,
}
