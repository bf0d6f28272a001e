//! Checks a JSON value against a JSON schema, and names the first field that does not match. Supports only
//! the keywords that our own document uses.

use serde_json::{Map, Number, Value};
use std::cmp::{Ordering, Reverse};

/// The field that does not match its schema, and what would match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// As in `services[0].health.tcp`; empty for the value itself.
    pub field: String,
    pub message: String,
    distance: Distance,
}

/// Distance of a value from a schema: of several alternatives the nearest one is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// The right type, with another mistake.
    Near,
    /// An unknown field.
    UnknownField,
    /// A value that is not in the enumeration.
    UnknownValue,
    WrongType,
}

/// Keywords that do not restrict values, or are checked elsewhere: `pattern` by the types, sizes by the
/// handlers, since they may be 413, and `not` and `prefixItems` by the handlers. A `discriminator` says nothing that its
/// `oneOf` does not.
pub const IGNORED: [&str; 13] = [
    "title",
    "description",
    "discriminator",
    "default",
    "example",
    "examples",
    "deprecated",
    "format",
    "pattern",
    "maxItems",
    "maxLength",
    "prefixItems",
    "not",
];
/// Keywords that are checked here.
pub const CHECKED: [&str; 18] = [
    "$ref",
    "type",
    "enum",
    "const",
    "oneOf",
    "anyOf",
    "allOf",
    "properties",
    "required",
    "additionalProperties",
    "propertyNames",
    "maxProperties",
    "items",
    "minItems",
    "minLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
];

/// Checks a value. References are resolved in `document`.
pub fn check(document: &Value, schema: &Value, value: &Value) -> Result<(), Mismatch> {
    Checker { document }.value(schema, value, "")
}

struct Checker<'a> {
    document: &'a Value,
}

type CheckResult = Result<(), Mismatch>;

fn mismatch(field: &str, message: impl Into<String>) -> CheckResult {
    Err(Mismatch { field: field.to_owned(), message: message.into(), distance: Distance::Near })
}

impl Checker<'_> {
    fn value(&self, schema: &Value, value: &Value, at: &str) -> CheckResult {
        // Also `true`, which is not an object and matches everything.
        let Some(schema) = schema.as_object() else {
            return if schema == &Value::Bool(false) { mismatch(at, "must be left out") } else { Ok(()) };
        };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let found = reference.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer));
            self.value(found.unwrap_or(&Value::Bool(true)), value, at)?;
        }
        type_of(schema, value, at)?;
        choices(schema, value, at)?;
        for each in list(schema, "allOf") {
            self.value(each, value, at)?;
        }
        for several in ["oneOf", "anyOf"] {
            self.one_of(list(schema, several), value, at)?;
        }
        match value {
            Value::Object(object) => self.object(schema, object, at),
            Value::Array(items) => self.array(schema, items, at),
            Value::String(text) => text_of(schema, text, at),
            Value::Number(_) => range(schema, value, at),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    /// Where no alternative matches, reports the mismatch of the nearest one.
    fn one_of(&self, choices: &[Value], value: &Value, at: &str) -> CheckResult {
        let tried: Vec<Mismatch> =
            choices.iter().filter_map(|each| self.value(each, value, at).err()).collect();
        if choices.is_empty() || tried.len() < choices.len() {
            return Ok(());
        }
        // A mismatch inside the value is nearer than one of the value itself.
        let far = |each: &Mismatch| if each.field == at { Some(each.distance) } else { None };
        if tried.iter().all(|each| far(each) == Some(Distance::WrongType)) {
            let words: Vec<&str> =
                tried.iter().map(|each| each.message.trim_start_matches("must be ")).collect();
            return mismatch(at, format!("must be {}", words.join(" or ")));
        }
        let depth = |each: &Mismatch| each.field.matches(['.', '[']).count();
        let nearest = tried.into_iter().min_by_key(|each| (far(each), each.distance, Reverse(depth(each))));
        nearest.map_or(Ok(()), Err)
    }

    fn object(&self, schema: &Map<String, Value>, object: &Map<String, Value>, at: &str) -> CheckResult {
        let none = Map::new();
        let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        for (name, value) in object {
            let inner = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
            match (known.get(name), schema.get("additionalProperties")) {
                (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => {
                    self.value(schema, value, &inner)?;
                }
                (None, Some(Value::Bool(false))) => {
                    let names: Vec<&str> = known.keys().map(String::as_str).collect();
                    let allowed = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
                    let message = format!("unknown field `{name}`; allowed here: {allowed}");
                    return Err(Mismatch { field: inner, message, distance: Distance::UnknownField });
                }
                (None, _) => {}
            }
            if let Some(names) = schema.get("propertyNames") {
                self.value(names, &Value::String(name.clone()), &inner)?;
            }
        }
        if let Some(missing) =
            list(schema, "required").iter().filter_map(Value::as_str).find(|name| !object.contains_key(*name))
        {
            let inner = if at.is_empty() { missing.to_owned() } else { format!("{at}.{missing}") };
            return mismatch(&inner, format!("`{missing}` is missing"));
        }
        if let Some(most) = number(schema, "maxProperties")
            && object.len() as u64 > most
        {
            return mismatch(at, format!("must be at most {most} entries"));
        }
        Ok(())
    }

    fn array(&self, schema: &Map<String, Value>, items: &[Value], at: &str) -> CheckResult {
        if let Some(least) = number(schema, "minItems")
            && (items.len() as u64) < least
        {
            let entries = if least == 1 { "entry" } else { "entries" };
            return mismatch(at, format!("must have at least {least} {entries}"));
        }
        let Some(schema) = schema.get("items") else { return Ok(()) };
        items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| self.value(schema, item, &format!("{at}[{index}]")))
    }
}

