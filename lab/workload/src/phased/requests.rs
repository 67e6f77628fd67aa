//! Derives requests from chains: how a device reads consecutive segments of one file.
//!
//! A chunk device has a number of connections, and requests the next piece on the first free one as
//! soon as its buffer has room; an open-ended device sends one request, receives at full speed
//! until its buffer is full, and then at the playing rate, by flow control.

use alloc::vec::Vec;

use headlong_player::SOCKET_BYTES;
use headlong_random::Generator;

use super::ContentKind;
use super::catalogue::PhasedCatalogue;
use super::specification::{DeviceType, RequestForm};

/// Relative variation of a chunk request's service time, in both directions.
pub(super) const SERVICE_VARIATION: f64 = 0.3;
/// Relative variation of a device's wait with a full buffer, in both directions.
const SPACING_VARIATION: f64 = 0.3;
/// Largest number of connections of one device.
const CONNECTIONS_MAX: usize = 16;

/// One request as in a log, without names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhasedRequest {
    /// Time of receipt, ms from the start of the log.
    pub received_ms: i64,
    /// Time at which the last byte was sent, ms.
    pub completed_ms: i64,
    /// The file: an index into [`PhasedCatalogue::files`].
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes requested; `None` if it is open-ended.
    pub asked_bytes: Option<u64>,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Connection of the device; it carries one request at a time.
    pub connection: u8,
    /// How an open-ended reply is read.
    pub(super) reading: OpenReading,
}

/// How a device reads an open-ended reply; zeros for other requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OpenReading {
    /// Bytes that it plays; more may be sent.
    pub(super) needed_bytes: u64,
    /// Bytes per second of the network.
    pub(super) speed: u64,
    /// Bytes for which its buffer has room when it sends the request; `None` if it reads at full
    /// speed.
    pub(super) room_bytes: Option<u64>,
}

/// A period of watching without skips or pauses: the playback position follows from the clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlaybackClock {
    /// Start time, s.
    pub(super) start_s: f64,
    /// Playback position at the start, s of the title.
    pub(super) position_s: f64,
}

impl PlaybackClock {
    /// End of a buffer of `buffer_s` at time `now`, s of the title.
    fn reach(&self, now: f64, buffer_s: f64) -> f64 {
        self.position_s + (now - self.start_s) + buffer_s
    }

    /// When the buffer's end reaches `position`.
    fn reached(&self, position: f64, buffer_s: f64) -> f64 {
        self.start_s + position - self.position_s - buffer_s
    }
}

/// How a device reads one kind of content.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadStyle {
    pub(super) form: RequestForm,
    request_s: f64,
    part_bytes_max: u64,
    connections: usize,
    buffer_s: f64,
    spacing_s: f64,
    table_bytes: u64,
    resume_share: f64,
    /// As a share of the session's bandwidth.
    speed: f64,
    /// First of its connections.
    connection: u8,
}

impl ReadStyle {
    /// The same in a transient phase: a single, new connection.
    pub(super) fn trying(self, speed: f64) -> Self {
        Self {
            connections: 1,
            speed,
            ..self
        }
    }

    pub(super) fn of(device: &DeviceType, kind: ContentKind) -> Self {
        let is_audio = kind == ContentKind::Audio;
        Self {
            form: if is_audio {
                device.audio_form
            } else {
                device.form
            },
            request_s: if is_audio {
                device.audio_request_s
            } else {
                device.request_s
            },
            part_bytes_max: device.part_bytes_max.max(1),
            connections: if is_audio {
                1
            } else {
                device.connections as usize
            }
            .clamp(1, CONNECTIONS_MAX),
            buffer_s: if is_audio {
                device.audio_buffer_s
            } else {
                device.buffer_s
            },
            spacing_s: if is_audio {
                device.audio_spacing_s
            } else {
                device.spacing_s
            },
            table_bytes: device.table_bytes,
            resume_share: device.resume_share,
            speed: 1.0,
            // Sound has the connection after those of the content.
            connection: if is_audio {
                device.connections.clamp(1, CONNECTIONS_MAX as u64) as u8
            } else {
                0
            },
        }
    }
}

