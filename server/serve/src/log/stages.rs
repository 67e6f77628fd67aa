//! Where the time of one reply went: a request is in one stage at a time, so stages add up.
//!
//! There is no clock in here: whoever knows that a stage is over says when. While bytes wait for the
//! socket to take them, it is the client who is waited for, whatever else is going on.

use headlong_units::Duration;

/// How long each stage of a reply took. Together they are all of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stages {
    /// Its head came in.
    pub head: Duration,
    /// It was asked whether the file may be had.
    pub access: Duration,
    /// The file was looked up.
    pub lookup: Duration,
    /// An origin was waited for.
    pub origin: Duration,
    /// The device was waited for until it began to read.
    pub queue: Duration,
    /// What was on its way to memory for somebody else was waited for.
    pub ram: Duration,
    /// Flash was read.
    pub flash: Duration,
    /// The device was read; also waits that ended in a failure.
    pub disk: Duration,
    /// It was held back to keep to a rate.
    pub pace: Duration,
    /// Bytes were handed to the socket, or encrypted.
    pub send: Duration,
    /// The socket took no more: the client or the network was waited for.
    pub client: Duration,
    /// All else: the reply was planned, threads were waited for.
    pub other: Duration,
}

impl Stages {
    /// Each with its name in logs, in the order in which a request comes to them.
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

    /// All of the time, from the first byte of the head on.
    pub fn total(&self) -> Duration {
        let all = self.all().into_iter();
        all.fold(Duration::ZERO, |sum, (_, time)| sum + time)
    }

    /// What the server itself took: neither the client nor a rate that was asked for.
    pub fn of_server(&self) -> Duration {
        let others = self.head + self.client + self.pace;
        Duration(self.total().0 - others.0)
    }
}

/// What a request is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It is asked whether the file may be had.
    Access,
    /// The file is looked up.
    Lookup,
    /// An origin is waited for.
    Origin,
    /// A device is waited for. What for is known when a piece comes.
    Device,
    /// It is held back to keep to a rate.
    Pace,
    /// Bytes are with whoever writes them.
    Send,
    /// Anything else.
    Other,
}

/// When something was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    /// Since the request's head was complete.
    pub passed: Duration,
    /// How long writes have waited on its connection, ever.
    pub writes_waited: Duration,
}

/// What a piece was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waited {
    /// Until its read began.
    pub queue: Duration,
    /// From then until it was read.
    pub read: Duration,
    /// Where it was read from.
    pub tier: Tier,
}

/// Where a piece was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// It was in memory, or on its way there.
    Ram,
    /// Flash.
    Flash,
    /// The device.
    Disk,
}

/// The stages of a request in progress.
#[derive(Debug)]
pub struct Trace {
    spent: Stages,
    stage: Stage,
    turned: Moment,
    /// Several requests share the connection, so that waits of its writes are nobody's in particular:
    /// the time in which a reply is not asked for more is the client's.
    is_shared: bool,
}

impl Trace {
    /// Of a request whose head took so long and is complete.
    pub fn begin(head: Duration, writes_waited: Duration, is_shared: bool) -> Self {
        Self {
            spent: Stages {
                head,
                ..Stages::default()
            },
            stage: Stage::Other,
            turned: Moment {
                passed: Duration::ZERO,
                writes_waited,
            },
            is_shared,
        }
    }

    /// From now on it does something else.
    pub fn turn(&mut self, now: Moment, next: Stage) {
        if next == self.stage {
            return;
        }
        let took = self.close(now);
        *self.spent_in_stage() += took;
        self.stage = next;
    }

