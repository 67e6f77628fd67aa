//! What is wrong with settings: all of it at once, each with its place and its remedy.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Most mistakes that are printed; a text that is wrong throughout need not be told line by line.
const PRINTED_MAX: usize = 50;

/// Where a value was written; in the order in which mistakes are told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the file of this name, at this line, counted from one.
    Line(String, usize),
    /// In the file of this name as a whole, or missing in it.
    File(String),
    /// On the command line, in this flag.
    Flag(String),
    /// Nowhere: the default is in force.
    Default,
    /// Found out on this machine, not in what was written.
    Machine,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{}:{line}", one_line(file)),
            Self::File(file) => f.write_str(&one_line(file)),
            Self::Flag(flag) => f.write_str(&one_line(flag)),
            Self::Default => f.write_str("default"),
            Self::Machine => f.write_str("this machine"),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Where.
    pub place: Place,
    /// The key with its table, as it is written: `limits.idle_timeout`; empty where there is none.
    pub key: String,
    /// What is wrong, and what to do about it.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        // `--set KEY` names the key already.
        let is_named = matches!(&self.place, Place::Flag(flag) if flag.ends_with(&self.key));
        if !self.key.is_empty() && !is_named {
            write!(f, "{}: ", one_line(&self.key))?;
        }
        f.write_str(&one_line(&self.text))
    }
}

/// A text that quotes somebody's file, with control characters escaped: it must not begin a new
/// line of a log, nor speak to a terminal.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => line.extend(c.escape_debug()),
            false => line.push(c),
        }
    }
    line
}

/// Everything that is wrong, in the order of the text, then of the flags; as an error never empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// Each mistake.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.0.iter()
    }

    /// Several about one place, and about no key.
    pub fn at(place: &Place, texts: impl IntoIterator<Item = String>) -> Self {
        let mut mistakes = Self::default();
        for text in texts {
            mistakes.push(place.clone(), "", text);
        }
        mistakes
    }

    /// Notes one.
    pub fn push(&mut self, place: Place, key: impl Into<String>, text: impl Into<String>) {
        let (key, text) = (key.into(), text.into());
        self.0.push(Mistake { place, key, text });
    }

    /// Notes those of others.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether something is wrong with this key.
    pub fn is_about(&self, key: &str) -> bool {
        self.0.iter().any(|mistake| mistake.key == key)
    }

    /// `Ok(good)` if nothing is wrong.
    ///
    /// # Errors
    /// All mistakes, in order.
    pub fn or<T>(mut self, good: T) -> Result<T, Self> {
        if self.0.is_empty() {
            return Ok(good);
        }
        self.0.sort();
        self.0.dedup();
        Err(self)
    }
}

impl fmt::Display for Mistakes {
    /// One line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().take(PRINTED_MAX).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{mistake}")?;
        }
        match self.0.len().saturating_sub(PRINTED_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl core::error::Error for Mistakes {}
