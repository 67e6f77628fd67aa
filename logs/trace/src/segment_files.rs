//! Finds segment files of one rendition, as in HLS and DASH, and makes one file of them, a stream.
//!
//! Their names differ in one number: the last word that consists of digits (`seg-12-v1.ts`),
//! otherwise the digits at the end of the name (`segment12.ts`). In everything behind intake, a
//! request for a segment is one for its range of the stream, as the server reads it and as a player
//! that requests ranges of one file would have sent it.

use std::collections::HashMap;
use std::ops::Range;

use headlong_chains::Request;

use crate::files::FileFacts;
use crate::names::{Interner, Names, Renumber, hash, hash_number};

/// File extensions of segments with audio or video.
const ENDINGS: [&[u8]; 6] = [b"ts", b"m4s", b"m4f", b"cmfv", b"cmfa", b"aac"];
/// Fewer files than this may be one title in two languages.
const PIECES_MIN: usize = 3;
/// A log that counts bytes with headers has about so many more for a segment.
const HEADERS_BYTES_MAX: u64 = 1 << 10;
/// Word in the names of initialization segments.
const INIT: &[u8] = b"init";
/// Words that only say that a file is a segment.
const SEGMENT_WORDS: [&[u8]; 7] = [
    INIT,
    b"seg",
    b"segment",
    b"chunk",
    b"frag",
    b"fragment",
    b"media",
];

/// A possible segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SegmentFile {
    title: u32,
    /// Hash of its name without its number.
    hash: u64,
    number: u64,
    file: u32,
}

/// Place of a file of the log in the file that it is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FilePlace {
    file: u32,
    before_bytes: u64,
    /// Its size, if it is a segment; otherwise 0.
    segment_bytes: u64,
}

impl FilePlace {
    /// Makes a request for this file one for its place.
    #[inline]
    pub(crate) fn put(&self, request: &mut Request) {
        request.file = self.file;
        if self.segment_bytes == 0 || !request.is_placed() {
            return;
        }
        let offset = request.offset;
        let left_bytes = self.segment_bytes.saturating_sub(offset);
        // Replies to whole segments differ in the length of their headers, if these are counted.
        let is_whole = request.asked_bytes.is_none()
            && request.sent_bytes + HEADERS_BYTES_MAX.min(left_bytes / 16) >= left_bytes;
        if is_whole && request.sent_bytes > 0 {
            request.sent_bytes = left_bytes;
        }
        request.asked_bytes = request.asked_bytes.or(Some(left_bytes));
        request.offset = self.before_bytes.saturating_add(offset);
    }
}

/// The files of a log, with one for all segments of a rendition.
pub(crate) struct JoinedFiles {
    pub(crate) names: Names,
    pub(crate) facts: Vec<FileFacts>,
    pub(crate) titles: Vec<u32>,
    /// By number in the log; empty if it has no segments.
    pub(crate) places: Vec<FilePlace>,
    /// Numbers of the streams.
    pub(crate) streams: Vec<u32>,
    /// Number of segment files.
    pub(crate) segments: usize,
}

impl JoinedFiles {
    /// Joins the segments among these files.
    pub(crate) fn of(names: Names, facts: Vec<FileFacts>, titles: Vec<u32>) -> Self {
        let streams = streams(&names, &titles);
        if streams.is_empty() {
            return Self {
                names,
                facts,
                titles,
                places: Vec::new(),
                streams: Vec::new(),
                segments: 0,
            };
        }
        let mut places = vec![FilePlace::default(); names.len()];
        let mut is_joined = vec![false; names.len()];
        let interner = Interner::new(6);
        let mut of_stream = Vec::new();
        for stream in &streams {
            let whole = layout(stream, &facts, &mut places);
            // An initialization segment has no number to replace.
            let first = stream.iter().find(|segment| segment.number > 0);
            let first = first.unwrap_or(&stream[0]);
            let name = stream_name(&names.bytes(first.file));
            let number = interner.intern(&name).0;
            for segment in stream {
                is_joined[segment.file as usize] = true;
                places[segment.file as usize].file = number;
            }
            of_stream.push((number, titles[stream[0].file as usize], whole));
        }
        let others = (0..names.len()).filter(|file| !is_joined[*file]);
        let others: Vec<(usize, u32)> = others
            .map(|file| (file, interner.intern(&names.bytes(file as u32)).0))
            .collect();
        let (joined, numbers) = interner.finish();
        let mut files = Self {
            facts: vec![FileFacts::default(); joined.len()],
            titles: vec![0; joined.len()],
            names: joined,
            streams: Vec::new(),
            segments: is_joined.iter().filter(|joined| **joined).count(),
            places,
        };
        for (file, provisional) in others {
            let number = files.put(&numbers, provisional, titles[file], facts[file]);
            files.places[file].file = number;
        }
        for (provisional, title, whole) in of_stream {
            let number = files.put(&numbers, provisional, title, whole);
            files.streams.push(number);
        }
        for (place, _) in files.places.iter_mut().zip(is_joined).filter(|one| one.1) {
            place.file = numbers.of(place.file).unwrap_or_default();
        }
        files.streams.sort_unstable();
        files
    }

