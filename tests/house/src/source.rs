//! The files of the workspace, and Rust code as tokens, so that comments and string literals cannot
//! be mistaken for code.

use std::fs;
use std::path::Path;
use std::str::FromStr as _;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// One text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Path from the root of the workspace, with `/`.
    pub path: String,
    /// Its contents.
    pub text: String,
}

impl Source {
    /// File extension; empty if there is none.
    pub fn extension(&self) -> &str {
        Path::new(&self.path)
            .extension()
            .and_then(|e| e.to_str())
            .unwrap_or_default()
    }
}

/// Folders of generated files.
const MADE: &[&str] = &[
    "target",
    "node_modules",
    "dist",
    "sample",
    "artifacts",
    "corpus",
];

/// Every text file below `root`, except generated files and hidden folders.
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

/// A token and its line, counted from one; groups are flattened, attributes included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// As written; `(` and `)` of groups are tokens of their own.
    pub text: String,
    /// Line.
    pub line: usize,
}

/// The tokens of a Rust file; an error if it cannot be parsed.
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

/// Lines on which `words` follow each other.
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
    fn comments_and_strings_are_not_tokens() {
        let text = "// unsafe\n/// unsafe { }\nfn f() {\n    let a = \"unsafe {\";\n    unsafe { g() }\n}\n";
        let source = Source {
            path: "a.rs".into(),
            text: text.into(),
        };
        let tokens = tokens(&source).expect("valid Rust");
        assert_eq!(lines_with(&tokens, &["unsafe", "{"]), [5]);
    }

    #[test]
    fn invalid_rust_is_a_named_error() {
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
