//! Properties of files: from a files table, otherwise from names and usage.

use std::io::Read as _;
use std::path::Path;

use headlong_chains::{ContentKind, FileInfo};
use serde::{Deserialize, Serialize};

use crate::drop_counts::DropCounts;
use crate::names::{Interner, Names, QuickMap, Renumber};
use crate::parquet::TableLines;
use crate::read::{DropReason, columns, number, trimmed};

/// Columns of a files table; only `file` is required.
const COLUMNS: [&str; 7] = [
    "file",
    "title",
    "kind",
    "kbps",
    "size",
    "disk",
    "duration_s",
];

/// A files table with provisional numbers for names.
#[derive(Debug, Default)]
pub(crate) struct FilesTable {
    pub(crate) rows: Vec<FileRow>,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FileRow {
    pub(crate) file: u32,
    title: Option<u32>,
    kind: Option<ContentKind>,
    kbps: u32,
    pub(crate) size_bytes: u64,
    disk: Option<u32>,
    duration_s: f64,
}

/// The interners of all kinds of names.
pub(crate) struct Interners {
    pub(crate) sessions: Interner,
    pub(crate) viewers: Interner,
    pub(crate) files: Interner,
    pub(crate) titles: Interner,
    pub(crate) devices: Interner,
    pub(crate) disks: Interner,
}

impl Interners {
    pub(crate) fn new() -> Self {
        Self {
            sessions: Interner::new(24),
            viewers: Interner::new(6),
            files: Interner::new(24),
            titles: Interner::new(20),
            devices: Interner::new(12),
            disks: Interner::new(16),
        }
    }

    /// Memory used by names, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let all = [
            &self.sessions,
            &self.viewers,
            &self.files,
            &self.titles,
            &self.devices,
            &self.disks,
        ];
        all.iter().map(|interner| interner.bytes()).sum()
    }
}

/// Why a files table could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The file cannot be read.
    #[error("cannot read the files table {path}: {source}")]
    Read {
        /// The path.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// It has no column `file`.
    #[error(
        "the files table {path} has no column `file`; its first line must name the columns, such \
         as file,title,kind,kbps,size,disk,duration_s, but is: {line}"
    )]
    NoHeader {
        /// The path.
        path: String,
        /// Its first line.
        line: String,
    },
}

impl FilesTable {
    /// Reads a table; unreadable lines are counted in `dropped`.
    pub(crate) fn open(
        path: &Path,
        names: &Interners,
        dropped: &mut DropCounts,
    ) -> Result<Self, FilesError> {
        let told = path.display().to_string();
        let read = || -> std::io::Result<Vec<u8>> {
            let mut text = Vec::new();
            // Standard input cannot be a Parquet table.
            if path != Path::new("-")
                && let Some(mut lines) = TableLines::open(path)?
            {
                lines.read_to_end(&mut text)?;
                return Ok(text);
            }
            let read_bytes = std::sync::Arc::default();
            let head = crate::read::source::look(path, &read_bytes)?;
            let mut blocks = crate::read::source::BlockReader::open(
                &path.to_path_buf(),
                head.packing,
                head.input,
                &read_bytes,
            )?;
            let mut block = crate::read::source::LineBlock::default();
            while blocks.next(&mut block) {
                text.extend_from_slice(&block.bytes);
            }
            blocks.trouble.map_or(Ok(text), Err)
        };
        let text = read().map_err(|source| FilesError::Read {
            path: told.clone(),
            source,
        })?;
        Self::from_text(&text, &told, names, dropped)
    }

