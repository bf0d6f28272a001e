//! Events as tagged unions. On the wire an event is one object whose `kind` says which other fields it has; the types of
//! the protocol keep these fields in a map. Here each kind gets a named schema of its own, with `kind` as the
//! discriminator: generators make a type of each, and a switch over `kind` narrows.

use super::{
    flatten::{self, Fields, Object},
    route_doc::{Schemas, schema_of},
};
use protocol::{
    Chunk, Fact, TaskFact,
    api::{
        AttemptEventData, DotfilesEventData, EgressEventData, FileChangeView, GapEventData, GitEventData,
        SandboxEventData, SetupEventData,
    },
};
use serde_json::{Value, json};

/// Field that says which event it is.
const KIND: &str = "kind";
/// Fields between hostd and runtimed, which hostd takes out.
const PRIVATE: [&str; 1] = ["told"];

/// Events that hostd records itself: name of the schema, kinds, name of the schema of `data`.
const OF_HOSTD: [(&str, &[&str], &str); 7] = [
    (
        "SandboxEvent",
        &[
            "sandbox.created",
            "sandbox.adopted",
            "sandbox.wanted",
            "sandbox.running",
            "sandbox.paused",
            "sandbox.stopped",
            "sandbox.destroyed",
            "sandbox.error",
            "sandbox.ended",
            "sandbox.evicted",
            "sandbox.renewed",
            "sandbox.delayed",
            "sandbox.changed",
            "sandbox.replaced",
            "sandbox.shared",
            "sandbox.unshared",
            "sandbox.drift",
            "sandbox.progress",
        ],
        "SandboxEventData",
    ),
    (
        "AttemptEvent",
        &["attempt.started", "attempt.launched", "attempt.succeeded", "attempt.failed"],
        "AttemptEventData",
    ),
    (
        "SetupEvent",
        &["setup.started", "setup.succeeded", "setup.failed", "setup.interrupted"],
        "SetupEventData",
    ),
    ("DotfilesEvent", &["dotfiles.copied"], "DotfilesEventData"),
    ("GitEvent", &["git.fetch", "git.push"], "GitEventData"),
    ("EgressDecisionEvent", &["egress"], "EgressEventData"),
    // Recorded by runtimed and by hostd.
    ("GapEvent", &["gap"], "GapEventData"),
];

/// Adds the schemas that only the unions below, and streams, refer to.
pub fn collect(schemas: &mut Schemas) {
    schema_of::<TaskFact>(schemas);
    schema_of::<Fact>(schemas);
    schema_of::<SandboxEventData>(schemas);
    schema_of::<AttemptEventData>(schemas);
    schema_of::<SetupEventData>(schemas);
    schema_of::<DotfilesEventData>(schemas);
    schema_of::<GitEventData>(schemas);
    schema_of::<EgressEventData>(schemas);
    schema_of::<GapEventData>(schemas);
    schema_of::<Chunk>(schemas);
    schema_of::<FileChangeView>(schemas);
}

/// Replaces `TaskEventView` and `EventView` by unions. Runs before schemas are flattened.
pub fn tag(schemas: &mut Object) {
    let task_events = of_tasks(schemas);
    let events = of_sandboxes(schemas);
    let unions = [
        ("TaskEventView", task_events.clone()),
        ("EventView", task_events.into_iter().chain(events).collect::<Vec<_>>()),
    ];
    for (name, variants) in unions {
        let about = schemas[name]["description"].clone();
        let mut union = flatten::union(KIND, variants.iter().map(|variant| variant.union_member()));
        union["description"] = about;
        schemas.insert(name.to_owned(), union);
    }
}

/// A schema of the union, and the kinds that it describes.
#[derive(Debug, Clone)]
struct Variant {
    name: String,
    kinds: Vec<String>,
}

impl Variant {
    fn union_member(&self) -> (&str, &[String]) {
        (&self.name, &self.kinds)
    }

    /// Adds the schema to the components.
    fn insert(self, schemas: &mut Object, fields: Fields) -> Self {
        let kind = json!({"type": "string", "enum": self.kinds});
        schemas.insert(self.name.clone(), fields.with_field(KIND, kind).object());
        self
    }
}

/// A schema for each kind of a task's events: what they have in common, and the fields of the kind.
fn of_tasks(schemas: &mut Object) -> Vec<Variant> {
    let common = flatten::fields(&schemas["TaskEventView"], schemas);
    let facts = schemas["TaskFact"]["oneOf"].as_array().cloned().unwrap_or_default();
    let each = facts.iter().map(|fact| {
        let (word, own) = take_word(flatten::fields(fact, schemas), "type");
        let name = format!("Task{}Event", flatten::pascal(&word));
        (Variant { name, kinds: vec![word] }, common.with(&own))
    });
    let each: Vec<_> = each.collect();
    each.into_iter().map(|(variant, fields)| variant.insert(schemas, fields)).collect()
}

/// A schema for each kind of runtimed's events, and one for each family of hostd's. Their fields are in `data`.
fn of_sandboxes(schemas: &mut Object) -> Vec<Variant> {
    let common = flatten::fields(&schemas["EventView"], schemas);
    let facts = schemas["Fact"]["oneOf"].as_array().cloned().unwrap_or_default();
    let mut all = Vec::new();
    for fact in facts {
        let (word, data) = take_word(flatten::fields(&fact, schemas), KIND);
        if OF_HOSTD.iter().any(|(_, kinds, _)| kinds.contains(&word.as_str())) {
            continue;
        }
        let stem = flatten::pascal(&word);
        let data_name = format!("{stem}EventData");
        schemas.insert(data_name.clone(), data.object());
        // A task has an event `log`, a sandbox `task.ended`: both stems are their own.
        all.push((format!("{stem}Event"), vec![word], data_name));
    }
    let of_hostd = OF_HOSTD.iter().map(|(name, kinds, data)| {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        ((*name).to_owned(), kinds, (*data).to_owned())
    });
    all.extend(of_hostd);
    let each = all.into_iter().map(|(name, kinds, data)| {
        let data = json!({"$ref": format!("#/components/schemas/{data}")});
        Variant { name, kinds }.insert(schemas, common.clone().with_field("data", data))
    });
    each.collect()
}

/// Takes the tag of a variant out of its fields.
fn take_word(fields: Fields, tag: &str) -> (String, Fields) {
    let word = fields.word(tag).unwrap_or_default();
    (word, fields.without(&[tag]).without(&PRIVATE))
}

/// The schema of one message of a stream, as an extension: OpenAPI 3.1 has no field for it.
pub const STREAM_ITEM: &str = "x-item-schema";

/// The extension of a stream whose messages are of this type.
pub fn item(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}
