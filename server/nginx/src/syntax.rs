//! The text of an nginx.conf as directives, split as nginx splits it (`ngx_conf_read_token`).
//!
//! Of the crates that parse this, the kept one (nginx-lint-parser 0.24) splits words at variables,
//! does not know `\ ` and overflows the stack on nested blocks.

use alloc::borrow::ToOwned as _;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::mem::take;
use core::str::Chars;

/// Deepest block within blocks; nginx itself needs five.
const DEPTH_MAX: usize = 32;

/// A directive, such as `listen 80;` or `server { ... }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Its first word.
    pub name: String,
    /// The other words, without quotes.
    pub args: Vec<String>,
    /// The directives in its block, if it has one.
    pub block: Option<Vec<Directive>>,
    /// Its file.
    pub file: Rc<str>,
    /// The line of its first word, counted from 1.
    pub line: usize,
}

impl Directive {
    /// The argument with this index, or an empty text.
    pub(crate) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    /// The directives in its block; none if it has no block.
    pub(crate) fn inside(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Whether two directives are equal, wherever they are written.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let (inside, others) = (self.inside(), other.inside());
        (&self.name, &self.args) == (&other.name, &other.args)
            && inside.len() == others.len()
            && inside
                .iter()
                .zip(others)
                .all(|(one, other)| one.is_same(other))
    }
}

/// A text that is not an nginx.conf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, counted from 1.
    pub line: usize,
    /// The error.
    pub text: &'static str,
}

enum Token {
    Word(String),
    Semicolon,
    Open,
    Close,
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let next = self.rest.next();
        self.line += usize::from(next == Some('\n'));
        next
    }

    /// The next token and its line.
    fn token(&mut self) -> Result<Option<(Token, usize)>, SyntaxError> {
        while let Some(c) = self.rest.next_if(|c| c.is_whitespace() || *c == '#') {
            match c {
                '\n' => self.line += 1,
                '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
                _ => {}
            }
        }
        let line = self.line;
        let Some(first) = self.next() else {
            return Ok(None);
        };
        let token = match first {
            ';' => Token::Semicolon,
            '{' => Token::Open,
            '}' => Token::Close,
            '"' | '\'' => Token::Word(self.quoted(first)?),
            first => Token::Word(self.word(first)),
        };
        Ok(Some((token, line)))
    }

    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        let (line, mut text) = (self.line, String::new());
        loop {
            match self.next() {
                Some(c) if c == quote => return Ok(text),
                Some('\\') => self.escape(&mut text),
                Some(c) => text.push(c),
                None => {
                    let text = "this quote is not closed";
                    return Err(SyntaxError { line, text });
                }
            }
        }
    }

    fn word(&mut self, first: char) -> String {
        let mut text = String::new();
        let mut next = Some(first);
        while let Some(c) = next {
            match c {
                '\\' => self.escape(&mut text),
                c => text.push(c),
            }
            // `${name}` opens no block.
            let after_dollar = c == '$';
            let goes_on =
                |c: &char| !(c.is_whitespace() || *c == ';' || (*c == '{' && !after_dollar));
            next = self.rest.next_if(goes_on);
        }
        text
    }

    /// As nginx: a backslash stays, except before a quote, a backslash, a space and t, r, n.
    fn escape(&mut self, text: &mut String) {
        match self.next() {
            Some(c @ ('"' | '\'' | '\\' | ' ')) => text.push(c),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('n') => text.push('\n'),
            Some(c) => text.extend(['\\', c]),
            None => text.push('\\'),
        }
    }

    /// Skips a block of Lua, up to the brace that closes it.
    fn skip_code(&mut self) {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.next() {
                Some('{') => depth += 1,
                Some('}') => depth -= 1,
                Some(_) => {}
                None => return,
            }
        }
    }
}

