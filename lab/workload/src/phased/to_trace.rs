//! Converts sessions to a trace that can be played against a server.
//!
//! A script sends one burst after another, so concurrent requests become a burst, and each burst
//! keeps its distance from the start of the previous one. An open-ended transfer that its client
//! paces by flow control and finally closes is split into ranges of the bytes received in
//! [`PIECE_S`] (thesis 5.5: "it might be sufficiently accurate to use chunk requests for all
//! chains"); a range that reaches the end of a file is open-ended.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use headlong_player::{ObjectId, Script, ScriptCall, SessionPlan};
use headlong_units::{BitRate, ByteRange, Duration};

use super::catalogue::PhasedCatalogue;
use super::log::PhasedSessions;
use super::requests::PhasedRequest;
use super::specification::PhasedSpecification;
use crate::NetworkClass;
use crate::trace::{Session, Trace, TraceMetadata};

/// Duration of a piece of an open-ended transfer, s.
pub const PIECE_S: f64 = 10.0;
/// Largest number of requests in a burst: connections of a viewer.
const BURST_MAX: usize = 6;
/// A reply that is incomplete by then ends the session (thesis 3.4: 10 s).
const TIMEOUT: Duration = Duration::from_secs(10);
/// Steps of bandwidth per doubling: sessions of one step are one class.
const CLASS_STEPS: f64 = 2.0;

/// The trace of a specification and a seed. It takes about 60 bytes of memory per request.
pub fn trace(specification: &PhasedSpecification, catalogue: &PhasedCatalogue, seed: u64) -> Trace {
    let mut trace = Trace {
        about: TraceMetadata {
            name: specification.name.clone(),
            seed: Some(seed),
            catalogue: Some(catalogue.to_files().fingerprint()),
            has_arrivals: true,
            ..TraceMetadata::default()
        },
        ..Trace::default()
    };
    let mut objects: BTreeMap<u32, ObjectId> = BTreeMap::new();
    let mut classes: BTreeMap<i32, (u32, u64)> = BTreeMap::new();
    let mut sessions = PhasedSessions::new(specification, catalogue, seed);
    while let Some(session) = sessions.next() {
        let pieces = pieces(&session.requests, catalogue, session.bandwidth);
        if let Some(first) = pieces.first() {
            let step = libm::round(libm::log2(session.bandwidth) * CLASS_STEPS) as i32;
            let next = classes.len() as u32;
            let class = classes.entry(step).or_insert((next, 0));
            class.1 += 1;
            let mut object = |file: u32| {
                *objects.entry(file).or_insert_with(|| {
                    trace.objects.push(path(catalogue, file));
                    ObjectId(trace.objects.len() as u32 - 1)
                })
            };
            let arrival = Duration::from_millis(first.received_ms.max(0).unsigned_abs());
            let calls = calls(&pieces, catalogue, &mut object);
            let plan = SessionPlan::Script(Script::new(calls));
            trace.sessions.push(Session {
                arrival,
                class: class.0,
                plan,
            });
        }
        sessions.recycle(session);
    }
    let delay = Duration(libm::round(specification.network.delay_s * 0.5e9) as u64);
    let count = trace.sessions.len().max(1) as f64;
    let mut all: Vec<(u32, i32, u64)> = classes
        .into_iter()
        .map(|(step, (number, sessions))| (number, step, sessions))
        .collect();
    all.sort_unstable();
    trace.classes = all
        .into_iter()
        .map(|(_, step, sessions)| {
            let bits = libm::round(8.0 * libm::exp2(f64::from(step) / CLASS_STEPS) / 1000.0);
            NetworkClass {
                name: format!("{bits}kbps"),
                bandwidth: Some(BitRate((bits as u64).max(1) * 1000)),
                delay,
                share: sessions as f64 / count,
            }
        })
        .collect();
    if trace.classes.is_empty() {
        trace.classes.push(NetworkClass::unlimited());
    }
    // Sessions are sorted by the viewer's arrival; the first request in a log may be slightly
    // later.
    trace.sessions.sort_by_key(|session| session.arrival);
    trace
}

/// The path of a file, as in [`PhasedCatalogue::to_files`].
fn path(catalogue: &PhasedCatalogue, file: u32) -> String {
    let kind = catalogue.files[file as usize].kind;
    format!("{}/{file:06}.bin", kind.name())
}

/// Requests in order of receipt, with open-ended ones split.
fn pieces(
    requests: &[PhasedRequest],
    catalogue: &PhasedCatalogue,
    bandwidth: f64,
) -> Vec<PhasedRequest> {
    let mut pieces = Vec::with_capacity(requests.len());
    for request in requests.iter().filter(|request| request.sent_bytes > 0) {
        if request.asked_bytes.is_some() {
            // A request that its viewer aborted is shortened to the bytes received.
            pieces.push(PhasedRequest {
                asked_bytes: Some(request.sent_bytes),
                ..*request
            });
            continue;
        }
        let lasted = (request.completed_ms - request.received_ms) as f64 / 1000.0;
        let count = (libm::ceil(lasted / PIECE_S) as u64).clamp(1, request.sent_bytes);
        let size = catalogue.files[request.file as usize].size;
        for piece in 0..count {
            let at = |piece: u64| {
                (u128::from(request.sent_bytes) * u128::from(piece) / u128::from(count)) as u64
            };
            let (from, to) = (at(piece), at(piece + 1));
            let received_ms = request.received_ms
                + (request.completed_ms - request.received_ms) * piece as i64 / count as i64;
            let takes = libm::ceil((to - from) as f64 / bandwidth * 1000.0) as i64;
            let reaches_end = request.offset + to >= size;
            pieces.push(PhasedRequest {
                received_ms,
                completed_ms: received_ms + takes,
                file: request.file,
                offset: request.offset + from,
                asked_bytes: (!reaches_end).then_some(to - from),
                sent_bytes: to - from,
            });
        }
    }
    pieces.sort_by_key(|piece| (piece.received_ms, piece.file, piece.offset));
    pieces
}

fn calls(
    pieces: &[PhasedRequest],
    catalogue: &PhasedCatalogue,
    object: &mut impl FnMut(u32) -> ObjectId,
) -> Vec<ScriptCall> {
    let mut calls = Vec::with_capacity(pieces.len());
    // Start of the current burst, end of its first request, and its number of requests.
    let mut burst: Option<(i64, i64, usize)> = None;
    for piece in pieces {
        let end = match piece.asked_bytes {
            Some(bytes) => piece.offset + bytes,
            None => u64::MAX,
        };
        let rest = catalogue.files[piece.file as usize].size - piece.offset;
        let joins =
            burst.filter(|(_, ends, count)| piece.received_ms < *ends && *count < BURST_MAX);
        let pace = match (joins, burst) {
            (None, Some((began, ..))) => Some(Duration::from_millis(
                (piece.received_ms - began).max(0).unsigned_abs(),
            )),
            _ => None,
        };
        burst = match joins {
            Some((began, ends, count)) => Some((began, ends.min(piece.completed_ms), count + 1)),
            None => Some((piece.received_ms, piece.completed_ms, 1)),
        };
        calls.push(ScriptCall {
            object: object(piece.file),
            range: Some(ByteRange::new(piece.offset, end)),
            expected_bytes: Some(piece.asked_bytes.unwrap_or(rest)),
            timeout: Some(TIMEOUT),
            pace,
            think: None,
            with_previous: joins.is_some(),
        });
    }
    calls
}