fn list<'a>(schema: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    schema.get(keyword).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn number(schema: &Map<String, Value>, keyword: &str) -> Option<u64> {
    schema.get(keyword).and_then(Value::as_u64)
}

fn type_of(schema: &Map<String, Value>, value: &Value, at: &str) -> CheckResult {
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => return Ok(()),
    };
    let fits = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        // A number beyond 64 bits is a float, and out of range anyway.
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    if types.iter().any(fits) {
        return Ok(());
    }
    let words: Vec<&str> = types.iter().map(|name| type_name(name)).collect();
    let message = format!("must be {}{}", words.join(" or "), span(schema));
    // A number that is fractional, or too large for an integer, is still a number.
    let number = value.is_number() && types.contains(&"integer");
    let distance = if number { Distance::Near } else { Distance::WrongType };
    Err(Mismatch { field: at.to_owned(), message, distance })
}

fn type_name(name: &str) -> &str {
    match name {
        "null" => "null",
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a string",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

fn choices(schema: &Map<String, Value>, value: &Value, at: &str) -> CheckResult {
    let allowed = match schema.get("const") {
        Some(one) => std::slice::from_ref(one),
        None => list(schema, "enum"),
    };
    if allowed.is_empty() || allowed.contains(value) {
        return Ok(());
    }
    let words: Vec<String> =
        allowed.iter().map(|each| each.as_str().map_or_else(|| each.to_string(), str::to_owned)).collect();
    let message = format!("must be {}", words.join(" or "));
    Err(Mismatch { field: at.to_owned(), message, distance: Distance::UnknownValue })
}

fn text_of(schema: &Map<String, Value>, text: &str, at: &str) -> CheckResult {
    if let Some(least) = number(schema, "minLength")
        && (text.chars().count() as u64) < least
    {
        let characters = if least == 1 { "character" } else { "characters" };
        return mismatch(at, format!("must have at least {least} {characters}"));
    }
    Ok(())
}

fn range(schema: &Map<String, Value>, value: &Value, at: &str) -> CheckResult {
    let order = |keyword: &str| compare(value, schema.get(keyword)?);
    let fits = order("minimum").is_none_or(Ordering::is_ge)
        && order("exclusiveMinimum").is_none_or(Ordering::is_gt)
        && order("maximum").is_none_or(Ordering::is_le);
    if fits { Ok(()) } else { mismatch(at, format!("must be{}", span(schema))) }
}

/// Integers are compared exactly: large ones would lose digits as floats.
fn compare(value: &Value, bound: &Value) -> Option<Ordering> {
    let whole = |value: &Value| value.as_number().and_then(Number::as_i128);
    match (whole(value), whole(bound)) {
        (Some(value), Some(bound)) => Some(value.cmp(&bound)),
        _ => value.as_f64()?.partial_cmp(&bound.as_f64()?),
    }
}

/// ` from 1 to 65535`, as far as there are bounds.
fn span(schema: &Map<String, Value>) -> String {
    let [least, above, most] = ["minimum", "exclusiveMinimum", "maximum"].map(|keyword| schema.get(keyword));
    match (least, above, most) {
        (Some(least), _, Some(most)) => format!(" from {least} to {most}"),
        (Some(least), _, None) => format!(" of at least {least}"),
        (None, Some(above), Some(most)) => format!(" more than {above} and at most {most}"),
        (None, Some(above), None) => format!(" more than {above}"),
        (None, None, Some(most)) => format!(" of at most {most}"),
        (None, None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mismatch_of(schema: &Value, value: &Value) -> Option<(String, String)> {
        let document = json!({"named": {"port": {"type": "integer", "minimum": 1, "maximum": 65535}}});
        check(&document, schema, value).err().map(|mismatch| (mismatch.field, mismatch.message))
    }

    #[test]
    fn a_mismatch_names_the_field_and_what_is_allowed() {
        let object = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["id"],
            "properties": {
                "id": {"type": "string", "minLength": 1},
                "port": {"$ref": "#/named/port"},
                "until": {"type": ["integer", "null"], "minimum": 0, "maximum": 9_223_372_036_854_775_807_i64},
                "cpus": {"type": "number", "exclusiveMinimum": 0, "maximum": 2},
                "ports": {"type": "array", "minItems": 1, "items": {"$ref": "#/named/port"}},
                "external": {"type": "object", "properties": {"user": {"type": "string"}}},
                "env": {"type": "object", "additionalProperties": {"type": "string"},
                    "propertyNames": {"minLength": 1}, "maxProperties": 1},
                "how": {"enum": ["fast", "slow"]},
            },
        });
        let table = [
            (json!([]), "", "must be an object"),
            (json!({}), "id", "`id` is missing"),
            (json!({"id": "a", "prot": 1}), "prot", "unknown field `prot`"),
            (json!({"id": ""}), "id", "at least 1 character"),
            (json!({"id": 1}), "id", "must be a string"),
            (json!({"id": "a", "port": 0}), "port", "from 1 to 65535"),
            (json!({"id": "a", "port": 65536}), "port", "from 1 to 65535"),
            (json!({"id": "a", "port": 1.5}), "port", "a whole number from 1 to 65535"),
            (json!({"id": "a", "port": null}), "port", "a whole number from 1 to 65535"),
            (json!({"id": "a", "until": -1}), "until", "from 0 to 9223372036854775807"),
            (json!({"id": "a", "until": 1_u64 << 63}), "until", "from 0 to 9223372036854775807"),
            (json!({"id": "a", "until": u64::MAX}), "until", "from 0 to 9223372036854775807"),
            (json!({"id": "a", "until": 1e30}), "until", "from 0 to 9223372036854775807"),
            (json!({"id": "a", "cpus": 0}), "cpus", "more than 0 and at most 2"),
            (json!({"id": "a", "cpus": 2.5}), "cpus", "more than 0 and at most 2"),
            (json!({"id": "a", "ports": [1, 0]}), "ports[1]", "from 1 to 65535"),
            (json!({"id": "a", "ports": []}), "ports", "at least 1 entry"),
            (json!({"id": "a", "external": [null]}), "external", "must be an object"),
            (json!({"id": "a", "external": {"user": 1}}), "external.user", "must be a string"),
            (json!({"id": "a", "env": {"A": 1}}), "env.A", "must be a string"),
            (json!({"id": "a", "env": {"": "x"}}), "env.", "at least 1 character"),
            (json!({"id": "a", "env": {"A": "x", "B": "y"}}), "env", "at most 1 entries"),
            (json!({"id": "a", "how": "never"}), "how", "must be fast or slow"),
        ];
        for (value, field, words) in table {
            let (at, message) = mismatch_of(&object, &value).unwrap_or_else(|| panic!("{value} fits"));
            assert!(at == field && message.contains(words), "{value}: {at}: {message}");
        }
        let good =
            json!({"id": "ééé", "port": 65535, "until": i64::MAX, "cpus": 0.5, "ports": [1], "how": "fast"});
        assert_eq!(mismatch_of(&object, &good), None);
    }

    #[test]
    fn of_several_alternatives_the_nearest_is_reported() {
        let closed = |name: &str| {
            json!({"type": "object", "required": [name], "additionalProperties": false,
                "properties": {name: {"$ref": "#/named/port"}}})
        };
        let word = json!({"type": "string", "enum": ["none", "open"]});
        let schema = json!({"oneOf": [word, closed("tcp"), {"type": "null"}]});
        let table = [
            (json!("shut"), "", "none or open"),
            (json!({"tcp": 0}), "tcp", "from 1 to 65535"),
            (json!({"udp": 1}), "udp", "unknown field"),
            (json!({}), "tcp", "missing"),
            (json!(7), "", "must be a string or an object or null"),
        ];
        for (value, field, words) in table {
            let (at, message) = mismatch_of(&schema, &value).unwrap_or_else(|| panic!("{value} fits"));
            assert!(at == field && message.contains(words), "{value}: {at}: {message}");
        }
        for good in [json!("open"), json!({"tcp": 1}), json!(null)] {
            assert_eq!(mismatch_of(&schema, &good), None, "{good}");
        }
        let either = json!({"oneOf": [closed("tcp"), closed("udp")]});
        let (at, message) = mismatch_of(&either, &json!({"udp": 0})).expect("it does not fit");
        assert_eq!((at.as_str(), message.as_str()), ("udp", "must be from 1 to 65535"));
        let kind = |kind: &str, more: &[&str]| {
            let mut all = vec!["kind"];
            all.extend(more);
            json!({"type": "object", "required": all, "properties": {"kind": {"const": kind}}})
        };
        let schema = json!({"oneOf": [kind("shared", &[]), kind("own", &["key"])]});
        assert_eq!(
            mismatch_of(&schema, &json!({"kind": "own"})),
            Some(("key".into(), "`key` is missing".into()))
        );
    }
}