/// The directives of a text; `file` is the name of its file.
///
/// # Errors
/// The first place at which it is no nginx.conf.
pub fn parse(file: &str, text: &str) -> Result<Vec<Directive>, SyntaxError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (file, mut reader) = (
        Rc::<str>::from(file),
        Reader {
            rest: text.chars().peekable(),
            line: 1,
        },
    );
    // The blocks that are open: the directive of each, and the directives before it.
    let mut open: Vec<(Directive, Vec<Directive>)> = Vec::new();
    let (mut level, mut words): (Vec<Directive>, Vec<String>) = Default::default();
    let mut start = 1;
    while let Some((token, line)) = reader.token()? {
        let wrong = |text| Err(SyntaxError { line, text });
        let directive = |words: &mut Vec<String>, block| {
            let mut words = take(words).into_iter();
            let name = words.next()?;
            let args = words.collect();
            Some(Directive {
                name,
                args,
                block,
                file: Rc::clone(&file),
                line: start,
            })
        };
        match token {
            Token::Word(word) => {
                if words.is_empty() {
                    start = line;
                }
                words.push(word);
            }
            Token::Semicolon => match directive(&mut words, None) {
                Some(directive) => level.push(directive),
                None => return wrong("`;` without a directive before it"),
            },
            Token::Open => match directive(&mut words, Some(Vec::new())) {
                Some(_) if open.len() == DEPTH_MAX => return wrong("too many blocks in blocks"),
                Some(code) if code.name.ends_with("_by_lua_block") => {
                    reader.skip_code();
                    level.push(code);
                }
                Some(directive) => open.push((directive, take(&mut level))),
                None => return wrong("`{` without a directive before it"),
            },
            Token::Close => {
                if !words.is_empty() {
                    return wrong("`}` after a directive without `;`");
                }
                let Some((mut directive, before)) = open.pop() else {
                    return wrong("`}` without `{`");
                };
                directive.block = Some(core::mem::replace(&mut level, before));
                level.push(directive);
            }
        }
    }
    match (open.last(), words.is_empty()) {
        (Some((directive, _)), _) => Err(SyntaxError {
            line: directive.line,
            text: "the block of this directive is not closed",
        }),
        (None, false) => Err(SyntaxError {
            line: start,
            text: "this directive has no `;`",
        }),
        (None, true) => Ok(level),
    }
}

/// A variable in a text: what is before it, its name, and what is after it.
pub(crate) fn variable(text: &str) -> Option<(&str, String, &str)> {
    let at = text.find('$')?;
    let after = &text[at + 1..];
    let (name, rest) = match after.strip_prefix('{') {
        Some(inner) => inner.split_once('}').unwrap_or((inner, "")),
        None => {
            let is_other = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
            after.split_at(after.find(is_other).unwrap_or(after.len()))
        }
    };
    Some((&text[..at], name.to_owned(), rest))
}

#[cfg(test)]
mod tests {
    use std::format;
    use std::string::ToString as _;

    use proptest::prelude::*;

    use super::*;

    fn shown(directives: &[Directive]) -> String {
        let show = |of: &Directive| {
            let block = of
                .block
                .as_ref()
                .map(|block| format!("{{{}}}", shown(block)));
            format!(
                "{}:{}{:?}{}",
                of.line,
                of.name,
                of.args,
                block.unwrap_or_default()
            )
        };
        directives.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_are_split_as_by_nginx() {
        for (text, expected) in [
            ("a b;c;", "1:a[\"b\"] 1:c[]"),
            (
                "# x\n a # y ;\n \"b c\" 'd\"e';",
                "2:a[\"b c\", \"d\\\"e\"]",
            ),
            ("root /srv/a\\ b;", "1:root[\"/srv/a b\"]"),
            ("root ${base}/x$y;", "1:root[\"${base}/x$y\"]"),
            (
                "location ~ \\.(a|b)$ {x 1;}",
                "1:location[\"~\", \"\\\\.(a|b)$\"]{1:x[\"1\"]}",
            ),
            ("a \"x\\\"\\d\";", "1:a[\"x\\\"\\\\d\"]"),
            ("if ($a = \"\") {\n}", "1:if[\"($a\", \"=\", \"\", \")\"]{}"),
            (
                "x_by_lua_block { if a { b } }\ny;",
                "1:x_by_lua_block[]{} 2:y[]",
            ),
            ("\u{feff}a;", "1:a[]"),
            ("", ""),
        ] {
            let parsed = parse("n", text).map(|parsed| shown(&parsed));
            assert_eq!(parsed.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn wrong_text_names_its_line() {
        for (text, line) in [
            ("a;\nb", 2),
            ("a {\nb;\n", 1),
            ("a;\n}", 2),
            ("\n;", 2),
            ("\n{", 2),
            ("a \"x\n", 1),
            ("a { b }", 1),
            (&"a {\n".repeat(1000), DEPTH_MAX + 1),
        ] {
            let error = parse("n", text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {}", error.text);
        }
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[a;{}\"'\\\\$# \n]{0,40}") {
            let _ = parse("n", &text).map(|parsed| parsed.len().to_string());
        }
    }
}
