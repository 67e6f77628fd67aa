//! Common Media Client Data (CTA-5004): hints of the player about itself.
//!
//! A key that is unknown, of the wrong type, too long or out of bounds is ignored; the others still
//! count. Of a version that is not known, no key counts: the keys may mean something else. The four header fields and the `CMCD=` query argument have the same syntax, so there is
//! one parser: a list of `key=value`, with quoted texts, bare numbers and tokens, and a key without
//! a value for true. Of a parenthesised list of version 2 the first member counts, with its range
//! in the case of `nor`.

use alloc::string::String;

use headlong_units::{BitRate, Duration};

use crate::fields::{combined, trim_ows};
use crate::query::query_value;

/// Longest parsed text, in bytes; players send a few hundred.
const TEXT_BYTES_MAX: usize = 8192;
/// Longest session id, in characters (CTA-5004, `sid`).
const ID_CHARS_MAX: usize = 64;
/// Longest path in `nor`, in characters.
const NEXT_OBJECT_CHARS_MAX: usize = 2048;
/// Twice the digits of a 64-bit number, and the dash of `nrr`.
const NEXT_RANGE_CHARS_MAX: usize = 41;
/// Most digits of an integer (RFC 8941 3.3.1, on which CTA-5004 is based).
const DIGITS_MAX: usize = 15;

/// Highest accepted bit rate or throughput, in kbps: a hundred times that of any streamed
/// rendition. A player that sends more probably sends bits instead of kilobits.
const RATE_KBPS_MAX: u64 = 10_000_000;
/// Longest accepted time, in milliseconds: a day.
const TIME_MS_MAX: u64 = 24 * 60 * 60 * 1000;

/// Highest known version (CTA-5004-A).
const VERSION_MAX: u64 = 2;

/// Query argument of CMCD.
const QUERY_KEY: &str = "CMCD";
const FIELDS: [&str; 4] = ["cmcd-request", "cmcd-object", "cmcd-status", "cmcd-session"];

/// The supported keys of one request. A rate of zero means "unknown" and is ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cmcd {
    /// `br`: encoded bit rate of the object.
    pub bit_rate: Option<BitRate>,
    /// `bl`: media in the player's buffer.
    pub buffer: Option<Duration>,
    /// `dl`: deadline of the first byte, after which playback stalls.
    pub deadline: Option<Duration>,
    /// `su`: needed urgently because of a start, a seek or an empty buffer.
    pub startup: bool,
    /// `mtp`: throughput measured by the player.
    pub throughput: Option<BitRate>,
    /// `rtp`: highest useful throughput.
    pub throughput_max: Option<BitRate>,
    /// `bs`: playback stalled since the last request.
    pub starved: bool,
    /// `sid`: id of the session.
    pub session_id: Option<String>,
    /// `nor`: path of the next object, relative to this one, percent-encoded.
    pub next_object: Option<String>,
    /// `nrr`: range of the next object, as `first-last`.
    pub next_range: Option<String>,
    /// Whether `v` is higher than any known version.
    pub(crate) is_unknown_version: bool,
}

impl Cmcd {
    /// Parses the CMCD of a request. Header fields take precedence over the query; if either is of
    /// an unknown version, the result is empty.
    pub fn read<'a, F>(fields: F, query: Option<&str>) -> Self
    where
        F: IntoIterator<Item = (&'a str, &'a [u8])> + Clone,
    {
        let mut said = Self::default();
        if let Some(text) = query.and_then(|query| query_value(query, QUERY_KEY)) {
            said.absorb(&text);
        }
        for name in FIELDS {
            if let Some(text) = combined(fields.clone(), name) {
                said.absorb(&text);
            }
        }
        match said.is_unknown_version {
            true => Self::default(),
            false => said,
        }
    }