    /// A piece came, for which the device was perhaps waited for; from now on it does something else.
    /// What its read took came last in the wait, and what it queued for before that.
    pub fn got(&mut self, now: Moment, waited: Waited, next: Stage) {
        if self.stage != Stage::Device {
            return self.turn(now, next);
        }
        let took = self.close(now);
        let spent = &mut self.spent;
        let (read, tier) = match waited.tier {
            Tier::Ram => (took, &mut spent.ram),
            Tier::Flash => (waited.read.min(took), &mut spent.flash),
            Tier::Disk => (waited.read.min(took), &mut spent.disk),
        };
        *tier += read;
        let before = Duration(took.0 - read.0);
        let queue = waited.queue.min(before);
        spent.queue += queue;
        spent.other += Duration(before.0 - queue.0);
        self.stage = next;
    }

    /// It is over.
    pub fn end(mut self, now: Moment) -> Stages {
        let took = self.close(now);
        *self.spent_in_stage() += took;
        self.spent
    }

    /// What the present stage took since the last turn, less what the client was waited for.
    fn close(&mut self, now: Moment) -> Duration {
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

    fn at(passed: u64, waited: u64) -> Moment {
        Moment {
            passed: Duration::from_millis(passed),
            writes_waited: Duration::from_millis(waited),
        }
    }

    fn waited(queue: u64, read: u64, tier: Tier) -> Waited {
        Waited {
            queue: Duration::from_millis(queue),
            read: Duration::from_millis(read),
            tier,
        }
    }

    #[test]
    fn each_moment_is_in_one_stage_and_that_of_the_client_goes_before() {
        let ms = Duration::from_millis;
        let mut trace = Trace::begin(ms(2), ms(1000), false);
        trace.turn(at(1, 1000), Stage::Access);
        trace.turn(at(11, 1000), Stage::Lookup);
        trace.turn(at(16, 1000), Stage::Device);
        // A wake-up for nothing ends no wait.
        trace.turn(at(30, 1000), Stage::Device);
        trace.got(at(116, 1000), waited(70, 20, Tier::Disk), Stage::Send);
        // The disk and the socket are waited for at a time.
        trace.turn(at(120, 1000), Stage::Device);
        trace.got(at(220, 1060), waited(0, 500, Tier::Flash), Stage::Send);
        trace.turn(at(221, 1060), Stage::Pace);
        trace.turn(at(231, 1060), Stage::Device);
        trace.got(at(234, 1060), waited(0, 0, Tier::Ram), Stage::Send);
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
    fn of_a_shared_connection_the_client_has_what_is_not_asked_for() {
        let ms = Duration::from_millis;
        let mut trace = Trace::begin(ms(0), ms(0), true);
        trace.turn(at(1, 0), Stage::Send);
        let stages = trace.end(at(10, 0));
        assert_eq!((stages.send, stages.client), (ms(0), ms(9)));
    }

    proptest! {
        #[test]
        fn stages_add_up_to_all_of_the_time(
            steps in proptest::collection::vec((0_u8..9, 0_u64..1000, 0_u64..1000, 0_u64..1000), 0..40),
            head in 0_u64..1000,
            is_shared: bool,
        ) {
            let mut trace = Trace::begin(Duration(head), Duration(7), is_shared);
            let mut now = Moment { passed: Duration::ZERO, writes_waited: Duration(7) };
            for (what, passed, writes, read) in steps {
                now.passed += Duration(passed);
                now.writes_waited += Duration(writes);
                let piece = |tier| Waited { queue: Duration(writes), read: Duration(read), tier };
                match what {
                    0 => trace.turn(now, Stage::Access),
                    1 => trace.turn(now, Stage::Origin),
                    2 => trace.turn(now, Stage::Pace),
                    3 => trace.turn(now, Stage::Send),
                    4 => trace.got(now, piece(Tier::Ram), Stage::Send),
                    5 => trace.got(now, piece(Tier::Flash), Stage::Other),
                    6 => trace.got(now, piece(Tier::Disk), Stage::Send),
                    _ => trace.turn(now, Stage::Device),
                }
            }
            let stages = trace.end(now);
            prop_assert_eq!(stages.total(), Duration(head) + now.passed);
        }
    }
}
