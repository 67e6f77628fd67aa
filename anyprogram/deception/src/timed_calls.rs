//! Decisions taken before and after each intercepted call that reads a file.

use headlong_protocol::{ANSWERED_MS, Answer, MessageKind, REQUEST_BYTES_MAX};

use crate::client;
use crate::descriptors::{self, Descriptor, DescriptorClass};
use crate::raw::{self, sys};
use crate::resident::{is_resident, is_untold};
use crate::settings::{self, Mode};

/// Non-sequential calls for fewer bytes are ignored (pages of databases): checking residency would
/// cost as much as the call, and readahead would not help them.
const SCATTERED_BYTES_MIN: u64 = 8 << 10;
/// How long a range found in memory is assumed to stay there.
const RESIDENT_MS: u64 = 500;
/// A socket with any free buffer space accepts up to one whole packet beyond it, before the packet
/// is segmented.
const PACKET_BYTES: u64 = 64 << 10;
/// A sequential reader reports its progress again after this many bytes.
const NOTE_BYTES: u64 = 512 << 10;
/// Larger mappings are ignored: a program that maps this much at once rarely reads it from the
/// start. Apache maps 4 MiB at a time.
const MAPPING_BYTES_MAX: u64 = 16 << 20;

/// Where a call reads from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReadPosition {
    /// The descriptor's current position.
    Position,
    /// An explicit offset.
    Offset(u64),
    /// The offset stored at this address of the program, if the address is valid.
    Pointed(usize),
}

/// A call at least this long, in nanoseconds, is assumed to have waited for a disk: a page-cache
/// hit takes less.
const DISK_NS: u64 = 100_000;
/// After the daemon had nothing to read ahead, small files are not reported for this time.
const WALK_PAUSE_MS: u64 = 100;

/// A call being timed, with its start in nanoseconds.
#[derive(Debug)]
pub(crate) enum TimedCall {
    /// The bytes were not in memory.
    Waited(u64),
    /// Possibly the first call on a small file, with its descriptor; residency was not checked.
    Small(u64, i32),
}

/// Runs before a call that reads at most `length` bytes.
#[inline]
pub(crate) fn before(fd: i32, at: ReadPosition, length: u64) -> Option<TimedCall> {
    before_call(fd, None, at, length)
}

/// Runs before a call that sends `length` bytes to `out`. A socket accepts only what its buffer can
/// hold; the rest belongs to later calls and need not be in memory yet.
#[inline]
pub(crate) fn before_sending(
    fd: i32,
    out: i32,
    at: ReadPosition,
    length: u64,
) -> Option<TimedCall> {
    before_call(fd, Some(out), at, length)
}

#[inline]
fn before_call(fd: i32, out: Option<i32>, at: ReadPosition, length: u64) -> Option<TimedCall> {
    if settings::mode() == Mode::Off || length == 0 {
        return None;
    }
    let entry = descriptors::entry(fd)?;
    if entry.class() == DescriptorClass::LeftAlone {
        return None;
    }
    let _errno = sys::SavedErrno::save();
    check_residency(fd, entry, at, length, out)
}

/// Runs after the call.
#[inline]
pub(crate) fn after(timed: Option<TimedCall>) {
    let Some(timed) = timed else {
        return;
    };
    let _errno = sys::SavedErrno::save();
    let now = sys::now_ns();
    match timed {
        TimedCall::Waited(since) => raw::memory().record(now.saturating_sub(since)),
        TimedCall::Small(since, fd) => small(fd, now.saturating_sub(since)),
    }
}

/// Handles the first call on what may be a small file. Its duration shows whether the file was in
/// memory; asking the kernel would cost more than the call itself.
fn small(fd: i32, took_ns: u64) {
    let memory = raw::memory();
    if took_ns < DISK_NS {
        return memory.find_small();
    }
    let now = sys::now_ms();
    if memory.is_paused(now) || memory.is_walk_paused(now) {
        return;
    }
    let file = sys::regular_file(fd).filter(|(_, size)| *size < settings::file_bytes_min());
    let Some((file, _)) = file.filter(|_| sys::is_only_read(fd)) else {
        return;
    };
    let found = memory.take_found_small();
    if client::request(MessageKind::Waited, fd, file, 0, found) != Some(Answer::Ready) {
        // Keep the count: it has the same value in the next message.
        memory.pause_walk(now.saturating_add(WALK_PAUSE_MS));
    }
}

