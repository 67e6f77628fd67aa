//! Time of a reply by stage. A request is in one stage at a time, so the stages add up to its
//! total.
//!
//! Pure code without a clock: the caller passes the time. While bytes wait for the socket, the time
//! counts as the client's, whatever the reply's stage.

use headlong_units::Duration;

/// Time of a reply in each stage; they add up to its total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stages {
    /// Receiving the head.
    pub head: Duration,
    /// Access check.
    pub access: Duration,
    /// Look-up of the file.
    pub lookup: Duration,
    /// Waiting for an origin.
    pub origin: Duration,
    /// Waiting for the device to begin the read.
    pub queue: Duration,
    /// Waiting for bytes already being read for another reply.
    pub ram: Duration,
    /// Reading from flash.
    pub flash: Duration,
    /// Reading from the device; also waits that ended in a failure.
    pub disk: Duration,
    /// Paced to keep to a rate.
    pub pace: Duration,
    /// Writing to the socket, or encrypting.
    pub send: Duration,
    /// The socket was full: waiting for the client or the network.
    pub client: Duration,
    /// Everything else: planning, waiting for threads.
    pub other: Duration,
}

impl Stages {
    /// The stages with their names in logs, in the order in which a request passes them.
    pub const fn all(&self) -> [(&'static str, Duration); 12] {
        let Self {
            head,
            access,
            lookup,
            origin,
            queue,
            ram,
            flash,
            disk,
            pace,
            send,
            client,
            other,
        } = *self;
        [
            ("head", head),
            ("access", access),
            ("lookup", lookup),
            ("origin", origin),
            ("queue", queue),
            ("ram", ram),
            ("flash", flash),
            ("disk", disk),
            ("pace", pace),
            ("send", send),
            ("client", client),
            ("other", other),
        ]
    }

    /// Total time, from the first byte of the head on.
    pub fn total(&self) -> Duration {
        let all = self.all().into_iter();
        all.fold(Duration::ZERO, |sum, (_, time)| sum + time)
    }

    /// Time of the server: without the client and pacing.
    pub fn of_server(&self) -> Duration {
        let others = self.head + self.client + self.pace;
        Duration(self.total().0 - others.0)
    }
}

/// Activity of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Checking access.
    Access,
    /// Looking the file up.
    Lookup,
    /// Waiting for an origin.
    Origin,
    /// Waiting for a device; the piece tells what for.
    Device,
    /// Paced to keep to a rate.
    Pace,
    /// Data is with the writer of the connection.
    Send,
    /// Anything else.
    Other,
}

/// A point in time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestMoment {
    /// Time since the request's head was complete.
    pub passed: Duration,
    /// Total time that writes have waited on its connection.
    pub writes_waited: Duration,
}

/// Waiting times of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceWaits {
    /// Time until its read began.
    pub queue: Duration,
    /// Time from then until the read was done.
    pub read: Duration,
    /// Its source.
    pub tier: PieceTier,
}

/// Source of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceTier {
    /// Memory, or a read that was already in progress.
    Ram,
    /// Flash.
    Flash,
    /// The device.
    Disk,
}

/// Stage times of a request in progress.
#[derive(Debug)]
pub struct StageTrace {
    spent: Stages,
    stage: Stage,
    turned: RequestMoment,
    /// Several requests share the connection, so waits of its writes belong to no single one: time
    /// in which no data of a reply is requested counts as the client's.
    is_shared: bool,
}

impl StageTrace {
    /// For a request whose head is complete and took `head` to receive.
    pub fn begin(head: Duration, writes_waited: Duration, is_shared: bool) -> Self {
        Self {
            spent: Stages {
                head,
                ..Stages::default()
            },
            stage: Stage::Other,
            turned: RequestMoment {
                passed: Duration::ZERO,
                writes_waited,
            },
            is_shared,
        }
    }

    /// Enters the next stage.
    pub fn turn(&mut self, now: RequestMoment, next: Stage) {
        if next == self.stage {
            return;
        }
        let took = self.close(now);
        *self.spent_in_stage() += took;
        self.stage = next;
    }

    /// A piece arrived, for which the reply may have waited; enters the next stage. The end of the
    /// wait is accounted to the read, the time before it to the queue.
    pub fn got(&mut self, now: RequestMoment, waited: PieceWaits, next: Stage) {
        if self.stage != Stage::Device {
            return self.turn(now, next);
        }
        let took = self.close(now);
        let spent = &mut self.spent;
        let (read, tier) = match waited.tier {
            PieceTier::Ram => (took, &mut spent.ram),
            PieceTier::Flash => (waited.read.min(took), &mut spent.flash),
            PieceTier::Disk => (waited.read.min(took), &mut spent.disk),
        };
        *tier += read;
        let before = Duration(took.0 - read.0);
        let queue = waited.queue.min(before);
        spent.queue += queue;
        spent.other += Duration(before.0 - queue.0);
        self.stage = next;
    }

