//! Conformance of JSON to a schema, in the subset of JSON Schema that the documented schemas use.
//! In addition, objects with known fields must not have others.

use serde_json::Value;

/// Deviations of `value` from `schema`, which begins with the name of the value.
///
/// # Panics
/// If the schema itself is wrong.
pub fn differences(schema: &Value, value: &Value, name: &str) -> Vec<String> {
    let mut found = Vec::new();
    compare(schema, schema, value, name, &mut found);
    found
}

fn compare(root: &Value, schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.trim_start_matches("#/$defs/");
        assert!(root["$defs"][name].is_object(), "{reference} is undefined");
        return compare(root, &root["$defs"][name], value, path, found);
    }
    let is = |kind: &Value| match kind.as_str().expect("a type") {
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{path}: `{other}` is not a JSON type"),
    };
    let fits = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    };
    if !fits {
        found.push(format!("{path}: {value} is not of type {}", schema["type"]));
    }
    let is_constant = schema.get("const").is_none_or(|known| known == value);
    let names = schema["enum"].as_array();
    if !is_constant || names.is_some_and(|names| !names.contains(value)) {
        found.push(format!("{path}: {value} is not allowed"));
    }
    for (bound, sign) in [("minimum", 1.0), ("maximum", -1.0)] {
        if let (Some(bound), Some(value)) = (schema[bound].as_f64(), value.as_f64())
            && (value - bound) * sign < 0.0
        {
            found.push(format!("{path}: {value} is beyond {bound}"));
        }
    }
    for item in value.as_array().into_iter().flatten() {
        compare(root, &schema["items"], item, &format!("{path}[]"), found);
    }
    let Some(fields) = value.as_object() else {
        return;
    };
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("a name");
        if !fields.contains_key(name) {
            found.push(format!("{path}.{name} is missing"));
        }
    }
    let (known, others) = (&schema["properties"], schema.get("additionalProperties"));
    if known.is_null() && others.is_none() {
        return;
    }
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match known.get(name).or(others) {
            Some(schema) => compare(root, schema, value, &path, found),
            None => found.push(format!("{path} is unknown to the schema")),
        }
    }
}
