//! A request of the kernel, with its pending answer.

use headlong_drive::{Direction, Request, SECTOR_BYTES};
use headlong_units::Instant;

use crate::queue::Times;
use crate::trace::Record;

/// The reply handle.
#[derive(Debug)]
pub(super) enum Answer {
    Read(fuser::ReplyData),
    Write(fuser::ReplyWrite),
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) arrived: Instant,
    /// The actual arrival: `arrived` may be earlier by the round-trip time.
    pub(super) here: Instant,
    pub(super) outstanding: usize,
    pub(super) answer: Answer,
}

impl Job {
    pub(super) fn direction(&self) -> Direction {
        match self.answer {
            Answer::Read(_) => Direction::Read,
            Answer::Write(_) => Direction::Write,
        }
    }

    pub(super) fn request(&self) -> Request {
        Request {
            sector: self.offset / SECTOR_BYTES,
            sectors: (u64::from(self.length).div_ceil(SECTOR_BYTES)) as u32,
            direction: self.direction(),
        }
    }

    pub(super) fn record(&self, times: &Times, answered: Instant, is_failed: bool) -> Record {
        Record {
            offset: self.offset,
            length: u64::from(self.length),
            direction: self.direction(),
            arrived: self.arrived,
            started: times.started,
            ended: times.ended,
            answered,
            parts: times.parts,
            is_sequential: times.is_sequential,
            outstanding: self.outstanding,
            is_failed,
        }
    }

    pub(super) fn fail(self) {
        match self.answer {
            Answer::Read(reply) => reply.error(fuser::Errno::EIO),
            Answer::Write(reply) => reply.error(fuser::Errno::EIO),
        }
    }

    /// Answers with success; `content` is the data of a read.
    pub(super) fn succeed(self, content: &[u8]) {
        match self.answer {
            Answer::Read(reply) => reply.data(content),
            Answer::Write(reply) => reply.written(self.length),
        }
    }
}
