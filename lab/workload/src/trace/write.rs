//! Writes traces as text: a wsesslog, in one of four dialects.
//!
//! The native dialect is that of the thesis (Figure 3.5) with comment lines that begin with
//! `#headlong` for arrivals, networks, storage, ramps and warming. docs/lab/workload.md describes
//! the format.

use alloc::string::String;
use core::fmt::{self, Write as _};

use headlong_player::{Script, ScriptCall, SessionPlan};

use super::text::{NameWord, RangeText, SecondsText};
use super::write_adaptive::{WrittenObjects, write_session};
use super::{DialectLimit, Session, Trace};
use crate::ViewerIdentity;

/// Dialect of a wsesslog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Native: lossless.
    Headlong,
    /// Thesis Figure 3.5: `range=`, `timeout=`, `pacing=`.
    Thesis,
    /// Waterloo's httperf, today videoperf in CloudSuite: `pace_time=`, `headers='Range: ...'`.
    Videoperf,
    /// httperf 0.9.1: whole files, `think=`. Pacing becomes thinking time, which starts at the end
    /// of the previous call: slower than intended.
    Httperf,
}

impl Dialect {
    /// Name and dialect of each.
    pub const ALL: [(&'static str, Self); 4] = [
        ("headlong", Self::Headlong),
        ("thesis", Self::Thesis),
        ("videoperf", Self::Videoperf),
        ("httperf", Self::Httperf),
    ];
}

/// Session limit of httperf 0.9.1 (`MAX_SESSION_TEMPLATES`).
const HTTPERF_SESSIONS_MAX: usize = 1000;
/// The same for videoperf.
const VIDEOPERF_SESSIONS_MAX: usize = 250_000;

impl Trace {
    /// The trace as text. In [`Dialect::Headlong`] it parses to the same trace, if its objects are
    /// in order of their first use and no session begins with thinking.
    ///
    /// # Errors
    /// If the dialect cannot express it.
    pub fn to_text(&self, dialect: Dialect) -> Result<String, DialectLimit> {
        let too_many = |max| {
            let count = self.sessions.len();
            if count > max {
                Err(DialectLimit::Sessions { count, max })
            } else {
                Ok(())
            }
        };
        let is_adaptive = |session: &Session| matches!(session.plan, SessionPlan::Adaptive(_));
        if dialect != Dialect::Headlong && self.sessions.iter().any(is_adaptive) {
            return Err(DialectLimit::Adaptive);
        }
        match dialect {
            Dialect::Httperf => {
                let mut calls = self.sessions.iter().flat_map(|session| session.calls());
                if calls.any(|call| call.range.is_some()) {
                    return Err(DialectLimit::Ranges);
                }
                too_many(HTTPERF_SESSIONS_MAX)?;
            }
            Dialect::Videoperf => too_many(VIDEOPERF_SESSIONS_MAX)?,
            Dialect::Headlong | Dialect::Thesis => {}
        }
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = self.write(dialect, &mut text);
        Ok(text)
    }

    fn write(&self, dialect: Dialect, text: &mut String) -> fmt::Result {
        let is_ours = dialect == Dialect::Headlong;
        if is_ours {
            self.write_head(text)?;
        } else {
            let name = NameWord(&self.about.name);
            writeln!(
                text,
                "# Written by Headlong from {name}; without arrivals and networks."
            )?;
            if dialect == Dialect::Httperf {
                writeln!(
                    text,
                    "# think= replaces pacing, and counts from the end of a call."
                )?;
                let count = self.sessions.len();
                writeln!(
                    text,
                    "# httperf --wsesslog {count},0,FILE --period e1 --timeout 10"
                )?;
            }
        }
        let mut told = WrittenObjects::default();
        for session in &self.sessions {
            text.push('\n');
            if let SessionPlan::Adaptive(plan) = &session.plan {
                self.write_shared(plan, &mut told, text)?;
            }
            if is_ours {
                text.push_str("#headlong session");
                if self.about.has_arrivals {
                    write!(text, " arrival={}", SecondsText(session.arrival))?;
                }
                let class = self.classes.get(session.class as usize);
                let class = class.map_or("", |class| &class.name);
                write!(text, " class={}", NameWord(class))?;
                match &session.plan {
                    SessionPlan::Script(Script {
                        playback: Some(playback),
                        ..
                    }) => {
                        let (rate, start) = (playback.bit_rate, playback.start_bytes);
                        write!(text, " rate={rate} start={start}")?;
                    }
                    SessionPlan::Script(_) => {}
                    SessionPlan::Adaptive(plan) => write_session(plan, &told, text)?,
                }
                text.push('\n');
            }
            let calls = session.calls();
            for (index, call) in calls.iter().enumerate() {
                self.write_call(dialect, call, &calls[index + 1..], text)?;
            }
        }
        if is_ours && !self.about.warming.is_empty() {
            text.push('\n');
            for warming in &self.about.warming {
                text.push_str("#headlong warm ");
                self.write_path(warming.object.0, true, true, text);
                if let Some(range) = warming.range {
                    write!(text, " range={}", RangeText(range))?;
                }
                text.push('\n');
            }
        }
        Ok(())
    }

    fn write_head(&self, text: &mut String) -> fmt::Result {
        let about = &self.about;
        write!(text, "#headlong trace version=1")?;
        if !about.name.is_empty() {
            write!(text, " name={}", NameWord(&about.name))?;
        }
        if let Some(seed) = about.seed {
            write!(text, " seed={seed}")?;
        }
        if let Some(catalogue) = about.catalogue {
            write!(text, " catalogue={catalogue:016x}")?;
        }
        if let Some(chunk_bytes) = about.chunk_bytes {
            write!(text, " chunk={chunk_bytes}")?;
        }
        if about.identity != ViewerIdentity::default() {
            write!(text, " identity={}", about.identity.name())?;
        }
        text.push('\n');
        for (end, ramp) in [("up", about.ramp_up), ("down", about.ramp_down)] {
            if ramp != Default::default() {
                let (sessions, time) = (ramp.sessions, SecondsText(ramp.time));
                writeln!(
                    text,
                    "#headlong ramp end={end} sessions={sessions} time={time}"
                )?;
            }
        }
        for class in &self.classes {
            write!(text, "#headlong class name={}", NameWord(&class.name))?;
            if let Some(bandwidth) = class.bandwidth {
                write!(text, " bandwidth={bandwidth}")?;
            }
            let (delay, share) = (class.delay, class.share);
            writeln!(text, " delay={delay} share={share}")?;
        }
        Ok(())
    }

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
        self.write_path(call.object.0, dialect != Dialect::Thesis, false, text);
        match (call.range, dialect) {
            (None, _) | (_, Dialect::Httperf) => {}
            (Some(range), Dialect::Videoperf) => {
                write!(text, " headers='Range: bytes={}'", RangeText(range))?;
            }
            (Some(range), _) => write!(text, " range={}", RangeText(range))?,
        }
        if let (Some(bytes), Dialect::Headlong | Dialect::Videoperf) =
            (call.expected_bytes, dialect)
        {
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
        if let (Some(pace), Dialect::Headlong | Dialect::Thesis) = (call.pace, dialect) {
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
