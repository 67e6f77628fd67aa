//! The sessions of a log, as requests to be played again.
//!
//! A session is a list of visits: parts without a pause of more than [`PAUSE_MS`]. A request that
//! took long was paced by its viewer, who closed the connection or took bytes as the buffer emptied;
//! it becomes ranges of the bytes received in [`PIECE_MS`] (thesis 5.5: "it might be sufficiently
//! accurate to use chunk requests for all chains").

use std::collections::{BTreeMap, BTreeSet, HashMap};

use headlong_chains::Request;
use headlong_random::Generator;
use headlong_trace::{IntakeResult, PartitionsError};
use headlong_units::BitRate;

use crate::SESSIONS_NARROW;

/// Most sessions that are kept, drawn evenly.
const SESSIONS_MAX: u64 = 20_000;
/// About so many requests are kept, some 240 MB, but not fewer sessions than for narrow intervals.
const REQUESTS_MAX: u64 = 10_000_000;
/// A viewer that requests nothing for so long arrives anew, ms.
const PAUSE_MS: i64 = 300_000;
/// Gaps between requests up to which a viewer counts as present, ms: that which ends a chain
/// (thesis 5.3).
const PRESENT_MS: i64 = 40_000;
/// Length of a piece of a long transfer, ms.
const PIECE_MS: i64 = 10_000;
/// Most requests that a viewer sends together.
const BURST_MAX: usize = 6;
/// Least bytes of a burst that shows the bandwidth of its viewer.
const BURST_BYTES_MIN: u64 = 64 << 10;
/// Bandwidth of a viewer beyond the highest that its log shows: logs round times up.
const BANDWIDTH_MARGIN: f64 = 1.25;

/// A request of a visit. There are millions of them: 24 bytes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedCall {
    /// First byte.
    pub start: u64,
    /// Number of bytes.
    pub bytes: u32,
    /// Time from the start of the visit, ms.
    pub at_ms: u32,
    /// The file.
    pub file: u32,
    /// Whether it was sent while the previous one was in progress.
    pub with_previous: bool,
}

impl LoggedCall {
    /// Behind the last byte.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.bytes)
    }
}

/// A part of a session without a long pause.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedVisit {
    /// Its requests, in order of time.
    pub calls: Vec<LoggedCall>,
    /// From its start to its last completion, ms.
    pub lasts_ms: u64,
    /// Bandwidth of the viewer; unlimited if the log has no durations.
    pub bandwidth: Option<BitRate>,
}

/// A session of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedSession {
    /// Its number in the log, which depends on names only.
    pub number: u32,
    /// Its visits.
    pub visits: Vec<LoggedVisit>,
    /// Bytes sent.
    pub bytes: u64,
    /// Time with requests, ms; gaps of more than 40 s are omitted.
    pub present_ms: u64,
}

/// A file of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoggedFile {
    /// Its title.
    pub title: u32,
    /// Its size, as far as known.
    pub size_bytes: u64,
}

/// Sessions of a log, by number.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewerSample {
    /// The sessions: all, or an even sample.
    pub sessions: Vec<LoggedSession>,
    /// Files by number.
    pub files: Vec<LoggedFile>,
    /// By title: whether a single session of the log requested it.
    pub watched_once: Vec<bool>,
    /// Sessions of the log.
    pub sessions_in_log: u64,
}

impl ViewerSample {
    /// The sessions of a log.
    ///
    /// # Errors
    /// If the intake cannot be read again.
    pub fn of(log: &IntakeResult, threads: usize) -> Result<Self, PartitionsError> {
        let all = u64::from(log.sessions);
        let fitting = REQUESTS_MAX.saturating_mul(all) / log.requests.max(1);
        let most = fitting.clamp(SESSIONS_NARROW, SESSIONS_MAX);
        let draw = |session: u32| {
            let mut drawn = Generator::new(u64::from(session)).fork("sample of sessions");
            all <= most || drawn.below(all) < most
        };
        let is_kept: Vec<bool> = (0..log.sessions).map(draw).collect();
        let title = |file: u32| log.files.get(file as usize).map_or(file, |file| file.title);
        let part = |_: usize, requests: &mut Vec<Request>| {
            requests.retain(|request| request.is_placed() && request.sent_bytes > 0);
            let mut watches: Vec<(u32, u32)> = requests
                .iter()
                .map(|request| (request.session, title(request.file)))
                .collect();
            watches.sort_unstable();
            watches.dedup();
            let mut watched: HashMap<u32, u32> = HashMap::new();
            for (_, title) in watches {
                *watched.entry(title).or_default() += 1;
            }
            requests.retain(|request| is_kept[request.session as usize]);
            requests.sort_unstable_by_key(|request| {
                let what = (request.file, request.offset, request.sent_bytes);
                (
                    request.session,
                    request.received_ms,
                    request.completed_ms,
                    what,
                )
            });
            let sessions = requests.chunk_by(|one, other| one.session == other.session);
            let sessions: Vec<_> = sessions.map(LoggedSession::of).collect();
            (sessions, watched)
        };
        let mut sessions = Vec::new();
        let mut watched: BTreeMap<u32, u32> = BTreeMap::new();
        for (part, titles) in log.parts.each_unsorted(threads, part)? {
            sessions.extend(part);
            for (title, count) in titles {
                *watched.entry(title).or_default() += count;
            }
        }
        sessions.sort_by_key(|session| session.number);
        let mut files: Vec<LoggedFile> = log
            .files
            .iter()
            .map(|file| LoggedFile {
                title: file.title,
                size_bytes: file.size_bytes,
            })
            .collect();
        let calls = sessions
            .iter()
            .flat_map(|session: &LoggedSession| &session.visits);
        for call in calls.flat_map(|visit| &visit.calls) {
            let size = &mut files[call.file as usize].size_bytes;
            *size = call.end().max(*size);
        }
        Ok(Self {
            sessions,
            watched_once: once(&files, &watched),
            files,
            sessions_in_log: u64::from(log.sessions),
        })
    }

