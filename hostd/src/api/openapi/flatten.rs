//! `#[serde(flatten)]` becomes `allOf`, and with an enum inside an `allOf` of `oneOf`, which client
//! generators drop or fail on. Both are rewritten to the wire format: one object with all fields. An enum
//! contributes its tag (`state`, `kind`) with all values, and the fields of its variants, each optional.

use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

type Object = Map<String, Value>;

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
        name_variants(&name, &mut schemas[&name]);
    }
}

fn flat(parts: &[Value], schemas: &Object) -> Value {
    let none = Fields::default();
    parts.iter().fold(none, |before, part| before.with(&fields(part, schemas))).object()
}

/// The fields of an object, and which of them are required.
#[derive(Debug, Clone, Default)]
struct Fields {
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

    fn with(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.properties.extend(other.properties.clone());
        all.required.extend(other.required.iter().cloned());
        all
    }

    fn object(&self) -> Value {
        let mut object = json!({"type": "object", "properties": self.properties});
        if !self.required.is_empty() {
            object["required"] = self.required.iter().cloned().collect();
        }
        object
    }
}

fn fields(part: &Value, schemas: &Object) -> Fields {
    let name = part["$ref"].as_str().and_then(|text| text.rsplit('/').next());
    if let Some(schema) = name.and_then(|name| schemas.get(name)) {
        return fields(schema, schemas);
    }
    if let Some(parts) = part["allOf"].as_array() {
        return fields(&flat(parts, schemas), schemas);
    }
    let variants: Vec<Fields> = part["oneOf"].as_array().into_iter().flatten().map(Fields::of).collect();
    match tag_of(&variants) {
        Some(tag) => tagged(&variants, &tag),
        None => Fields::of(part),
    }
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

/// Gives variants a title, which generators turn into type names: `ExitSpawnFailed`.
fn name_variants(name: &str, schema: &mut Value) {
    let Some(variants) = schema.get_mut("oneOf").and_then(Value::as_array_mut) else { return };
    let fields: Vec<Fields> = variants.iter().map(Fields::of).collect();
    let Some(tag) = tag_of(&fields) else { return };
    for (variant, fields) in variants.iter_mut().zip(&fields) {
        let word = fields.properties[&tag]["enum"][0].as_str().unwrap_or_default();
        variant["title"] = format!("{name}{}", pascal(word)).into();
    }
}

fn pascal(word: &str) -> String {
    let parts = word.split(['_', '-']);
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
        assert_eq!(schemas["State"]["oneOf"][1]["title"], "StateFailedDependency");
    }
}