    /// Adds the keys of a field, or of the decoded query argument. The last valid value of a key
    /// counts.
    pub fn absorb(&mut self, text: &str) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        for member in members(text) {
            match member.split_once('=') {
                None => self.absorb_flag(member, true),
                Some((key, value)) => {
                    self.absorb_value(key, first_item(value));
                    if let ("nor", Some(range)) = (key, range_of_first(value)) {
                        set_valid(&mut self.next_range, quoted(range, NEXT_RANGE_CHARS_MAX));
                    }
                }
            }
        }
    }

    fn absorb_flag(&mut self, key: &str, value: bool) {
        match key {
            "su" => self.startup = value,
            "bs" => self.starved = value,
            _ => {}
        }
    }

    fn absorb_value(&mut self, key: &str, value: &str) {
        match key {
            "br" => set_valid(&mut self.bit_rate, rate(value)),
            "mtp" => set_valid(&mut self.throughput, rate(value)),
            "rtp" => set_valid(&mut self.throughput_max, rate(value)),
            "bl" => set_valid(&mut self.buffer, milliseconds(value)),
            "dl" => set_valid(&mut self.deadline, milliseconds(value)),
            "sid" => set_valid(&mut self.session_id, quoted(value, ID_CHARS_MAX)),
            "nor" => set_valid(&mut self.next_object, quoted(value, NEXT_OBJECT_CHARS_MAX)),
            "nrr" => set_valid(&mut self.next_range, quoted(value, NEXT_RANGE_CHARS_MAX)),
            "v" => {
                let is_known = |version: u64| version <= VERSION_MAX;
                self.is_unknown_version |= !integer(value).is_none_or(is_known);
            }
            _ => match value {
                "true" | "?1" => self.absorb_flag(key, true),
                "false" | "?0" => self.absorb_flag(key, false),
                _ => {}
            },
        }
    }
}

/// An invalid value does not replace a valid one.
fn set_valid<T>(slot: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *slot = value;
    }
}

/// Members of a list, split at commas outside of quotes. (Members of parenthesised lists are
/// separated by spaces, RFC 8941 3.1.1.)
fn members(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    let split = core::iter::from_fn(move || {
        let text = rest?;
        let (member, after) = match end_of_member(text) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        rest = after;
        Some(trim_ows(member))
    });
    split.filter(|member| !member.is_empty())
}

/// Position of the comma that ends the first member.
fn end_of_member(text: &str) -> Option<usize> {
    let (mut in_quotes, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_quotes => is_escaped = true,
            b'"' => in_quotes = !in_quotes,
            _ if in_quotes => {}
            b',' => return Some(at),
            _ => {}
        }
    }
    None
}

/// First member of a parenthesised list, without parameters: for `(5000;v 128;a)`, the first number
/// describes the requested object.
fn first_item(value: &str) -> &str {
    let value = trim_ows(value);
    let item = match value.strip_prefix('(') {
        Some(list) => list.trim_start_matches(' '),
        None => value,
    };
    if item.starts_with('"') {
        let mut is_escaped = false;
        let closing = item.bytes().enumerate().skip(1).find(|(_, byte)| {
            let closes = *byte == b'"' && !is_escaped;
            is_escaped = *byte == b'\\' && !is_escaped;
            closes
        });
        return closing.map_or(item, |(at, _)| &item[..=at]);
    }
    item.split([' ', ';', ')']).next().unwrap_or(item)
}

/// Parameter `r` of the first object in a `nor` list, with its quotes.
fn range_of_first(value: &str) -> Option<&str> {
    let behind = value.split_once(first_item(value))?.1;
    let range = behind.strip_prefix(";r=")?;
    let end = range.strip_prefix('"')?.find('"')?;
    range.get(..end + 2)
}

fn integer(value: &str) -> Option<u64> {
    if value.len() > DIGITS_MAX || !value.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    value.parse().ok()
}

fn rate(value: &str) -> Option<BitRate> {
    integer(value)
        .filter(|kbps| (1..=RATE_KBPS_MAX).contains(kbps))
        .map(BitRate::from_kbps)
}

fn milliseconds(value: &str) -> Option<Duration> {
    integer(value)
        .filter(|millis| *millis <= TIME_MS_MAX)
        .map(Duration::from_millis)
}

/// Content of a quoted text without escapes (RFC 8941 3.3.3). Characters beyond ASCII are accepted,
/// because players send them.
fn quoted(value: &str, chars_max: usize) -> Option<String> {
    let inner = value.strip_prefix('"')?.strip_suffix('"')?;
    let mut text = String::new();
    let mut chars = inner.chars();
    for _ in 0..=chars_max {
        let Some(c) = chars.next() else {
            return Some(text);
        };
        match c {
            '\\' => text.push(chars.next().filter(|c| matches!(c, '"' | '\\'))?),
            '"' => return None,
            c if c.is_control() => return None,
            c => text.push(c),
        }
    }
    None
}

#[cfg(test)]
#[path = "cmcd_tests.rs"]
mod tests;