/// Runs before a call that maps `length` bytes of a file.
pub(crate) fn before_mapping(fd: i32, offset: u64, length: u64) -> Option<TimedCall> {
    if length > MAPPING_BYTES_MAX {
        return None;
    }
    // The duration of `mmap` says nothing about residency.
    let timed = before(fd, ReadPosition::Offset(offset), length);
    timed.filter(|timed| matches!(timed, TimedCall::Waited(_)))
}

/// The descriptor is about to be closed or replaced. Returns whether this closes the socket of an
/// in-flight call of this library.
pub(crate) fn before_close(fd: i32) -> bool {
    if settings::mode() == Mode::Off {
        return false;
    }
    forget(fd);
    u32::try_from(fd).is_ok_and(|number| client::lose(number, number))
}

/// `to` is about to be replaced by a copy of `from`, which closes it. Returns whether this closes
/// the socket of an in-flight call of this library.
pub(crate) fn before_replacing(from: i32, to: i32) -> bool {
    from != to && before_close(to)
}

/// The descriptor was not closed because `from` was invalid. The call that used this socket no
/// longer closes it, so it is closed here.
pub(crate) fn not_replaced(socket: i32) {
    let _errno = sys::SavedErrno::save();
    sys::close(socket);
}

/// All descriptors from `first` to `last` are about to be closed.
pub(crate) fn before_closing_all(first: u32, last: u32) {
    descriptors::forget_range(first, last);
    if settings::mode() != Mode::Off {
        client::lose(first, last);
    }
}

fn forget(fd: i32) {
    let Some(entry) = descriptors::entry(fd) else {
        return;
    };
    if entry.class() == DescriptorClass::LookedAt {
        let _errno = sys::SavedErrno::save();
        let end = entry.last_end();
        if let Some(told) = entry
            .reported_end()
            .filter(|told| *told < end && end != u64::MAX)
        {
            note(entry, told, end);
        }
    }
    entry.forget();
}

/// The program restricts its own system calls: this library makes none from now on.
pub(crate) fn turn_off() {
    settings::turn_off();
}

/// The process exits: sends the remaining counters.
pub(crate) fn at_exit() {
    let memory = raw::memory();
    if settings::mode() == Mode::Daemon && memory.has_counters() && !memory.is_paused(sys::now_ms())
    {
        client::notify(MessageKind::Count, Default::default(), 0, 0);
    }
}

fn check_residency(
    fd: i32,
    entry: &Descriptor,
    at: ReadPosition,
    length: u64,
    out: Option<i32>,
) -> Option<TimedCall> {
    match entry.class() {
        // The first call is never sequential; most small files are read by one call.
        DescriptorClass::Unknown if length < SCATTERED_BYTES_MIN => {
            entry.pass_once();
            return first_of_small(fd);
        }
        DescriptorClass::Unknown if !classify(fd, entry) => return first_of_small(fd),
        DescriptorClass::PassedOnce if !classify(fd, entry) => return None,
        _ => {}
    }
    let start = match at {
        ReadPosition::Offset(offset) => offset,
        // The kernel rejects invalid addresses and negative offsets.
        ReadPosition::Pointed(address) => u64::try_from(sys::pointed_at(address)?).ok()?,
        ReadPosition::Position => match sys::position(fd) {
            Some(position) => position,
            None => {
                entry.forget();
                return None;
            }
        },
    };
    let mut end = start
        .saturating_add(length.min(REQUEST_BYTES_MAX))
        .min(entry.size());
    if start >= end {
        return None;
    }
    let goes_on = entry.goes_on(start, end);
    if !goes_on && length < SCATTERED_BYTES_MIN {
        return None;
    }
    let now = sys::now_ms();
    let memory = raw::memory();
    let by_daemon = settings::mode() == Mode::Daemon;
    if by_daemon && memory.is_paused(now) {
        return None;
    }
    let mut is_there = is_known(entry, start, end, now);
    if !is_there && let Some(room) = out.and_then(sys::room) {
        // The socket accepts nothing, and the program will retry.
        if room == 0 {
            return None;
        }
        end = end.min(start.saturating_add(room).saturating_add(PACKET_BYTES));
        is_there = is_known(entry, start, end, now);
    }
    let is_there = is_there || finds(fd, entry, start, end, goes_on, now)?;
    memory.count(is_there);
    if is_there {
        if by_daemon {
            progress(entry, start, end);
        }
        return None;
    }
    let since = sys::now_ns();
    match by_daemon {
        true => {
            // The bytes in between were in memory and have not been reported yet.
            if let Some(told) = entry.reported_end()
                && told < start
                && start - told <= NOTE_BYTES
            {
                note(entry, told, start);
            }
            // A partial call is repeated for the rest and more. Bytes known to be in memory are not
            // requested twice.
            let known = entry.resident_to(start, now).filter(|known| *known < end);
            let from = known.filter(|_| is_untold()).unwrap_or(start);
            match client::request(MessageKind::Ask, fd, entry.file(), from, end - from) {
                Some(Answer::Ready) => {
                    memory.remember_file(entry.file(), now);
                    let answered = sys::now_ms();
                    let until = answered.saturating_add(match is_untold() {
                        true => ANSWERED_MS,
                        false => RESIDENT_MS,
                    });
                    entry.remember_resident(start, end, until);
                    if is_untold() {
                        memory.remember_resident(entry.file(), (start, end), (answered, until));
                    }
                    memory.remember_told(entry.file(), (start, end), answered);
                    entry.set_reported_end(end);
                }
                Some(Answer::LeaveAlone) => entry.leave_alone(),
                Some(Answer::GoOn) | None => {}
            }
        }
        false => {
            let length = settings::prefetch_bytes().max(end - start);
            sys::read_ahead(fd, start, length.min(entry.size() - start));
        }
    }
    Some(TimedCall::Waited(since))
}

