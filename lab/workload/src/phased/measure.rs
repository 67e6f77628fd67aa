//! Measures what was generated as a log of it would be.
//!
//! The one idea: a generator is judged by what a log of it shows, not by what it meant. Sessions come
//! one at a time, as lines of a log have them (whole seconds of completion), and go through the same
//! accumulators as those of a log that was read, without a file between.

use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use headlong_chains::{FileInfo, Request, Rules};
use headlong_characterise::{
    About, Accumulators, Characterisation, Log, Observed, SessionSplitter, SessionView,
};

use super::catalogue::Catalogue;
use super::log::Sessions;
use super::session::Session;
use super::specification::Specification;

/// Sums over the sessions of a specification.
#[derive(Debug)]
pub struct Measure<'a> {
    specification: &'a Specification,
    catalogue: &'a Catalogue,
    log: Log,
    splitter: SessionSplitter,
    sums: Accumulators,
    lines: Vec<Request>,
    requests: u64,
    bytes: u64,
}

impl<'a> Measure<'a> {
    /// Nothing yet; `catalogue` is that of the specification. Only names are taken from the
    /// specification, and what a table of files has from the catalogue.
    pub fn new(specification: &'a Specification, catalogue: &'a Catalogue) -> Self {
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
        let mut log = Log::new(files.collect(), (0, length_ms));
        let names = specification.devices.iter();
        log.devices = names.map(|device| device.name.clone()).collect();
        Self {
            specification,
            catalogue,
            splitter: SessionSplitter::new(Rules::default()),
            sums: Accumulators::new(&log),
            log,
            lines: Vec::new(),
            requests: 0,
            bytes: 0,
        }
    }

    /// One session more; one without requests is not in a log, and does not count. `each` sees it if
    /// statistics count it (A16), and so with its chains.
    pub fn add(&mut self, session: &Session, mut each: impl FnMut(&SessionView<'_>)) {
        session.logged(self.catalogue, &mut self.lines);
        self.requests += self.lines.len() as u64;
        self.bytes += self.lines.iter().map(|line| line.sent_bytes).sum::<u64>();
        let (log, sums) = (&self.log, &mut self.sums);
        self.splitter.split(log, &mut self.lines, |view| {
            sums.add(log, view);
            if view.span.start_ms < log.kept_before_ms {
                each(view);
            }
        });
    }

    /// All of it; `command` is what makes it again.
    pub fn finish(self, command: &str) -> Characterisation {
        let name = &self.specification.name;
        let about = About {
            title: name.clone(),
            logs: vec![name.clone()],
            format: "generated".to_string(),
            sessions_by: "the sessions that were generated".to_string(),
            bytes: self.bytes,
            requests: self.requests,
            files: self.catalogue.files.len() as u64,
            command: command.to_string(),
            ..About::default()
        };
        let mut result = self.sums.finish(&self.log, about);
        result.observed.name.clone_from(name);
        result
    }
}

/// What a log of `specification` with this seed looks like.
pub fn characterise(
    specification: &Specification,
    catalogue: &Catalogue,
    seed: u64,
) -> Characterisation {
    let mut measure = Measure::new(specification, catalogue);
    let mut sessions = Sessions::new(specification, catalogue, seed);
    while let Some(session) = sessions.next() {
        measure.add(&session, |_| ());
        sessions.recycle(session);
    }
    measure.finish("")
}

/// The numbers of it that a specification is fitted from.
pub fn observe(specification: &Specification, catalogue: &Catalogue, seed: u64) -> Observed {
    characterise(specification, catalogue, seed).observed
}
