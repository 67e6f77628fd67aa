//! `root` and `alias`: the folders to serve.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::finding::Findings;
use crate::scope::Scope;
use crate::syntax::Directive;
use crate::table::{Table, list};

/// The roots found so far, each with its directive.
#[derive(Debug, Default)]
pub(crate) struct Roots<'a>(Vec<(String, &'a Directive)>);

impl<'a> Roots<'a> {
    /// Adds the folder from which a location with this prefix is served. Returns whether it is
    /// served from there.
    pub(crate) fn add(&mut self, scope: &Scope<'a>, prefix: &str, findings: &mut Findings) -> bool {
        // Of both, nginx takes the inner one; it refuses both at one level.
        let Some(of) = scope.all(&["root", "alias"]).pop() else {
            return false;
        };
        let path = match scope.constant(of.arg(0)) {
            Ok(path) => path,
            Err(variable) => {
                let text = format!(
                    "${variable} depends on the request: name the folders in `roots` by hand, or \
                     keep nginx in front (beside.md)"
                );
                findings.add(of, text);
                return false;
            }
        };
        if !path.starts_with('/') {
            let text = "relative to nginx's own folder (`nginx -V` names it as --prefix): \
                name the \
                        whole path in `roots`";
            findings.add(of, text);
            return false;
        }
        let path = match of.name.as_str() {
            "alias" => match path
                .trim_end_matches('/')
                .strip_suffix(prefix.trim_end_matches('/'))
            {
                Some(above) if path.ends_with('/') == prefix.ends_with('/') => above.to_owned(),
                _ => {
                    let text = format!(
                        "URLs are paths below a root, so {prefix} cannot be {path}: mount the \
                            folder \
                         at that name below a root (`mount --bind`), see `alias` in from-nginx.md"
                    );
                    findings.add(of, text);
                    return false;
                }
            },
            _ => path,
        };
        self.join(path, of, findings)
    }

    fn join(&mut self, path: String, of: &'a Directive, findings: &mut Findings) -> bool {
        let path = match path.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        if self.0.iter().any(|(other, _)| *other == path) {
            return true;
        }
        let is_in = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let nested = self
            .0
            .iter()
            .find(|(other, _)| is_in(&path, other) || is_in(other, &path));
        if let Some((other, _)) = nested {
            let text = format!(
                "{path} and {other} lie in each other, and roots may not: move one of them \
                    beside \
                 the other, and name it in `roots`"
            );
            findings.add(of, text);
            return false;
        }
        if let Some((first, _)) = self.0.first() {
            let text = format!(
                "all roots are one tree: a path is looked up in {first} first, and everything \
                    below \
                 {path} is served, not only this location"
            );
            findings.add(of, text);
        }
        self.0.push((path, of));
        true
    }

    /// Writes `roots`; returns whether there are any.
    pub(crate) fn write(&self, top: &mut Table) -> bool {
        let paths = self.0.iter().map(|(path, _)| path);
        if let Some((_, of)) = self.0.first() {
            top.set("roots", list(paths), of);
        }
        !self.0.is_empty()
    }
}
