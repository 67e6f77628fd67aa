//! State shared by all viewers of a run: the clock, the server, the read buffer, the recording, and
//! the times at which viewers wake up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use headlong_player::{CallRecord, ExportedCall, ObjectId, SessionEnd};
use headlong_units::{BitRate, ByteRange, Duration, Instant};
use headlong_workload::ViewerIdentity;
use headlong_workload::content::Content;
use rustix::fd::OwnedFd;

use crate::clock::Clock;
use crate::connection::CurrentCall;
use crate::line::{LineKind, SLICE_BYTES_MAX};
use crate::report::{FailureReport, Recording, SeriesPoint};
use crate::settings::SourceAddresses;
use crate::target::{PlayerIdentity, Target};
use crate::time_distribution::TimeDistribution;

/// After this many consecutive refused connections the server counts as dead.
const REFUSED_IN_ROW_MAX: u64 = 10;

/// An object of the trace.
#[derive(Debug, Clone)]
pub(crate) struct TraceObject {
    /// Request path.
    pub(crate) path: String,
    /// Its content and its offset in the title, if known.
    pub(crate) content: Option<(Content, u64)>,
}

/// State shared by all viewers.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) clock: Clock,
    pub(crate) epoll: OwnedFd,
    pub(crate) timers: Timers,
    pub(crate) target: Target,
    pub(crate) sources: SourceAddresses,
    /// How players identify themselves.
    pub(crate) identity: ViewerIdentity,
    pub(crate) objects: Vec<TraceObject>,
    /// By network class.
    pub(crate) lines: Vec<LineKind>,
    pub(crate) recording: Recording,
    /// Finished calls not yet passed to the observer, if it receives calls.
    pub(crate) calls: Option<Vec<ExportedCall>>,
    /// Read buffer of all viewers.
    pub(crate) buffer: Box<[u8]>,
    /// Buffer in which requests are formatted.
    pub(crate) request: Vec<u8>,
    /// Sessions in progress.
    pub(crate) active: u64,
    /// Those of them that count.
    pub(crate) steady_active: u64,
    /// Bytes of bodies received.
    pub(crate) bytes: u64,
    interval_index: u64,
    interval: SeriesPoint,
    interval_first_byte: TimeDistribution,
    refused_in_row: u64,
    /// Why the run cannot continue.
    pub(crate) fatal: Option<String>,
}

impl SharedState {
    pub(crate) fn new(
        clock: Clock,
        epoll: OwnedFd,
        target: &Target,
        sources: SourceAddresses,
        recording: Recording,
    ) -> Self {
        Self {
            clock,
            epoll,
            timers: Timers::default(),
            target: target.clone(),
            sources,
            identity: ViewerIdentity::default(),
            objects: Vec::new(),
            lines: Vec::new(),
            recording,
            calls: None,
            buffer: vec![0; SLICE_BYTES_MAX as usize].into_boxed_slice(),
            request: Vec::new(),
            active: 0,
            steady_active: 0,
            bytes: 0,
            interval_index: 0,
            interval: SeriesPoint::default(),
            interval_first_byte: TimeDistribution::default(),
            refused_in_row: 0,
            fatal: None,
        }
    }

