//! How a range of a file or of a title is asked for: of its device, once what an origin has to bring is
//! there.
//!
//! The one idea: a range of a title that comes from an origin is asked for slice by slice, each when
//! the one before has been handed out, so that what is waited for is one slice, and what is in the way
//! of being evicted is one, too.

use std::sync::Arc;

use headlong_engine::{Refusal, Request};
use headlong_http::{Pacer, Part};
use headlong_pull::Fault;
use headlong_units::ByteRange;

use crate::disk::{Device, Reply, StreamSource};
use crate::log::RequestId;
use crate::pull::{Pinned, Pull, Version};

/// A title of an origin, and who brings its slices.
#[derive(Clone)]
pub(super) struct Bringing {
    pub(super) pull: Arc<Pull>,
    pub(super) version: Arc<Version>,
    /// For which request.
    pub(super) by: RequestId,
}

/// How further ranges of the same file are asked for.
#[derive(Clone)]
pub(super) struct Asking {
    pub(super) device: Device,
    pub(super) source: Arc<dyn StreamSource>,
    pub(super) request: Request,
    /// The request named no range.
    pub(super) whole: bool,
    /// The schedule of the reply, by model time since its request, if it has one.
    pub(super) pacer: Option<Pacer>,
    /// If it comes from an origin.
    pub(super) bringing: Option<Bringing>,
}

/// A reply of a device to a range, or to its beginning.
pub(super) struct Begun {
    pub(super) reply: Reply,
    /// Where what it replies ends.
    end: u64,
    /// What is to be asked for then.
    rest: Option<Part>,
    /// The viewer named no end.
    open_ended: bool,
    pinned: Option<Pinned>,
}

/// Why a range cannot be replied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotBegun {
    /// By the device.
    Refused(Refusal),
    /// By the origin, or for want of space.
    Fault(Fault),
}

impl Begun {
    /// What comes when the reply is over.
    pub(super) fn rest(&mut self) -> Option<Part> {
        self.rest.take()
    }

    /// Whether an origin had to be asked for it.
    pub(super) fn is_miss(&self) -> bool {
        self.pinned.as_ref().is_some_and(|pinned| pinned.is_miss)
    }

    /// Whether it comes from an origin.
    pub(super) fn is_of_origin(&self) -> bool {
        self.pinned.is_some()
    }

    /// All that has not come yet.
    pub(super) fn left(self) -> Part {
        let end = self.rest.as_ref().map_or(self.end, |rest| rest.range.end);
        part(ByteRange::new(self.position(), end), self.open_ended)
    }

    /// The byte of the file that comes next.
    pub(super) fn position(&self) -> u64 {
        self.end - self.reply.bytes_left()
    }
}

/// What goes on in the midst of a part.
pub(super) fn part(range: ByteRange, open_ended: bool) -> Part {
    Part {
        preamble: String::new(),
        range,
        open_ended,
    }
}

impl Asking {
    /// Whether an origin may have to be asked.
    pub(super) fn is_of_origin(&self) -> bool {
        self.bringing.is_some()
    }

    /// Asks for one part of the plan. `is_again`: what was there a moment ago was not.
    pub(super) async fn ask(&self, wanted: &Part, is_again: bool) -> Result<Begun, NotBegun> {
        let open_ended = wanted.open_ended || self.whole;
        let ByteRange { start, end } = wanted.range;
        let Some(Bringing { pull, version, by }) = &self.bringing else {
            let request = self.request_for(self.request.part, (start, end - start), open_ended);
            let begun = self.begin(request, end, None, None).await;
            return begun.map(|begun| Begun {
                open_ended: wanted.open_ended,
                ..begun
            });
        };
        let slices = version.slices();
        let index = slices.at(start);
        if is_again {
            pull.check(version, index).await;
        }
        let pinned = pull.bring(version, index, end, by).await;
        let pinned = pinned.map_err(NotBegun::Fault)?;
        let slice = slices.range(index);
        let here = end.min(slice.end);
        let rest = (here < end).then(|| part(ByteRange::new(here, end), wanted.open_ended));
        let request = self.request_for(index, (start - slice.start, here - start), open_ended);
        self.begin(request, here, rest, Some(pinned)).await
    }

    async fn begin(
        &self,
        request: Request,
        end: u64,
        rest: Option<Part>,
        pinned: Option<Pinned>,
    ) -> Result<Begun, NotBegun> {
        let reply = self.device.request(request, &self.source).await;
        let reply = reply.map_err(NotBegun::Refused)?;
        Ok(Begun {
            reply,
            end,
            open_ended: rest.as_ref().is_some_and(|rest| rest.open_ended),
            rest,
            pinned,
        })
    }

    fn request_for(&self, part: u32, (offset, length): (u64, u64), open_ended: bool) -> Request {
        Request {
            part,
            offset,
            length,
            open_ended,
            ..self.request
        }
    }
}
