//! Reads the headers of a file, or the heads of a segment's fragments: which bytes are needed next.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headlong_media::{Mp4BoxHeader, Mp4Fault, mp4_boxes};
use headlong_units::{ByteRange, KIB, MIB};

use crate::fault::PackageFault;
use crate::fields::{find, u32_at};
use crate::fragment_index::FragmentIndex;
use crate::fragmented::FragmentHeads;
use crate::title::leader_id;
use crate::title_headers::{FoundIndex, MOOF_BYTES_MAX, TitleHeaders};

/// Largest `moov` that is kept in memory.
pub const MOOV_BYTES_MAX: u64 = 48 * MIB;
/// Largest `moov` of a file with fragments, which need memory besides it.
pub const FRAGMENTED_MOOV_BYTES_MAX: u64 = 32 * MIB;
/// Boxes before `moov`.
const BOXES_MAX: u32 = 1000;
/// Most bytes that are wanted before `moov` was found, and of a `moof`.
pub const WHOLE_BYTES_MAX: u64 = MIB;
/// Most bytes of the `moof` boxes of a segment, which lasts a minute at most.
pub(crate) const SEGMENT_MOOF_BYTES_MAX: usize = 512 << 10;
/// Memory for the fragments of a file: their heads, tables while they grow, and tables.
pub const FRAGMENTS_MEMORY: u64 = 4 * MOOF_BYTES_MAX as u64;
/// Boxes after `moov` of a file with fragments, two for each: five hours, at two seconds each.
const FRAGMENT_BOXES_MAX: u32 = 20_000;
/// Size of a read in the midst of the file.
const NEXT_BYTES: u64 = 64 * KIB;

/// The next step of a reader.
#[derive(Debug)]
pub enum ReadStep {
    /// It needs these bytes of the file: not empty, and inside of it.
    Wants(ByteRange),
    /// The index can be made.
    Ready(TitleHeaders),
}

/// The search for an index of the fragments.
#[derive(Debug)]
enum IndexSearch {
    /// Up to the first fragment, in front of which `sidx` may be: its index, and where that ends.
    Front(Vec<u8>, u64),
    /// At the end of the file, where `mfra` may be; with the heads after the first that were read
    /// before, and where they end.
    Tail(FragmentHeads, HeadScan),
    /// It was found, and needs the heads of the last fragments.
    Last(FoundIndex, HeadScan),
    Found(FoundIndex),
    /// There is none that can be used.
    Absent,
}

/// The boxes of a part of the file, of which the `moof` are kept.
#[derive(Debug, Clone, Copy)]
struct HeadScan {
    /// The current box.
    next: u64,
    end: u64,
    box_count: u32,
}

/// A box with as many of its bytes as are kept.
struct ScannedBox<'a> {
    kind: [u8; 4],
    /// Empty unless it is kept.
    whole: &'a [u8],
    at: u64,
}

/// The outcome of a step of a scan.
enum ScanStep<'a> {
    Wants(ByteRange),
    Box(ScannedBox<'a>),
    End,
}

impl HeadScan {
    fn new(part: ByteRange) -> Self {
        Self {
            next: part.start,
            end: part.end,
            box_count: 0,
        }
    }

