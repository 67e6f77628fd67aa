//! Requests for ranges of a file or title: to a device, or for slices that come from the origin.
//!
//! A range of a title from an origin is requested slice by slice, each after the previous one was
//! delivered. So a reply waits for one slice only, and pins only one against eviction. A slice that
//! is being fetched is passed on in chunks; after each, the reply asks again, so that it reads the
//! rest from the device once the slice is stored.

use std::sync::Arc;

use bytes::Bytes;
use headlong_engine::{Refusal, Request};
use headlong_http::{BodyPart, Pacer};
use headlong_pull::ResponseFault;
use headlong_units::ByteRange;

use headlong_edge::{Pull, SliceContent, SlicePin, SliceRequest, Version};
use headlong_storage::{Device, Piece, Reply, StreamSource};
use headlong_telemetry::RequestId;

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
pub(super) struct RangeRequester {
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
pub(super) struct DeviceReply {
    pub(super) reply: Reply,
    /// End of the range in the device's reply.
    end: u64,
    /// Remainder to request afterwards.
    rest: Option<BodyPart>,
    /// Whether the viewer named no end.
    open_ended: bool,
    pinned: Option<SlicePin>,
}

/// The beginning of a range, as the origin sent it.
#[derive(Debug)]
pub(super) struct OriginBytes {
    /// The bytes; not empty.
    pub(super) bytes: Bytes,
    /// Their end in the title.
    pub(super) end: u64,
    /// Remainder to request afterwards.
    rest: Option<BodyPart>,
    /// Whether the viewer named no end.
    open_ended: bool,
}

/// The answer to a request for a range.
pub(super) enum RangeReply {
    /// By the device.
    Begun(DeviceReply),
    /// By the origin.
    Passed(OriginBytes),
}

/// The first bytes of a body, which were awaited before the status is sent.
#[expect(
    clippy::large_enum_variant,
    reason = "the large variant is the usual one, and boxing it would cost an allocation per reply"
)]
pub(super) enum FirstBytes {
    /// Read by a device.
    Read(DeviceReply, Piece),
    /// From the origin.
    Passed(OriginBytes),
}

/// Why a range is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeReason {
    /// The reply gets there.
    New,
    /// It is the remainder of a range whose beginning was passed on.
    Further,
    /// The slice was stored before but has disappeared.
    Again,
    /// The slice is stored, but the disk could not read it.
    Unreadable,
}

/// Why a range cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeError {
    /// The device refused.
    Refused(Refusal),
    /// The origin failed, or there was no space.
    Fault(ResponseFault),
}

impl DeviceReply {
    /// Takes the remainder to request after this reply.
    pub(super) fn rest(&mut self) -> Option<BodyPart> {
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
    pub(super) fn left(self) -> BodyPart {
        let end = self.rest.as_ref().map_or(self.end, |rest| rest.range.end);
        part(ByteRange::new(self.position(), end), self.open_ended)
    }

    /// File offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.end - self.reply.bytes_left()
    }
}

impl OriginBytes {
    /// Takes the remainder to request after these bytes.
    pub(super) fn rest(&mut self) -> Option<BodyPart> {
        self.rest.take()
    }

    /// The whole range, to request it again.
    pub(super) fn left(self) -> BodyPart {
        let end = self.rest.as_ref().map_or(self.end, |rest| rest.range.end);
        let start = self.end - self.bytes.len() as u64;
        part(ByteRange::new(start, end), self.open_ended)
    }
}

/// A part without a preamble, for continuing inside a part.
pub(super) fn part(range: ByteRange, open_ended: bool) -> BodyPart {
    BodyPart {
        preamble: Vec::new(),
        range,
        open_ended,
    }
}

impl RangeRequester {
    /// Whether the origin may have to be contacted.
    pub(super) fn is_of_origin(&self) -> bool {
        self.bringing.is_some()
    }

    /// Requests one part of the plan.
    pub(super) async fn request(
        &self,
        wanted: &BodyPart,
        why: RangeReason,
    ) -> Result<RangeReply, RangeError> {
        let Some(OriginSource { pull, version, by }) = &self.bringing else {
            return self
                .request_from_device(wanted)
                .await
                .map(RangeReply::Begun);
        };
        let ByteRange { start, end } = wanted.range;
        let slices = version.slices();
        let index = slices.at(start);
        match why {
            // Its files are not accessed.
            _ if self.device.is_offline() => {}
            RangeReason::Again => pull.check(version, index).await,
            RangeReason::Unreadable => pull.discard(version, index).await,
            RangeReason::New | RangeReason::Further => {}
        }
        let slice = slices.range(index);
        let here = end.min(slice.end);
        let wanted_bytes = SliceRequest {
            index,
            range: ByteRange::new(start - slice.start, here - slice.start),
            until: end,
            is_further: why == RangeReason::Further && start > slice.start,
            is_device_offline: false,
        };
        let rest = |from| (from < end).then(|| part(ByteRange::new(from, end), wanted.open_ended));
        let brought = pull.fetch(version, wanted_bytes, by).await;
        let mut brought = brought.map_err(RangeError::Fault)?;
        if let SliceContent::Stored(pinned) = brought {
            let open_ended = wanted.open_ended || self.whole;
            let range = (start - slice.start, here - start);
            let request = self.request_for(index, range, open_ended);
            match self.begin(request, here, rest(here), Some(pinned)).await {
                // The slice stays stored; meanwhile the origin has its bytes.
                Err(RangeError::Refused(Refusal::Offline { .. })) => {}
                begun => return begun.map(RangeReply::Begun),
            }
            let of_origin = SliceRequest {
                is_device_offline: true,
                ..wanted_bytes
            };
            let again = pull.fetch(version, of_origin, by).await;
            brought = again.map_err(RangeError::Fault)?;
        }
        let SliceContent::Bytes(bytes) = brought else {
            return Err(RangeError::Fault(ResponseFault::Disk));
        };
        let end = start + bytes.len() as u64;
        Ok(RangeReply::Passed(OriginBytes {
            rest: rest(end),
            bytes,
            end,
            open_ended: wanted.open_ended,
        }))
    }

    /// Requests one part of a file on the device.
    pub(super) async fn request_from_device(
        &self,
        wanted: &BodyPart,
    ) -> Result<DeviceReply, RangeError> {
        let ByteRange { start, end } = wanted.range;
        let open_ended = wanted.open_ended || self.whole;
        let request = self.request_for(self.request.part, (start, end - start), open_ended);
        let begun = self.begin(request, end, None, None).await;
        begun.map(|begun| DeviceReply {
            open_ended: wanted.open_ended,
            ..begun
        })
    }

    async fn begin(
        &self,
        request: Request,
        end: u64,
        rest: Option<BodyPart>,
        pinned: Option<SlicePin>,
    ) -> Result<DeviceReply, RangeError> {
        let reply = self.device.request(request, &self.source).await;
        let reply = reply.map_err(RangeError::Refused)?;
        Ok(DeviceReply {
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