/// Consecutive segments of one file to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentRun {
    pub(super) file: u32,
    /// First segment.
    pub(super) from: u32,
    /// Segment at which to stop, whatever the time; at most the file's end.
    pub(super) to: u32,
    /// Start time, s.
    pub(super) now: f64,
    /// Time limit, s.
    pub(super) until: f64,
    /// Playback that paces it; `None` to read at full speed.
    pub(super) screen: Option<PlaybackClock>,
}

/// Where a read ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadEnd {
    /// The next segment.
    pub(super) head: u32,
    /// End time, s.
    pub(super) now: f64,
}

/// Turns runs into requests.
pub(super) struct RequestGenerator<'a> {
    pub(super) catalogue: &'a PhasedCatalogue,
    /// Bytes per second.
    pub(super) bandwidth: f64,
    /// Between a request and its first byte, s.
    pub(super) delay_s: f64,
    pub(super) generator: Generator,
    /// Files whose tables have been read.
    tables: Vec<u32>,
    pub(super) requests: Vec<PhasedRequest>,
}

impl<'a> RequestGenerator<'a> {
    pub(super) fn new(
        catalogue: &'a PhasedCatalogue,
        bandwidth: f64,
        delay_s: f64,
        generator: Generator,
        requests: Vec<PhasedRequest>,
    ) -> Self {
        let bandwidth = libm::fmax(bandwidth, 1.0);
        Self {
            catalogue,
            bandwidth,
            delay_s,
            generator,
            tables: Vec::new(),
            requests,
        }
    }

    /// Reads the table of segments at the start of a file, unless it was read before. Returns the
    /// time of its arrival.
    pub(super) fn read_table(
        &mut self,
        file: u32,
        manner: &ReadStyle,
        now: f64,
        until: f64,
    ) -> f64 {
        if self.tables.contains(&file) || now >= until {
            return now;
        }
        self.tables.push(file);
        let size = self.catalogue.files[file as usize].size;
        let table = self.catalogue.files[file as usize].table_bytes;
        if table == 0 && manner.table_bytes == 0 {
            return now;
        }
        match manner.form {
            RequestForm::Open => {
                let end = now + self.delay_s + table as f64 / (self.bandwidth * manner.speed);
                let reading = OpenReading {
                    needed_bytes: table.max(1),
                    speed: (self.bandwidth * manner.speed) as u64,
                    room_bytes: None,
                };
                let request = PhasedRequest {
                    file,
                    sent_bytes: SOCKET_BYTES.min(size),
                    connection: manner.connection,
                    reading,
                    ..PhasedRequest::default()
                };
                self.push(request, (now, end));
                end
            }
            RequestForm::Chunk => {
                let asked = match manner.table_bytes {
                    // One KiB more than the table separates content at the title's start from it.
                    0 => (table / 1024 + 1) * 1024,
                    fixed => fixed,
                };
                let request = PhasedRequest {
                    file,
                    sent_bytes: asked.min(size),
                    connection: manner.connection,
                    ..PhasedRequest::default()
                };
                self.chunk(request, (now, until), 1.0 / manner.speed)
            }
        }
    }

    /// Reads a run.
    pub(super) fn read(&mut self, run: SegmentRun, manner: &ReadStyle) -> ReadEnd {
        if run.now >= run.until || run.from >= run.to {
            return ReadEnd {
                head: run.from,
                now: run.now,
            };
        }
        match manner.form {
            RequestForm::Open => self.read_open(run, manner),
            RequestForm::Chunk => self.read_chunks(run, manner),
        }
    }