    /// The next box; the whole of a `moof` or `sidx`.
    fn step<'a>(&mut self, offset: u64, bytes: &'a [u8]) -> Result<ScanStep<'a>, PackageFault> {
        let left = self.end.saturating_sub(self.next);
        if left < 8 {
            return Ok(ScanStep::End);
        }
        let at = self.next;
        let wants = |bytes: u64| ScanStep::Wants(ByteRange::new(at, at + bytes.min(left)));
        let here = from(bytes, offset, at);
        if (here.len() as u64) < left.min(16) {
            return Ok(wants(NEXT_BYTES));
        }
        let header = Mp4BoxHeader::read(here, at, self.end, false)?;
        let header = header.ok_or(Mp4Fault::Broken(*b"moof"))?;
        let length = header.end - at;
        let is_moof = header.kind == *b"moof";
        // The end of the file may be missing, as of an interrupted recording.
        if is_moof && header.end > self.end {
            return Ok(ScanStep::End);
        }
        if is_moof && length > WHOLE_BYTES_MAX {
            return Err(Mp4Fault::TooLarge.into());
        }
        let mut whole = &[][..];
        if is_moof || (header.kind == *b"sidx" && length <= WHOLE_BYTES_MAX.min(left)) {
            match here.get(..length as usize) {
                Some(bytes) => whole = bytes,
                None => return Ok(wants(length.max(NEXT_BYTES))),
            }
        }
        self.box_count += 1;
        if self.box_count > FRAGMENT_BOXES_MAX {
            return Err(PackageFault::TooMany("fragments"));
        }
        self.next = header.end;
        Ok(ScanStep::Box(ScannedBox {
            kind: header.kind,
            whole,
            at,
        }))
    }

    /// Keeps the rest of the `moof` boxes; returns the range that is needed for the next one.
    fn read_all(
        &mut self,
        (offset, bytes): (u64, &[u8]),
        heads: &mut FragmentHeads,
        bytes_max: usize,
    ) -> Result<Option<ByteRange>, PackageFault> {
        loop {
            match self.step(offset, bytes)? {
                ScanStep::Wants(range) => return Ok(Some(range)),
                ScanStep::End => return Ok(None),
                ScanStep::Box(found) if found.kind == *b"moof" => {
                    if heads.bytes.len() + found.whole.len() > bytes_max {
                        return Err(PackageFault::TooMany("bytes in heads of fragments"));
                    }
                    heads.push(found.whole, found.at);
                }
                ScanStep::Box(_) => {}
            }
        }
    }
}

/// Reads the headers of one version of a file, or of a segment of it.
#[derive(Debug)]
pub struct HeaderReader {
    size: u64,
    /// The current box in front of `moov`.
    next: u64,
    box_count: u32,
    /// The body of `moov`, once it was found; empty for a segment.
    moov: Option<ByteRange>,
    /// Its bytes so far.
    kept: Vec<u8>,
    /// Whether it announces fragments; known as soon as it is complete.
    is_fragmented: bool,
    /// The track by whose index the file is cut.
    leader_id: Option<u32>,
    scan: HeadScan,
    heads: FragmentHeads,
    heads_bytes_max: usize,
    search: IndexSearch,
}

