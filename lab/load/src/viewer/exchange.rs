//! Executes the player's commands on sockets, and reports the results to the player.

use std::io;

use headlong_player::{CallId, CallRecord, Command, ExportedCall, TransportEnd};
use headlong_units::{ByteRange, Duration, Instant};
use headlong_workload::ViewerIdentity;

use super::{CONNECTIONS_MAX, InFlightBytes, Viewer};
use crate::connection::{Connection, ConnectionSettings, ConnectionStage, CurrentCall};
use crate::line::PACKET_BYTES;
use crate::reply::{ReplyEvent, ReplyHead};
use crate::shared_state::SharedState;

/// Contents of a slice that was read.
#[derive(Debug, Default)]
struct SliceContent {
    bytes: u64,
    end: Option<TransportEnd>,
}

impl Viewer {
    /// Executes the player's commands after an event at `at`.
    pub(super) fn settle(&mut self, world: &mut SharedState, at: Instant) {
        while let Some(record) = self.player.poll_record() {
            self.count(world, at, &record);
        }
        while let Some(command) = self.player.poll_command() {
            match command {
                Command::Send {
                    call,
                    connection,
                    object,
                    range,
                    expected_bytes,
                    reading,
                } => {
                    let range_bytes = range.filter(|range| range.end < u64::MAX);
                    let bytes = reading.map(|reading| reading.bytes);
                    let bytes = bytes.or(expected_bytes).or(range_bytes.map(ByteRange::len));
                    if let Some(bytes) = bytes {
                        world.recording.count_asked(at, bytes);
                    }
                    let asked = CurrentCall {
                        call,
                        object,
                        range,
                        is_sized: bytes.is_some(),
                        reading,
                        sent: at,
                        received: 0,
                        status: 0,
                        late: Duration::ZERO,
                    };
                    self.ask(world, at, connection as usize, asked);
                }
                Command::Abandon { call } => self.abandon(call),
                Command::Close => {
                    self.held = None;
                    self.connections.iter_mut().for_each(Connection::close);
                }
            }
        }
        if let Some(end) = self.player.end().filter(|_| !self.counted) {
            self.counted = true;
            world.count_session(self.class, self.steady, &end);
        }
    }

    fn count(&mut self, world: &mut SharedState, at: Instant, record: &CallRecord) {
        let asked = self.connections.iter().find_map(|connection| {
            let asked = connection.asked?;
            (asked.call == record.call).then_some(asked)
        });
        let late = asked.map_or(Duration::ZERO, |asked| asked.late);
        let call = ExportedCall {
            session: self.session,
            class: self.class,
            counts: self.steady,
            record: *record,
        };
        world.count_call(call, late);
        if let Some(asked) = asked.filter(|_| record.end.is_failure()) {
            let wrong = self.wrong.take();
            world.record_failure(self.session, asked.object, at, record, wrong);
        }
    }

    fn ask(&mut self, world: &SharedState, at: Instant, index: usize, asked: CurrentCall) {
        // The trace was checked, so only a faulty player could exceed the limit.
        let index = index.min(CONNECTIONS_MAX - 1);
        while self.connections.len() <= index {
            self.connections.push(Connection::new());
        }
        let round_trip = self.kind(world).round_trip();
        let connection = &mut self.connections[index];
        if !matches!(
            connection.stage,
            ConnectionStage::Idle | ConnectionStage::Closed
        ) {
            connection.close();
        }
        connection.asked = Some(asked);
        connection.stage = ConnectionStage::Departing(at + round_trip);
    }

    fn abandon(&mut self, call: CallId) {
        let is_it = |c: &Connection| c.asked.is_some_and(|asked| asked.call == call);
        if let Some(index) = self.connections.iter().position(is_it) {
            self.connections[index].close();
            self.held = self.held.filter(|held| held.connection != index);
        }
    }

    /// A request, or the start of a connection, reaches the socket. It was intended for `at`.
    pub(super) fn depart(
        &mut self,
        world: &mut SharedState,
        index: usize,
        at: Instant,
        now: Instant,
    ) {
        let kind = self.kind(world);
        let opening = ConnectionSettings {
            address: world.target.address(),
            source: world
                .sources
                .of(self.session, world.target.is_loopback_v4()),
            receive_bytes: kind.receive_bytes(),
        };
        let connection = &mut self.connections[index];
        if let Some(asked) = &mut connection.asked {
            asked.late += now.since(at);
        }
        if connection.is_open() {
            self.send(world, index, now);
            return;
        }
        match connection.open(&opening) {
            Ok(true) => self.connected(world, index, now),
            Ok(false) => self.arm(world, index, now),
            Err(error) => self.connect_failed(world, index, now, &error),
        }
    }