    /// Reads the text of a table.
    pub(crate) fn from_text(
        text: &[u8],
        told: &str,
        names: &Interners,
        dropped: &mut DropCounts,
    ) -> Result<Self, FilesError> {
        let mut lines = text.split(|byte| *byte == b'\n').map(trimmed).enumerate();
        let (_, header) = lines.next().unwrap_or_default();
        let columns = columns(header).ok_or_else(|| FilesError::NoHeader {
            path: told.to_owned(),
            line: crate::drop_counts::shown(header),
        })?;
        let mut table = Self::default();
        for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
            match row(line, &columns, names) {
                Ok(row) => table.rows.push(row),
                Err(reason) => {
                    let number = index as u64 + 1;
                    dropped.add(reason, told, number, number, line);
                }
            }
        }
        Ok(table)
    }
}

struct FilesColumns {
    separator: u8,
    /// For each column of the table, its index in [`COLUMNS`].
    places: Vec<Option<usize>>,
}

fn columns(header: &[u8]) -> Option<FilesColumns> {
    let header = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header);
    let counts = [b',', b'\t', b';'].map(|byte| (memchr::memchr_iter(byte, header).count(), byte));
    let separator = counts.into_iter().max_by_key(|(count, _)| *count)?.1;
    let (mut places, mut rest) = (Vec::new(), Some(header));
    while let Some(text) = rest {
        let (name, after) = columns::piece(text, separator)?;
        let name = name.trim_ascii();
        places.push(COLUMNS.iter().position(|known| known.as_bytes() == name));
        rest = after;
    }
    let has_file = places.contains(&Some(0));
    has_file.then_some(FilesColumns { separator, places })
}

fn row(line: &[u8], columns: &FilesColumns, names: &Interners) -> Result<FileRow, DropReason> {
    let mut texts: [&[u8]; COLUMNS.len()] = [&[]; COLUMNS.len()];
    let mut rest = Some(line);
    for place in &columns.places {
        let (piece, after) = columns::piece(rest.ok_or(DropReason::Shape)?, columns.separator)
            .ok_or(DropReason::Shape)?;
        if let Some(place) = place {
            texts[*place] = piece.trim_ascii();
        }
        rest = after;
    }
    let [file, title, kind, kbps, size, disk, duration] = texts;
    if file.is_empty() {
        return Err(DropReason::NoFile);
    }
    let kind = match kind {
        b"0" | b"audio" => Some(ContentKind::Audio),
        b"1" | b"video" => Some(ContentKind::Video),
        b"2" | b"combined" => Some(ContentKind::Combined),
        b"" | b"-" => None,
        _ => return Err(DropReason::BadNumber),
    };
    let kbps = match kbps {
        b"" | b"-" => 0,
        text => number::thousandths(text, 0).ok_or(DropReason::BadNumber)?,
    };
    let duration_ms = number::service_ms(duration, 3)?.unwrap_or(0);
    let known =
        |text: &[u8], names: &Interner| (!matches!(text, b"" | b"-")).then(|| names.intern(text).0);
    Ok(FileRow {
        size_bytes: number::amount(size)?.unwrap_or(0),
        kbps: u32::try_from(kbps).map_err(|_| DropReason::Negative)?,
        duration_s: duration_ms as f64 / 1000.0,
        kind,
        file: names.files.intern(file).0,
        title: known(title, &names.titles),
        disk: known(disk, &names.disks),
    })
}

/// Properties of a file found in the log itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct FileHint {
    /// Its size from a reply; 0 if unknown.
    pub(crate) size_bytes: u64,
    /// The highest bit rate requested; 0 if unknown.
    pub(crate) kbps: u32,
    /// The highest byte sent, of files that may be segments.
    pub(crate) reached_bytes: u64,
}

/// Usage of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct FileUse {
    /// The highest byte sent.
    pub(crate) end: u64,
    /// Bytes sent in sessions that used the file for a minute or more.
    pub(crate) long_bytes: u64,
    /// Total time that these sessions used it, ms.
    pub(crate) long_ms: u64,
}

impl FileHint {
    /// Adds what another part of the log tells.
    pub(crate) fn add(&mut self, other: Self) {
        self.size_bytes = self.size_bytes.max(other.size_bytes);
        self.kbps = self.kbps.max(other.kbps);
        self.reached_bytes = self.reached_bytes.max(other.reached_bytes);
    }
}

