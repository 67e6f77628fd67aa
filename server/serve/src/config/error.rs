//! What is wrong with a configuration: all of it at once, each with its place and its remedy.

use std::fmt;
use std::path::PathBuf;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the configuration file, at this line, counted from one.
    Line(PathBuf, usize),
    /// In the configuration file as a whole.
    File(PathBuf),
    /// In a flag of the command line.
    Flag(&'static str),
    /// Nowhere: the default is in force.
    Default,
    /// Found out on this machine, not in what was written.
    Machine,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{}:{line}", file.display()),
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Flag(flag) => f.write_str(flag),
            Self::Default => f.write_str("default"),
            Self::Machine => f.write_str("this machine"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigError {
    /// Where.
    pub place: Place,
    /// The key, as it is written in the file (`limits.idle_timeout`); empty where there is none.
    pub key: String,
    /// What is wrong, and what to do about it.
    pub text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", one_line(&self.place.to_string()))?;
        if !self.key.is_empty() {
            write!(f, "{}: ", one_line(&self.key))?;
        }
        f.write_str(&one_line(&self.text))
    }
}

/// A text that quotes a file, with control characters escaped: it must not begin a new line of a
/// log, nor speak to a terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_debug()),
            false => line.push(c),
        }
    }
    line
}

/// Everything that is wrong, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Each error, in the order of the file, then of the flags.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }

    pub(super) fn push(&mut self, place: Place, key: &str, text: impl Into<String>) {
        let (key, text) = (key.to_string(), text.into());
        self.0.push(ConfigError { place, key, text });
    }

    /// Adds those of `others` that are about flags.
    pub(super) fn extend_flags(&mut self, others: Self) {
        let flags = others
            .0
            .into_iter()
            .filter(|error| matches!(error.place, Place::Flag(_)));
        self.0.extend(flags);
    }

    pub(super) fn is_about(&self, key: &str) -> bool {
        self.0.iter().any(|error| error.key == key)
    }

    /// `Ok(good)` if nothing is wrong.
    pub(super) fn or<T>(mut self, good: T) -> Result<T, Self> {
        if self.0.is_empty() {
            return Ok(good);
        }
        self.0.sort();
        self.0.dedup();
        Err(self)
    }
}

impl fmt::Display for ConfigErrors {
    /// One line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}
