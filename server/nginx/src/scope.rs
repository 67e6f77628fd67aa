//! The directives that apply at a place: those of its block, and those inherited from around it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::syntax::{Directive, variable};

/// Blocks from the outermost (`http`) to the innermost.
#[derive(Debug, Clone)]
pub(crate) struct Scope<'a>(Vec<&'a [Directive]>);

impl<'a> Scope<'a> {
    /// Of `http`.
    pub(crate) fn new(outermost: &'a [Directive]) -> Self {
        Self([outermost].into())
    }

    /// With a further block inside.
    pub(crate) fn inside(&self, block: &'a [Directive]) -> Self {
        let mut levels = self.0.clone();
        levels.push(block);
        Self(levels)
    }

    /// The innermost block.
    pub(crate) fn here(&self) -> &'a [Directive] {
        self.0.last().copied().unwrap_or_default()
    }

    /// The number of blocks: 2 in a server.
    pub(crate) fn depth(&self) -> usize {
        self.0.len()
    }

    /// The directives of all blocks, the outermost first.
    pub(crate) fn everywhere(&self) -> impl Iterator<Item = &'a Directive> {
        self.0.iter().flat_map(|level| level.iter())
    }

    /// The directives with one of these names at the innermost level that has any: nginx inherits
    /// a directive, and a list of them, only where there is none.
    pub(crate) fn all(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of = |level: &&'a [Directive]| -> Vec<&'a Directive> {
            let level = level.iter();
            level
                .filter(|of| names.contains(&of.name.as_str()))
                .collect()
        };
        let mut levels = self.0.iter().rev().map(of);
        levels.find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The last directive with this name, as [`Self::all`].
    pub(crate) fn last(&self, name: &str) -> Option<&'a Directive> {
        self.all(&[name]).pop()
    }

    /// A text with its variables replaced.
    ///
    /// # Errors
    /// The name of a variable whose value depends on the request.
    pub(crate) fn constant(&self, text: &str) -> Result<String, String> {
        self.replace(text, &|name| {
            self.value_of(name, 0).ok_or_else(|| name.to_owned())
        })
    }

    /// A text in which variables with a constant value are replaced, and others stay.
    pub(crate) fn with_constants(&self, text: &str) -> String {
        let (mut rest, mut has_constants) = (text, false);
        while let Some((_, name, after)) = variable(rest) {
            has_constants |= self.value_of(&name, 0).is_some();
            rest = after;
        }
        let keep = |name: &str| {
            Ok(self
                .value_of(name, 0)
                .unwrap_or_else(|| format!("${{{name}}}")))
        };
        match has_constants {
            true => self.replace(text, &keep).unwrap_or_default(),
            false => text.to_owned(),
        }
    }

    fn replace(
        &self,
        text: &str,
        value: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<String, String> {
        let (mut replaced, mut rest) = (String::new(), text);
        while let Some((before, name, after)) = variable(rest) {
            replaced.push_str(before);
            // A `$` at the end is that of a regular expression.
            match name.as_str() {
                "" => replaced.push('$'),
                name => replaced.push_str(&value(name)?),
            }
            rest = after;
        }
        replaced.push_str(rest);
        Ok(replaced)
    }

    /// The value of a variable that is set once, or a map that has a default only.
    fn value_of(&self, name: &str, depth: usize) -> Option<String> {
        let is_it = |text: &str| text.strip_prefix('$') == Some(name);
        let mut set = self
            .everywhere()
            .filter(|of| of.name == "set" && is_it(of.arg(0)));
        let maps = self
            .everywhere()
            .filter(|of| of.name == "map" && is_it(of.arg(1)));
        let mut values = maps.flat_map(|map| map.inside());
        let written = match (set.next(), set.next(), values.next(), values.next()) {
            (Some(set), None, None, None) => set.arg(1),
            (None, None, Some(default), None) if default.name == "default" => default.arg(0),
            _ => return None,
        };
        // The value may contain other variables; a circular definition is not constant.
        match variable(written) {
            None => Some(written.to_owned()),
            Some(_) if depth > 8 => None,
            Some(_) => self
                .replace(written, &|name| {
                    self.value_of(name, depth + 1).ok_or_else(String::new)
                })
                .ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn only_variables_that_no_request_changes_are_replaced() {
        let text = "set $a /srv; set $b ${a}/x; set $c 1; set $c 2; set $d $e; set $e $d;\n\
            map $host $m { default /m; } map $host $n { default /n; b /b; }";
        let parsed = parse("n", text).expect("valid");
        let scope = Scope::new(&parsed);
        assert_eq!(scope.constant("$b/y$m").as_deref(), Ok("/srv/x/y/m"));
        for unknown in ["c", "d", "n", "uri"] {
            let text = alloc::format!("/x${unknown}");
            assert_eq!(scope.constant(&text), Err(unknown.to_owned()));
        }
        assert_eq!(scope.with_constants("$a$uri"), "/srv${uri}");
    }

    #[test]
    fn list_of_inner_level_replaces_outer_one() {
        let parsed = parse(
            "n",
            "add_header A 1; s { add_header B 2; add_header C 3; } t { }",
        );
        let parsed = parsed.expect("valid");
        let outer = Scope::new(&parsed);
        let names = |scope: Scope<'_>| -> Vec<String> {
            let all = scope.all(&["add_header"]).into_iter();
            all.map(|of| of.arg(0).to_owned()).collect()
        };
        assert_eq!(names(outer.inside(parsed[1].inside())), ["B", "C"]);
        assert_eq!(names(outer.inside(parsed[2].inside())), ["A"]);
    }
}
