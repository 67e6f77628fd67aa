//! Requests to a device for ranges of a file or title, after their slices were fetched from the
//! origin.
//!
//! A range of a title from an origin is requested slice by slice, each after the previous one was
//! delivered. So a reply waits for one slice only, and pins only one against eviction.

use std::sync::Arc;

use headlong_engine::{Refusal, Request};
use headlong_http::{Pacer, Part};
use headlong_pull::Fault;
use headlong_units::ByteRange;

use crate::disk::{Device, Reply, StreamSource};
use crate::log::RequestId;
use crate::pull::{Pinned, Pull, Version};

/// A title of an origin, and the pull that fetches its slices.
#[derive(Clone)]
pub(super) struct OriginSource {
    pub(super) pull: Arc<Pull>,
    pub(super) version: Arc<Version>,
    /// Id of the request.
    pub(super) by: RequestId,
}

/// State for requesting further ranges of the same file.
#[derive(Clone)]
pub(super) struct Asking {
    pub(super) device: Device,
    pub(super) source: Arc<dyn StreamSource>,
    pub(super) request: Request,
    /// Whether the request named no range.
    pub(super) whole: bool,
    /// Pacing of the reply, in model time since the request, if any.
    pub(super) pacer: Option<Pacer>,
    /// Set for a title from an origin.
    pub(super) bringing: Option<OriginSource>,
}

/// A device's reply to a range, or to its beginning.
pub(super) struct Begun {
    pub(super) reply: Reply,
    /// End of the range in the device's reply.
    end: u64,
    /// Remainder to request afterwards.
    rest: Option<Part>,
    /// Whether the viewer named no end.
    open_ended: bool,
    pinned: Option<Pinned>,
}

/// Why a range cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeError {
    /// The device refused.
    Refused(Refusal),
    /// The origin failed, or there was no space.
    Fault(Fault),
}

impl Begun {
    /// Takes the remainder to request after this reply.
    pub(super) fn rest(&mut self) -> Option<Part> {
        self.rest.take()
    }

    /// Whether the origin had to be contacted.
    pub(super) fn is_miss(&self) -> bool {
        self.pinned.as_ref().is_some_and(|pinned| pinned.is_miss)
    }

    /// Whether it comes from an origin.
    pub(super) fn is_of_origin(&self) -> bool {
        self.pinned.is_some()
    }

    /// The whole undelivered remainder.
    pub(super) fn left(self) -> Part {
        let end = self.rest.as_ref().map_or(self.end, |rest| rest.range.end);
        part(ByteRange::new(self.position(), end), self.open_ended)
    }

    /// File offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.end - self.reply.bytes_left()
    }
}

/// A part without a preamble, for continuing inside a part.
pub(super) fn part(range: ByteRange, open_ended: bool) -> Part {
    Part {
        preamble: String::new(),
        range,
        open_ended,
    }
}

impl Asking {
    /// Whether the origin may have to be contacted.
    pub(super) fn is_of_origin(&self) -> bool {
        self.bringing.is_some()
    }

    /// Requests one part of the plan. `is_again`: the slice was present before but has disappeared.
    pub(super) async fn ask(&self, wanted: &Part, is_again: bool) -> Result<Begun, RangeError> {
        let open_ended = wanted.open_ended || self.whole;
        let ByteRange { start, end } = wanted.range;
        let Some(OriginSource { pull, version, by }) = &self.bringing else {
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
        let pinned = pinned.map_err(RangeError::Fault)?;
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
    ) -> Result<Begun, RangeError> {
        let reply = self.device.request(request, &self.source).await;
        let reply = reply.map_err(RangeError::Refused)?;
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
