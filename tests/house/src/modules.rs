//! The modules of one crate, and which of its files names items of which other.
//!
//! A path such as `super::queue::Job` is resolved through declarations, imports and re-exports to
//! the file that defines `Job`. A file that only declares modules and re-exports their items is
//! therefore named by no file, and code below `#[cfg(test)]` is not read.
//!
//! Methods are not resolved on purpose: a call `queue.push(job)` names no file, and the type of
//! `queue` was named before the call.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr as _;

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use crate::source::Source;

/// For each file, the files it names, and which of their items.
pub type Names = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Meaning of a name in a module.
#[derive(Debug, Clone)]
enum Meaning {
    /// Defined here.
    Item,
    /// Imported, with the path as written.
    Import(Vec<String>),
}

/// Target of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// An item: the file that defines it, and its name there.
    Item(String, String),
    Module(usize),
}

#[derive(Debug)]
struct Module {
    file: String,
    parent: Option<usize>,
    /// Declared modules; an item may have the same name.
    children: BTreeMap<String, usize>,
    names: BTreeMap<String, Meaning>,
    /// Modules whose names are all imported.
    globs: Vec<Vec<String>>,
    /// Paths that the module's code names.
    paths: BTreeSet<Vec<String>>,
}

/// The modules below one `lib.rs` or `main.rs`, the root first.
struct Modules<'a> {
    files: &'a BTreeMap<&'a str, &'a Source>,
    all: Vec<Module>,
}

/// References between files below the root, which is a path such as `server/engine/src/lib.rs`.
///
/// # Errors
/// If a file is not Rust, or a declared module has no file.
pub fn names(root: &str, files: &BTreeMap<&str, &Source>) -> Result<Names, String> {
    let mut modules = Modules {
        files,
        all: Vec::new(),
    };
    let folder = parent_folder(root).to_string();
    modules.read_file(root, &folder, None)?;
    Ok(modules.names())
}

