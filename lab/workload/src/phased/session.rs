//! One session: a person's acts, and the phases that result from them and the network.

use alloc::vec::Vec;

use headlong_random::Generator;

use super::catalogue::PhasedCatalogue;
use super::requests::PhasedRequest;
use super::specification::PhasedSpecification;
use super::visit::SessionSimulation;

/// A session and its requests, in the order in which the device generated them.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasedSession {
    /// Its number, from 0, in order of arrival.
    pub number: u64,
    /// An index into [`PhasedSpecification::devices`].
    pub device: u16,
    /// An index into [`PhasedCatalogue::titles`].
    pub title: u32,
    /// Start time, s from the start of the log.
    pub arrival_s: f64,
    /// Bandwidth of its network, bytes per second.
    pub bandwidth: f64,
    /// Its requests.
    pub requests: Vec<PhasedRequest>,
}

impl PhasedSession {
    /// Its requests as in a log: completion in whole seconds, so that the derived arrival is up to
    /// one second early (A1). Session, file and device keep their numbers from 0; the index in the
    /// session is used as the line number. `lines` is overwritten.
    pub fn logged(&self, catalogue: &PhasedCatalogue, lines: &mut Vec<headlong_chains::Request>) {
        lines.clear();
        lines.extend((0..).zip(&self.requests).map(|(line, request)| {
            let completed_ms = request.completed_ms.div_euclid(1000) * 1000;
            let service_ms = request.completed_ms - request.received_ms;
            headlong_chains::Request {
                line,
                // Larger session numbers do not fit into our logs either.
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

/// Data shared by all sessions.
pub(crate) struct SessionContext<'a> {
    specification: &'a PhasedSpecification,
    catalogue: &'a PhasedCatalogue,
    sessions: Generator,
    /// Cumulative share of sessions, by device.
    devices: Vec<f64>,
}

impl<'a> SessionContext<'a> {
    pub(crate) fn new(
        specification: &'a PhasedSpecification,
        catalogue: &'a PhasedCatalogue,
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

    /// Session `number`. `requests` is cleared and reused for its memory.
    pub(crate) fn session(
        &self,
        number: u64,
        arrival_s: f64,
        mut requests: Vec<PhasedRequest>,
    ) -> PhasedSession {
        requests.clear();
        let mut generator = self.sessions.fork_at(number);
        let sum = self.devices.last().copied().unwrap_or(1.0);
        let unit = generator.unit() * sum;
        let device = self.devices.partition_point(|share| *share <= unit);
        let device = device.min(self.devices.len().saturating_sub(1));
        let title = self.catalogue.pick(generator.unit());
        let visit = SessionSimulation::new(
            (self.catalogue, self.specification),
            &self.specification.devices[device],
            title,
            generator,
            requests,
        );
        let bandwidth = visit.asker.bandwidth;
        PhasedSession {
            number,
            device: device as u16,
            title,
            arrival_s,
            bandwidth,
            requests: visit.run(arrival_s),
        }
    }
}
