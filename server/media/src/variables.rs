//! Variables of HLS playlists (`EXT-X-DEFINE`, RFC 8216bis 4.4.2.3): `{$name}` in a URI stands for
//! the variable's value.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;

use crate::uri::PATH_BYTES_MAX;

/// Most variables of one playlist.
const VARIABLES_MAX: usize = 256;

/// The variables of one playlist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HlsVariables(BTreeMap<String, String>);

impl HlsVariables {
    /// Adds a variable; returns whether there was room for it, and its value can be in a URI of
    /// this tree.
    pub fn define(&mut self, name: &str, value: &str) -> bool {
        let is_valid = value.len() <= PATH_BYTES_MAX && self.0.len() < VARIABLES_MAX;
        if is_valid {
            self.0.insert(name.into(), value.into());
        }
        is_valid
    }

    /// The value of a variable.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Replaces the variables in `text`. Undefined ones stay, and so does a text whose result would
    /// be longer than `bytes_max`.
    pub fn replace_in<'t>(&self, text: &'t str, bytes_max: usize) -> Cow<'t, str> {
        if self.0.is_empty() || !text.contains("{$") {
            return Cow::Borrowed(text);
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("{$") {
            out.push_str(before);
            let known = after.split_once('}').and_then(|(name, behind)| {
                let value = self.0.get(name)?;
                Some((value, behind))
            });
            rest = match known {
                Some((value, behind)) => {
                    out.push_str(value);
                    behind
                }
                None => {
                    out.push_str("{$");
                    after
                }
            };
            if out.len() > bytes_max {
                return Cow::Borrowed(text);
            }
        }
        out.push_str(rest);
        match out.len() > bytes_max {
            true => Cow::Borrowed(text),
            false => Cow::Owned(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defined_variables_are_replaced_and_others_stay() {
        let mut variables = HlsVariables::default();
        assert!(variables.define("p", "seg") && variables.define("empty", ""));
        for (text, replaced) in [
            ("{$p}1.ts", "seg1.ts"),
            ("a/{$p}/{$p}{$empty}.ts", "a/seg/seg.ts"),
            ("{$q}1.ts", "{$q}1.ts"),
            ("{$p", "{$p"),
            ("{$q{$p}", "{$qseg"),
            ("{p}.ts", "{p}.ts"),
        ] {
            assert_eq!(variables.replace_in(text, 100), replaced, "{text}");
        }
    }

    #[test]
    fn expansion_and_number_of_variables_are_bounded() {
        let mut variables = HlsVariables::default();
        let long = "x".repeat(PATH_BYTES_MAX);
        assert!(variables.define("x", &long) && !variables.define("y", &(long + "x")));
        let text = "{$x}".repeat(100_000);
        assert_eq!(variables.replace_in(&text, 2 * PATH_BYTES_MAX), text);
        let names = (0..1000).map(|n| alloc::format!("{n}"));
        let defined = names.filter(|name| variables.define(name, ""));
        assert_eq!(defined.count(), VARIABLES_MAX - 1);
    }
}
