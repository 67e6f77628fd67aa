//! Writes values as TOML that parses to the same values.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use headlong_random::Empirical;
use headlong_settings::{quote, toml_line};

use super::visitor::{CONTENTS, FORMS, KeyVisitor, RATES};
use crate::phased::specification::{PhasedRendition, RateSelection, RequestForm};

/// Writes TOML.
#[derive(Default)]
pub(super) struct TomlWriter {
    pub(super) text: String,
    section: String,
}

impl TomlWriter {
    fn put(&mut self, key: &str, value: &str) {
        toml_line(&mut self.text, &mut self.section, key, value);
    }

    fn list<T>(&mut self, key: &str, items: &[T], one: impl Fn(&T) -> String) {
        let items: Vec<String> = items.iter().map(one).collect();
        let joined = items.join(", ");
        if joined.len() < 80 {
            self.put(key, &format!("[{joined}]"));
        } else {
            self.put(key, &format!("[\n    {}\n]", items.join(",\n    ")));
        }
    }
}

impl KeyVisitor for TomlWriter {
    fn text(&mut self, key: &str, value: &mut String) {
        self.put(key, &quote(value));
    }

    fn number(&mut self, key: &str, value: &mut f64, _: f64, _: f64) {
        self.put(key, &value.to_string());
    }

    fn whole(&mut self, key: &str, value: &mut u64, _: u64, _: u64) {
        self.put(key, &value.to_string());
    }

    fn bytes(&mut self, key: &str, value: &mut u64, _: u64, _: u64) {
        self.put(key, &quote(&format!("{value}B")));
    }

    fn seconds(&mut self, key: &str, value: &mut f64, _: f64, _: f64) {
        self.put(
            key,
            &quote(&format!("{}s", libm::round(*value * 1e6) / 1e6)),
        );
    }

    fn curve(&mut self, key: &str, value: &mut Empirical, _: f64, _: f64) {
        self.list(key, value.points(), |(value, share)| {
            format!("[{value}, {share}]")
        });
    }

    fn form(&mut self, key: &str, value: &mut RequestForm) {
        let name = FORMS.iter().find(|(_, form)| form == value);
        self.put(key, &quote(name.map_or("chunk", |(name, _)| name)));
    }

    fn content(&mut self, key: &str, is_separate: &mut bool) {
        let name = CONTENTS.iter().find(|(_, content)| content == is_separate);
        self.put(key, &quote(name.map_or("separate", |(name, _)| name)));
    }

    fn rates(&mut self, key: &str, value: &mut RateSelection) {
        let name = RATES.iter().find(|(_, rates)| rates == value);
        self.put(key, &quote(name.map_or("several", |(name, _)| name)));
    }

    fn weights(&mut self, key: &str, value: &mut Vec<f64>) {
        self.list(key, value, ToString::to_string);
    }

    fn renditions(&mut self, key: &str, value: &mut Vec<PhasedRendition>) {
        self.list(key, value, |one| {
            format!("[{}, {}, {}]", one.kbps, one.titles_share, one.weight)
        });
    }
}