    fn put(&mut self, numbers: &Renumber, provisional: u32, title: u32, facts: FileFacts) -> u32 {
        // Every name was interned.
        let number = numbers.of(provisional).unwrap_or_default();
        self.facts[number as usize] = facts;
        self.titles[number as usize] = title;
        number
    }
}

/// Places the segments of a stream one behind the other, and returns the facts of all of it.
/// Segments that are missing in the log take the mean size of the others.
fn layout(stream: &[SegmentFile], facts: &[FileFacts], places: &mut [FilePlace]) -> FileFacts {
    let of = |segment: &SegmentFile| &facts[segment.file as usize];
    let bytes = |segment: &SegmentFile| of(segment).segment_bytes();
    let sum = stream.iter().map(bytes).fold(0, u64::saturating_add);
    let mean = sum / stream.len() as u64;
    // An initialization segment has no number.
    let numbered = stream.windows(2).filter(|pair| pair[0].number > 0);
    let mut steps: Vec<u64> = numbered
        .map(|pair| pair[1].number - pair[0].number)
        .collect();
    steps.sort_unstable();
    // Numbers may be times, whose steps are the lengths of segments.
    let step = steps.get(steps.len() / 2).copied().unwrap_or(1).max(1);
    let (mut at, mut before, mut missing) = (0_u64, None, 0);
    for segment in stream {
        if let Some(number) = before.filter(|number| *number > 0) {
            let steps: u64 = (segment.number - number + step / 2) / step;
            let gap = steps.saturating_sub(1);
            missing += gap;
            at = at.saturating_add(gap.saturating_mul(mean));
        }
        before = Some(segment.number);
        places[segment.file as usize] = FilePlace {
            file: 0,
            before_bytes: at,
            segment_bytes: bytes(segment).max(1),
        };
        at = at.saturating_add(bytes(segment));
    }
    FileFacts::joined(stream.iter().map(of), missing == 0)
}

/// The name of a stream: that of its first segment with an asterisk in place of the number.
fn stream_name(first: &[u8]) -> Vec<u8> {
    let place = number_in(first).unwrap_or(0..0);
    [&first[..place.start], b"*", &first[place.end..]].concat()
}

/// The segment files of each rendition in order, an initialization segment first.
fn streams(files: &Names, titles: &[u32]) -> Vec<Vec<SegmentFile>> {
    let pieces = (0..files.len() as u32).zip(titles);
    let pieces = pieces.filter_map(|(file, title)| {
        let name = files.bytes(file);
        if is_init(&name) {
            return None;
        }
        let place = number_in(&name)?;
        let number = crate::read::number::digits(&name[place.clone()])?;
        let (before, after) = (hash(&name[..place.start]), hash(&name[place.end..]));
        Some(SegmentFile {
            title: *title,
            hash: hash_number(before) ^ after,
            // Zero is for initialization segments.
            number: number.saturating_add(1),
            file,
        })
    });
    let mut pieces: Vec<SegmentFile> = pieces.collect();
    pieces.sort_unstable();
    let mut streams: Vec<Vec<SegmentFile>> = pieces
        .chunk_by(|one, other| (one.title, one.hash) == (other.title, other.hash))
        .filter(|stream| stream.len() >= PIECES_MIN)
        .map(<[SegmentFile]>::to_vec)
        .collect();
    put_init_first(&mut streams, files, titles);
    streams
}

