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
    /// The folder of all paths that have none of their own.
    tree: Option<(String, &'a Directive)>,
    /// Whether a path is served from it.
    is_tree_used: bool,
    aliases: Vec<Alias<'a>>,
    acme: Option<(String, &'a Directive)>,
}

/// A folder at a path.
#[derive(Debug)]
struct Alias<'a> {
    prefix: String,
    folder: String,
    of: &'a Directive,
}

/// Where the files of a location are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Below `roots`, or below the `alias` of the location around it.
    Tree,
    /// In a folder of its own, which belongs to the path with this prefix.
    Alias(String),
    /// Not served.
    Nowhere,
}

/// Where nginx serves challenges from a folder, below the folder that certbot calls the webroot.
const CHALLENGES: &str = "/.well-known/acme-challenge";

/// Whether a location is for challenges of ACME.
pub(crate) fn is_of_challenges(prefix: &str) -> bool {
    prefix.trim_end_matches('/') == CHALLENGES
}

impl<'a> Roots<'a> {
    /// Takes the folder of the server's top as that of all paths that name no other: nginx looks up
    /// each path in one folder only. `top` is the location `/`, or the server.
    pub(crate) fn set_tree(&mut self, top: &Scope<'a>) {
        let Some(of) = top.all(&["root", "alias"]).pop() else {
            return;
        };
        if let Ok(path) = top.constant(of.arg(0))
            && path.starts_with('/')
        {
            self.tree = Some((folder(&path), of));
        }
    }

    /// Adds the folder from which a location with this prefix is served.
    pub(crate) fn add(
        &mut self,
        scope: &Scope<'a>,
        prefix: &str,
        findings: &mut Findings,
    ) -> Place {
        // Of both, nginx takes the inner one; it refuses both at one level.
        let Some(of) = scope.all(&["root", "alias"]).pop() else {
            return Place::Nowhere;
        };
        let is_around = |alias: &Alias<'_>| {
            core::ptr::eq(alias.of, of) && prefix.starts_with(alias.prefix.as_str())
        };
        if self.aliases.iter().any(is_around) {
            return Place::Tree;
        }
        let path = match scope.constant(of.arg(0)) {
            Ok(path) => path,
            Err(variable) => {
                let text = format!(
                    "${variable} depends on the request: name the folders in `roots` by hand, or \
                     keep nginx in front (beside.md)"
                );
                findings.add(of, text);
                return Place::Nowhere;
            }
        };
        if !path.starts_with('/') {
            let text = "relative to nginx's own folder (`nginx -V` names it as --prefix): name \
                        the whole path in `roots`";
            findings.add(of, text);
            return Place::Nowhere;
        }
        let is_alias = of.name == "alias";
        let is_tree = |tree: &(String, _)| prefix == "/" || (!is_alias && tree.0 == folder(&path));
        if self.tree.as_ref().is_some_and(is_tree) {
            self.is_tree_used = true;
            return Place::Tree;
        }
        let is_here = scope.here().iter().any(|here| core::ptr::eq(here, of));
        let own = match is_alias {
            // As nginx appends them, a folder and the rest of a path have one slash between them.
            true if prefix.ends_with('/') && !path.ends_with('/') => None,
            true => is_here.then(|| folder(&path)),
            false => Some(folder(&format!("{}{prefix}", path.trim_end_matches('/')))),
        };
        let last = prefix.rsplit('/').next().unwrap_or_default();
        let Some(own) = own.filter(|own| own.len() > 1 && !last.contains('.')) else {
            let text = "not a folder at a path: end the path and its alias in a slash, or name \
                        the folder in `alias` of a [path]";
            findings.add(of, text);
            return Place::Nowhere;
        };
        // The location that is the folder's own name below `root`.
        let in_tree = self
            .tree
            .as_ref()
            .map(|(tree, _)| format!("{}{prefix}", tree.trim_end_matches('/')));
        if in_tree.is_some_and(|path| folder(&path) == own) {
            self.is_tree_used = true;
            return Place::Tree;
        }
        if !self.is_apart(&own, of, findings) {
            return Place::Nowhere;
        }
        let prefix = format!("{}/", prefix.trim_end_matches('/'));
        self.aliases.push(Alias {
            prefix: prefix.clone(),
            folder: own,
            of,
        });
        Place::Alias(prefix)
    }

    /// The folder of an alias.
    pub(crate) fn alias(&self, prefix: &str) -> Option<(&str, &'a Directive)> {
        let alias = self.aliases.iter().find(|alias| alias.prefix == prefix)?;
        Some((&alias.folder, alias.of))
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

    /// Whether a folder neither holds another one nor lies in it, as the server requires.
    fn is_apart(&self, path: &str, of: &Directive, findings: &mut Findings) -> bool {
        let is_in = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let tree = self.tree.iter().map(|(folder, _)| folder);
        let mut others = tree.chain(self.aliases.iter().map(|alias| &alias.folder));
        let nested = others.find(|other| is_in(path, other) || is_in(other, path));
        if let Some(other) = nested {
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
        let tree = self.tree.as_ref().filter(|_| self.is_tree_used);
        if let Some((path, of)) = tree {
            top.set("roots", list([path]), of);
        }
        tree.is_some() || !self.aliases.is_empty()
    }
}

/// A folder's path without a slash at its end.
fn folder(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        path => path.to_owned(),
    }
}
