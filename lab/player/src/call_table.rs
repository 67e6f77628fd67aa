//! The open calls of a session, and the validation of their replies.
//!
//! A call is open from its `Send` to its record, and both are made here, so there is exactly one
//! record for every call, in whatever order events arrive.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use headlong_units::{ByteRange, Duration, Instant};

use crate::{CallEnd, CallId, CallRecord, Command, ObjectId, PartialRead, TransportEnd};

/// A request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallRequest {
    pub(crate) object: ObjectId,
    pub(crate) range: Option<ByteRange>,
    pub(crate) expected_bytes: Option<u64>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) reading: Option<PartialRead>,
}

/// A call in progress.
#[derive(Debug, Clone)]
struct PendingCall {
    call: CallId,
    intended: Instant,
    sent: Instant,
    deadline: Instant,
    first_byte: Option<Instant>,
    bytes: u64,
    /// Start of the requested range, if any.
    range_start: Option<u64>,
    /// Bytes of a complete reply, once known.
    exact: Option<u64>,
    /// More than this is wrong.
    most: u64,
    headed: bool,
}

impl PendingCall {
    /// The end of the call, if its head causes it.
    fn judge_head(&mut self, status: u16, length: Option<u64>) -> Option<CallEnd> {
        match (status, self.range_start) {
            // A server may ignore a range; the reply is correct if both are the same bytes.
            (200, None | Some(0)) | (206, Some(_)) => {}
            (200 | 206, _) => return Some(CallEnd::Wrong),
            _ => return Some(CallEnd::Refused(status)),
        }
        self.headed = true;
        let length = length?;
        if self.exact.is_some_and(|exact| exact != length) || length > self.most {
            return Some(CallEnd::Wrong);
        }
        self.exact = Some(length);
        None
    }

    fn judge_bytes(&mut self, now: Instant, count: u64) -> Option<CallEnd> {
        if count > 0 {
            self.first_byte.get_or_insert(now);
        }
        self.bytes = self.bytes.saturating_add(count);
        let most = self.exact.unwrap_or(self.most);
        (self.bytes > most).then_some(CallEnd::Wrong)
    }

    fn judge_end(&self, end: TransportEnd) -> CallEnd {
        match end {
            TransportEnd::Whole if !self.headed => CallEnd::Broken,
            TransportEnd::Whole if self.exact.is_some_and(|exact| exact != self.bytes) => {
                CallEnd::Wrong
            }
            TransportEnd::Whole => CallEnd::Whole,
            TransportEnd::Refused(status) => CallEnd::Refused(status),
            TransportEnd::Broken => CallEnd::Broken,
            TransportEnd::Wrong => CallEnd::Wrong,
        }
    }
}

/// Open calls, with pending commands and records.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallTable {
    /// In order of `CallId`.
    open: Vec<PendingCall>,
    commands: VecDeque<Command>,
    records: VecDeque<CallRecord>,
    sent: u32,
    bytes: u64,
}

impl CallTable {
    pub(crate) fn poll_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    pub(crate) fn poll_record(&mut self) -> Option<CallRecord> {
        self.records.pop_front()
    }

    /// Number of open calls.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Bytes received by all calls.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first deadline, [`Instant::NEVER`] without one.
    pub(crate) fn deadline(&self) -> Instant {
        let deadlines = self.open.iter().map(|open| open.deadline);
        deadlines.min().unwrap_or(Instant::NEVER)
    }

    /// The first call whose deadline has passed by `now`; the earliest sent among equals.
    pub(crate) fn expired(&self, now: Instant) -> Option<CallId> {
        let due = self.open.iter().filter(|open| open.deadline <= now);
        due.min_by_key(|open| open.deadline).map(|open| open.call)
    }

    /// Sends a call.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        intended: Instant,
        connection: u32,
        ask: CallRequest,
    ) -> CallId {
        let call = CallId(self.sent);
        self.sent = self.sent.saturating_add(1);
        self.open.push(PendingCall {
            call,
            intended,
            sent: now,
            deadline: ask.timeout.map_or(Instant::NEVER, |timeout| now + timeout),
            first_byte: None,
            bytes: 0,
            range_start: ask.range.map(|range| range.start),
            exact: ask.expected_bytes,
            most: ask.range.map_or(u64::MAX, ByteRange::len),
            headed: false,
        });
        self.commands.push_back(Command::Send {
            call,
            connection,
            object: ask.object,
            range: ask.range,
            expected_bytes: ask.expected_bytes,
            reading: ask.reading,
        });
        call
    }

    /// A head arrived. Returns the end of the call, if this causes it; `None` for an unknown call.
    pub(crate) fn head(
        &mut self,
        call: CallId,
        status: u16,
        length: Option<u64>,
    ) -> Option<CallEnd> {
        let index = self.index(call)?;
        self.open[index].judge_head(status, length)
    }

    /// Bytes arrived. Returns the end of the call, if this causes it; the outer `None` stands for
    /// an unknown call.
    pub(crate) fn arrive(
        &mut self,
        now: Instant,
        call: CallId,
        count: u64,
    ) -> Option<Option<CallEnd>> {
        let index = self.index(call)?;
        self.bytes = self.bytes.saturating_add(count);
        Some(self.open[index].judge_bytes(now, count))
    }

    /// The end of the call for an end of its transport; `None` for an unknown call.
    pub(crate) fn judge_end(&self, call: CallId, end: TransportEnd) -> Option<CallEnd> {
        let index = self.index(call)?;
        Some(self.open[index].judge_end(end))
    }

    /// Changes the deadline of a call.
    pub(crate) fn set_deadline(&mut self, call: CallId, deadline: Instant) {
        if let Some(index) = self.index(call) {
            self.open[index].deadline = deadline;
        }
    }

    /// Ends a call with one record; its id is unknown from then on. `stop` notifies the shell.
    pub(crate) fn finish(&mut self, now: Instant, call: CallId, end: CallEnd, stop: bool) {
        if let Some(index) = self.index(call) {
            let open = self.open.remove(index);
            self.record(now, &open, end);
            if stop {
                self.commands.push_back(Command::Abandon { call });
            }
        }
    }

    /// Ends the session: open calls are abandoned, and the shell receives `Close`.
    pub(crate) fn close(&mut self, now: Instant) {
        for open in core::mem::take(&mut self.open) {
            self.record(now, &open, CallEnd::Abandoned);
        }
        self.commands.push_back(Command::Close);
    }

    fn record(&mut self, now: Instant, open: &PendingCall, end: CallEnd) {
        self.records.push_back(CallRecord {
            call: open.call,
            intended: open.intended,
            sent: open.sent,
            first_byte: open.first_byte,
            ended: now,
            bytes: open.bytes,
            end,
        });
    }

    fn index(&self, call: CallId) -> Option<usize> {
        self.open.binary_search_by_key(&call, |open| open.call).ok()
    }
}