fn first_of_small(fd: i32) -> Option<TimedCall> {
    let is_told = settings::mode() == Mode::Daemon;
    is_told.then(|| TimedCall::Small(sys::now_ns(), fd))
}

/// Whether the range was recently found in memory, by this or another descriptor.
fn is_known(entry: &Descriptor, start: u64, end: u64, now: u64) -> bool {
    if entry.is_resident(start, end, now) {
        return true;
    }
    let until = raw::memory().resident_until(entry.file(), (start, end), now);
    until
        .inspect(|until| entry.remember_resident(start, end, *until))
        .is_some()
}

/// Whether the kernel reports the bytes as in memory. For a sequential reader the check also covers
/// the next `NOTE_BYTES`, so that the following calls need none.
fn finds(
    fd: i32,
    entry: &Descriptor,
    start: u64,
    end: u64,
    goes_on: bool,
    now: u64,
) -> Option<bool> {
    let is_helped = settings::mode() == Mode::Daemon;
    let Some(is_there) = is_resident(fd, start, end, is_helped) else {
        // Not a file, or one whose residency cannot be queried.
        entry.leave_alone();
        return None;
    };
    if is_there {
        let wide_end = end.saturating_add(NOTE_BYTES).min(entry.size());
        let is_wide =
            goes_on && end < wide_end && is_resident(fd, end, wide_end, is_helped) == Some(true);
        let known_end = if is_wide { wide_end } else { end };
        let until = now.saturating_add(RESIDENT_MS);
        entry.remember_resident(start, known_end, until);
        raw::memory().remember_resident(entry.file(), (start, known_end), (now, until));
    }
    Some(is_there)
}

/// Reports the progress of a reader to the daemon, for files that the daemon reads ahead.
fn progress(entry: &Descriptor, start: u64, end: u64) {
    let from = match entry.reported_end() {
        Some(told) if told >= end && told - end <= REQUEST_BYTES_MAX => return,
        // Sequential, but the progress since the last report is small.
        Some(told) if told < end && end - told < NOTE_BYTES => return,
        Some(told) if told < end && start.saturating_sub(told) <= NOTE_BYTES => told,
        _ => start,
    };
    note(entry, from, end);
    // One report for each descriptor and range, whatever its outcome.
    entry.set_reported_end(end);
}

fn note(entry: &Descriptor, from: u64, end: u64) {
    let now = sys::now_ms();
    let (memory, file) = (raw::memory(), entry.file());
    let length = end.saturating_sub(from).min(REQUEST_BYTES_MAX);
    let start = end - length;
    if memory.is_paused(now)
        || !memory.knows_file(file, now)
        || memory.is_told(file, (start, end), now)
    {
        return;
    }
    client::notify(MessageKind::Note, file, start, length);
    memory.remember_told(file, (start, end), now);
    memory.remember_file(file, now);
}

/// Determines the type of a descriptor. Returns whether its calls are intercepted.
fn classify(fd: i32, entry: &Descriptor) -> bool {
    let file = sys::regular_file(fd).filter(|(_, size)| *size >= settings::file_bytes_min());
    match file.filter(|_| sys::is_only_read(fd)) {
        Some((file, size)) => {
            entry.look_at(file, size);
            true
        }
        None => {
            entry.leave_alone();
            false
        }
    }
}
