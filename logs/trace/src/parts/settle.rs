//! What can only be said when all has been read: final numbers, where one viewer's sessions end,
//! what two overlapping logs say twice, and bit rates that nobody told.

use headlong_chains::Request;

use super::record::Record;
use super::{DISK_UNKNOWN, Parts, PartsError, VIEWER};
use crate::names::{QuickMap, Renumber};

/// What provisional numbers become.
#[derive(Debug, Default)]
pub(crate) struct Maps {
    pub(crate) sessions: Renumber,
    pub(crate) viewers: Renumber,
    /// Sessions that have a name; viewers come after them.
    pub(crate) sessions_named: u32,
    /// The first session of each name; `None` if no viewer had to be divided.
    pub(crate) bases: Option<Vec<u32>>,
    pub(crate) files: Renumber,
    pub(crate) devices: Renumber,
    pub(crate) disks: Renumber,
    /// What a drive's place among the names is called.
    pub(crate) disk_numbers: Vec<u16>,
    /// By file: its title.
    pub(crate) titles: Vec<u32>,
    /// By file: the drive it lies on.
    pub(crate) file_disks: Vec<u16>,
    /// Longest time between two requests of one session of a viewer, ms.
    pub(crate) idle_ms: i64,
    /// Whether logs overlap in time, so that one request may be in two of them.
    pub(crate) drop_repeated: bool,
}

impl Maps {
    /// The request with final numbers, but the session that of the whole name.
    #[inline]
    pub(crate) fn settled(&self, record: &Record) -> Option<Request> {
        let mut request = record.request;
        request.session = if request.session & VIEWER == 0 {
            self.sessions.of(request.session)?
        } else {
            self.sessions_named + self.viewers.of(request.session & !VIEWER)?
        };
        request.file = self.files.of(request.file)?;
        request.device = self
            .devices
            .of(record.device)
            .map_or(0, |device| u16::try_from(device).unwrap_or(u16::MAX));
        request.disk = match record.disk {
            DISK_UNKNOWN => self.file_disks.get(request.file as usize).copied(),
            disk => self
                .disk_numbers
                .get(self.disks.of(disk)? as usize)
                .copied(),
        }
        .unwrap_or(0);
        Some(request)
    }

    fn title(&self, file: u32) -> u32 {
        self.titles.get(file as usize).copied().unwrap_or(file)
    }
}

/// Which log a request is from.
fn source(request: &Request) -> u64 {
    request.line >> crate::intake::SOURCE_SHIFT
}

/// Takes out what a second log says again word for word, and tells of each.
pub(crate) fn drop_repeated(requests: &mut Vec<Request>, mut tell: impl FnMut(&Request)) {
    let what = |request: &Request| {
        (
            (request.session, request.file),
            (request.completed_ms, request.received_ms),
            (request.offset, request.sent_bytes, request.asked_bytes),
            (request.disk, request.device),
        )
    };
    requests.sort_unstable_by(|a, b| what(a).cmp(&what(b)).then(a.line.cmp(&b.line)));
    let mut first: Option<Request> = None;
    requests.retain(|request| {
        if let Some(first) = first.filter(|first| what(first) == what(request)) {
            let is_repeated = source(&first) != source(request);
            if is_repeated {
                tell(request);
            }
            return !is_repeated;
        }
        first = Some(*request);
        true
    });
}

/// Divides each viewer's requests into sessions: another title, or a longer time without any
/// request, is another session. Calls `found` for every request with the name's number and which
/// of its sessions it belongs to.
pub(crate) fn divide(
    requests: &mut [Request],
    maps: &Maps,
    mut found: impl FnMut(&mut Request, u32, u32),
) {
    let key = |request: &Request| {
        let is_viewer = request.session >= maps.sessions_named;
        let title = if is_viewer {
            maps.title(request.file)
        } else {
            0
        };
        (request.session, title, request.completed_ms, request.line)
    };
    requests.sort_unstable_by_key(key);
    let mut before: Option<(u32, u32)> = None;
    let (mut number, mut busy_until_ms) = (0, i64::MIN);
    for request in requests {
        let (session, title, completed_ms, _) = key(request);
        let is_viewer = session >= maps.sessions_named;
        match before {
            Some(same) if same == (session, title) => {
                let idle_ms = request.received_ms.saturating_sub(busy_until_ms);
                if is_viewer && idle_ms > maps.idle_ms {
                    number += 1;
                }
                busy_until_ms = busy_until_ms.max(completed_ms);
            }
            Some((same, _)) if same == session => {
                number += 1;
                busy_until_ms = completed_ms;
            }
            _ => {
                number = 0;
                busy_until_ms = completed_ms;
            }
        }
        before = Some((session, title));
        found(request, session, number);
    }
}

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

/// How a file was used, for a guess at what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileUse {
    /// The highest byte that was sent.
    pub(crate) end: u64,
    /// Bytes sent in sessions that had the file for a minute or more.
    pub(crate) long_bytes: u64,
    /// How long these sessions had it, ms.
    pub(crate) long_ms: u64,
}

impl FileUse {
    fn add(&mut self, other: Self) {
        self.end = self.end.max(other.end);
        self.long_bytes += other.long_bytes;
        self.long_ms += other.long_ms;
    }
}

/// Shortest time with a file that says something about its bit rate, ms: in less than that, filling
/// a player's buffer is most of what happens.
const LONG_MS: i64 = 60_000;

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

impl Maps {
    fn viewers_divide(&self) -> bool {
        self.bases.is_some()
    }
}

fn file_uses(requests: &[Request]) -> QuickMap<u32, FileUse> {
    struct Reading {
        first_ms: i64,
        last_ms: i64,
        bytes: u64,
    }
    let mut readings: QuickMap<(u32, u32), Reading> = QuickMap::default();
    let mut files: QuickMap<u32, FileUse> = QuickMap::default();
    for request in requests {
        let end = &mut files.entry(request.file).or_default().end;
        *end = (*end).max(request.end());
        let reading = readings
            .entry((request.session, request.file))
            .or_insert(Reading {
                first_ms: request.received_ms,
                last_ms: request.completed_ms,
                bytes: 0,
            });
        reading.first_ms = reading.first_ms.min(request.received_ms);
        reading.last_ms = reading.last_ms.max(request.completed_ms);
        reading.bytes += request.sent_bytes;
    }
    for ((_, file), reading) in readings {
        let ms = reading.last_ms.saturating_sub(reading.first_ms);
        if ms >= LONG_MS {
            files.entry(file).or_default().add(FileUse {
                end: 0,
                long_bytes: reading.bytes,
                long_ms: ms as u64,
            });
        }
    }
    files
}
