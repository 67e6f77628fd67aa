//! Simulates a session against an ideal server: the lower bound of the bytes and time of players
//! that decide as they go.
//!
//! A player is a state machine, so it can be run here, over a line with its class's bandwidth and
//! delay. Replies arrive one after another, in request order; viewers of an unlimited class have 10
//! Gbit/s.
//!
//! Invariant: it ends for every plan.

use alloc::collections::VecDeque;

use headlong_player::{CallId, Command, ObjectId, Player, SessionEnd, SessionPlan, TransportEnd};
use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::NetworkClass;

/// Bandwidth of a line without a limit.
const UNLIMITED: BitRate = BitRate(10_000_000_000);
/// Granularity of an open-ended reply: its player may decide after each slice.
const SLICE_BYTES: u64 = 64 * 1024;
/// Largest number of steps of a session; a session of a day has some hundred thousand.
const STEPS_MAX: u64 = 10_000_000;

/// A call as sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentCall {
    pub(crate) object: ObjectId,
    pub(crate) range: Option<ByteRange>,
}

/// Result of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdealResult {
    /// Bytes sent over the line, including those of abandoned replies.
    pub(crate) bytes: u64,
    /// From its arrival to its end.
    pub(crate) length: Duration,
    /// Failed calls: the network is too slow for the player's settings.
    pub(crate) calls_failed: u64,
    /// Playback result, if the session ended.
    pub(crate) end: Option<SessionEnd>,
}

/// A reply that has not arrived completely.
#[derive(Debug, Clone, Copy)]
struct PendingReply {
    call: CallId,
    status: u16,
    /// Bytes that have not arrived yet.
    left: u64,
    /// Total size, until it is reported with the first bytes.
    head: Option<u64>,
    is_open_ended: bool,
    /// Earliest time of its first byte on the line.
    ready: Instant,
}

/// The line from the server.
struct ServerLine {
    rate: BitRate,
    round_trip: Duration,
    replies: VecDeque<PendingReply>,
    /// Time from which the line is free.
    free: Instant,
    carried: u64,
}

/// Simulates a session, and reports every call.
pub(crate) fn watch(
    plan: &SessionPlan,
    class: &NetworkClass,
    sent: &mut dyn FnMut(SentCall),
) -> IdealResult {
    let start = Instant::ZERO;
    let mut player = Player::new(plan, start);
    let mut line = ServerLine {
        rate: class.bandwidth.unwrap_or(UNLIMITED),
        round_trip: class.delay.times(2),
        replies: VecDeque::new(),
        free: start,
        carried: 0,
    };
    let (mut now, mut calls_failed) = (start, 0);
    player.handle_start(now);
    for _ in 0..STEPS_MAX {
        while let Some(command) = player.poll_command() {
            line.obey(now, command, sent);
        }
        while let Some(record) = player.poll_record() {
            calls_failed += u64::from(record.end.is_failure());
        }
        if player.end().is_some() {
            break;
        }
        let arrival = line.next().unwrap_or(Instant::NEVER);
        let due = player.poll_timeout().unwrap_or(Instant::NEVER);
        if arrival.min(due) == Instant::NEVER {
            break;
        }
        now = now.max(arrival.min(due));
        if arrival <= due {
            line.deliver(now, &mut player);
        } else {
            player.handle_timeout(now);
        }
    }
    IdealResult {
        bytes: line.carried,
        length: now.since(start),
        calls_failed,
        end: player.end(),
    }
}

impl ServerLine {
    fn obey(&mut self, now: Instant, command: Command, sent: &mut dyn FnMut(SentCall)) {
        match command {
            Command::Send {
                call,
                object,
                range,
                expected_bytes,
                ..
            } => {
                sent(SentCall { object, range });
                let is_open_ended = range.is_some_and(|range| range.end == u64::MAX);
                let asked = range.filter(|_| !is_open_ended).map(ByteRange::len);
                let left = expected_bytes.or(asked).unwrap_or(0);
                self.replies.push_back(PendingReply {
                    call,
                    status: if range.is_some() { 206 } else { 200 },
                    left,
                    head: Some(left),
                    is_open_ended,
                    ready: now + self.round_trip,
                });
            }
            Command::Abandon { call } => {
                let Some(at) = self.replies.iter().position(|reply| reply.call == call) else {
                    return;
                };
                if let Some(reply) = self.replies.remove(at)
                    && at == 0
                {
                    // Part of the reply in transit was transferred and is wasted.
                    let begun = reply.ready.max(self.free);
                    let bytes = self.rate.bytes_in(now.since(begun));
                    self.carried += bytes.min(slice(&reply));
                    self.free = self.free.max(now);
                }
            }
            Command::Close => {}
        }
    }