    /// Whether the file is of a title that a single session of the log requested.
    pub(crate) fn is_fresh(&self, file: u32) -> bool {
        let title = self.files[file as usize].title as usize;
        self.watched_once.get(title).copied().unwrap_or(false)
    }

    /// The sessions that the predicate selects, for example those of a part of the time.
    #[must_use]
    pub fn selected(&self, is_selected: impl Fn(&LoggedSession) -> bool) -> Self {
        let sessions = self.sessions.iter().filter(|session| is_selected(session));
        let sessions: Vec<LoggedSession> = sessions.cloned().collect();
        let mut watched: BTreeMap<u32, u32> = BTreeMap::new();
        for session in &sessions {
            let calls = session.visits.iter().flat_map(|visit| &visit.calls);
            let titles = calls.map(|call| self.files[call.file as usize].title);
            for title in titles.collect::<BTreeSet<u32>>() {
                *watched.entry(title).or_default() += 1;
            }
        }
        Self {
            sessions_in_log: sessions.len() as u64,
            sessions,
            watched_once: once(&self.files, &watched),
            files: self.files.clone(),
        }
    }
}

/// By title, whether a single session requested it.
fn once(files: &[LoggedFile], watched: &BTreeMap<u32, u32>) -> Vec<bool> {
    let titles = files.iter().map(|file| file.title + 1).max();
    let is_once = |title: u32| watched.get(&title) == Some(&1);
    (0..titles.unwrap_or(0)).map(is_once).collect()
}

impl LoggedSession {
    /// From the requests of a session in order of time.
    fn of(requests: &[Request]) -> Self {
        let mut visits = Vec::new();
        let (mut present_ms, mut ended) = (0_u64, i64::MIN);
        let mut began = 0;
        for (place, request) in requests.iter().enumerate() {
            let from = match request.received_ms.saturating_sub(ended) <= PRESENT_MS {
                true => ended,
                false => request.received_ms,
            };
            present_ms += request
                .completed_ms
                .saturating_sub(from)
                .max(0)
                .unsigned_abs();
            if place > 0 && request.received_ms.saturating_sub(ended) > PAUSE_MS {
                visits.push(LoggedVisit::of(&requests[began..place]));
                began = place;
            }
            ended = ended.max(request.completed_ms);
        }
        visits.push(LoggedVisit::of(&requests[began..]));
        Self {
            number: requests.first().map_or(0, |request| request.session),
            visits,
            bytes: requests.iter().map(|request| request.sent_bytes).sum(),
            present_ms,
        }
    }
}

impl LoggedVisit {
    fn of(requests: &[Request]) -> Self {
        let start_ms = requests.first().map_or(0, |request| request.received_ms);
        let ended_ms = requests.iter().map(|request| request.completed_ms).max();
        let mut calls: Vec<(LoggedCall, i64)> = requests
            .iter()
            .flat_map(|request| pieces(request, start_ms))
            .collect();
        calls.sort_by_key(|(call, _)| (call.at_ms, call.file, call.start));
        let mut fastest = 0.0_f64;
        let mut first = 0;
        while first < calls.len() {
            let (mut bytes, mut ends_ms, mut done_ms) = (0, i64::MAX, 0);
            let mut count = 0;
            for (call, took_ms) in &mut calls[first..] {
                let at_ms = i64::from(call.at_ms);
                if count == BURST_MAX || count > 0 && at_ms >= ends_ms {
                    break;
                }
                call.with_previous = count > 0;
                bytes += u64::from(call.bytes);
                ends_ms = ends_ms.min(at_ms + *took_ms);
                done_ms = done_ms.max(at_ms + *took_ms);
                count += 1;
            }
            let took_ms = done_ms - i64::from(calls[first].0.at_ms);
            if took_ms > 0 && bytes >= BURST_BYTES_MIN {
                fastest = fastest.max(bytes as f64 * 8_000.0 / took_ms as f64);
            }
            first += count;
        }
        let bits = (fastest * BANDWIDTH_MARGIN) as u64;
        Self {
            calls: calls.into_iter().map(|(call, _)| call).collect(),
            lasts_ms: ended_ms.unwrap_or(start_ms).abs_diff(start_ms),
            bandwidth: (bits > 0).then_some(BitRate(bits)),
        }
    }
}

