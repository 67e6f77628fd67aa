use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use super::*;
use crate::preset;

fn errors(text: &str, overrides: &[(&str, &str)]) -> String {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Specification::read("my.toml", text, &overrides)
        .expect_err("it is wrong")
        .to_string()
}

#[test]
fn every_preset_is_a_specification_of_its_own_name() {
    for name in preset::names() {
        let read = Specification::preset(name, &[]);
        let specification = read.unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(specification.name, name);
    }
}
