//! Traces: sessions in order of their arrival.

mod arrivals;
mod error;
mod json_lines;
mod text;
mod wsesslog_read;

use alloc::string::String;
use alloc::vec::Vec;

use headlong_player::{ObjectId, ScriptCall, SessionPlan};
use headlong_units::{ByteRange, Duration};
use serde::{Deserialize, Serialize};

pub use arrivals::{UnknownSizes, with_arrivals};
pub use error::{TraceError, TraceErrors};

use crate::{NetworkClass, ViewerIdentity, ideal_server};

/// One viewer's visit.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// From the start of the trace.
    pub arrival: Duration,
    /// Index into [`Trace::classes`].
    pub class: u32,
    /// Its behaviour.
    pub plan: SessionPlan,
}

impl Session {
    /// The calls of its script; none for an adaptive viewer.
    pub fn calls(&self) -> &[ScriptCall] {
        match &self.plan {
            SessionPlan::Script(script) => &script.calls,
            SessionPlan::Adaptive(_) | SessionPlan::Phases(_) => &[],
        }
    }

    /// What it requests, as far as it is known in advance: nothing for an adaptive viewer. The part
    /// that is read of a reply, if its player closes it.
    pub fn asked(&self) -> impl Iterator<Item = (ObjectId, Option<ByteRange>)> {
        let phased = match &self.plan {
            SessionPlan::Phases(plan) => plan.calls.as_slice(),
            _ => &[],
        };
        let calls = self.calls().iter().map(|call| (call.object, call.range));
        calls.chain(phased.iter().map(|call| {
            let start = call.range.start;
            let read = ByteRange::new(start, start.saturating_add(call.bytes()));
            (call.object, Some(read))
        }))
    }
}

/// Bytes requested by a call, if known.
pub(crate) fn asked_bytes(call: &ScriptCall) -> Option<u64> {
    let range = call.range.filter(|range| range.end < u64::MAX);
    call.expected_bytes.or(range.map(ByteRange::len))
}

/// Bytes requested by a session, as far as known; for an adaptive player, from an ideal server.
pub(crate) fn session_bytes(session: &Session, class: Option<&NetworkClass>) -> u64 {
    match &session.plan {
        SessionPlan::Script(script) => {
            let bytes = script.calls.iter().filter_map(asked_bytes);
            bytes.fold(0, u64::saturating_add)
        }
        SessionPlan::Phases(plan) => plan.bytes(),
        SessionPlan::Adaptive(_) => class.map_or(0, |class| {
            ideal_server::watch(&session.plan, class, &mut |_| {}).bytes
        }),
    }
}

/// A range to read before the start, to warm the cache (thesis 3.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmupRange {
    /// The object.
    pub object: ObjectId,
    /// The bytes; all of them if `None`.
    pub range: Option<ByteRange>,
}

/// Sessions excluded from the statistics at one end of a run (thesis 3.6.1): a number of sessions,
/// and all that arrive within `time` of the first or the last arrival. The larger of both counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ramp {
    /// In sessions.
    pub sessions: u64,
    /// In time.
    pub time: Duration,
}

/// Origin of a trace, and how to evaluate its results.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TraceMetadata {
    /// Name of the specification; empty for a foreign trace.
    pub name: String,
    /// Seed of its sessions.
    pub seed: Option<u64>,
    /// [`crate::Catalogue::fingerprint`] of the files that it requests.
    #[serde(with = "hexadecimal")]
    pub catalogue: Option<u64>,
    /// Bytes of a chunk file, needed by [`crate::locate`]; `None` if titles are single files, and
    /// for foreign traces.
    pub chunk_bytes: Option<u64>,
    /// How players identify themselves.
    pub identity: ViewerIdentity,
    /// Whether sessions have arrivals. If not, all arrivals are zero, and [`with_arrivals`] draws
    /// them.
    pub has_arrivals: bool,
    /// Sessions at the start that are excluded from the result.
    pub ramp_up: Ramp,
    /// Sessions at the end that are excluded from the result.
    pub ramp_down: Ramp,
    /// The most frequently requested ranges, by popularity.
    pub warming: Vec<WarmupRange>,
}

/// The written form of a fingerprint: 16 digits, as in `headlong-catalogue.json`.
mod hexadecimal {
    use alloc::format;
    use alloc::string::String;

    use serde::de::Error as _;
    use serde::{Deserialize as _, Serialize as _};

    pub(super) fn serialize<S: serde::Serializer>(
        number: &Option<u64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        number.map(|number| format!("{number:016x}")).serialize(to)
    }

    pub(super) fn deserialize<'de, D: serde::Deserializer<'de>>(
        from: D,
    ) -> Result<Option<u64>, D::Error> {
        let text: Option<String> = Option::deserialize(from)?;
        let number = text.map(|text| u64::from_str_radix(&text, 16));
        number.transpose().map_err(D::Error::custom)
    }
}

/// Input of a load generator.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Paths, without a leading slash; calls refer to them by index.
    pub objects: Vec<String>,
    /// Never empty in a generated or parsed trace.
    pub classes: Vec<NetworkClass>,
    /// By arrival.
    pub sessions: Vec<Session>,
    /// Origin and evaluation.
    pub about: TraceMetadata,
}

impl Trace {
    /// Mean demand of its viewers in bytes per second, with an ideal server: the bytes requested by
    /// all sessions divided by the time from the beginning to the last arrival. Nothing if that
    /// time is zero, or no session has a known size.
    pub fn offered(&self) -> Option<f64> {
        let length = Duration(
            self.sessions
                .iter()
                .map(|session| session.arrival.0)
                .max()?,
        );
        let bytes = self.sessions.iter().map(|session| {
            let class = self.classes.get(session.class as usize);
            session_bytes(session, class)
        });
        let bytes = bytes.fold(0, u64::saturating_add);
        (length > Duration::ZERO && bytes > 0).then(|| bytes as f64 / length.as_secs_f64())
    }
}

#[cfg(test)]
mod tests;
