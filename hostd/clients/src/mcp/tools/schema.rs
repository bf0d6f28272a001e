//! JSON schemas of arguments, in the plain form that all model providers take: no references, no `null`, no formats.

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

pub fn of<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    let Value::Object(mut object) = schema else { return JsonObject::new() };
    for name in ["$schema", "title", "description"] {
        object.remove(name);
    }
    object.entry("properties").or_insert_with(|| Value::Object(JsonObject::new()));
    object
}

fn simplify(schema: &mut Value) {
    let Value::Object(object) = schema else {
        if let Value::Array(items) = schema {
            items.iter_mut().for_each(simplify);
        }
        return;
    };
    object.remove("format");
    object.retain(|name, value| name != "default" || !value.is_null());
    if let Some(Value::Array(kinds)) = object.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            only.into_iter().for_each(|(name, value)| {
                object.entry(name).or_insert(value);
            });
        }
    }
    object.values_mut().for_each(simplify);
}
