//! Parses a wsesslog of any dialect; the dialect need not be named, because no word is ambiguous.
//!
//! Accepted and ignored, because they do not affect a viewer's requests: `cookie=`, `http=1.0` and
//! `1.1`, header fields other than `Range`, `session` lines with their own server, and all foreign
//! comments.
//!
//! Invariants: no input makes this panic; mistakes are reported together with line and column, and
//! then no trace is returned; memory is bounded by the size of the text.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use headlong_player::{AdaptivePlan, PlaybackSpec, Script, ScriptCall, SessionPlan};
use headlong_units::{BitRate, ByteRange, Duration};

use super::line::{self, LineWord};
use super::objects::ObjectTable;
use super::read_adaptive::ParsedObjects;
use super::values::{pairs, parsed, value};
use super::{NetworkClass, Session, Trace, TraceErrors, TraceMetadata, WarmupRange};
use crate::ViewerIdentity;
use headlong_units::nearest;

/// Words allowed after a call's path.
const WORDS: [&str; 11] = [
    "range",
    "timeout",
    "pacing",
    "think",
    "size",
    "pace_time",
    "headers",
    "method",
    "contents",
    "cookie",
    "http",
];

/// Kinds of `#headlong` lines.
const KINDS: [&str; 8] = [
    "trace",
    "ramp",
    "class",
    "player",
    "title",
    "rendition",
    "session",
    "warm",
];

/// Words of a session's line.
const OF_SESSION: [&str; 7] = [
    "arrival", "class", "rate", "start", "title", "player", "acts",
];

impl Trace {
    /// Parses a trace. Foreign ones have no arrivals ([`TraceMetadata::has_arrivals`]) and one
    /// network without limits.
    ///
    /// # Errors
    /// The mistakes, with line, column and reason; the first twenty, and how many more.
    pub fn read(text: &[u8]) -> Result<Self, TraceErrors> {
        let mut reader = TraceReader::default();
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            reader.line = index + 1;
            reader.read_line(line.strip_suffix(b"\r").unwrap_or(line));
        }
        reader.finish()
    }
}

/// The session being parsed.
#[derive(Default)]
struct SessionDraft {
    line: usize,
    arrival: Option<Duration>,
    class: u32,
    playback: Option<PlaybackSpec>,
    calls: Vec<ScriptCall>,
    /// Its plan if it has no calls: an adaptive player.
    adaptive: Option<AdaptivePlan>,
    /// Thinking time after the current burst.
    think: Option<Duration>,
    /// Pacing time of the burst after the current one.
    pace: Option<Duration>,
}

#[derive(Default)]
struct TraceReader {
    line: usize,
    errors: TraceErrors,
    objects: ObjectTable,
    classes: Vec<NetworkClass>,
    about: TraceMetadata,
    sessions: Vec<Session>,
    /// Players and titles shared by adaptive sessions.
    known: ParsedObjects,
    draft: Option<SessionDraft>,
    has_version: bool,
    /// Number of sessions with an arrival, and the line of the first without one.
    arrivals: usize,
    silent_line: Option<usize>,
}

impl TraceReader {
    fn wrong(&mut self, column: usize, reason: impl Into<String>) {
        self.errors.push(self.line, column, reason.into());
    }

    fn read_line(&mut self, line: &[u8]) {
        if line.starts_with(b"#") {
            if let Some(rest) = line.strip_prefix(b"#headlong ") {
                self.read_ours(rest);
            }
            return;
        }
        let words = match line::words(line) {
            Ok(words) => words,
            Err((column, reason)) => {
                self.wrong(column, format!("this word {reason}"));
                return;
            }
        };
        let Some((first, rest)) = words.split_first() else {
            // An indented comment is not a blank line.
            if !line.contains(&b'#') {
                self.end_session();
            }
            return;
        };
        let is_new = self
            .draft
            .as_ref()
            .is_none_or(|draft| draft.calls.is_empty());
        if first.text == "session" && is_new {
            self.read_foreign_session(rest);
            return;
        }
        let is_member = line
            .first()
            .is_some_and(|byte| *byte == b' ' || *byte == b'\t');
        self.read_call(first, rest, is_member && !is_new);
    }