    fn read_chunks(&mut self, run: SegmentRun, manner: &ReadStyle) -> ReadEnd {
        let segment_s = self.catalogue.segment_s();
        let step = (libm::round(manner.request_s / segment_s) as u32).max(1);
        let mut free = [run.now; CONNECTIONS_MAX];
        let free = &mut free[..manner.connections];
        let (mut head, mut last, mut release) = (run.from, run.now, run.now);
        // A request that begins before this position does not wait: the buffer has room for it.
        let mut room_to = f64::INFINITY;
        if let Some(screen) = run.screen {
            room_to = screen.reach(run.now, manner.buffer_s);
        }
        while head < run.to {
            let next = head.saturating_add(step).min(run.to);
            let start_s = f64::from(head) * segment_s;
            if let Some(screen) = run.screen.filter(|_| start_s >= room_to) {
                let earliest = free.iter().copied().fold(f64::INFINITY, libm::fmin);
                let full = screen.reached(start_s, manner.buffer_s);
                if full < earliest {
                    // The network is slower than playback, or the buffer is still filling.
                    room_to = screen.reach(earliest, manner.buffer_s);
                } else {
                    let vary = 1.0 + SPACING_VARIATION * (2.0 * self.generator.unit() - 1.0);
                    release = full + manner.spacing_s * vary;
                    room_to = start_s + manner.spacing_s * vary;
                }
            }
            let (start, end) = (
                self.catalogue.offset(run.file, head),
                self.catalogue.offset(run.file, next),
            );
            let bytes = end.saturating_sub(start);
            let parts = bytes.div_ceil(manner.part_bytes_max).max(1);
            let share = free.len().min(if parts > 1 {
                parts as usize
            } else {
                free.len()
            });
            let mut is_over = false;
            for part in 0..parts {
                let (from, to) = (
                    start + bytes * part / parts,
                    start + bytes * (part + 1) / parts,
                );
                let slot = first_free(free);
                let begin = libm::fmax(free[slot], release);
                if begin >= run.until {
                    is_over = true;
                    break;
                }
                let request = PhasedRequest {
                    file: run.file,
                    offset: from,
                    sent_bytes: to - from,
                    connection: manner.connection + slot as u8,
                    ..PhasedRequest::default()
                };
                let done = self.chunk(request, (begin, run.until), share as f64 / manner.speed);
                free[slot] = done;
                last = libm::fmax(last, done);
            }
            if is_over {
                return ReadEnd {
                    head,
                    now: run.until,
                };
            }
            head = next;
        }
        ReadEnd { head, now: last }
    }

    /// One chunk request of `sent_bytes` in the interval `times`; it gets one of `sharing` equal
    /// parts of the bandwidth. Returns its end.
    fn chunk(&mut self, request: PhasedRequest, times: (f64, f64), sharing: f64) -> f64 {
        let bytes = request.sent_bytes;
        let asked_bytes = Some(bytes);
        let vary = 1.0 + SERVICE_VARIATION * (2.0 * self.generator.unit() - 1.0);
        let (begin, until) = times;
        let transfer = bytes as f64 * sharing / self.bandwidth * vary;
        let end = begin + self.delay_s + transfer;
        if end <= until {
            let request = PhasedRequest {
                asked_bytes,
                ..request
            };
            self.push(request, (begin, end));
            return end;
        }
        let share = (until - begin - self.delay_s) / libm::fmax(transfer, 1e-9);
        let request = PhasedRequest {
            asked_bytes,
            sent_bytes: libm::floor(bytes as f64 * share.clamp(0.0, 1.0)) as u64,
            ..request
        };
        self.push(request, (begin, until));
        until
    }

