//! `#[serde(flatten)]` becomes `allOf`, and with an enum inside an `allOf` of `oneOf`, which client
//! generators drop or fail on. Both are rewritten to the wire format: one object with all fields. An enum
//! contributes its tag (`state`, `kind`) with all values, and the fields of its variants, each optional.
//!
//! An enum on its own stays a union: each variant is a named schema, and the tag its discriminator.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

pub type Object = Map<String, Value>;

pub fn all(schemas: &mut Object) {
    let names: Vec<String> = schemas.keys().cloned().collect();
    for name in names {
        if let Some(parts) = schemas[&name].get("allOf").and_then(Value::as_array).cloned() {
            let about = schemas[&name].get("description").cloned();
            let mut flat = flat(&parts, schemas);
            if let Some(about) = about {
                flat["description"] = about;
            }
            schemas.insert(name.clone(), flat);
        }
    }
    let names: Vec<String> = schemas.keys().cloned().collect();
    for name in names {
        name_variants(&name, schemas);
    }
}

/// A union of named schemas, each with the words of the tag that it stands for.
pub fn union<'a>(tag: &str, members: impl Iterator<Item = (&'a str, &'a [String])>) -> Value {
    let (mut variants, mut mapping) = (Vec::new(), Object::new());
    for (name, words) in members {
        let reference = format!("#/components/schemas/{name}");
        variants.push(json!({"$ref": reference}));
        mapping.extend(words.iter().map(|word| (word.clone(), json!(reference))));
    }
    json!({"oneOf": variants, "discriminator": {"propertyName": tag, "mapping": mapping}})
}

fn flat(parts: &[Value], schemas: &Object) -> Value {
    let none = Fields::default();
    parts.iter().fold(none, |before, part| before.with(&fields(part, schemas))).object()
}

/// The fields of an object, and which of them are required.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    properties: Object,
    required: BTreeSet<String>,
}