    fn read_foreign_session(&mut self, words: &[LineWord]) {
        for word in words {
            match word.pair() {
                Some(("port" | "server" | "ssl", _)) => {}
                _ => self.wrong(
                    word.column,
                    format!(
                        "`{}` is unknown; a session has port=, server= and ssl=",
                        word.text
                    ),
                ),
            }
        }
    }

    fn read_call(&mut self, first: &LineWord, words: &[LineWord], with_previous: bool) {
        if first.text.contains("://") {
            self.wrong(first.column, "is a whole URL; write the path alone, the server is named when the trace is played");
            return;
        }
        if self
            .draft
            .as_ref()
            .is_some_and(|draft| draft.adaptive.is_some())
        {
            self.wrong(first.column, "belongs to an adaptive session, whose player chooses its requests; remove it, or write a blank line before it");
            return;
        }
        let path = first
            .text
            .strip_prefix('/')
            .unwrap_or(&first.text)
            .to_owned();
        let mut call = ScriptCall {
            object: self.objects.named(path),
            range: None,
            expected_bytes: None,
            timeout: None,
            pace: None,
            think: None,
            with_previous,
        };
        let line = self.line;
        let mut draft = self.draft.take().unwrap_or_else(|| SessionDraft {
            line,
            ..SessionDraft::default()
        });
        if !with_previous {
            call.think = draft.think.take();
            call.pace = draft.pace.take();
        }
        for word in words {
            if let Err((column, reason)) = read_word(word, &mut call, &mut draft) {
                self.wrong(column, reason);
            }
        }
        draft.calls.push(call);
        self.draft = Some(draft);
    }

    fn end_session(&mut self) {
        let Some(draft) = self.draft.take() else {
            return;
        };
        match draft.arrival {
            Some(_) => self.arrivals += 1,
            None => self.silent_line = self.silent_line.or(Some(draft.line)),
        }
        self.sessions.push(Session {
            arrival: draft.arrival.unwrap_or_default(),
            class: draft.class,
            plan: match draft.adaptive {
                Some(plan) => SessionPlan::Adaptive(plan),
                None => SessionPlan::Script(Script {
                    calls: draft.calls,
                    playback: draft.playback,
                }),
            },
        });
    }

    fn read_ours(&mut self, line: &[u8]) {
        // Columns count from the start of the line.
        let shift = "#headlong ".len();
        let words = match line::words(line) {
            Ok(words) => words,
            Err((column, reason)) => {
                self.wrong(column + shift, format!("this word {reason}"));
                return;
            }
        };
        let words: Vec<LineWord> = words
            .into_iter()
            .map(|word| LineWord {
                column: word.column + shift,
                ..word
            })
            .collect();
        let Some((kind, rest)) = words.split_first() else {
            return;
        };
        if !self.has_version && kind.text != "trace" {
            self.wrong(
                kind.column,
                "comes before `#headlong trace version=1`; write that line first",
            );
            self.has_version = true;
        }
        if kind.text != "rendition" {
            self.known.close_title(&mut self.errors);
        }
        let result = match kind.text.as_str() {
            "trace" => self.read_trace(rest),
            "ramp" => self.read_ramp(rest),
            "class" => self.read_class(rest),
            "player" => self.known.read_player(self.line, rest, &mut self.errors),
            "title" => self.known.read_title(self.line, rest),
            "rendition" => self.known.read_rendition(rest, &mut self.objects),
            "session" => self.read_session(rest),
            "warm" => self.read_warm(rest),
            other => {
                let meant = nearest(other, KINDS.into_iter()).unwrap_or("session");
                let text = format!("`{other}` is unknown; did you mean {meant}?");
                Err((kind.column, text))
            }
        };
        if let Err((column, reason)) = result {
            self.wrong(column, reason);
        }
    }