impl LoggedVisit {
    /// Its requests, those together that were sent together.
    pub(crate) fn bursts(&self) -> impl Iterator<Item = &[LoggedCall]> {
        self.calls.chunk_by(|_, next| next.with_previous)
    }
}

/// The pieces of a request, with the time that each took, ms.
fn pieces(request: &Request, start_ms: i64) -> impl Iterator<Item = (LoggedCall, i64)> {
    let lasted_ms = request
        .completed_ms
        .saturating_sub(request.received_ms)
        .max(0);
    let count = lasted_ms.unsigned_abs().div_ceil(PIECE_MS.unsigned_abs());
    let count = count.clamp(1, request.sent_bytes.max(1));
    let count = count.max(request.sent_bytes.div_ceil(u32::MAX.into()));
    let request = *request;
    (0..count).map(move |piece| {
        let share =
            |of: u64, piece: u64| (u128::from(of) * u128::from(piece) / u128::from(count)) as u64;
        let lasted = lasted_ms.unsigned_abs();
        let (from_ms, to_ms) = (share(lasted, piece), share(lasted, piece + 1));
        let from = share(request.sent_bytes, piece);
        let at_ms = request.received_ms.abs_diff(start_ms) + from_ms;
        let call = LoggedCall {
            start: request.offset + from,
            // Not more: see the number of pieces.
            bytes: (share(request.sent_bytes, piece + 1) - from) as u32,
            at_ms: u32::try_from(at_ms).unwrap_or(u32::MAX),
            file: request.file,
            with_previous: false,
        };
        (call, (to_ms - from_ms) as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(received_ms: i64, took_ms: i64, offset: u64, sent_bytes: u64) -> Request {
        Request {
            line: 0,
            session: 3,
            file: 1,
            received_ms,
            completed_ms: received_ms + took_ms,
            offset,
            asked_bytes: Some(sent_bytes),
            sent_bytes,
            disk: 0,
            device: 0,
        }
    }

    #[test]
    fn long_pauses_divide_a_session_and_do_not_count() {
        let session = LoggedSession::of(&[
            request(1_000, 1_000, 0, 1_000_000),
            request(12_000, 1_000, 1_000_000, 1_000_000),
            request(100_000, 1_000, 2_000_000, 1_000_000),
            request(900_000, 1_000, 3_000_000, 1_000_000),
        ]);
        let lengths: Vec<usize> = session.visits.iter().map(|of| of.calls.len()).collect();
        assert_eq!((lengths, session.bytes), (vec![3, 1], 4_000_000));
        assert_eq!(session.present_ms, 12_000 + 1_000 + 1_000);
        assert_eq!(session.visits[0].calls[1].at_ms, 11_000);
        assert_eq!(session.visits[0].lasts_ms, 100_000);
        // 8 Mbit/s and a quarter.
        assert_eq!(session.visits[0].bandwidth, Some(BitRate(10_000_000)));
    }

    #[test]
    fn paced_transfer_becomes_pieces_and_overlap_a_burst() {
        let visit = LoggedVisit::of(&[
            request(0, 35_000, 7, 4_000),
            request(40_000, 2_000, 9_000_000, 1_000_000),
            request(40_500, 2_000, 20_000_000, 500_000),
        ]);
        let calls: Vec<(u32, u32, bool)> = visit
            .calls
            .iter()
            .map(|call| (call.at_ms, call.bytes, call.with_previous))
            .collect();
        let pieces = [
            (0, 1_000, false),
            (8_750, 1_000, false),
            (17_500, 1_000, false),
        ];
        assert_eq!(calls[..3], pieces);
        assert_eq!(
            calls[4..],
            [(40_000, 1_000_000, false), (40_500, 500_000, true)]
        );
        assert_eq!(visit.bursts().map(<[_]>::len).max(), Some(2));
        assert_eq!(visit.calls[3].end(), 4_007);
    }

    #[test]
    fn request_of_many_gigabytes_becomes_pieces() {
        let visit = LoggedVisit::of(&[request(0, 0, 1, 10 << 30)]);
        assert_eq!(visit.calls.len(), 3);
        assert!(
            visit
                .calls
                .is_sorted_by(|one, next| one.end() == next.start)
        );
        assert_eq!(visit.calls[2].end(), 1 + (10 << 30));
    }

    #[test]
    fn log_without_durations_has_unlimited_viewers() {
        let visit = LoggedVisit::of(&[request(0, 0, 0, 1_000_000)]);
        assert_eq!(visit.bandwidth, None);
    }
}
