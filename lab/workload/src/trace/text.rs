//! Paths, names, ranges and times in the syntax of traces.

use alloc::string::String;
use core::fmt::{self, Write as _};

use headlong_units::{ByteRange, Duration};

use super::Trace;

impl Trace {
    /// Writes a path as a line's first word, which is read verbatim, or as a later word.
    pub(super) fn write_path(
        &self,
        object: u32,
        has_slash: bool,
        is_behind: bool,
        text: &mut String,
    ) {
        if has_slash {
            text.push('/');
        }
        let path = self.objects.get(object as usize).map_or("", String::as_str);
        if !is_behind {
            return escape(path, false, text);
        }
        let mut escaped = String::new();
        escape(path, false, &mut escaped);
        for c in escaped.chars() {
            if matches!(c, '\'' | '"' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
    }
}

/// Percent-encodes characters that would end a word; `%` too, if the reader decodes it.
fn escape(text: &str, is_word: bool, out: &mut String) {
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() || (is_word && c == '%') {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
}

/// A name as one word.
pub(super) struct NameWord<'a>(pub(super) &'a str);

impl fmt::Display for NameWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut word = String::new();
        escape(self.0, true, &mut word);
        f.write_str(&word)
    }
}

/// `first-last`, inclusive; `first-` if open-ended.
pub(super) struct RangeText(pub(super) ByteRange);

impl fmt::Display for RangeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.end {
            u64::MAX => write!(f, "{}-", self.0.start),
            end => write!(f, "{}-{}", self.0.start, end.max(1) - 1),
        }
    }
}

/// Seconds, exact, without trailing zeros.
pub(super) struct SecondsText(pub(super) Duration);

impl fmt::Display for SecondsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, mut fraction) = (self.0.0 / 1_000_000_000, self.0.0 % 1_000_000_000);
        write!(f, "{whole}")?;
        if fraction == 0 {
            return Ok(());
        }
        let mut digits = 9;
        while fraction % 10 == 0 {
            (fraction, digits) = (fraction / 10, digits - 1);
        }
        write!(f, ".{fraction:0digits$}")
    }
}
