//! Measures generated sessions as a log of them would be measured.
//!
//! A generator is judged by the log it produces, not by its parameters. Sessions are generated one
//! at a time, in the form of log lines (completion in whole seconds), and pass through the same
//! accumulators as those of a log that was read, without an intermediate file.

use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{ChainRules, FileInfo, Request};
use headlong_characterise::{
    Accumulators, Characterisation, LogContext, Observations, Provenance, SessionSplitter,
    SessionView,
};

use super::catalogue::PhasedCatalogue;
use super::log::PhasedSessions;
use super::session::PhasedSession;
use super::specification::PhasedSpecification;

/// Statistics over the sessions of a specification.
#[derive(Debug)]
pub struct SessionStatistics<'a> {
    specification: &'a PhasedSpecification,
    catalogue: &'a PhasedCatalogue,
    log: LogContext,
    splitter: SessionSplitter,
    sums: Accumulators,
    lines: Vec<Request>,
    requests: u64,
    bytes: u64,
}

impl<'a> SessionStatistics<'a> {
    /// Empty statistics. Only names are taken from the specification, and only the data of a files
    /// table from the catalogue, which belongs to the specification.
    pub fn new(specification: &'a PhasedSpecification, catalogue: &'a PhasedCatalogue) -> Self {
        let files = catalogue.files.iter().map(|file| FileInfo {
            title: file.title,
            kind: file.kind,
            kbps: file.kbps,
            size_bytes: file.size,
            disk: file.disk,
            duration_s: catalogue.titles[file.title as usize].duration_s,
            is_estimated: false,
        });
        let length_ms = (specification.sessions.length_s * 1000.0) as i64;
        let mut log = LogContext::new(files.collect(), (0, length_ms));
        // Their numbers are compared with those of the thesis.
        log.leaves_out_ended = true;
        let names = specification.devices.iter();
        log.devices = names.map(|device| device.name.clone()).collect();
        Self {
            specification,
            catalogue,
            splitter: SessionSplitter::new(ChainRules::default()),
            sums: Accumulators::new(&log),
            log,
            lines: Vec::new(),
            requests: 0,
            bytes: 0,
        }
    }

    /// Adds a session; one without requests would not appear in a log and does not count. `each`
    /// receives it if statistics include it (A16), with its chains.
    pub fn add(&mut self, session: &PhasedSession, mut each: impl FnMut(&SessionView<'_>)) {
        session.logged(self.catalogue, &mut self.lines);
        self.requests += self.lines.len() as u64;
        self.bytes += self.lines.iter().map(|line| line.sent_bytes).sum::<u64>();
        let (log, sums) = (&self.log, &mut self.sums);
        self.splitter.split(log, &mut self.lines, |view| {
            sums.add(log, view);
            if !log.is_left_out(view.span) {
                each(view);
            }
        });
    }

    /// The result; `command` is the command that repeats it.
    pub fn finish(self, command: &str) -> Characterisation {
        let name = &self.specification.name;
        let about = Provenance {
            title: name.clone(),
            logs: vec![name.clone()],
            format: "generated".to_string(),
            sessions_by: "the generated sessions".to_string(),
            bytes: self.bytes,
            requests: self.requests,
            files: self.catalogue.files.len() as u64,
            command: command.to_string(),
            ..Provenance::default()
        };
        let mut result = self.sums.finish(&self.log, about);
        result.observed.name.clone_from(name);
        result
    }
}

/// Characterises the log of `specification` with this seed.
pub fn characterise(
    specification: &PhasedSpecification,
    catalogue: &PhasedCatalogue,
    seed: u64,
) -> Characterisation {
    let mut measure = SessionStatistics::new(specification, catalogue);
    let mut sessions = PhasedSessions::new(specification, catalogue, seed);
    while let Some(session) = sessions.next() {
        measure.add(&session, |_| ());
        sessions.recycle(session);
    }
    measure.finish("")
}

/// The measurements from which a specification is fitted.
pub fn observe(
    specification: &PhasedSpecification,
    catalogue: &PhasedCatalogue,
    seed: u64,
) -> Observations {
    characterise(specification, catalogue, seed).observed
}
