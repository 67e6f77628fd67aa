//! The files of the workspace, and Rust code as tokens: comments and texts cannot be mistaken for
//! code there.

use std::fs;
use std::path::Path;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Path from the root of the workspace, with `/`.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl Source {
    /// What follows the last dot of its name; empty if there is none.
    pub fn extension(&self) -> &str {
        Path::new(&self.path)
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default()
    }
}

/// Folders that hold what was made, not what was written.
const MADE: &[&str] = &[
    "target",
    "node_modules",
    "dist",
    "sample",
    "artifacts",
    "corpus",
];

/// Every file below `root` that holds text, but for what was made and for hidden folders.
pub fn files(root: &Path) -> Result<Vec<Source>, String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let unreadable = |error| format!("{} cannot be read: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(unreadable)?;
            if kind.is_dir() && !name.starts_with('.') && !MADE.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                let path = entry.path();
                let path = path.strip_prefix(root).unwrap_or(&path);
                found.push(Source {
                    path: path.to_string_lossy().into_owned(),
                    text,
                });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// A token and the line it is on, counted from one; groups are opened, attributes included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// As it is written; `(` and `)` of groups have tokens of their own.
    pub text: String,
    /// Line.
    pub line: usize,
}

/// The code of a Rust file; the error says why it is none.
pub fn tokens(source: &Source) -> Result<Vec<Token>, String> {
    let stream = TokenStream::from_str(&source.text)
        .map_err(|error| format!("{}: not Rust: {error}; run cargo check", source.path))?;
    let mut flat = Vec::new();
    flatten(stream, &mut flat);
    Ok(flat)
}

fn flatten(stream: TokenStream, flat: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        let mut push = |text: &str, line| {
            flat.push(Token {
                text: text.to_string(),
                line,
            })
        };
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                push(open, line);
                let close_line = group.span_close().end().line;
                flatten(group.stream(), flat);
                flat.push(Token {
                    text: close.to_string(),
                    line: close_line,
                });
            }
            TokenTree::Ident(ident) => push(&ident.to_string(), line),
            TokenTree::Punct(punct) => push(&punct.as_char().to_string(), line),
            TokenTree::Literal(literal) => push(&literal.to_string(), line),
        }
    }
}

/// Lines on which `words` stand one after another.
pub fn lines_with(tokens: &[Token], words: &[&str]) -> Vec<usize> {
    let stands_at = |window: &&[Token]| {
        window
            .iter()
            .map(|t| t.text.as_str())
            .eq(words.iter().copied())
    };
    tokens
        .windows(words.len())
        .filter(stands_at)
        .map(|window| window[0].line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_and_texts_are_no_code() {
        let text = "// unsafe\n/// unsafe { }\nfn f() {\n    let a = \"unsafe {\";\n    unsafe { g() }\n}\n";
        let source = Source {
            path: "a.rs".into(),
            text: text.into(),
        };
        let tokens = tokens(&source).expect("it is Rust");
        assert_eq!(lines_with(&tokens, &["unsafe", "{"]), [5]);
    }

    #[test]
    fn a_file_that_is_no_rust_is_an_error_with_its_name() {
        let source = Source {
            path: "a.rs".into(),
            text: "fn f( {".into(),
        };
        assert!(
            tokens(&source)
                .expect_err("unbalanced")
                .starts_with("a.rs: not Rust")
        );
    }
}