/// Puts each initialization segment before the segments of its stream: that of the same folder and
/// title, with the same words if there are several.
fn put_init_first(streams: &mut [Vec<SegmentFile>], files: &Names, titles: &[u32]) {
    let mut of_folder: HashMap<(u32, Vec<u8>), Vec<usize>> = HashMap::new();
    for (place, stream) in streams.iter().enumerate() {
        let name = files.bytes(stream[0].file);
        let at = (stream[0].title, folder(&name).to_vec());
        of_folder.entry(at).or_default().push(place);
    }
    for (file, title) in (0..files.len() as u32).zip(titles) {
        let name = files.bytes(file);
        if !is_init(&name) {
            continue;
        }
        let Some(found) = of_folder.get(&(*title, folder(&name).to_vec())) else {
            continue;
        };
        let words = own_words(&name);
        let is_same = |place: &&usize| {
            let first = files.bytes(streams[**place][0].file);
            let number = number_in(&first).unwrap_or(0..0);
            let plain = [&first[..number.start], &first[number.end..]].concat();
            own_words(&plain) == words
        };
        let of = match found[..] {
            [only] => Some(only),
            _ => found.iter().find(is_same).copied(),
        };
        if let Some(stream) = of.map(|place| &mut streams[place])
            && stream[0].number > 0
        {
            let first = SegmentFile {
                number: 0,
                file,
                ..stream[0]
            };
            stream.insert(0, first);
        }
    }
}

fn folder(name: &[u8]) -> &[u8] {
    &name[..memchr::memrchr(b'/', name).unwrap_or(0)]
}

/// The words of a file's name, without its extension.
fn words(name: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let stem = &name[memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1)..];
    let stem = &stem[..memchr::memrchr(b'.', stem).unwrap_or(stem.len())];
    let words = stem.split(|byte| matches!(byte, b'.' | b'-' | b'_'));
    words.map(<[u8]>::to_ascii_lowercase)
}

/// Those that say more than that it is a segment.
fn own_words(name: &[u8]) -> Vec<Vec<u8>> {
    let says_more = |word: &Vec<u8>| !word.is_empty() && !SEGMENT_WORDS.contains(&word.as_slice());
    words(name).filter(says_more).collect()
}

/// Whether it is an initialization segment.
fn is_init(name: &[u8]) -> bool {
    may_be_segment(name) && words(name).any(|word| word == INIT)
}

/// Whether a file may be a segment, or an initialization segment.
pub(crate) fn may_be_segment(name: &[u8]) -> bool {
    let is_mp4 = name.ends_with(b".mp4") || name.ends_with(b".m4i");
    is_segment(name) || is_mp4 && words(name).any(|word| word == INIT)
}

