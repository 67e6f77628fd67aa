//! One session: a person's doings, and the phases that they and the network make of it.

use alloc::vec::Vec;

use headlong_random::Generator;

use super::asking::Request;
use super::catalogue::Catalogue;
use super::specification::Specification;
use super::visit::Visit;

/// A session and its requests, in the order in which the device thought of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its number, from 0, in order of arrival.
    pub number: u64,
    /// A place in [`Specification::devices`].
    pub device: u16,
    /// A place in [`Catalogue::titles`].
    pub title: u32,
    /// When it begins, s from the start of the log.
    pub arrival_s: f64,
    /// Bytes a second that its network carries.
    pub bandwidth: f64,
    /// What it asks for.
    pub requests: Vec<Request>,
}

impl Session {
    /// Its requests as a log has them: completion in whole seconds, so that arrival is early by up
    /// to one (A1). Session, file and device keep their numbers from 0; the place in the session
    /// stands for the line. `lines` holds nothing else afterwards.
    pub fn logged(&self, catalogue: &Catalogue, lines: &mut Vec<headlong_chains::Request>) {
        lines.clear();
        lines.extend((0..).zip(&self.requests).map(|(line, request)| {
            let completed_ms = request.completed_ms.div_euclid(1000) * 1000;
            let service_ms = request.completed_ms - request.received_ms;
            headlong_chains::Request {
                line,
                // More sessions than this have no number in a log of ours either.
                session: self.number as u32,
                file: request.file,
                received_ms: completed_ms - service_ms,
                completed_ms,
                offset: request.offset,
                asked_bytes: request.asked_bytes,
                sent_bytes: request.sent_bytes,
                disk: catalogue.files[request.file as usize].disk,
                device: self.device,
            }
        }));
    }
}

/// What all sessions have in common.
pub(super) struct Director<'a> {
    specification: &'a Specification,
    catalogue: &'a Catalogue,
    sessions: Generator,
    /// Share of sessions on devices up to and with this one.
    devices: Vec<f64>,
}

impl<'a> Director<'a> {
    pub(super) fn new(
        specification: &'a Specification,
        catalogue: &'a Catalogue,
        seed: u64,
    ) -> Self {
        let mut sum = 0.0;
        let devices = specification.devices.iter().map(|device| {
            sum += device.share;
            sum
        });
        Self {
            specification,
            catalogue,
            sessions: Generator::new(seed).fork("phased sessions"),
            devices: devices.collect(),
        }
    }

    /// The session of a number. `requests` is cleared and used, so that its memory is.
    pub(super) fn session(
        &self,
        number: u64,
        arrival_s: f64,
        mut requests: Vec<Request>,
    ) -> Session {
        requests.clear();
        let mut generator = self.sessions.fork_at(number);
        let sum = self.devices.last().copied().unwrap_or(1.0);
        let unit = generator.unit() * sum;
        let device = self.devices.partition_point(|share| *share <= unit);
        let device = device.min(self.devices.len().saturating_sub(1));
        let title = self.catalogue.pick(generator.unit());
        let visit = Visit::new(
            (self.catalogue, self.specification),
            &self.specification.devices[device],
            title,
            generator,
            requests,
        );
        let bandwidth = visit.asker.bandwidth;
        Session {
            number,
            device: device as u16,
            title,
            arrival_s,
            bandwidth,
            requests: visit.run(arrival_s),
        }
    }
}
