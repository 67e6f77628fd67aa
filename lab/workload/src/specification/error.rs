//! What is wrong with a specification: all of it at once, each with its place and its remedy.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Most errors that are told; a text that is wrong throughout need not be told so line by line.
const ERRORS_MAX: usize = 50;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpecificationError {
    /// Line of the text, from 1; 0 where there is none (an override, or the text as a whole).
    pub line: usize,
    /// Where, as it is printed: `my.toml:12`, `--set sessions.rate`.
    pub place: String,
    /// The key (`sessions.rate`); empty where there is none.
    pub key: String,
    /// What is wrong, and what to do about it.
    pub text: String,
}

impl fmt::Display for SpecificationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", one_line(&self.place))?;
        // An override's place names the key already.
        if !self.key.is_empty() && !self.place.ends_with(&self.key) {
            write!(f, "{}: ", one_line(&self.key))?;
        }
        f.write_str(&one_line(&self.text))
    }
}

/// A text that quotes somebody's file must not begin a new line, nor speak to a terminal.
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

/// Everything that is wrong, in the order of the text; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecificationErrors {
    errors: Vec<SpecificationError>,
    /// How many more there were.
    untold: usize,
}

impl SpecificationErrors {
    /// Each error, in the order of the text, then of the overrides.
    pub fn iter(&self) -> impl Iterator<Item = &SpecificationError> {
        self.errors.iter()
    }

    pub(crate) fn push(&mut self, error: SpecificationError) {
        if self.errors.contains(&error) {
            return;
        }
        if self.errors.len() == ERRORS_MAX {
            self.untold += 1;
            return;
        }
        self.errors.push(error);
    }

    pub(crate) fn is_about(&self, key: &str) -> bool {
        self.errors.iter().any(|error| error.key == key)
    }

    /// `Ok(good)` if nothing is wrong.
    pub(crate) fn or<T>(mut self, good: T) -> Result<T, Self> {
        if self.errors.is_empty() {
            return Ok(good);
        }
        let line = |error: &SpecificationError| {
            if error.line == 0 {
                usize::MAX
            } else {
                error.line
            }
        };
        self.errors
            .sort_by(|a, b| line(a).cmp(&line(b)).then_with(|| a.cmp(b)));
        Err(self)
    }
}

impl fmt::Display for SpecificationErrors {
    /// One line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        if self.untold > 0 {
            write!(f, "\nand {} more", self.untold)?;
        }
        Ok(())
    }
}

impl core::error::Error for SpecificationErrors {}