impl FileUse {
    /// Adds the usage of further sessions.
    pub(crate) fn add(&mut self, other: Self) {
        self.end = self.end.max(other.end);
        self.long_bytes += other.long_bytes;
        self.long_ms += other.long_ms;
    }
}

/// Properties from the table and the log, in final numbers, before estimation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct FileFacts {
    pub(crate) row: Option<FileRow>,
    pub(crate) hint: FileHint,
}

impl FileFacts {
    /// The title given in its table.
    pub(crate) fn title(&self) -> Option<u32> {
        self.row?.title
    }

    /// The size of a segment: from a files table or a reply, otherwise the highest byte sent.
    pub(crate) fn segment_bytes(&self) -> u64 {
        match self.told_bytes() {
            0 => self.hint.reached_bytes,
            told => told,
        }
    }

    fn told_bytes(&self) -> u64 {
        let listed = self.row.map_or(0, |row| row.size_bytes);
        if listed > 0 {
            listed
        } else {
            self.hint.size_bytes
        }
    }

    /// The facts of a stream of these segments; `is_complete`: none is missing.
    pub(crate) fn joined<'a>(
        segments: impl Iterator<Item = &'a Self> + Clone,
        is_complete: bool,
    ) -> Self {
        let all = || segments.clone();
        let rows = || all().filter_map(|one| one.row);
        let bytes: u64 = all().map(Self::told_bytes).fold(0, u64::saturating_add);
        let is_sized = is_complete && all().all(|one| one.told_bytes() > 0);
        let size_bytes = if is_sized { bytes } else { 0 };
        let is_listed = all().all(|one| one.row.is_some());
        let rate = |row: FileRow| row.size_bytes.max(1) as f64 * f64::from(row.kbps);
        let weight: u64 = rows().map(|row| row.size_bytes.max(1)).sum();
        let has_rates = is_listed && rows().all(|row| row.kbps > 0);
        let is_timed = is_listed && is_complete && rows().all(|row| row.duration_s > 0.0);
        Self {
            row: rows().next().map(|row| FileRow {
                size_bytes,
                kbps: match has_rates {
                    true => (rows().map(rate).sum::<f64>() / weight.max(1) as f64) as u32,
                    false => 0,
                },
                duration_s: match is_timed {
                    true => rows().map(|row| row.duration_s).sum(),
                    false => 0.0,
                },
                ..row
            }),
            hint: FileHint {
                size_bytes,
                kbps: all().map(|one| one.hint.kbps).max().unwrap_or(0),
                reached_bytes: 0,
            },
        }
    }

    #[cfg(test)]
    pub(crate) fn of_segment(reached_bytes: u64) -> Self {
        let hint = FileHint {
            reached_bytes,
            ..FileHint::default()
        };
        Self { row: None, hint }
    }

    /// Whether some property can only be estimated from usage.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.row
            .is_none_or(|row| row.size_bytes == 0 || (row.kbps == 0 && row.duration_s == 0.0))
    }
}

/// Properties of each file; estimated ones are marked.
pub(crate) fn infos(
    files: &Names,
    facts: &[FileFacts],
    uses: &QuickMap<u32, FileUse>,
    titles: &[u32],
    file_disks: &[u16],
) -> Vec<FileInfo> {
    (0..files.len() as u32)
        .map(|number| {
            let place = number as usize;
            let used = uses.get(&number).copied().unwrap_or_default();
            let facts = facts.get(place).copied().unwrap_or_default();
            let title = titles.get(place).copied().unwrap_or_default();
            let disk = file_disks.get(place).copied().unwrap_or_default();
            info(&files.bytes(number), &facts, used, title, disk)
        })
        .collect()
}

/// Which properties of a file are known, not estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KnownProperties {
    /// The bit rate, from a files table.
    pub kbps: bool,
    /// The size, from a files table or a reply.
    pub size: bool,
}