    /// The server has accepted; for the viewer, and for its request, one round trip later.
    pub(super) fn connected(&mut self, world: &mut SharedState, index: usize, now: Instant) {
        world.connected();
        let round_trip = self.kind(world).round_trip();
        if round_trip == Duration::ZERO {
            self.send(world, index, now);
        } else {
            self.connections[index].stage = ConnectionStage::Departing(now + round_trip);
        }
    }

    pub(super) fn connect_failed(
        &mut self,
        world: &mut SharedState,
        index: usize,
        now: Instant,
        error: &io::Error,
    ) {
        world.connect_failed(error);
        self.wrong = Some(format!("no connection: {error}"));
        self.end_call(world, index, now, TransportEnd::Broken);
    }

    fn send(&mut self, world: &mut SharedState, index: usize, now: Instant) {
        let connection = &mut self.connections[index];
        let Some(asked) = connection.asked else {
            return;
        };
        let who = (self.session, self.player.bit_rate_of(asked.object));
        if !world.write_request(who, asked.object, asked.range) {
            self.wrong = Some("the plan names an object that is not in the trace".into());
            self.end_call(world, index, now, TransportEnd::Broken);
            return;
        }
        match connection.send(&world.request) {
            Ok(()) => self.arm(world, index, now),
            Err(_) => self.broken(world, index, now),
        }
    }

    pub(super) fn arm(&mut self, world: &mut SharedState, index: usize, now: Instant) {
        // 32 bits of slot, 24 of generation, 8 of connection.
        let slot = u64::from(self.slot) << 32;
        let generation = u64::from(self.generation & 0xff_ffff) << 8;
        let token = slot | generation | index as u64;
        if let Err(error) = self.connections[index].arm(&world.epoll, token) {
            world.invalid(format!("epoll refused a connection: {error}"));
            self.broken(world, index, now);
        }
    }

    /// Reads a slice of the next readable connection; its data was available since `available`.
    /// Returns `false` if there was none.
    pub(super) fn read(
        &mut self,
        world: &mut SharedState,
        available: Instant,
        now: Instant,
    ) -> bool {
        let slice = self.kind(world).slice_bytes();
        let count = self.connections.len();
        for _ in 0..count {
            self.turn = (self.turn + 1) % count;
            let index = self.turn;
            if !self.connections[index].is_hungry() {
                continue;
            }
            // Taken out and put back, because parts of a reply borrow from it while they are
            // processed.
            let mut buffer = core::mem::take(&mut world.buffer);
            let read = self.connections[index].read(&mut buffer[..slice]);
            let went_on = match read {
                Ok(None) => {
                    self.arm(world, index, now);
                    false
                }
                Ok(Some(0)) => {
                    self.closed(world, index, available);
                    true
                }
                // A reset ends no reply, not even one without a length.
                Err(_) => {
                    self.broken(world, index, available);
                    true
                }
                Ok(Some(bytes)) => {
                    self.receive(world, index, available, &buffer[..bytes]);
                    // All available data was read and the line is free: wait for the next
                    // notification.
                    if bytes < slice && self.held.is_none() && self.connections[index].is_hungry() {
                        self.arm(world, index, now);
                    }
                    true
                }
            };
            world.buffer = buffer;
            if went_on || self.player.end().is_some() {
                return went_on;
            }
        }
        false
    }

    /// Puts bytes received from a socket on the line.
    fn receive(&mut self, world: &mut SharedState, index: usize, available: Instant, input: &[u8]) {
        let mut line = self.line;
        let through = line.take(self.kind(world), available, input.len() as u64);
        self.line = line;
        let Some(asked) = self.connections[index].asked else {
            return;
        };
        let is_first = asked.received == 0;
        let Some(found) = self.take_apart(world, index, available, input) else {
            return;
        };
        let slice = self.kind(world).slice_bytes() as u64;
        let connection = &mut self.connections[index];
        let room_at = connection.asked.and_then(|asked| asked.room_at(slice));
        connection.paused_until = room_at.filter(|at| *at > available);
        // The first packet arrives before the rest of the slice.
        let at_once = match is_first && through > available {
            true => found.bytes.min(PACKET_BYTES),
            false => 0,
        };
        if at_once > 0 {
            self.hand_over(world, asked.call, available, at_once);
        }
        if self.player.end().is_some() || !self.is_under_way(index, asked.call) {
            return;
        }
        self.held = Some(InFlightBytes {
            connection: index,
            bytes: found.bytes - at_once,
            end: found.end,
        });
        if through <= available {
            self.deliver(world, available);
        }
    }

