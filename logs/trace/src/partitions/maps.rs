//! Converts records from provisional to final numbers, divides viewers into sessions, and removes
//! duplicates of overlapping logs.

use headlong_chains::Request;

use super::record::{DISK_UNKNOWN, Record, SOURCE_SHIFT, VIEWER};
use crate::names::Renumber;
use crate::segment_files::FilePlace;

/// Mappings of provisional to final numbers.
#[derive(Debug, Default)]
pub(crate) struct NumberMaps {
    pub(crate) sessions: Renumber,
    pub(crate) viewers: Renumber,
    /// Number of sessions with an id; viewers follow them.
    pub(crate) sessions_named: u32,
    /// The first session of each name; `None` if no viewer was divided.
    pub(crate) bases: Option<Vec<u32>>,
    pub(crate) files: Renumber,
    /// Places of the files of the log in those of the result; empty if they are the same.
    pub(crate) places: Vec<FilePlace>,
    pub(crate) devices: Renumber,
    pub(crate) disks: Renumber,
    /// Numbers of drives, by position among the names.
    pub(crate) disk_numbers: Vec<u16>,
    /// Title of each file.
    pub(crate) titles: Vec<u32>,
    /// Drive of each file.
    pub(crate) file_disks: Vec<u16>,
    /// Longest gap between two requests of one session of a viewer, ms.
    pub(crate) idle_ms: i64,
    /// Whether logs overlap in time, so that a request may be in two of them.
    pub(crate) drop_repeated: bool,
    /// Whether records have final numbers already: those of a shard.
    pub(crate) is_settled: bool,
}

impl NumberMaps {
    /// Maps for records in final numbers, of whole sessions without duplicates.
    pub(crate) fn settled_already() -> Self {
        Self {
            is_settled: true,
            ..Self::default()
        }
    }

    /// The request in final numbers, except that the session is the undivided name.
    #[inline]
    pub(crate) fn settled(&self, record: &Record) -> Option<Request> {
        let mut request = record.request;
        if self.is_settled {
            request.device = u16::try_from(record.device).ok()?;
            request.disk = u16::try_from(record.disk).ok()?;
            return Some(request);
        }
        request.session = if request.session & VIEWER == 0 {
            self.sessions.of(request.session)?
        } else {
            self.sessions_named + self.viewers.of(request.session & !VIEWER)?
        };
        request.file = self.files.of(request.file)?;
        if let Some(place) = self.places.get(request.file as usize) {
            place.put(&mut request);
        }
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

    /// Whether names of viewers may be divided into several sessions.
    pub(super) fn viewers_divide(&self) -> bool {
        self.bases.is_some()
    }

    fn title(&self, file: u32) -> u32 {
        self.titles.get(file as usize).copied().unwrap_or(file)
    }
}

/// Number of the log that contains a request.
fn source(request: &Request) -> u64 {
    request.line >> SOURCE_SHIFT
}

/// Removes requests that a second log repeats exactly, and passes each to `on_repeated`.
pub(crate) fn drop_repeated(requests: &mut Vec<Request>, mut on_repeated: impl FnMut(&Request)) {
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
                on_repeated(request);
            }
            return !is_repeated;
        }
        first = Some(*request);
        true
    });
}

/// Divides each viewer's requests into sessions: another title, or a longer gap, starts another
/// session. Calls `found` for every request with the number of the name and the index of its
/// session.
pub(crate) fn divide(
    requests: &mut [Request],
    maps: &NumberMaps,
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
