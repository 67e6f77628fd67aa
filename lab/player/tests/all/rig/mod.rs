//! A player with a simulated clock and simulated connections.
//!
//! Checks the invariants of every session by itself: see [`PlayerRig::drain`].

#![allow(dead_code, reason = "each test target uses only part of the rig")]

pub(crate) mod net;

use std::collections::BTreeMap;

use headlong_player::{
    CallEnd, CallId, CallRecord, Command, ObjectId, Player, ScriptCall, SessionEnd, SessionPlan,
    TransportEnd,
};
use headlong_units::{ByteRange, Duration, Instant};

/// A correct reply to a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExpectedReply {
    pub(crate) bytes: Option<u64>,
    pub(crate) partial: bool,
}

/// A command and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TimedCommand {
    pub(crate) at: Instant,
    pub(crate) command: Command,
}

pub(crate) struct PlayerRig {
    pub(crate) player: Player,
    pub(crate) now: Instant,
    pub(crate) given: Vec<TimedCommand>,
    pub(crate) records: Vec<CallRecord>,
    /// Calls without a record yet, with their connections.
    pub(crate) open: BTreeMap<CallId, u32>,
    sent: u32,
    closed: bool,
}

pub(crate) const fn at(millis: u64) -> Instant {
    Instant(millis * 1_000_000)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A call for 1,000 bytes of object `object`, with a timeout of 10 seconds.
pub(crate) fn call(object: u32) -> ScriptCall {
    ScriptCall {
        object: ObjectId(object),
        range: Some(ByteRange::new(0, 1000)),
        expected_bytes: Some(1000),
        timeout: Some(ms(10_000)),
        pace: None,
        think: None,
        with_previous: false,
    }
}

impl PlayerRig {
    /// A session with intended start `intended` that has not been started.
    pub(crate) fn waiting(plan: SessionPlan, intended: Instant) -> Self {
        Self {
            player: Player::new(plan, intended),
            now: Instant::ZERO,
            given: Vec::new(),
            records: Vec::new(),
            open: BTreeMap::new(),
            sent: 0,
            closed: false,
        }
    }

    /// A session that starts at once.
    pub(crate) fn new(plan: SessionPlan) -> Self {
        let mut rig = Self::waiting(plan, Instant::ZERO);
        rig.start();
        rig
    }

    pub(crate) fn start(&mut self) {
        self.player.handle_start(self.now);
        self.drain();
    }

    /// Fetches all output, and checks that calls are numbered in order and sent only during the
    /// session, that each has one record, in order of time, and that a connection carries one call.
    pub(crate) fn drain(&mut self) {
        let mut abandoned = Vec::new();
        while let Some(command) = self.player.poll_command() {
            assert!(!self.closed, "{command:?} after close");
            match &command {
                Command::Send {
                    call, connection, ..
                } => {
                    assert_eq!(*call, CallId(self.sent));
                    self.sent += 1;
                    // Records of calls that ended before this one was sent come first.
                    self.take_records();
                    let busy = self.open.values().any(|other| other == connection);
                    assert!(!busy, "connection {connection} already has a call");
                    if !self.has_record(*call) {
                        self.open.insert(*call, *connection);
                    }
                }
                Command::Abandon { call } => abandoned.push(*call),
                Command::Close => self.closed = true,
            }
            let at = self.now;
            self.given.push(TimedCommand { at, command });
        }
        self.take_records();
        for call in abandoned {
            assert!(!self.open.contains_key(&call), "{call:?} has no record");
        }
        assert_eq!(self.closed, self.player.end().is_some());
        if self.closed {
            assert!(self.open.is_empty(), "{:?} have no record", self.open);
            assert_eq!(self.player.poll_timeout(), None);
        }
    }

    fn has_record(&self, call: CallId) -> bool {
        self.records.iter().any(|record| record.call == call)
    }

    fn take_records(&mut self) {
        while let Some(record) = self.player.poll_record() {
            assert!(record.sent >= record.intended, "{record:?}");
            assert!(record.ended >= record.sent, "{record:?}");
            self.open.remove(&record.call);
            let again = self.has_record(record.call);
            assert!(!again, "two records of {:?}", record.call);
            self.records.push(record);
        }
    }

    /// Lets time pass and fires timers.
    pub(crate) fn wait_until(&mut self, until: Instant) {
        while let Some(next) = self.player.poll_timeout().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.player.handle_timeout(self.now);
            self.drain();
            let again = self.player.poll_timeout();
            assert!(
                again.is_none_or(|again| again > self.now),
                "timer fires endlessly"
            );
        }
        self.now = self.now.max(until);
    }

    pub(crate) fn head(&mut self, call: u32, status: u16, length: Option<u64>) {
        self.player
            .handle_head(self.now, CallId(call), status, length);
        self.drain();
    }

    pub(crate) fn bytes(&mut self, call: u32, count: u64) {
        self.player.handle_bytes(self.now, CallId(call), count);
        self.drain();
    }

    pub(crate) fn ended(&mut self, call: u32, end: TransportEnd) {
        self.player.handle_end(self.now, CallId(call), end);
        self.drain();
    }

    /// A complete reply to a range, at `when`.
    pub(crate) fn reply(&mut self, when: Instant, call: u32, bytes: u64) {
        self.wait_until(when);
        self.head(call, 206, Some(bytes));
        self.bytes(call, bytes);
        self.ended(call, TransportEnd::Whole);
    }

    /// The `nth` open call, modulo their number.
    pub(crate) fn wanted(&self, nth: usize) -> Option<(CallId, ExpectedReply)> {
        let (call, _) = self.open.iter().cycle().nth(nth)?;
        self.given.iter().find_map(|given| match &given.command {
            Command::Send {
                call: sent,
                range,
                expected_bytes,
                ..
            } if sent == call => {
                let most = range.map(|range| range.len().min(700));
                let wanted = ExpectedReply {
                    bytes: expected_bytes.or(most),
                    partial: range.is_some(),
                };
                Some((*call, wanted))
            }
            _ => None,
        })
    }

    /// Time in milliseconds, object and connection of each sent call.
    pub(crate) fn sent(&self) -> Vec<(u64, u32, u32)> {
        let sends = self.given.iter().filter_map(|given| match given.command {
            Command::Send {
                object, connection, ..
            } => Some((given.at.0 / 1_000_000, object.0, connection)),
            _ => None,
        });
        sends.collect()
    }

    /// Ends of the calls, in order of their ids.
    pub(crate) fn ends(&self) -> Vec<CallEnd> {
        let by_call: BTreeMap<CallId, CallEnd> = self
            .records
            .iter()
            .map(|record| (record.call, record.end))
            .collect();
        by_call.into_values().collect()
    }

    pub(crate) fn end(&self) -> SessionEnd {
        self.player.end().expect("the session is over")
    }
}
