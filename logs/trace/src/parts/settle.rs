//! Going over all parts once, to learn what can only be said when all has been read.

use headlong_chains::Request;

use super::file_use::{FileUse, file_uses};
use super::maps::{divide, drop_repeated};
use super::{Parts, PartsError};
use crate::names::QuickMap;

/// What going over all parts once has shown.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Of each name, how many sessions it is (those of one are left out).
    pub(crate) counts: QuickMap<u32, u32>,
    /// Requests that were in two logs: how many, their bytes, and places in the log of the first.
    pub(crate) repeated: u64,
    pub(crate) repeated_bytes: u64,
    pub(crate) repeated_lines: Vec<u64>,
    /// What is known of files from their requests.
    pub(crate) files: QuickMap<u32, FileUse>,
}

impl Parts {
    /// Goes over all parts once: counts sessions of viewers, finds repetitions, and looks at how
    /// files were used.
    pub(crate) fn settle(&self, threads: usize, with_files: bool) -> Result<Settled, PartsError> {
        let outcomes = self.each_loaded(threads, |_, loader, unit| {
            loader.decode(unit)?;
            let mut settled = Settled::default();
            if self.maps.drop_repeated {
                drop_repeated(&mut loader.requests, |request| settled.repeat(request));
            }
            if self.maps.viewers_divide() {
                let counts = &mut settled.counts;
                divide(&mut loader.requests, &self.maps, |_, key, number| {
                    if number > 0 {
                        counts.insert(key, number + 1);
                    }
                });
            }
            if with_files {
                settled.files = file_uses(&loader.requests);
            }
            Ok(settled)
        })?;
        let mut all = Settled::default();
        for outcome in outcomes {
            all.counts.extend(outcome.counts);
            all.repeated += outcome.repeated;
            all.repeated_bytes += outcome.repeated_bytes;
            all.repeated_lines.extend(outcome.repeated_lines);
            for (file, used) in outcome.files {
                all.files.entry(file).or_default().add(used);
            }
        }
        all.repeated_lines.sort_unstable();
        all.repeated_lines.truncate(crate::dropped::SAMPLES_MAX);
        Ok(all)
    }
}

impl Settled {
    fn repeat(&mut self, request: &Request) {
        self.repeated += 1;
        self.repeated_bytes += request.sent_bytes;
        self.repeated_lines.push(request.line);
        if self.repeated_lines.len() > 64 {
            self.repeated_lines.sort_unstable();
            self.repeated_lines.truncate(crate::dropped::SAMPLES_MAX);
        }
    }
}
