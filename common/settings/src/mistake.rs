//! The mistakes in settings: all of them together, each with its position and its remedy.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// Maximum number of mistakes printed; for a text that is wrong throughout, this is enough.
const PRINTED_MAX: usize = 50;

/// Where a value was written, in the order in which mistakes are reported.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueLocation {
    /// In the file with this name, on this line, counted from 1.
    Line(String, usize),
    /// In the file with this name as a whole, or missing in it.
    File(String),
    /// On the command line, in this flag.
    Flag(String),
    /// Nowhere: the default applies.
    Default,
    /// Detected on this machine, not in the written settings.
    Machine,
}

impl fmt::Display for ValueLocation {
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

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Where it is.
    pub place: ValueLocation,
    /// The full key as written: `limits.idle_timeout`; empty if there is none.
    pub key: String,
    /// The error, and how to correct it.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        // `--set KEY` already names the key.
        let is_named =
            matches!(&self.place, ValueLocation::Flag(flag) if flag.ends_with(&self.key));
        if !self.key.is_empty() && !is_named {
            write!(f, "{}: ", one_line(&self.key))?;
        }
        f.write_str(&one_line(&self.text))
    }
}

/// A text that quotes a file, with control characters escaped: it must not begin a new line in a
/// log or send control sequences to a terminal.
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

/// All mistakes, in the order of the text and then of the flags; as an error never empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// All mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.0.iter()
    }

    /// Several mistakes at one position, without a key.
    pub fn at(place: &ValueLocation, texts: impl IntoIterator<Item = String>) -> Self {
        let mut mistakes = Self::default();
        for text in texts {
            mistakes.push(place.clone(), "", text);
        }
        mistakes
    }

    /// Records a mistake.
    pub fn push(&mut self, place: ValueLocation, key: impl Into<String>, text: impl Into<String>) {
        let (key, text) = (key.into(), text.into());
        self.0.push(Mistake { place, key, text });
    }

    /// Adds the mistakes of another list.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether there is a mistake for this key.
    pub fn is_about(&self, key: &str) -> bool {
        self.0.iter().any(|mistake| mistake.key == key)
    }

    /// `Ok(good)` if there are no mistakes.
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
    /// One line per mistake.
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
