//! Pieces that the engine gives up while a program may still be about to read them.
//!
//! The one idea: to the engine a piece has been read once a program was told that it is there. The
//! program's call comes after that, and takes what its socket has room for. So what was answered for
//! stays where it is for [`ANSWERED_MS`], whatever the engine does with its memory, within a part of
//! memory that the engine does not have.

use std::collections::VecDeque;
use std::time::{Duration as Wall, Instant as Clock};

use headlong_engine::EngineConfig;
use headlong_protocol::ANSWERED_MS;

use crate::hold::Held;
use crate::readers::Run;

/// This part of the reception's memory is for them. At 100 MB a second two seconds are 200 MB.
const PART: u64 = 8;

/// A piece, until when it stays, and what holds it.
#[derive(Debug)]
struct Answered {
    until: Clock,
    run: Run,
    _held: Option<Held>,
}

/// All of them, the oldest answer first, about.
#[derive(Debug, Default)]
pub(crate) struct AllAnswered {
    pieces: VecDeque<Answered>,
    bytes: u64,
    bytes_max: u64,
}

impl AllAnswered {
    /// None yet, in a part of the engine's memory, which is not the engine's any more. Of so little
    /// memory that the engine needs all, none.
    pub(crate) fn with_part_of(engine: &mut EngineConfig) -> Self {
        let bytes_max = engine.memory_bytes / PART;
        let left = EngineConfig {
            memory_bytes: engine.memory_bytes - bytes_max,
            ..*engine
        };
        if left.check().next().is_some() {
            return Self::default();
        }
        *engine = left;
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// The engine gives up a piece that a program was last told of then, if it was. What can be given
    /// up is added to `given_up`.
    pub(crate) fn put(
        &mut self,
        (run, held): (Run, Option<Held>),
        answered: Option<Clock>,
        given_up: &mut Vec<Run>,
    ) {
        match answered.map(|at| at + Wall::from_millis(ANSWERED_MS)) {
            Some(until) if Clock::now() < until => {
                self.bytes += run.length;
                self.pieces.push_back(Answered {
                    until,
                    run,
                    _held: held,
                });
            }
            _ => given_up.push(run),
        }
    }

    /// What need not stay any longer, or is too much.
    pub(crate) fn take(&mut self, given_up: &mut Vec<Run>) {
        let now = Clock::now();
        while let Some(oldest) = self.pieces.front()
            && (oldest.until <= now || self.bytes > self.bytes_max)
        {
            self.bytes -= oldest.run.length;
            given_up.extend(self.pieces.pop_front().map(|piece| piece.run));
        }
    }

    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use super::*;
    use crate::file::{Open, version};

    fn run() -> Run {
        let file: File = tempfile::tempfile().expect("a file");
        let version = version(&OwnedFd::from(file.try_clone().expect("a copy")));
        Run {
            open: Arc::new(Open::passed(file, version.expect("a file"))),
            offset: 0,
            length: 100,
        }
    }

    #[test]
    fn what_was_answered_for_a_moment_ago_stays_and_older_answers_do_not() {
        let mut engine = EngineConfig {
            memory_bytes: 8 << 30,
            ..EngineConfig::default()
        };
        let mut answered = AllAnswered::with_part_of(&mut engine);
        assert_eq!(
            (engine.memory_bytes, answered.bytes_max),
            (7 << 30, 1 << 30)
        );
        answered.bytes_max = 1_000;
        let now = Clock::now();
        let long_ago = now.checked_sub(Wall::from_millis(2 * ANSWERED_MS));
        let mut given_up = Vec::new();
        answered.put((run(), None), None, &mut given_up);
        answered.put((run(), None), long_ago, &mut given_up);
        assert_eq!(given_up.len(), 2);
        let soon = now + Wall::from_secs(3600);
        for _ in 0..10 {
            answered.put((run(), None), Some(soon), &mut given_up);
        }
        answered.take(&mut given_up);
        assert_eq!((given_up.len(), answered.bytes()), (2, 1_000));
        answered.put((run(), None), Some(soon), &mut given_up);
        answered.take(&mut given_up);
        assert_eq!((given_up.len(), answered.bytes()), (3, 1_000), "full");
    }

    #[test]
    fn an_engine_that_needs_all_its_memory_keeps_it() {
        let mut engine = EngineConfig {
            memory_bytes: 1,
            ..EngineConfig::default()
        };
        while engine.check().next().is_some() {
            engine.memory_bytes += engine.piece_bytes;
        }
        let all = engine.memory_bytes;
        let answered = AllAnswered::with_part_of(&mut engine);
        assert_eq!((engine.memory_bytes, answered.bytes_max), (all, 0));
    }
}