impl Modules<'_> {
    /// Reads the file of a module; the modules that it declares are in `folder`.
    fn read_file(
        &mut self,
        path: &str,
        folder: &str,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let source = self.files.get(path);
        let source = source.ok_or_else(|| format!("{path}: a declared module has no file"))?;
        let stream = TokenStream::from_str(&source.text)
            .map_err(|error| format!("{path}: not Rust: {error}; run cargo check"))?;
        self.read(stream, path, folder, parent)
    }

    fn read(
        &mut self,
        stream: TokenStream,
        file: &str,
        folder: &str,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let own = self.all.len();
        self.all.push(Module {
            file: file.to_string(),
            parent,
            children: BTreeMap::new(),
            names: BTreeMap::new(),
            globs: Vec::new(),
            paths: BTreeSet::new(),
        });
        let trees = without_tests(stream);
        let mut rest = trees.as_slice();
        // The rest remains for the search for paths.
        let mut code = Vec::new();
        while let Some(tree) = rest.first() {
            match (word(tree).as_deref(), rest.get(1).and_then(word)) {
                (Some("mod"), Some(name)) => {
                    let child = match rest.get(2) {
                        Some(TokenTree::Group(body)) => {
                            let folder = format!("{folder}/{name}");
                            self.read(body.stream(), file, &folder, Some(own))?
                        }
                        _ => self.read_declared(&name, &code, file, folder, own)?,
                    };
                    self.all[own].children.insert(name, child);
                    rest = &rest[3.min(rest.len())..];
                    continue;
                }
                (Some("use"), Some(_)) => {
                    let end = rest.iter().position(|tree| is_punct(tree, ';'));
                    let (tree, after) = rest.split_at(end.unwrap_or(rest.len()));
                    self.import(own, leaves(&tree[1..]));
                    // A re-export is not a use.
                    if !ends_in_pub(&code) {
                        code.extend_from_slice(tree);
                    }
                    rest = after;
                    continue;
                }
                (Some("macro_rules"), _) => {
                    if let Some(name) = rest.get(2).and_then(word) {
                        self.all[own].names.insert(name, Meaning::Item);
                    }
                }
                (
                    Some(
                        "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static",
                    ),
                    Some(name),
                ) => {
                    self.all[own].names.insert(name, Meaning::Item);
                }
                _ => {}
            }
            code.push(tree.clone());
            rest = &rest[1..];
        }
        // Imports within a function count as its module's.
        let mut uses = Vec::new();
        collect_paths(&code, &mut self.all[own].paths, &mut uses);
        self.all[own]
            .paths
            .extend(uses.iter().map(|(path, _)| path.clone()));
        self.import(own, uses);
        Ok(own)
    }

    /// Reads the file of `mod name;`, after `before`, which may end in `#[path = "..."]`.
    fn read_declared(
        &mut self,
        name: &str,
        before: &[TokenTree],
        file: &str,
        folder: &str,
        own: usize,
    ) -> Result<usize, String> {
        let mut candidates = vec![
            format!("{folder}/{name}.rs"),
            format!("{folder}/{name}/mod.rs"),
        ];
        let attributes = before.iter().rev().take(4).filter_map(|tree| match tree {
            TokenTree::Group(group) => Some(group.stream().to_string()),
            _ => None,
        });
        for attribute in attributes {
            if let Some(path) = attribute.strip_prefix("path = \"") {
                let path = path.trim_end_matches('"');
                candidates.insert(0, joined(parent_folder(file), path));
            }
        }
        let path = candidates
            .iter()
            .find(|path| self.files.contains_key(path.as_str()))
            .ok_or_else(|| format!("{file}: module {name} has no file"))?;
        self.read_file(path, &format!("{folder}/{name}"), Some(own))
    }

    /// Adds the imports of a `use` to the module.
    fn import(&mut self, own: usize, uses: Vec<Use>) {
        for (path, name) in uses {
            let module = &mut self.all[own];
            match name.as_str() {
                "*" => module.globs.push(path),
                _ => {
                    module.names.insert(name, Meaning::Import(path));
                }
            }
        }
    }

    /// Resolves a path written in a module; `None` if it leaves the crate.
    fn follow(&self, own: usize, path: &[String], depth: usize) -> Option<End> {
        // A cycle of re-exports would not terminate.
        let depth = depth.checked_sub(1)?;
        let mut end = match path.first()?.as_str() {
            "crate" => End::Module(0),
            "self" => End::Module(own),
            "super" => End::Module(self.all[own].parent?),
            name => self.look_up(own, name, path.len() == 1, depth)?,
        };
        for (index, name) in path.iter().enumerate().skip(1) {
            let is_last = index + 1 == path.len();
            end = match end {
                End::Module(module) if name == "super" => End::Module(self.all[module].parent?),
                End::Module(module) => self.look_up(module, name, is_last, depth)?,
                // A variant of an enum, or a function of a type.
                item => return Some(item),
            };
        }
        Some(end)
    }

    /// Resolves a name in a module; the last segment of a path is an item rather than a module.
    fn look_up(&self, own: usize, name: &str, is_last: bool, depth: usize) -> Option<End> {
        let module = &self.all[own];
        let child = module.children.get(name).map(|child| End::Module(*child));
        if !is_last && child.is_some() {
            return child;
        }
        let end = match module.names.get(name) {
            Some(Meaning::Item) => Some(End::Item(module.file.clone(), name.to_string())),
            Some(Meaning::Import(path)) => self.follow(own, path, depth),
            None if child.is_some() => None,
            None => module.globs.iter().find_map(|glob| {
                let depth = depth.checked_sub(1)?;
                match self.follow(own, glob, depth)? {
                    End::Module(other) if other != own => self.look_up(other, name, is_last, depth),
                    // The variants of an enum.
                    _ => None,
                }
            }),
        };
        end.or(child)
    }

    fn names(&self) -> Names {
        let mut names = Names::new();
        for (own, module) in self.all.iter().enumerate() {
            let named = names.entry(module.file.clone()).or_default();
            for path in &module.paths {
                if let Some(End::Item(file, name)) = self.follow(own, path, 32)
                    && file != module.file
                {
                    named.entry(file).or_default().insert(name);
                }
            }
        }
        names
    }
}

/// Whether the next item is public, fully or within the crate.
fn ends_in_pub(code: &[TokenTree]) -> bool {
    let is_pub = |tree: Option<&TokenTree>| tree.and_then(word).is_some_and(|word| word == "pub");
    match code {
        [.., before, TokenTree::Group(_)] if is_pub(Some(before)) => true,
        _ => is_pub(code.last()),
    }
}

fn parent_folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path below a folder, or beside it with `..`.
fn joined(mut folder: &str, mut path: &str) -> String {
    while let Some(rest) = path.strip_prefix("../") {
        (folder, path) = (parent_folder(folder), rest);
    }
    match folder {
        "" => path.to_string(),
        _ => format!("{folder}/{path}"),
    }
}

