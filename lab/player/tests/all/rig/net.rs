//! A network for one player: a delay, and a variable rate, shared equally by all calls.

use headlong_player::{CallId, Command, TransportEnd};
use headlong_units::{BitRate, Duration, Instant};

use super::{PlayerRig, ms};

/// Time step of arriving bytes.
const STEP: Duration = ms(10);

/// A reply in progress.
struct PendingReply {
    call: CallId,
    from: Instant,
    left: u64,
    partial: bool,
    begun: bool,
}

pub(crate) struct TestNetwork {
    /// Rates with their start times, in order.
    pub(crate) rates: Vec<(Instant, BitRate)>,
    pub(crate) delay: Duration,
    seen: usize,
    replies: Vec<PendingReply>,
}

impl TestNetwork {
    pub(crate) fn new(rates: &[(u64, u64)]) -> Self {
        let rate = |&(seconds, kbps): &(u64, u64)| {
            (Instant(seconds * 1_000_000_000), BitRate::from_kbps(kbps))
        };
        Self {
            rates: rates.iter().map(rate).collect(),
            delay: ms(100),
            seen: 0,
            replies: Vec::new(),
        }
    }

    /// Plays until the session is over or `until`.
    pub(crate) fn play(&mut self, rig: &mut PlayerRig, until: Instant) {
        while rig.player.end().is_none() && rig.now < until {
            rig.wait_until(rig.now + STEP);
            self.obey(rig);
            self.deliver(rig);
            self.obey(rig);
        }
    }

    /// Breaks all connections with a reply in progress.
    pub(crate) fn cut(&mut self, rig: &mut PlayerRig) {
        for reply in core::mem::take(&mut self.replies) {
            rig.ended(reply.call.0, TransportEnd::Broken);
        }
    }

    fn obey(&mut self, rig: &PlayerRig) {
        for given in &rig.given[self.seen..] {
            match &given.command {
                Command::Send {
                    call,
                    range,
                    expected_bytes,
                    ..
                } => self.replies.push(PendingReply {
                    call: *call,
                    from: given.at + self.delay,
                    left: expected_bytes.expect("a known size"),
                    partial: range.is_some(),
                    begun: false,
                }),
                Command::Abandon { call } => self.replies.retain(|reply| reply.call != *call),
                Command::Close => self.replies.clear(),
            }
        }
        self.seen = rig.given.len();
    }

    fn deliver(&mut self, rig: &mut PlayerRig) {
        let now = rig.now;
        let rate = self.rates.iter().rev().find(|(from, _)| *from <= now);
        let active: Vec<CallId> = self
            .replies
            .iter()
            .filter(|reply| reply.from <= now)
            .map(|reply| reply.call)
            .collect();
        let all = rate.map_or(0, |(_, rate)| rate.bytes_in(STEP));
        let each = all / active.len().max(1) as u64;
        for call in active {
            self.bring(rig, call, each);
            self.obey(rig);
        }
    }

    fn bring(&mut self, rig: &mut PlayerRig, call: CallId, share: u64) {
        let Some(index) = self.replies.iter().position(|reply| reply.call == call) else {
            return;
        };
        let reply = &mut self.replies[index];
        if !reply.begun && share > 0 {
            reply.begun = true;
            let status = if reply.partial { 206 } else { 200 };
            rig.head(call.0, status, Some(reply.left));
        }
        let count = share.min(reply.left);
        reply.left -= count;
        let done = reply.left == 0;
        if done {
            self.replies.remove(index);
        }
        rig.bytes(call.0, count);
        if done {
            rig.ended(call.0, TransportEnd::Whole);
        }
    }
}
