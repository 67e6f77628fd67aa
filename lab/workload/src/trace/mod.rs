//! A trace: sessions in order of their arrival.

mod arrivals;
mod error;
mod line;
mod objects;
mod read;
mod read_adaptive;
mod text;
mod values;
mod write;
mod write_adaptive;

use alloc::string::String;
use alloc::vec::Vec;

use headlong_player::{Call, ObjectId, Plan};
use headlong_units::{ByteRange, Duration};

pub use arrivals::{UnknownSizes, with_arrivals};
pub use error::{CannotSay, TraceError, TraceErrors};
pub use write::Dialect;

use crate::{Identity, NetworkClass, ideal};

/// One viewer's visit.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// From the start of the trace.
    pub arrival: Duration,
    /// Index into [`Trace::classes`].
    pub class: u32,
    /// What it does.
    pub plan: Plan,
}

impl Session {
    /// The calls of its script; none for a viewer that decides as it goes.
    pub fn calls(&self) -> &[Call] {
        match &self.plan {
            Plan::Script(script) => &script.calls,
            Plan::Adaptive(_) => &[],
        }
    }
}

/// How many bytes a call asks for, if it says so.
pub(crate) fn asked_bytes(call: &Call) -> Option<u64> {
    let range = call.range.filter(|range| range.end < u64::MAX);
    call.expected_bytes.or(range.map(ByteRange::len))
}

/// How many bytes a session asks for, as far as it is known; of a player that decides as it goes, if
/// the server took no time.
pub(crate) fn session_bytes(session: &Session, class: Option<&NetworkClass>) -> u64 {
    match &session.plan {
        Plan::Script(script) => {
            let bytes = script.calls.iter().filter_map(asked_bytes);
            bytes.fold(0, u64::saturating_add)
        }
        Plan::Adaptive(_) => class.map_or(0, |class| {
            ideal::watch(&session.plan, class, &mut |_| {}).bytes
        }),
    }
}

/// What is to be read before the start, to warm the cache (thesis 3.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Warming {
    /// From which object.
    pub object: ObjectId,
    /// Which bytes; all of them if `None`.
    pub range: Option<ByteRange>,
}

/// Sessions that are left out of the statistics at one end of a run (thesis 3.6.1): so many, and all
/// that arrive within `time` of the first or the last arrival. Whichever is more counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ramp {
    /// In sessions.
    pub sessions: u64,
    /// In time.
    pub time: Duration,
}

/// Where a trace comes from, and how its results are to be taken.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct About {
    /// Name of the specification; empty for a foreign trace.
    pub name: String,
    /// The seed of its sessions.
    pub seed: Option<u64>,
    /// [`crate::Catalogue::fingerprint`] of the files it is meant for.
    pub catalogue: Option<u64>,
    /// Bytes of a chunk file, which [`crate::locate`] needs; `None` if titles are single files, and
    /// for foreign traces.
    pub chunk_bytes: Option<u64>,
    /// What players tell about themselves.
    pub identity: Identity,
    /// Whether sessions say when they arrive. If not, all arrivals are zero, and [`with_arrivals`]
    /// draws them.
    pub has_arrivals: bool,
    /// Sessions at the start that are no part of the result.
    pub ramp_up: Ramp,
    /// Sessions at the end that are no part of the result.
    pub ramp_down: Ramp,
    /// The most often asked ranges, by popularity.
    pub warming: Vec<Warming>,
}

/// Everything that a load generator needs to know.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Paths, without a leading slash, that calls name by their place here.
    pub objects: Vec<String>,
    /// Never empty in a trace that was generated or parsed.
    pub classes: Vec<NetworkClass>,
    /// By arrival.
    pub sessions: Vec<Session>,
    /// Where it comes from.
    pub about: About,
}

impl Trace {
    /// Bytes a second that its viewers want on average, of a server that takes no time: all that its
    /// sessions ask for by the time from the beginning to the last arrival. Nothing if that is no time,
    /// or no session says how much it asks for.
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
