//! Turns the requests of a session into the plan of a player.
//!
//! Every request keeps its time, its connection and its range. A chunk request that the viewer
//! aborts, and an open-ended one, are closed by the player after the bytes that the log has.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use headlong_player::{BufferRoom, ObjectId, PartialRead, PhasedCall, PhasedPlan};
use headlong_units::{BitRate, ByteRange, Duration};

use super::DeviceType;
use super::catalogue::PhasedCatalogue;
use super::requests::{OpenReading, PhasedRequest, SERVICE_VARIATION};
use super::specification::PhasedSpecification;
use crate::NetworkClass;

/// Bytes are too late after this time (thesis 3.4, 4.4.3: a request fails after 10 s).
const TIMEOUT: Duration = Duration::from_secs(10);
/// Steps of bandwidth per doubling: sessions of one step are one class.
const CLASS_STEPS: f64 = 2.0;

/// The plan of a session from `from_ms` on; `object` names a file. Requests without any bytes are
/// omitted.
pub(crate) fn plan(
    requests: &[PhasedRequest],
    catalogue: &PhasedCatalogue,
    from_ms: i64,
    object: &mut impl FnMut(u32) -> ObjectId,
) -> PhasedPlan {
    let sent = requests.iter().filter(|request| request.sent_bytes > 0);
    let left = sent.filter_map(|request| rest_of(request, catalogue, from_ms));
    let mut left: Vec<PhasedRequest> = left.collect();
    left.sort_by_key(|request| request.received_ms);
    let ms = |time: i64| Duration::from_millis(time.max(0).unsigned_abs());
    let mut calls: Vec<PhasedCall> = Vec::with_capacity(left.len());
    for (index, request) in left.iter().enumerate() {
        // A table that arrives when the device has moved on is not waited for.
        let mut later = left[index + 1..].iter();
        let next = later.find(|later| later.connection == request.connection);
        let next_ms = next.map_or(i64::MAX, |next| next.received_ms);
        let takes_ms = request.completed_ms.min(next_ms) - request.received_ms;
        calls.push(PhasedCall {
            object: object(request.file),
            connection: u32::from(request.connection),
            at: ms(request.received_ms - from_ms),
            takes: ms(takes_ms),
            range: request.range(),
            reading: request.partial_read(catalogue, ms(takes_ms)).map(Box::new),
        });
    }
    PhasedPlan {
        timeout: TIMEOUT,
        calls,
    }
}

/// The rest of a request at a time, if it has not ended: an open-ended one continues at its
/// position.
fn rest_of(
    request: &PhasedRequest,
    catalogue: &PhasedCatalogue,
    from_ms: i64,
) -> Option<PhasedRequest> {
    let gone_ms = from_ms - request.received_ms;
    if gone_ms <= 0 {
        return Some(*request);
    }
    if request.completed_ms <= from_ms {
        return None;
    }
    let mut rest = PhasedRequest {
        received_ms: from_ms,
        ..*request
    };
    if request.asked_bytes.is_none() {
        let OpenReading {
            needed_bytes,
            speed,
            room_bytes,
        } = request.reading;
        let freed = drain(request, catalogue).bytes_in(Duration::from_millis(gone_ms as u64));
        let by_speed = u128::from(speed) * gone_ms.unsigned_abs() as u128 / 1000;
        let room = room_bytes.map_or(u64::MAX, |room| room.saturating_add(freed));
        let read = u64::try_from(by_speed).unwrap_or(u64::MAX);
        let read = read.min(room).min(needed_bytes - 1);
        rest.offset += read;
        rest.sent_bytes -= read;
        rest.reading.needed_bytes -= read;
        rest.reading.room_bytes = room_bytes.map(|_| room - read);
    }
    Some(rest)
}

/// Bit rate at which playback frees room.
fn drain(request: &PhasedRequest, catalogue: &PhasedCatalogue) -> BitRate {
    let bytes_per_s = catalogue.files[request.file as usize].bytes_per_s;
    BitRate(libm::ceil(bytes_per_s * 8.0).max(1.0) as u64)
}

