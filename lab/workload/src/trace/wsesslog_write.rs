//! Writes a wsesslog in one of three foreign dialects.

use alloc::string::String;
use core::fmt::{self, Write as _};

use headlong_player::{ScriptCall, SessionPlan};
use headlong_units::{ByteRange, Duration};

use super::{Dialect, DialectLimit, Session, Trace};

/// Session limit of httperf 0.9.1 (`MAX_SESSION_TEMPLATES`).
const HTTPERF_SESSIONS_MAX: usize = 1000;
/// The same for videoperf.
const VIDEOPERF_SESSIONS_MAX: usize = 250_000;

/// The trace in a foreign dialect.
pub(super) fn write(trace: &Trace, dialect: Dialect) -> Result<String, DialectLimit> {
    let is_script = |session: &Session| matches!(session.plan, SessionPlan::Script(_));
    if !trace.sessions.iter().all(is_script) {
        return Err(DialectLimit::NoScript);
    }
    let mut calls = trace.sessions.iter().flat_map(|session| session.calls());
    if dialect == Dialect::Httperf && calls.any(|call| call.range.is_some()) {
        return Err(DialectLimit::Ranges);
    }
    let max = match dialect {
        Dialect::Httperf => HTTPERF_SESSIONS_MAX,
        Dialect::Videoperf => VIDEOPERF_SESSIONS_MAX,
        Dialect::Headlong | Dialect::Thesis => usize::MAX,
    };
    let count = trace.sessions.len();
    if count > max {
        return Err(DialectLimit::Sessions { count, max });
    }
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_sessions(trace, dialect, &mut text);
    Ok(text)
}

fn write_sessions(trace: &Trace, dialect: Dialect, text: &mut String) -> fmt::Result {
    text.push_str("# Written by Headlong from ");
    escape(&trace.about.name, true, text);
    text.push_str("; without arrivals and networks.\n");
    if dialect == Dialect::Httperf {
        let count = trace.sessions.len();
        text.push_str("# think= replaces pacing, and counts from the end of a call.\n");
        writeln!(
            text,
            "# httperf --wsesslog {count},0,FILE --period e1 --timeout 10"
        )?;
    }
    for session in &trace.sessions {
        text.push('\n');
        let calls = session.calls();
        for (index, call) in calls.iter().enumerate() {
            trace.write_call(dialect, call, &calls[index + 1..], text)?;
        }
    }
    Ok(())
}

impl Trace {
    /// One line. httperf and videoperf attach waiting times to the burst *before* the wait; for
    /// thinking time all dialects do. `rest` is the following calls.
    fn write_call(
        &self,
        dialect: Dialect,
        call: &ScriptCall,
        rest: &[ScriptCall],
        text: &mut String,
    ) -> fmt::Result {
        if call.with_previous {
            text.push('\t');
        }
        if dialect != Dialect::Thesis {
            text.push('/');
        }
        let path = self.objects.get(call.object.0 as usize);
        escape(path.map_or("", String::as_str), false, text);
        match (call.range, dialect) {
            (None, _) | (_, Dialect::Httperf) => {}
            (Some(range), Dialect::Videoperf) => {
                write!(text, " headers='Range: bytes={}'", RangeText(range))?;
            }
            (Some(range), _) => write!(text, " range={}", RangeText(range))?,
        }
        if let (Some(bytes), Dialect::Videoperf) = (call.expected_bytes, dialect) {
            write!(text, " size={bytes}")?;
        }
        match (call.timeout, dialect) {
            (None, _) | (_, Dialect::Httperf) => {}
            (Some(timeout), Dialect::Videoperf) => {
                write!(
                    text,
                    " timeout={}",
                    timeout.0.div_ceil(1_000_000_000).max(1)
                )?;
            }
            (Some(timeout), _) => write!(text, " timeout={}", SecondsText(timeout))?,
        }
        if let (Some(pace), Dialect::Thesis) = (call.pace, dialect) {
            write!(text, " pacing={}", SecondsText(pace))?;
        }
        if let Some(next) = rest.first().filter(|next| !next.with_previous) {
            match (next.pace, dialect) {
                (Some(pace), Dialect::Videoperf) => {
                    write!(text, " pace_time={}", SecondsText(pace))?
                }
                (Some(pace), Dialect::Httperf) => {
                    let think = next.think.unwrap_or_default().max(pace);
                    write!(text, " think={}", SecondsText(think))?;
                }
                _ => {
                    if let Some(think) = next.think {
                        write!(text, " think={}", SecondsText(think))?;
                    }
                }
            }
        }
        text.push('\n');
        Ok(())
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

/// `first-last`, inclusive; `first-` if open-ended.
struct RangeText(ByteRange);

impl fmt::Display for RangeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.end {
            u64::MAX => write!(f, "{}-", self.0.start),
            end => write!(f, "{}-{}", self.0.start, end.max(1) - 1),
        }
    }
}

/// Seconds, exact, without trailing zeros.
struct SecondsText(Duration);

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