    fn read_trace(&mut self, words: &[LineWord]) -> Result<(), line::LineFlaw> {
        self.has_version = true;
        let keys = ["version", "name", "seed", "catalogue", "chunk", "identity"];
        let values = pairs(words, &keys)?;
        match values.get("version") {
            Some(version) if version.text == "1" => {}
            Some(version) => {
                let text = format!(
                    "version {} is unknown; this Headlong reads version 1",
                    version.text
                );
                return Err((version.column, text));
            }
            None => return Err((1, "has no version; write version=1".to_string())),
        }
        self.about.name = values
            .get("name")
            .map_or(String::new(), |name| line::unescape(&name.text));
        self.about.seed = value(&values, "seed", line::whole)?;
        self.about.catalogue = value(&values, "catalogue", |text| {
            u64::from_str_radix(text, 16).map_err(|_| format!("`{text}` is not a fingerprint"))
        })?;
        let identity = value(&values, "identity", |text| {
            let mut all = ViewerIdentity::ALL.into_iter();
            let known = all.find(|(name, _)| *name == text);
            known.ok_or_else(|| format!("`{text}` is unknown; write sid, connection or none"))
        })?;
        self.about.identity =
            identity.map_or_else(ViewerIdentity::default, |(_, identity)| identity);
        self.about.chunk_bytes = value(&values, "chunk", |text| match line::whole(text)? {
            0 => Err("chunk files have more than 0 bytes".to_string()),
            bytes => Ok(bytes),
        })?;
        Ok(())
    }

    fn read_ramp(&mut self, words: &[LineWord]) -> Result<(), line::LineFlaw> {
        let values = pairs(words, &["end", "sessions", "time"])?;
        let end = values.get("end").map(|end| (end.column, end.text.as_str()));
        let ramp = match end {
            Some((_, "up")) => &mut self.about.ramp_up,
            Some((_, "down")) => &mut self.about.ramp_down,
            end => {
                return Err((
                    end.map_or(1, |end| end.0),
                    "which end? Write end=up or end=down".to_string(),
                ));
            }
        };
        ramp.sessions = value(&values, "sessions", line::whole)?.unwrap_or_default();
        ramp.time = value(&values, "time", line::seconds)?.unwrap_or_default();
        Ok(())
    }

    fn read_class(&mut self, words: &[LineWord]) -> Result<(), line::LineFlaw> {
        let values = pairs(words, &["name", "bandwidth", "delay", "share"])?;
        let name = values
            .get("name")
            .ok_or((1, "the class has no name".to_string()))?;
        let class = NetworkClass {
            name: line::unescape(&name.text),
            bandwidth: value(&values, "bandwidth", parsed)?,
            delay: value(&values, "delay", parsed)?.unwrap_or_default(),
            share: value(&values, "share", |text| {
                let share = text
                    .parse()
                    .ok()
                    .filter(|share: &f64| share.is_finite() && *share >= 0.0);
                share.ok_or_else(|| format!("`{text}` is not a share; write a number like 0.5"))
            })?
            .unwrap_or(1.0),
        };
        if self.classes.iter().any(|known| known.name == class.name) {
            return Err((
                name.column,
                format!("there is a class {} already", class.name),
            ));
        }
        self.classes.push(class);
        Ok(())
    }

    fn read_session(&mut self, words: &[LineWord]) -> Result<(), line::LineFlaw> {
        self.end_session();
        let mut draft = SessionDraft {
            line: self.line,
            ..SessionDraft::default()
        };
        let result = self.read_session_values(words, &mut draft);
        self.draft = Some(draft);
        result
    }

    fn read_session_values(
        &self,
        words: &[LineWord],
        draft: &mut SessionDraft,
    ) -> Result<(), line::LineFlaw> {
        let values = pairs(words, &OF_SESSION)?;
        draft.arrival = value(&values, "arrival", line::seconds)?;
        let bit_rate: Option<BitRate> = value(&values, "rate", parsed)?;
        let start_bytes = value(&values, "start", line::whole)?.unwrap_or_default();
        draft.playback = bit_rate.map(|bit_rate| PlaybackSpec {
            bit_rate,
            start_bytes,
        });
        let before = self
            .sessions
            .last()
            .map_or(Duration::ZERO, |session| session.arrival);
        if let (Some(arrival), Some(word)) = (draft.arrival, values.get("arrival"))
            && arrival < before
        {
            let text = "arrives before the session above; sort sessions by arrival".to_string();
            return Err((word.column, text));
        }
        if let Some(word) = values.get("class") {
            let name = line::unescape(&word.text);
            let found = self.classes.iter().position(|class| class.name == name);
            draft.class = found.ok_or_else(|| {
                let names = self.classes.iter().map(|class| class.name.as_str());
                let meant = nearest(&name, names)
                    .map_or(String::new(), |meant| format!("; did you mean {meant}?"));
                (word.column, format!("no class is called `{name}`{meant}"))
            })? as u32;
        }
        draft.adaptive = self.known.adaptive(&values)?;
        Ok(())
    }