impl PhasedRequest {
    fn range(&self) -> ByteRange {
        let end = self.asked_bytes.map(|bytes| self.offset + bytes);
        ByteRange::new(self.offset, end.unwrap_or(u64::MAX))
    }

    /// How the device reads it, unless it reads all of it.
    fn partial_read(&self, catalogue: &PhasedCatalogue, takes: Duration) -> Option<PartialRead> {
        let bytes = self.sent_bytes;
        match self.asked_bytes {
            Some(asked) if asked == bytes => None,
            Some(asked) => Some(PartialRead {
                reply_bytes: asked,
                bytes,
                needed_bytes: bytes,
                speed: BitRate::from_transfer(bytes, takes).map(|rate| BitRate(rate.0.max(1))),
                buffer: None,
            }),
            None => {
                let reading = self.reading;
                let by_speed = u128::from(reading.speed) * u128::from(takes.0) / 1_000_000_000;
                let in_time = u64::try_from(by_speed).unwrap_or(u64::MAX).max(1);
                Some(PartialRead {
                    reply_bytes: catalogue.files[self.file as usize].size - self.offset,
                    bytes,
                    needed_bytes: reading.needed_bytes.min(in_time),
                    speed: Some(BitRate(reading.speed.saturating_mul(8).max(1))),
                    buffer: reading.room_bytes.map(|room| BufferRoom {
                        bytes: room,
                        drain: drain(self, catalogue),
                    }),
                })
            }
        }
    }
}

/// Bandwidth of the access line of a session, in steps: that of the device's reads of sound and
/// content together, at the fastest. So a line never delays a request beyond its planned time.
fn step(bandwidth: f64, device: &DeviceType) -> i32 {
    let streams = if device.is_separate { 2.0 } else { 1.0 };
    let line = bandwidth * streams / (1.0 - SERVICE_VARIATION);
    libm::ceil(libm::log2(line) * CLASS_STEPS) as i32
}

/// The steps that occur.
fn steps(specification: &PhasedSpecification) -> (i32, i32) {
    let headroom = &specification.network.headroom;
    let ends = specification.devices.iter().flat_map(|device| {
        let of_kind = specification.catalogue.of_kind(device.content());
        let rate = |kbps: u32, headroom: f64| step(f64::from(kbps) * 125.0 * headroom, device);
        let lowest = of_kind
            .first()
            .map(|one| rate(one.kbps, headroom.quantile(0.0)));
        let highest = of_kind
            .last()
            .map(|one| rate(one.kbps, headroom.quantile(1.0)));
        lowest.into_iter().chain(highest)
    });
    ends.fold((i32::MAX, i32::MIN), |(lowest, highest), step| {
        (lowest.min(step), highest.max(step))
    })
}

/// The class of a session.
pub(crate) fn class_of(
    specification: &PhasedSpecification,
    bandwidth: f64,
    device: &DeviceType,
) -> u32 {
    let (lowest, highest) = steps(specification);
    (step(bandwidth, device).clamp(lowest, highest) - lowest) as u32
}

/// All classes, from the slowest. Which share of the sessions is in each is not known in advance:
/// they have equal shares.
pub(crate) fn classes(specification: &PhasedSpecification) -> Vec<NetworkClass> {
    // A valid specification has a device, and content for it.
    let (lowest, highest) = steps(specification);
    let count = f64::from(highest - lowest + 1);
    let delay = Duration(libm::round(specification.network.delay_s * 0.5e9) as u64);
    let class = |step: i32| {
        let bits = libm::round(8.0 * libm::exp2(f64::from(step) / CLASS_STEPS) / 1000.0);
        NetworkClass {
            name: format!("{bits}kbps"),
            bandwidth: Some(BitRate((bits as u64).max(1) * 1000)),
            delay,
            share: 1.0 / count,
        }
    };
    (lowest..=highest).map(class).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