fn word(tree: &TokenTree) -> Option<String> {
    match tree {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

fn is_punct(tree: &TokenTree, char: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == char)
}

/// Whether `::` starts here.
fn is_double_colon(trees: &[TokenTree]) -> bool {
    matches!(trees, [TokenTree::Punct(one), TokenTree::Punct(two), ..]
        if one.as_char() == ':' && one.spacing() == Spacing::Joint && two.as_char() == ':')
}

/// The code without parts below `#[cfg(test)]`.
fn without_tests(stream: TokenStream) -> Vec<TokenTree> {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::new();
    let mut rest = trees.as_slice();
    while let Some(tree) = rest.first() {
        if let [hash, TokenTree::Group(group), ..] = rest
            && is_punct(hash, '#')
            && group
                .stream()
                .to_string()
                .replace(' ', "")
                .starts_with("cfg(test")
        {
            rest = &rest[2 + length_of_item(&rest[2..])..];
            continue;
        }
        kept.push(tree.clone());
        rest = &rest[1..];
    }
    kept
}

/// Number of trees in the item, statement or field that starts here.
fn length_of_item(trees: &[TokenTree]) -> usize {
    const TO_SEMICOLON: [&str; 5] = ["use", "const", "static", "type", "let"];
    let mut attributes = 0;
    while trees
        .get(attributes)
        .is_some_and(|tree| is_punct(tree, '#'))
    {
        attributes += 2;
    }
    let mut words = trees[attributes..].iter().map_while(word);
    let to_semicolon = words
        .find(|word| word != "pub")
        .is_some_and(|word| TO_SEMICOLON.contains(&word.as_str()));
    let ends = |tree: &TokenTree| match tree {
        TokenTree::Group(group) => !to_semicolon && group.delimiter() == Delimiter::Brace,
        tree => is_punct(tree, ';'),
    };
    let end = trees[attributes..].iter().position(ends);
    end.map_or(trees.len(), |end| attributes + end + 1)
}

/// An imported path, and its local name; `*` for all names of a module.
type Use = (Vec<String>, String);

/// The imports of a tree of `use`.
fn leaves(tree: &[TokenTree]) -> Vec<Use> {
    let mut found = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut alias = None;
    let mut rest = tree;
    while let Some(tree) = rest.first() {
        match tree {
            TokenTree::Ident(ident) if ident == "as" => {
                alias = rest.get(1).and_then(word);
                rest = &rest[1..];
            }
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == '*' => {
                found.push((std::mem::take(&mut path), "*".into()));
            }
            TokenTree::Punct(punct) if punct.as_char() == ',' => {
                push_leaf(&mut path, &mut alias, &mut found);
            }
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for (below, name) in leaves(&inner) {
                    let mut whole = path.clone();
                    // `a::{self}` is `a`.
                    whole.extend(
                        below
                            .iter()
                            .filter(|part| *part != "self" || path.is_empty())
                            .cloned(),
                    );
                    let name = match name.as_str() {
                        "self" => whole.last().cloned().unwrap_or_default(),
                        _ => name,
                    };
                    found.push((whole, name));
                }
                path.clear();
            }
            _ => {}
        }
        rest = &rest[1.min(rest.len())..];
    }
    push_leaf(&mut path, &mut alias, &mut found);
    found
}

fn push_leaf(path: &mut Vec<String>, alias: &mut Option<String>, found: &mut Vec<Use>) {
    if let Some(last) = path.last().cloned() {
        found.push((std::mem::take(path), alias.take().unwrap_or(last)));
    }
}

/// Every path in the code, and every import.
fn collect_paths(trees: &[TokenTree], paths: &mut BTreeSet<Vec<String>>, uses: &mut Vec<Use>) {
    let mut index = 0;
    while let Some(tree) = trees.get(index) {
        let start = index;
        index += 1;
        match tree {
            TokenTree::Group(group) => collect_paths(&without_tests(group.stream()), paths, uses),
            TokenTree::Ident(ident)
                if ident == "use" && trees.get(index).is_some_and(|next| !is_punct(next, '<')) =>
            {
                let rest = &trees[index..];
                let end = rest
                    .iter()
                    .position(|tree| is_punct(tree, ';'))
                    .unwrap_or(rest.len());
                uses.extend(leaves(&rest[..end]));
                index += end;
            }
            TokenTree::Ident(ident) => {
                let mut path = vec![ident.to_string()];
                while is_double_colon(&trees[index..])
                    && let Some(name) = trees.get(index + 2).and_then(word)
                {
                    path.push(name);
                    index += 3;
                }
                // A field or a method, or a segment of a path into another crate.
                let follows = start > 0
                    && (is_punct(&trees[start - 1], '.')
                        || (start > 1 && is_double_colon(&trees[start - 2..])));
                if !follows {
                    paths.insert(path);
                }
            }
            _ => {}
        }
    }
}