    /// Parses a slice. Returns `None` if this ended the call.
    fn take_apart(
        &mut self,
        world: &mut SharedState,
        index: usize,
        at: Instant,
        mut input: &[u8],
    ) -> Option<SliceContent> {
        let mut found = SliceContent::default();
        loop {
            let connection = &mut self.connections[index];
            let asked = connection.asked.as_mut()?;
            match connection.reply.next(&mut input) {
                Ok(None) => return Some(found),
                Ok(Some(ReplyEvent::End)) => found.end = Some(TransportEnd::Whole),
                Ok(Some(ReplyEvent::Head(head))) => {
                    asked.status = head.status;
                    let call = asked.call;
                    self.hand_head(world, index, at, head);
                    if !self.is_under_way(index, call) {
                        return None;
                    }
                }
                Ok(Some(ReplyEvent::Body(part))) => {
                    if let Some(offset) = world.first_wrong(asked, part) {
                        world.recording.report.wrong_bytes += 1;
                        self.wrong = Some(format!("byte {offset} differs from the title's"));
                        found.end = Some(TransportEnd::Wrong);
                        return Some(found);
                    }
                    asked.received += part.len() as u64;
                    found.bytes += part.len() as u64;
                }
                Err(_) => {
                    self.wrong = Some("the reply is not HTTP".into());
                    found.end = Some(TransportEnd::Broken);
                    return Some(found);
                }
            }
        }
    }

    fn hand_head(&mut self, world: &mut SharedState, index: usize, at: Instant, head: ReplyHead) {
        let Some(asked) = self.connections[index].asked else {
            return;
        };
        let starts = |range: Option<ByteRange>| range.map(|range| range.start);
        if head.status == 206 && head.range.is_some() && starts(head.range) != starts(asked.range) {
            self.wrong = Some("the reply has another range than requested".into());
            self.end_call(world, index, at, TransportEnd::Wrong);
            return;
        }
        if let Some(bytes) = head.length.filter(|_| !asked.is_sized && head.status < 300) {
            world.recording.count_asked(at, bytes);
        }
        let time = self.kind(world).viewer_time(at);
        self.player
            .handle_head(time, asked.call, head.status, head.length);
        self.settle(world, at);
    }

    /// Delivers the data on the line.
    pub(super) fn deliver(&mut self, world: &mut SharedState, at: Instant) {
        let Some(held) = self.held.take() else {
            return;
        };
        let Some(asked) = self.connections[held.connection].asked else {
            return;
        };
        self.hand_over(world, asked.call, at, held.bytes);
        if let Some(end) = held.end
            && self.is_under_way(held.connection, asked.call)
        {
            self.end_call(world, held.connection, at, end);
        }
    }

    fn hand_over(&mut self, world: &mut SharedState, call: CallId, at: Instant, bytes: u64) {
        if bytes > 0 {
            let time = self.kind(world).viewer_time(at);
            world.count_bytes(time, bytes);
            self.player.handle_bytes(time, call, bytes);
            self.settle(world, at);
        }
    }

    /// Whether this call is still the current one of the connection.
    fn is_under_way(&self, index: usize, call: CallId) -> bool {
        let connection = &self.connections[index];
        connection.stage == ConnectionStage::Reading
            && connection.asked.is_some_and(|a| a.call == call)
    }

    /// Handles the end of a connection by the server.
    fn closed(&mut self, world: &mut SharedState, index: usize, at: Instant) {
        let connection = &self.connections[index];
        if connection.reply.ends_with_connection() {
            self.end_call(world, index, at, TransportEnd::Whole);
        } else {
            self.broken(world, index, at);
        }
    }

    /// Handles a broken connection. If it had been idle, the server may have closed it before it
    /// received the request, which is then sent once more on a new connection, as any client would
    /// (RFC 9112, section 9.3.1).
    pub(super) fn broken(&mut self, world: &mut SharedState, index: usize, at: Instant) {
        let connection = &mut self.connections[index];
        if connection.used && !connection.reply.has_started() {
            connection.close();
            world.recording.report.resent += 1;
            connection.stage = ConnectionStage::Departing(at);
            return;
        }
        self.wrong
            .get_or_insert("the connection ended early".into());
        self.end_call(world, index, at, TransportEnd::Broken);
    }

    /// Reports the end of a call to the player, and keeps the connection if it can be reused.
    fn end_call(&mut self, world: &mut SharedState, index: usize, at: Instant, end: TransportEnd) {
        let connection = &mut self.connections[index];
        let keeps = connection.reply.keeps_alive() && world.identity != ViewerIdentity::None;
        if end == TransportEnd::Whole && keeps {
            connection.stage = ConnectionStage::Idle;
            connection.used = true;
        } else {
            connection.close();
        }
        let Some(asked) = connection.asked else {
            return;
        };
        let time = self.kind(world).viewer_time(at);
        self.player.handle_end(time, asked.call, end);
        self.settle(world, at);
        // Only failures have details.
        if end == TransportEnd::Whole {
            self.wrong = None;
        }
    }

    /// Ends the viewer at the end of the run: calls in progress are not counted.
    pub(crate) fn leave(&mut self) {
        self.connections.iter_mut().for_each(Connection::close);
    }
}