impl Fields {
    fn of(schema: &Value) -> Self {
        let required = schema["required"].as_array().into_iter().flatten();
        Self {
            properties: schema["properties"].as_object().cloned().unwrap_or_default(),
            required: required.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    pub fn with(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.properties.extend(other.properties.clone());
        all.required.extend(other.required.iter().cloned());
        all
    }

    /// The same with a required field of this schema.
    pub fn with_field(mut self, name: &str, schema: Value) -> Self {
        self.properties.insert(name.to_owned(), schema);
        self.required.insert(name.to_owned());
        self
    }

    pub fn without(mut self, names: &[&str]) -> Self {
        self.properties.retain(|name, _| !names.contains(&name.as_str()));
        self.required.retain(|name| !names.contains(&name.as_str()));
        self
    }

    /// The only value of a field.
    pub fn word(&self, name: &str) -> Option<String> {
        self.properties.get(name)?["enum"][0].as_str().map(str::to_owned)
    }

    pub fn object(&self) -> Value {
        let mut object = json!({"type": "object", "properties": self.properties});
        if !self.required.is_empty() {
            object["required"] = self.required.iter().cloned().collect();
        }
        object
    }
}

pub fn fields(part: &Value, schemas: &Object) -> Fields {
    let name = part["$ref"].as_str().and_then(|text| text.rsplit('/').next());
    if let Some(schema) = name.and_then(|name| schemas.get(name)) {
        return fields(schema, schemas);
    }
    if let Some(parts) = part["allOf"].as_array() {
        return fields(&flat(parts, schemas), schemas);
    }
    let variants = part["oneOf"].as_array().into_iter().flatten();
    let variants: Vec<Fields> = variants.map(|variant| fields(variant, schemas)).collect();
    match (tag_of(&variants), variants.is_empty()) {
        (Some(tag), _) => tagged(&variants, &tag),
        (None, true) => Fields::of(part),
        (None, false) => either(&variants),
    }
}

/// An enum without a tag: required is what each variant requires.
fn either(variants: &[Fields]) -> Fields {
    let all = variants.iter().fold(Fields::default(), |before, variant| before.with(variant));
    let required =
        all.required.iter().filter(|name| variants.iter().all(|each| each.required.contains(*name)));
    Fields { required: required.cloned().collect(), properties: all.properties }
}

/// The field that identifies a variant: required in each of them, with a single value.
fn tag_of(variants: &[Fields]) -> Option<String> {
    let is_tag = |name: &&String| {
        variants.iter().all(|variant| {
            let words = variant.properties.get(*name).and_then(|schema| schema["enum"].as_array());
            variant.required.contains(*name) && words.is_some_and(|words| words.len() == 1)
        })
    };
    variants.first()?.properties.keys().find(is_tag).cloned()
}

fn tagged(variants: &[Fields], tag: &str) -> Fields {
    let mut all = Fields::default();
    let mut words = Vec::new();
    for variant in variants {
        let word = &variant.properties[tag]["enum"][0];
        words.push(word.clone());
        for (name, schema) in variant.properties.iter().filter(|(name, _)| *name != tag) {
            let mut known = match all.properties.get(name) {
                Some(known) => known["anyOf"].as_array().cloned().unwrap_or_else(|| vec![known.clone()]),
                None => Vec::new(),
            };
            if !known.contains(schema) {
                known.push(schema.clone());
            }
            let schema = if known.len() == 1 { known.remove(0) } else { json!({"anyOf": known}) };
            all.properties.insert(name.clone(), schema);
        }
    }
    all.properties.insert(tag.to_owned(), json!({"type": "string", "enum": words}));
    all.required.insert(tag.to_owned());
    all
}

/// Gives each variant of a tagged enum a schema of its own, which generators turn into a type: `ExitSpawnFailed`.
fn name_variants(name: &str, schemas: &mut Object) {
    let variants = schemas[name].get("oneOf").and_then(Value::as_array).cloned().unwrap_or_default();
    if variants.iter().any(|variant| variant.get("$ref").is_some()) {
        return;
    }
    let variant_fields: Vec<Fields> = variants.iter().map(|variant| fields(variant, schemas)).collect();
    let Some(tag) = tag_of(&variant_fields) else { return };
    let mut members = Vec::new();
    for (variant, fields) in variants.iter().zip(&variant_fields) {
        let word = fields.word(&tag).unwrap_or_default();
        let member = format!("{name}{}", pascal(&word));
        let mut object = fields.object();
        if let Some(about) = variant.get("description") {
            object["description"] = about.clone();
        }
        let other = schemas.insert(member.clone(), object);
        assert!(other.is_none(), "{member} is the name of another schema");
        members.push((member, vec![word]));
    }
    let mut union = union(&tag, members.iter().map(|(member, words)| (member.as_str(), words.as_slice())));
    if let Some(about) = schemas[name].get("description") {
        union["description"] = about.clone();
    }
    schemas.insert(name.to_owned(), union);
}

/// `exec.ended` and `spawn_failed` as parts of a name: `ExecEnded`, `SpawnFailed`.
pub fn pascal(word: &str) -> String {
    let parts = word.split(['_', '-', '.']);
    parts.map(|part| part[..1.min(part.len())].to_uppercase() + &part[1.min(part.len())..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flattened_types_are_one_object() {
        let state = json!({"oneOf": [
            {"type": "object", "required": ["state", "on"], "properties": {
                "state": {"type": "string", "enum": ["waiting"]}, "on": {"type": "array"}}},
            {"type": "object", "required": ["state", "on"], "properties": {
                "state": {"type": "string", "enum": ["failed_dependency"]}, "on": {"type": "string"}}},
        ]});
        let view = json!({"description": "A view.", "allOf": [
            {"$ref": "#/components/schemas/State"},
            {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
        ]});
        let outer = json!({"allOf": [
            {"$ref": "#/components/schemas/View"},
            {"type": "object", "properties": {"more": {"type": "boolean"}}},
        ]});
        let Value::Object(mut schemas) = json!({"State": state, "View": view, "Outer": outer}) else {
            unreachable!("it is an object")
        };
        all(&mut schemas);
        let mut flat = json!({"description": "A view.", "type": "object", "required": ["name", "state"], "properties": {
            "name": {"type": "string"},
            "on": {"anyOf": [{"type": "array"}, {"type": "string"}]},
            "state": {"type": "string", "enum": ["waiting", "failed_dependency"]},
        }});
        assert_eq!(schemas["View"], flat);
        flat["properties"]["more"] = json!({"type": "boolean"});
        flat.as_object_mut().map(|flat| flat.remove("description"));
        assert_eq!(schemas["Outer"], flat);
        let member = "#/components/schemas/StateFailedDependency";
        assert_eq!(schemas["State"]["oneOf"][1]["$ref"], member);
        assert_eq!(schemas["State"]["discriminator"]["propertyName"], "state");
        assert_eq!(schemas["State"]["discriminator"]["mapping"]["failed_dependency"], member);
        let of_member = &schemas["StateFailedDependency"];
        assert_eq!(of_member["required"], json!(["on", "state"]));
        assert_eq!(of_member["properties"]["state"]["enum"], json!(["failed_dependency"]));
    }
}