    fn read_warm(&mut self, words: &[LineWord]) -> Result<(), line::LineFlaw> {
        let (path, rest) = words
            .split_first()
            .ok_or((1, "the object to read is missing".to_string()))?;
        let values = pairs(rest, &["range"])?;
        let range: Option<ByteRange> = value(&values, "range", line::range)?;
        let path = path.text.strip_prefix('/').unwrap_or(&path.text).to_owned();
        let object = self.objects.named(path);
        self.about.warming.push(WarmupRange { object, range });
        Ok(())
    }

    fn finish(mut self) -> Result<Trace, TraceErrors> {
        self.end_session();
        self.known.close_title(&mut self.errors);
        if self.sessions.is_empty() && self.errors.is_empty() {
            self.line = 1;
            self.wrong(1, "there are no sessions; write one request per line");
        }
        if let (Some(line), true) = (self.silent_line, self.arrivals > 0) {
            self.line = line;
            self.wrong(
                1,
                "this session has no arrival, but others do; write arrival=SECONDS",
            );
        }
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        if self.classes.is_empty() {
            self.classes.push(NetworkClass::unlimited());
        }
        self.about.has_arrivals = self.silent_line.is_none();
        Ok(Trace {
            objects: self.objects.paths,
            classes: self.classes,
            sessions: self.sessions,
            about: self.about,
        })
    }
}

/// Parses one word after a call's path.
fn read_word(
    word: &LineWord,
    call: &mut ScriptCall,
    draft: &mut SessionDraft,
) -> Result<(), line::LineFlaw> {
    let Some((key, value)) = word.pair() else {
        let text = format!(
            "`{}` is not KEY=VALUE; words after a path are like timeout=10",
            word.text
        );
        return Err((word.column, text));
    };
    let at = |reason: String| (value.column, reason);
    let text = value.text.as_str();
    match key {
        "range" => call.range = Some(line::range(text).map_err(at)?),
        "size" => call.expected_bytes = Some(line::whole(text).map_err(at)?),
        "timeout" => call.timeout = Some(line::seconds(text).map_err(at)?),
        "pacing" => call.pace = Some(line::seconds(text).map_err(at)?),
        // Both belong to the burst and apply after it; the later one takes precedence.
        "think" => (draft.think, draft.pace) = (Some(line::seconds(text).map_err(at)?), None),
        "pace_time" => (draft.think, draft.pace) = (None, Some(line::seconds(text).map_err(at)?)),
        "headers" => {
            if let Some(range) = range_field(text) {
                call.range = Some(line::range(range).map_err(at)?);
            }
        }
        "cookie" => {}
        "http" if matches!(text, "1.0" | "1.1") => {}
        "http" => return Err(at(format!("`{text}` is not a version; write 1.0 or 1.1"))),
        "method" if text == "GET" => {}
        "method" => return Err(at(format!("`{text}` cannot be played; viewers GET"))),
        "contents" => return Err(at("cannot be played; viewers send no contents".to_string())),
        _ => {
            let meant = nearest(key, WORDS.into_iter())
                .map_or(String::new(), |meant| format!("; did you mean {meant}=?"));
            return Err((word.column, format!("`{key}=` is unknown{meant}")));
        }
    }
    Ok(())
}

/// The range in the field `Range`, if it is among these fields.
fn range_field(fields: &str) -> Option<&str> {
    fields.split(['\r', '\n']).find_map(|field| {
        let (name, value) = field.split_once(':')?;
        let is_range = name.trim().eq_ignore_ascii_case("range");
        is_range.then(|| value.trim().strip_prefix("bytes=").unwrap_or(value.trim()))
    })
}
