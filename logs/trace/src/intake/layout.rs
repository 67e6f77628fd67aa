//! What names and files mean in final numbers: the same for all parts of a log, whichever requests
//! are at hand.

use super::error::IntakeError;
use super::options::Intake;
use super::worker::ThreadResults;
use crate::drop_counts::DropCounts;
use crate::files::{self, FileFacts, FilesTable, Interners};
use crate::names::{Names, Renumber};
use crate::partitions::Partitions;
use crate::partitions::first_pass::FirstPass;
use crate::partitions::maps::NumberMaps;
use crate::partitions::store::Chunks;
use crate::segment_files::JoinedFiles;
use crate::titles::{self, TitleRuleCounts};

/// Final numbers of all names, properties of files, and the requests that refer to them.
#[derive(Debug)]
pub(crate) struct LogLayout {
    /// Names of sessions with an id.
    pub(super) ids: Names,
    /// Names of viewers without one, which follow them in the numbering.
    pub(crate) viewers: Names,
    pub(super) file_names: Names,
    pub(super) facts: Vec<FileFacts>,
    pub(super) titles: Vec<u32>,
    pub(super) titles_by: TitleRuleCounts,
    pub(super) title_names: Names,
    pub(super) file_disks: Vec<u16>,
    pub(crate) devices: Names,
    pub(super) disks: Names,
    pub(super) streams: Vec<u32>,
    /// Number of segment files that were joined to streams.
    pub(super) segments: usize,
    pub(crate) parts: Partitions,
}

impl LogLayout {
    /// From provisional names and the requests that use them, of which `loaded` bytes may be loaded
    /// at a time.
    pub(crate) fn of(
        intake: &Intake,
        loaded: u64,
        (names, table, chunks): (Interners, &FilesTable, Chunks),
        told: &ThreadResults,
    ) -> Result<Self, IntakeError> {
        let (file_names, file_numbers) = names.files.finish();
        let (ids, sessions) = names.sessions.finish();
        let (viewers, viewer_numbers) = names.viewers.finish();
        let (devices, device_numbers) = names.devices.finish();
        let (disks, disk_places) = names.disks.finish();
        let facts = facts(&file_names, &file_numbers, table, told);
        let rule = title_rule(intake)?;
        let (titles, titles_by) =
            titles::of_files(&file_names, &facts, rule.as_ref(), &names.titles);
        let (title_names, title_numbers) = names.titles.finish();
        let titles: Vec<u32> = titles
            .into_iter()
            .map(|title| title_numbers.of(title).unwrap_or_default())
            .collect();
        let JoinedFiles {
            names: file_names,
            facts,
            titles,
            places,
            streams,
            segments,
        } = JoinedFiles::of(file_names, facts, titles);
        let disk_numbers = files::disk_numbers(&disks);
        let file_disks = files::file_disks(&facts, &disk_places, &disk_numbers);
        let idle_ms = i64::try_from(intake.session_idle.as_millis()).unwrap_or(i64::MAX);
        let maps = NumberMaps {
            sessions,
            viewers: viewer_numbers,
            sessions_named: ids.whole_len() as u32,
            bases: (viewers.whole_len() > 0).then(Vec::new),
            files: file_numbers,
            places,
            devices: device_numbers,
            disks: disk_places,
            disk_numbers,
            titles: titles.clone(),
            file_disks: file_disks.clone(),
            idle_ms,
            drop_repeated: do_logs_overlap(told),
            is_settled: false,
        };
        Ok(Self {
            parts: Partitions::new(chunks, maps, loaded),
            ids,
            viewers,
            file_names,
            facts,
            titles,
            titles_by,
            title_names,
            file_disks,
            devices,
            disks,
            streams,
            segments,
        })
    }

    /// Whether some property of a file can only be estimated from usage.
    pub(crate) fn has_estimates(&self, intake: &Intake) -> bool {
        intake.estimates && self.facts.iter().any(FileFacts::is_incomplete)
    }

    /// Passes over all requests, if their viewers or repetitions, or the usage of files, are
    /// needed.
    pub(crate) fn first_pass(
        &self,
        threads: usize,
        with_files: bool,
    ) -> Result<FirstPass, IntakeError> {
        let maps = &self.parts.maps;
        if maps.bases.is_none() && !with_files && !maps.drop_repeated {
            return Ok(FirstPass::default());
        }
        let first_pass = self.parts.first_pass(threads, with_files);
        Ok(first_pass.map_err(|error| error.named(&self.ids, &self.viewers))?)
    }

    /// Divides viewers into the sessions that the first pass found, and returns the names of all
    /// sessions.
    pub(crate) fn divide(&mut self, first_pass: &FirstPass) -> Names {
        let whole = self.ids.whole_len() + self.viewers.whole_len();
        let counts: Option<Vec<u32>> = self.parts.maps.bases.is_some().then(|| {
            (0..whole as u32)
                .map(|key| first_pass.counts.get(&key).copied().unwrap_or(1))
                .collect()
        });
        let ids = std::mem::take(&mut self.ids);
        let session_names = ids.joined(&self.viewers, counts.as_deref());
        self.parts.maps.bases = session_names.bases().map(<[u32]>::to_vec);
        session_names
    }
}

/// The files table with its names, and its unreadable lines.
pub(crate) fn files_table(
    intake: &Intake,
) -> Result<(Interners, FilesTable, DropCounts), IntakeError> {
    let (names, mut dropped) = (Interners::new(), DropCounts::default());
    let table = match &intake.files {
        Some(path) => FilesTable::open(path, &names, &mut dropped)?,
        None => FilesTable::default(),
    };
    Ok((names, table, dropped))
}

/// The compiled rule for titles.
pub(super) fn title_rule(intake: &Intake) -> Result<Option<regex_lite::Regex>, IntakeError> {
    let rule = intake.title_rule.as_deref();
    let ready = |rule: &str| {
        titles::rule(rule).map_err(|what| IntakeError::TitleRule {
            rule: rule.to_owned(),
            what,
        })
    };
    rule.map(ready).transpose()
}

fn facts(
    names: &Names,
    numbers: &Renumber,
    table: &FilesTable,
    told: &ThreadResults,
) -> Vec<FileFacts> {
    let mut facts = vec![FileFacts::default(); names.len()];
    let mut of = |file: u32, change: &dyn Fn(&mut FileFacts)| {
        let place = numbers.of(file).map(|number| number as usize);
        if let Some(facts) = place.and_then(|place| facts.get_mut(place)) {
            change(facts);
        }
    };
    for row in &table.rows {
        of(row.file, &|facts| facts.row = Some(*row));
    }
    for (file, hint) in &told.hints {
        of(*file, &|facts| facts.hint = *hint);
    }
    facts
}

/// Whether two logs overlap in time, so that a request may be in both.
fn do_logs_overlap(told: &ThreadResults) -> bool {
    let mut spans: Vec<(i64, i64)> = told
        .logs
        .values()
        .map(|(_, first, last)| (*first, *last))
        .collect();
    spans.sort_unstable();
    spans.windows(2).any(|pair| pair[1].0 <= pair[0].1)
}