    /// The request ends.
    pub fn end(mut self, now: RequestMoment) -> Stages {
        let took = self.close(now);
        *self.spent_in_stage() += took;
        self.spent
    }

    /// Time of the current stage since the last change, without waits for the client.
    fn close(&mut self, now: RequestMoment) -> Duration {
        let took = Duration(now.passed.0.saturating_sub(self.turned.passed.0));
        let waited = now.writes_waited.0;
        let waited = Duration(waited.saturating_sub(self.turned.writes_waited.0)).min(took);
        self.spent.client += waited;
        self.turned.passed = self.turned.passed.max(now.passed);
        self.turned.writes_waited = now.writes_waited;
        Duration(took.0 - waited.0)
    }

    fn spent_in_stage(&mut self) -> &mut Duration {
        let spent = &mut self.spent;
        match self.stage {
            Stage::Access => &mut spent.access,
            Stage::Lookup => &mut spent.lookup,
            Stage::Origin => &mut spent.origin,
            Stage::Device => &mut spent.disk,
            Stage::Pace => &mut spent.pace,
            Stage::Send if self.is_shared => &mut spent.client,
            Stage::Send => &mut spent.send,
            Stage::Other => &mut spent.other,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(passed: u64, waited: u64) -> RequestMoment {
        RequestMoment {
            passed: Duration::from_millis(passed),
            writes_waited: Duration::from_millis(waited),
        }
    }

    fn waited(queue: u64, read: u64, tier: PieceTier) -> PieceWaits {
        PieceWaits {
            queue: Duration::from_millis(queue),
            read: Duration::from_millis(read),
            tier,
        }
    }

    #[test]
    fn stages_are_disjoint_and_client_takes_precedence() {
        let ms = Duration::from_millis;
        let mut trace = StageTrace::begin(ms(2), ms(1000), false);
        trace.turn(at(1, 1000), Stage::Access);
        trace.turn(at(11, 1000), Stage::Lookup);
        trace.turn(at(16, 1000), Stage::Device);
        // A spurious wake-up does not end the wait.
        trace.turn(at(30, 1000), Stage::Device);
        trace.got(at(116, 1000), waited(70, 20, PieceTier::Disk), Stage::Send);
        // The disk and the socket are awaited at the same time.
        trace.turn(at(120, 1000), Stage::Device);
        trace.got(at(220, 1060), waited(0, 500, PieceTier::Flash), Stage::Send);
        trace.turn(at(221, 1060), Stage::Pace);
        trace.turn(at(231, 1060), Stage::Device);
        trace.got(at(234, 1060), waited(0, 0, PieceTier::Ram), Stage::Send);
        let stages = trace.end(at(250, 1070));
        let expected = Stages {
            head: ms(2),
            access: ms(10),
            lookup: ms(5),
            origin: ms(0),
            queue: ms(70),
            ram: ms(3),
            flash: ms(40),
            disk: ms(20),
            pace: ms(10),
            send: ms(4 + 1 + 6),
            client: ms(60 + 10),
            other: ms(1 + 10),
        };
        assert_eq!(stages, expected);
        assert_eq!(stages.total(), ms(252));
        assert_eq!(stages.of_server(), ms(252 - 2 - 10 - 70));
    }

    #[test]
    fn unrequested_time_on_shared_connection_is_client_time() {
        let ms = Duration::from_millis;
        let mut trace = StageTrace::begin(ms(0), ms(0), true);
        trace.turn(at(1, 0), Stage::Send);
        let stages = trace.end(at(10, 0));
        assert_eq!((stages.send, stages.client), (ms(0), ms(9)));
    }

    proptest! {
        #[test]
        fn stages_add_up_to_total_time(
            steps in proptest::collection::vec((0_u8..9, 0_u64..1000, 0_u64..1000, 0_u64..1000), 0..40),
            head in 0_u64..1000,
            is_shared: bool,
        ) {
            let mut trace = StageTrace::begin(Duration(head), Duration(7), is_shared);
            let mut now = RequestMoment { passed: Duration::ZERO, writes_waited: Duration(7) };
            for (what, passed, writes, read) in steps {
                now.passed += Duration(passed);
                now.writes_waited += Duration(writes);
                let (queue, read) = (Duration(writes), Duration(read));
                let piece = |tier| PieceWaits { queue, read, tier };
                match what {
                    0 => trace.turn(now, Stage::Access),
                    1 => trace.turn(now, Stage::Origin),
                    2 => trace.turn(now, Stage::Pace),
                    3 => trace.turn(now, Stage::Send),
                    4 => trace.got(now, piece(PieceTier::Ram), Stage::Send),
                    5 => trace.got(now, piece(PieceTier::Flash), Stage::Other),
                    6 => trace.got(now, piece(PieceTier::Disk), Stage::Send),
                    _ => trace.turn(now, Stage::Device),
                }
            }
            let stages = trace.end(now);
            prop_assert_eq!(stages.total(), Duration(head) + now.passed);
        }
    }
}