    /// When the next bytes arrive.
    fn next(&self) -> Option<Instant> {
        let reply = self.replies.front()?;
        Some(reply.ready.max(self.free) + self.rate.time_for(slice(reply)))
    }

    fn deliver(&mut self, now: Instant, player: &mut Player<&SessionPlan>) {
        let Some(reply) = self.replies.front_mut() else {
            return;
        };
        let (call, status, bytes) = (reply.call, reply.status, slice(reply));
        let head = reply.head.take();
        reply.left -= bytes;
        let is_last = reply.left == 0;
        if is_last {
            self.replies.pop_front();
        }
        self.free = now;
        self.carried += bytes;
        if head.is_some() {
            player.handle_head(now, call, status, head);
        }
        player.handle_bytes(now, call, bytes);
        if is_last {
            player.handle_end(now, call, TransportEnd::Whole);
        }
    }
}

/// Bytes of a reply that arrive next.
fn slice(reply: &PendingReply) -> u64 {
    match reply.is_open_ended {
        true => reply.left.min(SLICE_BYTES),
        false => reply.left,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use std::sync::Arc;

    use headlong_player::{
        AdaptivePlan, PlayerConfig, RateRule, Rendition, RequestExtent, SegmentTable, Title,
        ViewerAction,
    };

    use super::*;

    /// A minute in segments of 4 s at 800 kbit/s and 1,600 kbit/s.
    fn plan(make: PlayerConfig, acts: vec::Vec<ViewerAction>) -> SessionPlan {
        let rendition = |object, kbps| Rendition {
            bit_rate: BitRate::from_kbps(kbps),
            header: None,
            segments: SegmentTable::OneFile {
                object: ObjectId(object),
                start: 0,
                segment_bytes: kbps * 500,
                file_bytes: kbps * 500 * 15,
            },
        };
        SessionPlan::Adaptive(AdaptivePlan {
            title: Arc::new(Title {
                segment: Duration::from_secs(4),
                segments: 15,
                renditions: vec![rendition(0, 800), rendition(1, 1600)],
            }),
            acts,
            make: Arc::new(make),
        })
    }

    fn class(kbps: u64) -> NetworkClass {
        NetworkClass {
            bandwidth: Some(BitRate::from_kbps(kbps)),
            ..NetworkClass::unlimited()
        }
    }

    #[test]
    fn title_watched_to_end_is_requested_once() {
        let acts = || vec![ViewerAction::Watch(Duration::from_secs(60))];
        let make = |rendition| PlayerConfig {
            rule: RateRule::Fixed(rendition),
            ..PlayerConfig::default()
        };
        for (rendition, bytes) in [(0, 6_000_000), (1, 12_000_000)] {
            let mut calls = 0;
            let plan = plan(make(rendition), acts());
            let watched = watch(&plan, &class(3200), &mut |_| calls += 1);
            assert_eq!((watched.bytes, calls), (bytes, 15));
            let end = watched.end.expect("it ends");
            assert_eq!(end.played, Duration::from_secs(60));
            // One segment at two or four times its playing speed, and then a minute.
            let start = Duration::from_secs(1 + u64::from(rendition));
            assert_eq!(end.startup_delay, Some(start));
            assert_eq!(watched.length, start + Duration::from_secs(60));
        }
    }

    #[test]
    fn early_leaver_has_requested_its_buffer() {
        let plan = plan(
            PlayerConfig {
                rule: RateRule::Fixed(0),
                ..PlayerConfig::default()
            },
            vec![ViewerAction::Watch(Duration::from_secs(4))],
        );
        // Unlimited: 30 s and the segment that began below them arrive at once.
        let watched = watch(&plan, &NetworkClass::unlimited(), &mut |_| {});
        assert_eq!(watched.bytes, 8 * 400_000);
        // At twice the bit rate, two segments per segment watched, plus the first.
        let watched = watch(&plan, &class(1600), &mut |_| {});
        assert_eq!(watched.bytes, 3 * 400_000);
    }

    #[test]
    fn open_ended_reply_is_abandoned_in_transit() {
        let make = PlayerConfig {
            rule: RateRule::Fixed(0),
            shape: RequestExtent::OpenEnded,
            ..PlayerConfig::default()
        };
        let plan = plan(make, vec![ViewerAction::Watch(Duration::from_secs(20))]);
        let mut calls = 0;
        let watched = watch(&plan, &class(8000), &mut |_| calls += 1);
        assert!(
            (12..=15).contains(&(watched.bytes / 400_000)),
            "{watched:?}"
        );
        assert!(calls > 1, "{calls}");
    }
}