    /// Formats the request for an object in `request`; `false` if there is no such object.
    pub(crate) fn write_request(
        &mut self,
        (session, bit_rate): (u64, Option<BitRate>),
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> bool {
        self.request.clear();
        let Some(object) = self.objects.get(object.0 as usize) else {
            return false;
        };
        let out = &mut self.request;
        let told = PlayerIdentity {
            identity: self.identity,
            session,
            bit_rate,
        };
        self.target.write_request(&object.path, range, told, out);
        true
    }

    /// Offset in the object of the first wrong byte of `part`, which follows the bytes received
    /// before.
    pub(crate) fn first_wrong(&mut self, asked: &CurrentCall, part: &[u8]) -> Option<u64> {
        let object = self.objects.get(asked.object.0 as usize)?;
        let (content, base) = object.content?;
        self.recording.report.checked_bytes += part.len() as u64;
        // A server that ignores the range sends the object from its beginning.
        let start = match asked.status {
            206 => asked.range.map_or(0, |range| range.start),
            _ => 0,
        };
        let offset = start + asked.received;
        let wrong = content.first_wrong(base + offset, part)?;
        Some(offset + wrong as u64)
    }

    /// Counts bytes of a body received at `at` of the viewer's time.
    pub(crate) fn count_bytes(&mut self, at: Instant, bytes: u64) {
        self.recording.count_bytes(at, bytes);
        self.interval.bytes += bytes;
        self.bytes += bytes;
    }

    /// Counts a finished call that was sent `late` after its intended time.
    pub(crate) fn count_call(&mut self, call: ExportedCall, late: Duration) {
        let ExportedCall { class, record, .. } = call;
        self.recording
            .count_call(class as usize, call.counts, &record, late);
        if let Some(calls) = &mut self.calls {
            let mut call = call;
            // Recorded with its actual time of sending, as in the figures.
            call.record.sent = record.sent + late;
            calls.push(call);
        }
        if let Some(first_byte) = record.first_byte {
            let waited = first_byte.since(record.intended);
            self.interval_first_byte.record(waited);
        }
    }

    /// Counts a session that has ended by itself.
    pub(crate) fn count_session(&mut self, class: u32, steady: bool, end: &SessionEnd) {
        self.recording.count_session(class as usize, steady, end);
        self.interval.failures += u64::from(end.end.is_failure());
    }

    /// Records a failed call for the report.
    pub(crate) fn record_failure(
        &mut self,
        session: u64,
        object: ObjectId,
        at: Instant,
        record: &CallRecord,
        detail: Option<String>,
    ) {
        let path = self.objects.get(object.0 as usize).map(|o| o.path.clone());
        let address = self.target.address();
        let status = match record.end {
            headlong_player::CallEnd::Refused(status) => format!("status {status}"),
            _ => format!("after {} bytes", record.bytes),
        };
        self.recording.record_failure(|| FailureReport {
            at_s: at.0 as f64 / 1e9,
            session,
            url: format!("http://{address}{}", path.unwrap_or_default()),
            end: record.end.name().into(),
            detail: detail.unwrap_or(status),
        });
    }

    /// Counts the start of a session.
    pub(crate) fn session_began(&mut self, steady: bool) {
        self.recording.report.sessions.arrived += 1;
        self.active += 1;
        self.steady_active += u64::from(steady);
        self.recording.report.sessions.active_max =
            self.recording.report.sessions.active_max.max(self.active);
        self.interval.active = self.interval.active.max(self.active);
    }

    /// Counts the end of a session.
    pub(crate) fn session_over(&mut self, steady: bool) {
        self.active -= 1;
        self.steady_active -= u64::from(steady);
    }

    /// Records that the server accepted a connection.
    pub(crate) fn connected(&mut self) {
        self.refused_in_row = 0;
    }

    /// Handles a failed connect. Shortage of this machine's resources, or a dead server,
    /// invalidates the result.
    pub(crate) fn connect_failed(&mut self, error: &io::Error) {
        use rustix::io::Errno;
        let reason = match Errno::from_io_error(error) {
            Some(Errno::MFILE | Errno::NFILE) => {
                "the generator ran out of file descriptors: raise the limit (ulimit -n), or play \
                 fewer concurrent sessions"
            }
            Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE) => {
                "the generator ran out of ports, or lacks the source address: name more source \
                 addresses"
            }
            Some(Errno::NOBUFS | Errno::NOMEM) => "the machine ran out of memory for sockets",
            Some(Errno::CONNREFUSED) => {
                self.refused_in_row += 1;
                if self.refused_in_row >= REFUSED_IN_ROW_MAX {
                    let address = self.target.address();
                    self.fatal = Some(format!("the server died: no process listens on {address}"));
                }
                "connections were refused: for some time no process listened there"
            }
            _ => return,
        };
        self.invalid(reason.into());
    }

    /// Marks the result as invalid, for this reason.
    pub(crate) fn invalid(&mut self, reason: String) {
        if !self.recording.report.invalid_because.contains(&reason) {
            self.recording.report.invalid_because.push(reason);
        }
    }

    /// Closes the intervals that have ended by `now`.
    pub(crate) fn roll(&mut self, now: Instant) {
        while now.0 / self.recording.interval > self.interval_index {
            self.close_interval();
        }
    }

    /// Closes the current interval.
    pub(crate) fn close_interval(&mut self) {
        let next = SeriesPoint {
            active: self.active,
            ..SeriesPoint::default()
        };
        let mut done = core::mem::replace(&mut self.interval, next);
        done.t_s = (self.interval_index * self.recording.interval) as f64 / 1e9;
        done.first_byte_ms_p99 = self.interval_first_byte.quantile_ms(0.99);
        self.interval_first_byte.clear();
        self.recording.report.series.push(done);
        self.interval_index += 1;
    }
}

// A viewer has one next event, whatever it waits for (its player, a request in transit, its line),
// so the heap is small, and a wake-up handles everything that is due. An entry superseded by an
// earlier one stays until its time and is then ignored by its viewer.

/// Entries in order of time, then of slot.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Timers {
    /// Wakes the viewer in `slot` at `at`.
    pub(crate) fn arm(&mut self, at: Instant, slot: u32) {
        self.heap.push(Reverse((at, slot)));
    }

    /// The earliest entry.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Removes and returns the earliest entry if it is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, u32)> {
        let Reverse((at, _)) = self.heap.peek()?;
        if *at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_and_not_early() {
        let mut timers = Timers::default();
        for (at, slot) in [(30, 1), (10, 2), (20, 3)] {
            timers.arm(Instant(at), slot);
        }
        assert_eq!(timers.pop_due(Instant(9)), None);
        assert_eq!(timers.next(), Some(Instant(10)));
        assert_eq!(timers.pop_due(Instant(25)), Some((Instant(10), 2)));
        assert_eq!(timers.pop_due(Instant(25)), Some((Instant(20), 3)));
        assert_eq!(timers.pop_due(Instant(25)), None);
    }
}
