//! A request of the kernel, with its pending answer.

use headlong_drive::{Direction, Request, SECTOR_BYTES};
use headlong_units::Instant;

use crate::queue::DriveTimes;
use crate::trace::TraceRecord;

/// The reply handle.
#[derive(Debug)]
pub(super) enum ReplyHandle {
    Read(fuser::ReplyData),
    Write(fuser::ReplyWrite),
}

#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) arrived: Instant,
    /// The actual arrival: `arrived` may be earlier by the round-trip time.
    pub(super) here: Instant,
    pub(super) outstanding: usize,
    pub(super) answer: ReplyHandle,
}

impl PendingRequest {
    pub(super) fn direction(&self) -> Direction {
        match self.answer {
            ReplyHandle::Read(_) => Direction::Read,
            ReplyHandle::Write(_) => Direction::Write,
        }
    }

    pub(super) fn request(&self) -> Request {
        Request {
            sector: self.offset / SECTOR_BYTES,
            sectors: (u64::from(self.length).div_ceil(SECTOR_BYTES)) as u32,
            direction: self.direction(),
        }
    }

    pub(super) fn record(
        &self,
        times: &DriveTimes,
        answered: Instant,
        is_failed: bool,
    ) -> TraceRecord {
        TraceRecord {
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
            ReplyHandle::Read(reply) => reply.error(fuser::Errno::EIO),
            ReplyHandle::Write(reply) => reply.error(fuser::Errno::EIO),
        }
    }

    /// Answers with success; `content` is the data of a read.
    pub(super) fn succeed(self, content: &[u8]) {
        match self.answer {
            ReplyHandle::Read(reply) => reply.data(content),
            ReplyHandle::Write(reply) => reply.written(self.length),
        }
    }
}
