//! `root` and `alias`: the folders to serve, and that of ACME challenges.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_settings::quote;

use crate::finding::Findings;
use crate::scope::Scope;
use crate::syntax::Directive;
use crate::table::{Table, list};

/// The folders found so far, each with its directive.
#[derive(Debug, Default)]
pub(crate) struct Roots<'a> {
    roots: Vec<(String, &'a Directive)>,
    aliases: Vec<(String, &'a Directive)>,
    acme: Option<(String, &'a Directive)>,
}

/// Where nginx serves challenges from a folder, below the folder that certbot calls the webroot.
const CHALLENGES: &str = "/.well-known/acme-challenge";

/// Whether a location is for challenges of ACME.
pub(crate) fn is_of_challenges(prefix: &str) -> bool {
    prefix.trim_end_matches('/') == CHALLENGES
}

impl<'a> Roots<'a> {
    /// Adds the folder from which a location with this prefix is served; that of an `alias` to the
    /// table of the path. Returns whether it is served from there.
    pub(crate) fn add(
        &mut self,
        scope: &Scope<'a>,
        prefix: &str,
        table: &mut Table,
        findings: &mut Findings,
    ) -> bool {
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
        if of.name != "alias" {
            return self.join(path, of, findings);
        }
        let above = path
            .trim_end_matches('/')
            .strip_suffix(prefix.trim_end_matches('/'));
        let is_folder = |text: &str| text.len() > 1 && text.ends_with('/');
        match above.filter(|_| path.ends_with('/') == prefix.ends_with('/')) {
            Some(above) => self.join(above.to_owned(), of, findings),
            None if is_folder(prefix) && is_folder(&path) => {
                let folder = path.trim_end_matches('/').to_owned();
                let is_apart = self.is_apart(&folder, of, findings);
                if is_apart {
                    table.set("alias", quote(&folder), of);
                    self.aliases.push((folder, of));
                }
                is_apart
            }
            None => {
                let text = "not between two folders: end the path and its alias in a slash, or \
                            name the folder in `alias` of a [path]";
                findings.add(of, text);
                false
            }
        }
    }

    /// Adds the folder of challenges of ACME.
    pub(crate) fn add_challenges(&mut self, scope: &Scope<'a>, findings: &mut Findings) {
        let Some(of) = scope.all(&["root", "alias"]).pop() else {
            return;
        };
        let path = scope.constant(of.arg(0)).ok();
        let path = path.as_deref().map(|path| path.trim_end_matches('/'));
        let folder = match of.name.as_str() {
            "alias" => path.and_then(|path| path.strip_suffix(CHALLENGES)),
            _ => path,
        };
        match folder.filter(|folder| folder.starts_with('/')) {
            Some(folder) => self.acme = Some((folder.to_owned(), of)),
            None => findings.add(
                of,
                "not a folder as certbot's --webroot has it: name one in `acme_folder`, and change \
                 certbot's method to it (certificates.md)",
            ),
        }
    }

    fn join(&mut self, path: String, of: &'a Directive, findings: &mut Findings) -> bool {
        let path = match path.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        if self.roots.iter().any(|(other, _)| *other == path) {
            return true;
        }
        if !self.is_apart(&path, of, findings) {
            return false;
        }
        if let Some((first, _)) = self.roots.first() {
            let text = format!(
                "all roots are one tree: a path is looked up in {first} first, and everything \
                    below \
                 {path} is served, not only this location"
            );
            findings.add(of, text);
        }
        self.roots.push((path, of));
        true
    }

    /// Whether a folder neither holds another one nor lies in it, as the server requires.
    fn is_apart(&self, path: &str, of: &Directive, findings: &mut Findings) -> bool {
        let is_in = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let mut others = self.roots.iter().chain(&self.aliases);
        let nested = others.find(|(other, _)| is_in(path, other) || is_in(other, path));
        if let Some((other, _)) = nested {
            let text = format!(
                "{path} and {other} lie in each other, and served folders may not: move one of \
                 them beside the other, and name it in `roots` or as an `alias`"
            );
            findings.add(of, text);
        }
        nested.is_none()
    }

    /// Takes over the folder of challenges of a site: there is one for all.
    pub(crate) fn join_challenges(&mut self, site: Self) {
        self.acme = self.acme.take().or(site.acme);
    }

    /// Writes `acme_folder`.
    pub(crate) fn write_challenges(&self, top: &mut Table) {
        if let Some((folder, of)) = &self.acme {
            top.set("acme_folder", quote(folder), of);
        }
    }

    /// Writes `roots`; returns whether anything is served.
    pub(crate) fn write(&self, top: &mut Table) -> bool {
        let paths = self.roots.iter().map(|(path, _)| path);
        if let Some((_, of)) = self.roots.first() {
            top.set("roots", list(paths), of);
        }
        !self.roots.is_empty() || !self.aliases.is_empty()
    }
}
