//! Dual-actuator drive: two arms in one case, each for one half of the addresses.
//!
//! A request goes to the arm of its half; one that spans both halves is split, and completes with
//! its second part.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;

use headlong_units::Instant;
use serde::{Deserialize, Serialize};

use crate::hard::{HardDrive, HardDriveSpec};
use crate::{Completion, Drive, Refusal, Request, RequestId};

/// Two hard disks that share a case and an interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DualActuatorSpec {
    /// Name of the drive.
    pub name: String,
    /// Sources of the figures, with the synthetic ones named.
    pub sources: String,
    /// One arm's half of the drive: the same for the lower and the upper addresses. Its queue is
    /// that of the whole drive.
    pub half: HardDriveSpec,
}

impl DualActuatorSpec {
    /// The same drive with another capacity.
    pub fn scaled_to(&self, capacity_bytes: u64) -> Self {
        Self {
            half: self.half.scaled_to(capacity_bytes / 2),
            ..self.clone()
        }
    }
}

/// A request with incomplete parts.
#[derive(Debug, Clone, Copy)]
struct SplitRequest {
    id: RequestId,
    request: Request,
    parts_left: u32,
}

/// The state of a drive with two arms.
#[derive(Debug, Clone)]
pub struct DualActuator {
    halves: Box<[HardDrive; 2]>,
    /// By the id that the halves use.
    pending: BTreeMap<u64, SplitRequest>,
    arrivals: u64,
    done: VecDeque<Completion>,
}

impl DualActuator {
    /// A new drive of this kind.
    pub fn new(spec: &DualActuatorSpec) -> Self {
        let half = HardDrive::new(&spec.half);
        Self {
            halves: Box::new([half.clone(), half]),
            pending: BTreeMap::new(),
            arrivals: 0,
            done: VecDeque::new(),
        }
    }

    /// Advances both arms to a time, event by event, and joins completed parts.
    fn advance(&mut self, now: Instant) {
        loop {
            let next = self.poll_timeout().filter(|next| *next <= now);
            for half in self.halves.iter_mut() {
                half.handle_timeout(next.unwrap_or(now));
            }
            self.join();
            if next.is_none() {
                return;
            }
        }
    }

    fn join(&mut self) {
        let boundary = self.halves[0].capacity_sectors();
        for index in 0..2 {
            while let Some(part) = self.halves[index].poll_completion() {
                let Some(whole) = self.pending.get_mut(&part.id.0) else {
                    continue;
                };
                whole.parts_left -= 1;
                if whole.parts_left > 0 {
                    continue;
                }
                // The time is broken down as for the part that completed last.
                let is_divided = whole.request.sector < boundary && whole.request.end() > boundary;
                let completion = Completion {
                    id: whole.id,
                    request: whole.request,
                    is_sequential: part.is_sequential && !is_divided,
                    ..part
                };
                self.pending.remove(&part.id.0);
                self.done.push_back(completion);
            }
        }
    }
}

impl Drive for DualActuator {
    fn capacity_sectors(&self) -> u64 {
        self.halves.iter().map(Drive::capacity_sectors).sum()
    }

    fn queue_depth(&self) -> usize {
        self.halves[0].queue_depth()
    }

    fn handle_request(
        &mut self,
        now: Instant,
        id: RequestId,
        request: Request,
    ) -> Result<(), Refusal> {
        self.advance(now);
        let end = request.sector.checked_add(u64::from(request.sectors));
        if request.sectors == 0 || end.is_none_or(|end| end > self.capacity_sectors()) {
            return Err(Refusal::OutOfRange);
        }
        // No half can be full unless the whole drive is: each accepts as many requests as the
        // whole.
        if self.pending.len() >= self.queue_depth() {
            return Err(Refusal::QueueFull);
        }
        let boundary = self.halves[0].capacity_sectors();
        let below = boundary
            .saturating_sub(request.sector)
            .min(u64::from(request.sectors)) as u32;
        let name = RequestId(self.arrivals);
        self.arrivals += 1;
        let whole = SplitRequest {
            id,
            request,
            parts_left: u32::from(below > 0) + u32::from(below < request.sectors),
        };
        self.pending.insert(name.0, whole);
        if below > 0 {
            let part = Request {
                sectors: below,
                ..request
            };
            self.halves[0].handle_request(now, name, part)?;
        }
        if below < request.sectors {
            let part = Request {
                sector: (request.sector + u64::from(below)) - boundary,
                sectors: request.sectors - below,
                ..request
            };
            self.halves[1].handle_request(now, name, part)?;
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    fn poll_completion(&mut self) -> Option<Completion> {
        self.done.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.halves.iter().filter_map(Drive::poll_timeout).min()
    }
}
