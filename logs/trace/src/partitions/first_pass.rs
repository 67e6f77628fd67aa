//! First pass over all partitions, for results that need all requests.

use headlong_chains::Request;

use super::file_use::{FileUse, file_uses};
use super::maps::{divide, drop_repeated};
use super::{Partitions, PartitionsError};
use crate::names::QuickMap;

/// Result of the first pass.
#[derive(Debug, Default)]
pub(crate) struct FirstPass {
    /// Number of sessions of each name (names with one session are omitted).
    pub(crate) counts: QuickMap<u32, u32>,
    /// Duplicate requests of two logs: their number, their bytes, and the first log positions.
    pub(crate) repeated: u64,
    pub(crate) repeated_bytes: u64,
    pub(crate) repeated_lines: Vec<u64>,
    /// Usage of files.
    pub(crate) files: QuickMap<u32, FileUse>,
}

impl Partitions {
    /// Passes over all partitions once: counts the sessions of viewers, finds duplicates, and
    /// collects the usage of files.
    pub(crate) fn first_pass(
        &self,
        threads: usize,
        with_files: bool,
    ) -> Result<FirstPass, PartitionsError> {
        let outcomes = self.each_loaded(threads, |_, loader, unit| {
            loader.decode(unit)?;
            let mut first_pass = FirstPass::default();
            if self.maps.drop_repeated {
                drop_repeated(&mut loader.requests, |request| first_pass.repeat(request));
            }
            if self.maps.viewers_divide() {
                let counts = &mut first_pass.counts;
                divide(&mut loader.requests, &self.maps, |_, key, number| {
                    if number > 0 {
                        counts.insert(key, number + 1);
                    }
                });
            }
            if with_files {
                first_pass.files = file_uses(&loader.requests);
            }
            Ok(first_pass)
        })?;
        let mut all = FirstPass::default();
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
        all.repeated_lines.truncate(crate::drop_counts::SAMPLES_MAX);
        Ok(all)
    }
}

impl FirstPass {
    fn repeat(&mut self, request: &Request) {
        self.repeated += 1;
        self.repeated_bytes += request.sent_bytes;
        self.repeated_lines.push(request.line);
        if self.repeated_lines.len() > 64 {
            self.repeated_lines.sort_unstable();
            self.repeated_lines
                .truncate(crate::drop_counts::SAMPLES_MAX);
        }
    }
}