    fn read_open(&mut self, run: SegmentRun, manner: &ReadStyle) -> ReadEnd {
        let file = self.catalogue.files[run.file as usize];
        let title = &self.catalogue.titles[file.title as usize];
        let segment_s = self.catalogue.segment_s();
        // A read from the beginning includes the table.
        let at_start = run.from == 0 && !self.tables.contains(&run.file);
        if at_start {
            self.tables.push(run.file);
        }
        let offset = if at_start {
            0
        } else {
            self.catalogue.offset(run.file, run.from)
        };
        let from_s = f64::from(run.from) * segment_s;
        let to_s = libm::fmin(f64::from(run.to) * segment_s, title.duration_s);
        let rate = self.bandwidth * manner.speed / file.bytes_per_s;
        let filled = run.now + self.delay_s + (to_s - from_s) / rate;
        let done = match run.screen {
            Some(screen) => libm::fmax(filled, screen.reached(to_s, manner.buffer_s)),
            None => filled,
        };
        let end = libm::fmin(done, run.until);
        let read_s = if done <= run.until {
            to_s
        } else {
            let by_speed = from_s + libm::fmax(end - run.now - self.delay_s, 0.0) * rate;
            let by_room = run
                .screen
                .map_or(by_speed, |screen| screen.reach(end, manner.buffer_s));
            libm::fmax(libm::fmin(by_speed, by_room), from_s)
        };
        let head = libm::floor(read_s / segment_s) as u32;
        let head = if read_s >= to_s {
            run.to
        } else {
            head.min(run.to)
        };
        let wanted = if head >= title.segments {
            file.size
        } else {
            let within = read_s / segment_s - f64::from(head);
            let (low, high) = (
                self.catalogue.offset(run.file, head),
                self.catalogue.offset(run.file, head + 1),
            );
            let within = if head >= run.to {
                0.0
            } else {
                within.clamp(0.0, 1.0)
            };
            low + libm::round((high - low) as f64 * within) as u64
        };
        let sent = wanted
            .saturating_sub(offset)
            .max(SOCKET_BYTES)
            .min(file.size - offset);
        let wanted = wanted.saturating_sub(offset).max(1);
        // The formulas above are for mean segments: speed and room are raised to fit this read.
        let lasts = end - run.now;
        let transfer_s = libm::fmax(lasts - self.delay_s, 1e-3);
        let speed = libm::fmax(self.bandwidth * manner.speed, wanted as f64 / transfer_s);
        let room_bytes = run.screen.map(|screen| {
            let room_s = screen.reach(run.now, manner.buffer_s) - from_s;
            let room = libm::fmax(room_s, 0.0) * file.bytes_per_s;
            libm::fmax(room, wanted as f64 - lasts * file.bytes_per_s) as u64
        });
        let reading = OpenReading {
            needed_bytes: wanted.min(sent),
            speed: libm::ceil(speed) as u64,
            room_bytes,
        };
        let resumes = sent > 2 * SOCKET_BYTES && self.generator.unit() < manner.resume_share;
        let request = PhasedRequest {
            file: run.file,
            offset,
            sent_bytes: sent,
            connection: manner.connection,
            reading,
            ..PhasedRequest::default()
        };
        if resumes {
            let between = libm::fmin(
                run.now + self.delay_s + SOCKET_BYTES as f64 / self.bandwidth,
                (run.now + end) / 2.0,
            );
            let first = OpenReading {
                needed_bytes: SOCKET_BYTES,
                speed: reading
                    .speed
                    .max((SOCKET_BYTES as f64 / libm::fmax(between - run.now, 1e-3)) as u64 + 1),
                room_bytes: None,
            };
            let freed = ((between - run.now) * file.bytes_per_s) as u64;
            let rest = OpenReading {
                needed_bytes: reading.needed_bytes.saturating_sub(SOCKET_BYTES).max(1),
                room_bytes: room_bytes.map(|room| (room + freed).saturating_sub(SOCKET_BYTES)),
                ..reading
            };
            let first = PhasedRequest {
                sent_bytes: SOCKET_BYTES,
                reading: first,
                ..request
            };
            self.push(first, (run.now, between));
            let rest = PhasedRequest {
                offset: offset + SOCKET_BYTES,
                sent_bytes: sent - SOCKET_BYTES,
                reading: rest,
                ..request
            };
            self.push(rest, (between, end));
        } else {
            self.push(request, (run.now, end));
        }
        ReadEnd {
            head: head.max(run.from),
            now: end,
        }
    }

    /// Adds a request that is received and completed at `times`.
    fn push(&mut self, request: PhasedRequest, times: (f64, f64)) {
        let ms = |seconds: f64| libm::round(seconds * 1000.0) as i64;
        let received_ms = ms(times.0);
        self.requests.push(PhasedRequest {
            received_ms,
            completed_ms: ms(times.1).max(received_ms),
            ..request
        });
    }
}

fn first_free(free: &[f64]) -> usize {
    let (mut slot, mut earliest) = (0, f64::INFINITY);
    for (index, at) in free.iter().enumerate() {
        if *at < earliest {
            (slot, earliest) = (index, *at);
        }
    }
    slot
}
