//! What is wrong with an experiment: all of it at once, each with its line and its remedy.

use std::fmt;
use std::path::{Path, PathBuf};

use headlong_units::nearest;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Line in the file, counted from one; 0 if it is about the whole.
    pub line: usize,
    /// The key as it is written, with its table: `drive.preset`; empty where there is none.
    pub key: String,
    /// What is wrong, and what to do about it.
    pub text: String,
}

/// Everything that is wrong with one file, in its order; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistakes {
    file: PathBuf,
    all: Vec<Mistake>,
}

impl Mistakes {
    /// `Ok(good)` if nothing is wrong.
    pub(crate) fn or<T>(file: &Path, mut all: Vec<Mistake>, good: T) -> Result<T, Self> {
        if all.is_empty() {
            return Ok(good);
        }
        all.sort();
        all.dedup();
        let file = file.to_path_buf();
        Err(Self { file, all })
    }

    /// A single one, about the file as a whole.
    pub(crate) fn one(file: &Path, text: impl Into<String>) -> Self {
        Self::many(file, [text.into()])
    }

    /// Several, about the file as a whole; at least one.
    pub(crate) fn many(file: &Path, texts: impl IntoIterator<Item = String>) -> Self {
        let whole = |text| Mistake {
            line: 0,
            key: String::new(),
            text,
        };
        Self {
            file: file.to_path_buf(),
            all: texts.into_iter().map(whole).collect(),
        }
    }
}

impl fmt::Display for Mistakes {
    /// One line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.all.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}", self.file.display())?;
            if mistake.line > 0 {
                write!(f, ":{}", mistake.line)?;
            }
            f.write_str(": ")?;
            if !mistake.key.is_empty() {
                write!(f, "{}: ", one_line(&mistake.key))?;
            }
            f.write_str(&one_line(&mistake.text))?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// What quotes a file must not begin a new line, nor speak to a terminal.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_debug()),
            false => line.push(c),
        }
    }
    line
}

/// `did you mean X?`, or what there is.
pub(crate) fn suggestion<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match nearest(typed, names.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("there are {}", names.join(", ")),
    }
}