/// The known properties of each file.
pub(crate) fn known_properties(facts: &[FileFacts]) -> Vec<KnownProperties> {
    let told = |facts: &FileFacts| KnownProperties {
        kbps: facts.row.is_some_and(|row| row.kbps > 0),
        size: facts.row.is_some_and(|row| row.size_bytes > 0) || facts.hint.size_bytes > 0,
    };
    facts.iter().map(told).collect()
}

fn info(name: &[u8], facts: &FileFacts, used: FileUse, title: u32, disk: u16) -> FileInfo {
    let row = facts.row;
    let told_kbps = row.map_or(0, |row| row.kbps);
    let told_s = row.map_or(0.0, |row| row.duration_s);
    let size_bytes = row
        .map(|row| row.size_bytes)
        .filter(|size| *size > 0)
        .unwrap_or(facts.hint.size_bytes.max(used.end));
    let kbps = match (told_kbps, facts.hint.kbps) {
        (0, 0) if told_s > 0.0 => (size_bytes as f64 * 8.0 / told_s / 1000.0).round() as u32,
        (0, 0) => (used.long_bytes.saturating_mul(8) / used.long_ms.max(1)) as u32,
        (0, asked) => asked,
        (told, _) => told,
    };
    let duration_s = match (told_s, kbps) {
        (0.0, 0) => 0.0,
        (0.0, kbps) => size_bytes as f64 * 8.0 / (f64::from(kbps) * 1000.0),
        (told, _) => told,
    };
    let kind = row.and_then(|row| row.kind);
    FileInfo {
        title,
        kind: kind.unwrap_or_else(|| kind_by_name(name)),
        kbps,
        size_bytes,
        disk,
        duration_s,
        is_estimated: told_kbps == 0 || kind.is_none(),
    }
}

fn kind_by_name(name: &[u8]) -> ContentKind {
    let name = name.to_ascii_lowercase();
    let has = |word: &[u8]| memchr::memmem::find(&name, word).is_some();
    let ends = |ending: &&[u8]| name.ends_with(ending);
    const AUDIO: [&[u8]; 6] = [b".m4a", b".aac", b".mp3", b".ogg", b".opus", b".flac"];
    if AUDIO.iter().any(ends) || has(b"audio") {
        ContentKind::Audio
    } else if name.ends_with(b".m4v") || has(b"video") {
        ContentKind::Video
    } else {
        ContentKind::Combined
    }
}

/// Numbers of drives: the name itself if all drives are numbers, otherwise its position among the
/// names.
pub(crate) fn disk_numbers(disks: &Names) -> Vec<u16> {
    let count = disks.len() as u32;
    match disks.as_numbers() {
        Some(numbers) if numbers.iter().all(|number| *number <= u64::from(u16::MAX)) => {
            numbers.iter().map(|number| *number as u16).collect()
        }
        _ => (0..count)
            .map(|place| place.min(u32::from(u16::MAX)) as u16)
            .collect(),
    }
}