impl HeaderReader {
    /// A reader of a file of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            search: IndexSearch::Front(Vec::new(), 0),
            ..Self::without_index(size)
        }
    }

    /// The same for a file whose index of its fragments is wrong.
    pub fn without_index(size: u64) -> Self {
        Self {
            size,
            next: 0,
            box_count: 0,
            moov: None,
            kept: Vec::new(),
            is_fragmented: false,
            leader_id: None,
            scan: HeadScan::new(ByteRange::new(0, size)),
            heads: FragmentHeads::default(),
            heads_bytes_max: MOOF_BYTES_MAX,
            search: IndexSearch::Absent,
        }
    }

    /// A reader of the heads of the fragments in a part of a file.
    pub(crate) fn of_segment(part: ByteRange, size: u64) -> Self {
        Self {
            moov: Some(ByteRange::default()),
            is_fragmented: true,
            scan: HeadScan::new(part),
            heads_bytes_max: SEGMENT_MOOF_BYTES_MAX,
            ..Self::without_index(size)
        }
    }

    /// Memory that is needed as soon as the wanted bytes have arrived. It grows once if a `moov` of
    /// more than [`WHOLE_BYTES_MAX`] is that of a file with fragments.
    pub fn memory_bytes(&self) -> u64 {
        let Some(moov) = self.moov else {
            return 0;
        };
        // It is not known of one that was not read.
        let may_have_fragments = match self.is_complete(moov) {
            true => self.is_fragmented,
            false => moov.len() <= WHOLE_BYTES_MAX,
        };
        // Heads, tables while they grow, and tables.
        let fragments = 4 * self.heads_bytes_max as u64;
        moov.len() + if may_have_fragments { fragments } else { 0 }
    }

    fn is_complete(&self, moov: ByteRange) -> bool {
        self.kept.len() as u64 >= moov.len()
    }

    /// Takes bytes of the file and tells which ones are needed next; first called without any. Ranges
    /// of up to [`WHOLE_BYTES_MAX`] must be passed at once, longer ones may be in pieces.
    ///
    /// # Errors
    /// The file cannot be packaged.
    pub fn step(&mut self, offset: u64, bytes: &[u8]) -> Result<ReadStep, PackageFault> {
        while self.moov.is_none() {
            let left = self.size.saturating_sub(self.next);
            if left < 8 {
                let fault = match self.next {
                    0 => Mp4Fault::NotMp4,
                    _ => Mp4Fault::NoMoov,
                };
                return Err(fault.into());
            }
            let here = from(bytes, offset, self.next);
            if (here.len() as u64) < left.min(16) {
                return Ok(ReadStep::Wants(self.header_range(left)));
            }
            self.inspect(here)?;
        }
        let moov = self.moov.unwrap_or_default();
        if !self.is_complete(moov) {
            let at = moov.start + self.kept.len() as u64;
            let here = from(bytes, offset, at);
            let lacking = usize::try_from(moov.end - at).unwrap_or(usize::MAX);
            self.kept
                .extend_from_slice(&here[..here.len().min(lacking)]);
            let rest = ByteRange::new(moov.start + self.kept.len() as u64, moov.end);
            if !rest.is_empty() {
                return Ok(ReadStep::Wants(rest));
            }
            self.scan.next = moov.end;
            self.is_fragmented = matches!(find(&self.kept, b"mvex"), Ok(Some(_)));
            if moov.len() > FRAGMENTED_MOOV_BYTES_MAX && self.is_fragmented {
                return Err(PackageFault::FragmentedMoovTooLarge);
            }
            if matches!(self.search, IndexSearch::Front(..)) && self.is_fragmented {
                self.leader_id = leader_id(&self.kept, self.size);
            }
        }
        if self.is_fragmented
            && let Some(wanted) = self.read_fragments(offset, bytes)?
        {
            return Ok(ReadStep::Wants(wanted));
        }
        let index = match core::mem::replace(&mut self.search, IndexSearch::Absent) {
            IndexSearch::Found(found) => Some(Box::new(found)),
            _ => None,
        };
        Ok(ReadStep::Ready(TitleHeaders {
            kept: core::mem::take(&mut self.kept),
            heads: core::mem::take(&mut self.heads),
            size: self.size,
            heads_bytes_max: self.heads_bytes_max,
            index,
        }))
    }

    /// Reads the heads of all fragments, or an index of them and the heads that it lacks; returns the
    /// range that is needed next.
    fn read_fragments(
        &mut self,
        offset: u64,
        bytes: &[u8],
    ) -> Result<Option<ByteRange>, PackageFault> {
        loop {
            let search = core::mem::replace(&mut self.search, IndexSearch::Absent);
            self.search = match search {
                IndexSearch::Front(sidx, anchor) => match self.scan.step(offset, bytes)? {
                    ScanStep::Wants(range) => {
                        self.search = IndexSearch::Front(sidx, anchor);
                        return Ok(Some(range));
                    }
                    ScanStep::End => return Ok(None),
                    ScanStep::Box(found) if found.kind == *b"moof" => {
                        self.heads.push(found.whole, found.at);
                        // As far as the bytes go.
                        let (mut read_ahead, mut ahead) = (FragmentHeads::default(), self.scan);
                        let input = (offset, bytes);
                        let read = ahead.read_all(input, &mut read_ahead, SEGMENT_MOOF_BYTES_MAX);
                        if read.is_err() {
                            (read_ahead, ahead) = (FragmentHeads::default(), self.scan);
                        }
                        let index = FragmentIndex::of_sidx(&sidx, anchor, found.at);
                        match index.filter(|index| index.end == self.size) {
                            Some(index) => IndexSearch::Found(FoundIndex {
                                index,
                                read_ahead,
                                last: FragmentHeads::default(),
                            }),
                            None => IndexSearch::Tail(read_ahead, ahead),
                        }
                    }
                    ScanStep::Box(found) if found.kind == *b"sidx" && sidx.is_empty() => {
                        let body = mp4_boxes(found.whole).next().transpose()?;
                        let body = body.map_or(&[][..], |sidx| sidx.body);
                        // There may be one for each track.
                        if self.leader_id.is_some() && u32_at(body, 4) == self.leader_id {
                            IndexSearch::Front(body.to_vec(), found.at + found.whole.len() as u64)
                        } else {
                            IndexSearch::Front(sidx, anchor)
                        }
                    }
                    ScanStep::Box(_) => IndexSearch::Front(sidx, anchor),
                },
                IndexSearch::Tail(read_ahead, ahead) => {
                    let tail = self
                        .size
                        .saturating_sub(WHOLE_BYTES_MAX)
                        .max(self.scan.next);
                    let here = from(bytes, offset, tail);
                    if (here.len() as u64) < self.size - tail {
                        self.search = IndexSearch::Tail(read_ahead, ahead);
                        return Ok(Some(ByteRange::new(tail, self.size)));
                    }
                    let first = self.heads.in_file.first().copied().unwrap_or_default();
                    match FragmentIndex::of_mfra(here, tail, first) {
                        Some(index) => {
                            let scan = HeadScan::new(index.last());
                            let last = FragmentHeads::default();
                            let found = FoundIndex {
                                index,
                                read_ahead,
                                last,
                            };
                            IndexSearch::Last(found, scan)
                        }
                        None => {
                            self.heads.append(read_ahead);
                            self.scan = ahead;
                            IndexSearch::Absent
                        }
                    }
                }
                IndexSearch::Last(mut found, mut scan) => {
                    let input = (offset, bytes);
                    match scan.read_all(input, &mut found.last, SEGMENT_MOOF_BYTES_MAX) {
                        Ok(None) => IndexSearch::Found(found),
                        Ok(wanted) => {
                            self.search = IndexSearch::Last(found, scan);
                            return Ok(wanted);
                        }
                        Err(_) => IndexSearch::Absent,
                    }
                }
                IndexSearch::Found(..) => {
                    self.search = search;
                    return Ok(None);
                }
                IndexSearch::Absent => {
                    let input = (offset, bytes);
                    return self
                        .scan
                        .read_all(input, &mut self.heads, self.heads_bytes_max);
                }
            };
        }
    }

    fn header_range(&self, left: u64) -> ByteRange {
        let bytes = match self.next {
            // What follows is wanted next: the rest of `moov`, or the first segment.
            0 => WHOLE_BYTES_MAX,
            // Probably `moov` as a whole.
            _ if left <= WHOLE_BYTES_MAX => left,
            _ => NEXT_BYTES,
        };
        ByteRange::new(self.next, self.next + bytes.min(left))
    }

    fn inspect(&mut self, here: &[u8]) -> Result<(), PackageFault> {
        self.box_count += 1;
        let header = Mp4BoxHeader::read(here, self.next, self.size, false)?;
        let header = header.ok_or(Mp4Fault::NoMoov)?;
        if header.kind == *b"moov" {
            if header.end > self.size {
                return Err(Mp4Fault::Broken(header.kind).into());
            }
            let body = ByteRange::new(self.next + header.header_bytes, header.end);
            if body.len() > MOOV_BYTES_MAX {
                return Err(PackageFault::MoovTooLarge);
            }
            self.kept = Vec::with_capacity(body.len() as usize);
            self.moov = Some(body);
        } else if self.box_count > BOXES_MAX {
            return Err(Mp4Fault::TooLarge.into());
        }
        self.next = header.end;
        Ok(())
    }
}

/// Those of `bytes`, which begin at `offset` of the file, from `at` on.
fn from(bytes: &[u8], offset: u64, at: u64) -> &[u8] {
    let skip = at.checked_sub(offset).map(usize::try_from);
    match skip {
        Some(Ok(skip)) => bytes.get(skip..).unwrap_or_default(),
        _ => &[],
    }
}
