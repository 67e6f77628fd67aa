//! A generated log, told without being written or read.
//!
//! The one idea: what a specification means is what the characteriser tells of its log. Sessions come
//! one at a time, as a log would have them, and go through the same accumulators as those of a log
//! that was read; so whoever shows what a specification is like shows what `headlong trace
//! characterise` would.

use headlong_chains::{FileInfo, Request, Rules};
use headlong_workload::phased::{Catalogue, Session, Specification};

use super::{About, Characterisation, Log, SessionView, Teller, Told};

/// Tells the sessions of a specification as they come.
#[derive(Debug)]
pub struct Generated<'a> {
    specification: &'a Specification,
    catalogue: &'a Catalogue,
    log: Log,
    teller: Teller,
    told: Told,
    lines: Vec<Request>,
    requests: u64,
    bytes: u64,
}

impl<'a> Generated<'a> {
    /// Nothing yet; `catalogue` is that of the specification.
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
            teller: Teller::new(Rules::default()),
            told: Told::new(&log),
            log,
            lines: Vec::new(),
            requests: 0,
            bytes: 0,
        }
    }

    /// One session more. `each` sees it if statistics count it (A16), and so with its chains.
    pub fn add(&mut self, session: &Session, mut each: impl FnMut(&SessionView<'_>)) {
        session.logged(self.catalogue, &mut self.lines);
        self.requests += self.lines.len() as u64;
        self.bytes += self.lines.iter().map(|line| line.sent_bytes).sum::<u64>();
        let Self {
            log, teller, told, ..
        } = self;
        teller.tell(log, &mut self.lines, |view| {
            told.add(log, view);
            if view.span.start_ms < log.kept_before_ms {
                each(view);
            }
        });
    }

    /// All of it; `command` is what makes it again.
    pub fn finish(self, command: &str) -> Characterisation {
        let about = About {
            title: self.specification.name.clone(),
            logs: vec![self.specification.name.clone()],
            format: "generated".into(),
            sessions_by: "the sessions that were generated".into(),
            bytes: self.bytes,
            requests: self.requests,
            files: self.catalogue.files.len() as u64,
            command: command.into(),
            ..About::default()
        };
        let mut told = self.told.finish(&self.log, about);
        told.observed.name.clone_from(&self.specification.name);
        told
    }
}