/// Whether a name has the extension of a segment.
fn is_segment(name: &[u8]) -> bool {
    let last = &name[name.len().saturating_sub(5)..];
    memchr::memrchr(b'.', last).is_some_and(|point| {
        let ending = &last[point + 1..];
        ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

/// Position of the segment number in the name.
fn number_in(name: &[u8]) -> Option<Range<usize>> {
    let start = memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1);
    let end = memchr::memrchr(b'.', name).filter(|point| *point > start)?;
    if !is_segment(name) {
        return None;
    }
    let is_gap = |byte: &u8| matches!(byte, b'.' | b'-' | b'_');
    let mut to = end;
    loop {
        let from = name[start..to].iter().rposition(is_gap);
        let from = from.map_or(start, |gap| start + gap + 1);
        if from < to && name[from..to].iter().all(u8::is_ascii_digit) {
            return Some(from..to);
        }
        if from == start {
            break;
        }
        to = from - 1;
    }
    let digits = name[start..end].iter().rev();
    let digits = digits.take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then_some(end - digits..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of files after joining, with their titles and places in streams.
    fn joined(names: &[&str], title: impl Fn(u32) -> u32) -> (Vec<String>, JoinedFiles) {
        let names = Names::from_names(names.iter().map(|name| name.as_bytes()));
        let titles: Vec<u32> = (0..names.len() as u32).map(title).collect();
        let facts = vec![FileFacts::of_segment(100); names.len()];
        let files = JoinedFiles::of(names, facts, titles);
        let all = 0..files.names.len() as u32;
        (
            all.map(|file| files.names.get(file).to_string()).collect(),
            files,
        )
    }

    fn request(file: u32, offset: u64, sent_bytes: u64, asked_bytes: Option<u64>) -> Request {
        Request {
            line: 0,
            session: 0,
            file,
            received_ms: 0,
            completed_ms: 0,
            offset,
            asked_bytes,
            sent_bytes,
            disk: 0,
            device: 0,
        }
    }

    #[test]
    fn segments_are_one_file_for_all_name_forms() {
        for (of, stream) in [
            (
                (|piece| format!("/film/720p/{piece}.ts")) as fn(u32) -> String,
                "/film/720p/*.ts",
            ),
            (
                |piece| format!("/film/seg-{piece}-v1-a1.ts"),
                "/film/seg-*-v1-a1.ts",
            ),
            (
                |piece| format!("/film/chunk-stream0-{piece:05}.m4s"),
                "/film/chunk-stream0-*.m4s",
            ),
            (
                |piece| format!("/film/fileSequence{piece}.TS"),
                "/film/fileSequence*.TS",
            ),
            (
                |piece| format!("/film/t-{}.m4s", piece * 96_096),
                "/film/t-*.m4s",
            ),
        ] {
            let pieces: Vec<String> = (8..12).map(of).collect();
            let mut names: Vec<&str> = pieces.iter().map(String::as_str).collect();
            names.sort_unstable();
            let (found, files) = joined(&names, |_| 0);
            assert_eq!((found, files.segments), (vec![stream.to_owned()], 4));
            let at = |piece: &String| {
                let file = names.iter().position(|name| name == piece).expect("a name");
                files.places[file].before_bytes
            };
            let at: Vec<u64> = pieces.iter().map(at).collect();
            assert_eq!(at, [0, 100, 200, 300], "{names:?}");
        }
    }

    #[test]
    fn renditions_and_other_files_stay_apart() {
        let names = [
            "/f/.ts",
            "/f/99999999999999999999.ts",
            "/f/index.m3u8",
            "/f/part1.mp4",
            "/f/part2.mp4",
            "/f/part3.mp4",
            "/f/sound-1.aac",
            "/f/sound-2.aac",
            "/f/v1/1.ts",
            "/f/v1/2.ts",
            "/f/v1/3.ts",
            "/f/v2/1.ts",
            "/f/v2/2.ts",
            "/f/v2/3.ts",
            "7",
            "noise",
        ];
        let (found, files) = joined(&names, |_| 0);
        let streams = files.streams.iter();
        let streams: Vec<&str> = streams.map(|file| found[*file as usize].as_str()).collect();
        assert_eq!(streams, ["/f/v1/*.ts", "/f/v2/*.ts"]);
        assert_eq!(found.len(), names.len() - 6 + 2);
        assert!(
            joined(&names[8..11], |file| file).1.streams.is_empty(),
            "three titles"
        );
    }

    #[test]
    fn initialization_segment_is_first() {
        for (init, stream) in [
            ("/d/init.mp4", "/d/seg-"),
            ("/d/init-1.m4s", "/d/chunk-1-"),
            ("/d/init-stream0.m4s", "/d/chunk-stream0-"),
        ] {
            let mut names: Vec<String> = (1..5).map(|n| format!("{stream}{n}.m4s")).collect();
            names.push(init.to_owned());
            if init != "/d/init.mp4" {
                let other = stream.replace(['0', '1'], "2");
                names.extend((1..5).map(|n| format!("{other}{n}.m4s")));
                names.push(init.replace(['0', '1'], "2"));
            }
            names.sort_unstable();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (found, files) = joined(&names, |_| 0);
            assert_eq!(found.len(), names.len() / 5, "{found:?}");
            let at = |name: &str| {
                let file = names
                    .iter()
                    .position(|known| *known == name)
                    .expect("a name");
                files.places[file].before_bytes
            };
            assert_eq!((at(init), at(&format!("{stream}1.m4s"))), (0, 100));
        }
    }

    #[test]
    fn request_for_a_segment_becomes_a_range_of_its_stream() {
        let names = ["/f/1.ts", "/f/2.ts", "/f/3.ts", "/f/5.ts", "/f/a.mp4"];
        let (found, files) = joined(&names, |_| 0);
        assert_eq!(found, ["/f/*.ts", "/f/a.mp4"]);
        let place = |file: usize, offset, sent, asked| {
            let mut request = request(file as u32, offset, sent, asked);
            files.places[file].put(&mut request);
            (
                request.file,
                request.offset,
                request.sent_bytes,
                request.asked_bytes,
            )
        };
        assert_eq!(place(1, 0, 100, None), (0, 100, 100, Some(100)));
        assert_eq!(place(1, 0, 97, None), (0, 100, 100, Some(100)), "headers");
        assert_eq!(place(1, 0, 50, None), (0, 100, 50, Some(100)), "cut off");
        assert_eq!(place(1, 10, 20, Some(20)), (0, 110, 20, Some(20)));
        assert_eq!(
            place(3, 0, 100, None),
            (0, 400, 100, Some(100)),
            "4.ts is missing"
        );
        assert_eq!(place(4, 7, 9, None), (1, 7, 9, None));
        let unplaced = headlong_chains::UNPLACED;
        assert_eq!(place(1, unplaced, 9, None), (0, unplaced, 9, None));
    }
}