/// The drive of each file according to its table, 0 if unknown.
pub(crate) fn file_disks(facts: &[FileFacts], disks: &Renumber, numbers: &[u16]) -> Vec<u16> {
    let disk = |facts: &FileFacts| {
        let place = disks.of(facts.row?.disk?)?;
        numbers.get(place as usize).copied()
    };
    facts.iter().map(|facts| disk(facts).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_read_by_header_and_bad_lines_are_counted() {
        let names = Interners::new();
        let mut dropped = DropCounts::default();
        let text = b"kind,file,kbps,size,title,extra,disk,duration_s\r\n\
            1,10,3000,1000,7,x,3,60.5\n0,11,96,,7,x,,\nvideo,12,-5,1,7,x,3,1\n\
            9,13,1,1,7,x,3,1\n1,14,1\n\n2,,1,1,1,1,1,1\n";
        let table = FilesTable::from_text(text, "files.csv", &names, &mut dropped).expect("read");
        assert_eq!(table.rows.len(), 2);
        let first = table.rows[0];
        assert_eq!(
            (first.file, first.kind, first.kbps),
            (10, Some(ContentKind::Video), 3000)
        );
        assert_eq!((first.size_bytes, first.duration_s), (1000, 60.5));
        assert_eq!((table.rows[1].size_bytes, table.rows[1].disk), (0, None));
        let reasons: Vec<DropReason> = dropped
            .by_reason()
            .iter()
            .map(|lines| lines.reason)
            .collect();
        assert_eq!(
            reasons,
            [
                DropReason::Shape,
                DropReason::NoFile,
                DropReason::BadNumber,
                DropReason::Negative
            ]
        );
        assert_eq!(dropped.by_reason()[0].samples[0].line, 6);
    }

    #[test]
    fn files_table_may_be_parquet() {
        use crate::parquet::{Columns, TableWriter};
        let columns = Columns::<(u32, Option<f64>)>::empty()
            .int("file", |row| Some(row.0))
            .text("kind", |_| Some("audio"))
            .int("kbps", |_| Some(64))
            .real("duration_s", |row| row.1);
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("files.parquet");
        let file = std::fs::File::create(&path).expect("created");
        let mut table = TableWriter::into_file(file, &path, columns).expect("a table");
        for row in [(7, Some(60.5)), (8, None)] {
            table.push(&row).expect("a row");
        }
        table.finish().expect("finished");
        let names = Interners::new();
        let table = FilesTable::open(&path, &names, &mut DropCounts::default()).expect("read");
        let told = table
            .rows
            .iter()
            .map(|row| (row.file, row.kind, row.kbps, row.duration_s));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                (7, Some(ContentKind::Audio), 64, 60.5),
                (8, Some(ContentKind::Audio), 64, 0.0)
            ]
        );
    }

    #[test]
    fn column_names_may_be_quoted() {
        let names = Interners::new();
        let text = b"\"file\",\"title\",\"kind\",\"kbps\"\n\"10\",\"a, b\",\"audio\",\"96\"\n";
        let read = FilesTable::from_text(text, "files.csv", &names, &mut DropCounts::default());
        let rows = read.expect("read").rows;
        let told = rows.iter().map(|row| (row.file, row.kind, row.kbps));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [(10, Some(ContentKind::Audio), 96)]
        );
    }

    #[test]
    fn missing_header_is_an_error_with_the_first_line() {
        let names = Interners::new();
        let outcome =
            FilesTable::from_text(b"1,2,3\n", "f.csv", &names, &mut DropCounts::default());
        let error = outcome.expect_err("no header").to_string();
        assert!(error.contains("f.csv has no column `file`") && error.ends_with("but is: 1,2,3"));
    }

    #[test]
    fn unknown_properties_are_estimated_and_marked() {
        let used = FileUse {
            end: 3_000_000,
            long_bytes: 2_500_000,
            long_ms: 10_000,
        };
        let guess = info(b"/a/audio.mp4", &FileFacts::default(), used, 4, 2);
        assert_eq!(
            (guess.kind, guess.kbps, guess.size_bytes),
            (ContentKind::Audio, 2000, 3_000_000)
        );
        assert!(guess.is_estimated && (guess.duration_s - 12.0).abs() < 1e-9);
        let nothing = info(b"x", &FileFacts::default(), FileUse::default(), 0, 0);
        assert_eq!((nothing.kbps, nothing.duration_s), (0, 0.0));
        let row = FileRow {
            file: 0,
            title: None,
            kind: Some(ContentKind::Video),
            kbps: 0,
            size_bytes: 1_000_000,
            disk: None,
            duration_s: 8.0,
        };
        let facts = FileFacts {
            row: Some(row),
            hint: FileHint::default(),
        };
        let by_size = info(b"x", &facts, used, 0, 0);
        assert_eq!((by_size.kbps, by_size.is_estimated), (1000, true));
    }
}
