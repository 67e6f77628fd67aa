//! Turns parsed requests into records of partitions: names become numbers.

use headlong_chains::{Request, UNPLACED};

use super::super::logs::LogFile;
use super::super::options::PART_BUFFER_BYTES;
use super::{IntakeWorker, WorkerFailure};
use crate::names::{hash, hash_number};
use crate::number_cache::{BatchNumbers, put_numbers};
use crate::parquet::plain::PlainBatch;
use crate::partitions::PARTS;
use crate::partitions::record::{DISK_UNKNOWN, Record, SOURCE_SHIFT, VIEWER};
use crate::read::DropReason;
use crate::read::entry::LogEntry;
use crate::read::viewer::ClientIdentity;
use crate::segment_files::may_be_segment;

impl IntakeWorker<'_> {
    /// Stores a request in its partition.
    pub(super) fn push(
        &mut self,
        log: &LogFile,
        line_number: u64,
        entry: &LogEntry<'_>,
        line: &[u8],
    ) -> Result<(), WorkerFailure> {
        let names = self.shared.names;
        let (file, _) = self.files.intern(&entry.file, &names.files);
        let offset = match entry.offset {
            Some(offset) => offset,
            // A reply of status 206 without an offset is the whole file if it has its size.
            None if self.shared.sizes.get(&file) == Some(&entry.sent_bytes) => 0,
            None if self.shared.keep_unplaced => {
                self.told.unplaced += 1;
                UNPLACED
            }
            None => {
                self.drop_line(log, DropReason::UnknownOffset, line_number, line);
                return Ok(());
            }
        };
        let (session, session_hash) = match &entry.who {
            ClientIdentity::Session(name) => self.sessions.intern(name, &names.sessions),
            ClientIdentity::Address(address) => self.viewer(address, entry.agent),
        };
        let is_wanted = self.shared.devices_and_drives;
        let device = match entry.device {
            _ if !is_wanted => self.agents.number(b"", &names.devices),
            b"" => self.agents.number(entry.agent, &names.devices),
            device => self.devices.intern(device, &names.devices).0,
        };
        let disk = match entry.disk {
            disk if is_wanted && !disk.is_empty() => self.disks.intern(disk, &names.disks).0,
            _ => DISK_UNKNOWN,
        };
        let is_segment = may_be_segment(&entry.file);
        if entry.file_bytes.is_some() || entry.kbps.is_some() || is_segment {
            let hint = self.told.hints.entry(file).or_default();
            hint.size_bytes = hint.size_bytes.max(entry.file_bytes.unwrap_or(0));
            hint.kbps = hint.kbps.max(entry.kbps.unwrap_or(0));
            if is_segment && offset != UNPLACED {
                let end = offset.saturating_add(entry.sent_bytes);
                hint.reached_bytes = hint.reached_bytes.max(end);
            }
        }
        let record = Record {
            request: Request {
                line: (u64::from(log.number) << SOURCE_SHIFT) | line_number,
                session,
                file,
                received_ms: entry.received_ms,
                completed_ms: entry.completed_ms,
                offset,
                asked_bytes: entry.asked_bytes,
                sent_bytes: entry.sent_bytes,
                disk: 0,
                device: 0,
            },
            disk,
            device,
        };
        self.put(&record, part_of(session_hash), entry.is_timed)
    }

    /// The same for a batch of numeric rows, the first of which has this line number.
    pub(super) fn push_batch(
        &mut self,
        log: &LogFile,
        first_line: u64,
        batch: &PlainBatch<'_>,
    ) -> Result<(), WorkerFailure> {
        let shared = self.shared.names;
        let mut numbers = std::mem::take(&mut self.batch);
        numbers.clear();
        let count = batch.completed_ms.len();
        put_numbers(
            &mut self.sessions,
            batch.session,
            &shared.sessions,
            |session, hash| {
                numbers.sessions.push((session, part_of(hash) as u32));
            },
        );
        put_numbers(&mut self.files, batch.file, &shared.files, |file, _| {
            numbers.files.push(file)
        });
        match batch.disk {
            Some(disks) => put_numbers(&mut self.disks, disks, &shared.disks, |disk, _| {
                numbers.disks.push(disk)
            }),
            None => numbers.disks.resize(count, DISK_UNKNOWN),
        }
        match batch.device {
            Some(names) => put_numbers(&mut self.devices, names, &shared.devices, |device, _| {
                numbers.devices.push(device)
            }),
            None => {
                let device = self.agents.number(b"", &shared.devices);
                numbers.devices.resize(count, device);
            }
        }
        let line = (u64::from(log.number) << SOURCE_SHIFT) | first_line;
        let outcome = self.put_batch(line, batch, &numbers);
        self.batch = numbers;
        outcome
    }

    fn put_batch(
        &mut self,
        first_line: u64,
        batch: &PlainBatch<'_>,
        numbers: &BatchNumbers,
    ) -> Result<(), WorkerFailure> {
        for (index, line) in (0..batch.completed_ms.len()).zip(first_line..) {
            let (session, part) = numbers.sessions[index];
            let completed_ms = batch.completed_ms[index];
            let service_ms = batch.service_ms.map_or(0, |service_ms| service_ms[index]);
            let record = Record {
                request: Request {
                    line,
                    session,
                    file: numbers.files[index],
                    received_ms: completed_ms - service_ms,
                    completed_ms,
                    offset: batch.offset[index].cast_unsigned(),
                    asked_bytes: batch.asked_bytes(index),
                    sent_bytes: batch.sent_bytes[index].cast_unsigned(),
                    disk: 0,
                    device: 0,
                },
                disk: numbers.disks[index],
                device: numbers.devices[index],
            };
            self.put(&record, part as usize, batch.service_ms.is_some())?;
        }
        Ok(())
    }

    /// The viewer with this address and user agent.
    fn viewer(&mut self, address: &[u8], agent: &[u8]) -> (u32, u64) {
        self.told.unnamed += 1;
        self.viewer.clear();
        self.viewer.extend_from_slice(address);
        self.viewer.push(b'~');
        let agent = hash(agent) as u32;
        for shift in (0..8).rev() {
            let digit = (agent >> (4 * shift) & 15) as usize;
            self.viewer.push(b"0123456789abcdef"[digit]);
        }
        let names = &self.shared.names.viewers;
        let (viewer, viewer_hash) = self.viewers.intern(&self.viewer, names);
        (viewer | VIEWER, viewer_hash)
    }

    /// Counts a request and stores it in its partition.
    #[inline]
    fn put(&mut self, record: &Record, part: usize, is_timed: bool) -> Result<(), WorkerFailure> {
        let request = &record.request;
        self.told.requests += 1;
        self.told.bytes += request.sent_bytes;
        self.told.untimed += u64::from(!is_timed);
        self.span = (
            self.span.0 + 1,
            self.span.1.min(request.received_ms),
            self.span.2.max(request.completed_ms),
        );
        self.parts[part].push(record);
        if self.parts[part].len() >= PART_BUFFER_BYTES {
            self.put_away(part)?;
        }
        Ok(())
    }
}

/// The partition of the session with this hash.
pub(crate) fn part_of(session_hash: u64) -> usize {
    (hash_number(session_hash) % PARTS as u64) as usize
}

/// The address in the name of a viewer.
pub(crate) fn address_of(viewer: &[u8]) -> &[u8] {
    &viewer[..memchr::memrchr(b'~', viewer).unwrap_or(viewer.len())]
}
