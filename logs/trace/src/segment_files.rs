//! Finds segment files of one rendition, as in HLS and DASH, and their order.
//!
//! Their names differ in one number: the last word that consists of digits (`seg-12-v1.ts`),
//! otherwise the digits at the end of the name (`segment12.ts`).

use std::ops::Range;

use crate::names::{Names, hash, hash_number};

/// File extensions of segments with audio or video.
const ENDINGS: [&[u8]; 6] = [b"ts", b"m4s", b"m4f", b"cmfv", b"cmfa", b"aac"];
/// Fewer files than this may be one title in two languages.
const PIECES_MIN: usize = 3;

/// A possible segment file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SegmentFile {
    title: u32,
    /// Hash of its name without its number.
    hash: u64,
    number: u64,
    file: u32,
}

/// The segment files of each rendition in order, as file numbers.
pub(crate) fn streams(files: &Names, titles: &[u32]) -> Vec<Vec<u32>> {
    let pieces = (0..files.len() as u32).zip(titles);
    let pieces = pieces.filter_map(|(file, title)| {
        let name = files.bytes(file);
        let place = number_in(&name)?;
        let number = crate::read::number::digits(&name[place.clone()])?;
        let (before, after) = (hash(&name[..place.start]), hash(&name[place.end..]));
        Some(SegmentFile {
            title: *title,
            hash: hash_number(before) ^ after,
            number,
            file,
        })
    });
    let mut pieces: Vec<SegmentFile> = pieces.collect();
    pieces.sort_unstable();
    pieces
        .chunk_by(|one, other| (one.title, one.hash) == (other.title, other.hash))
        .filter(|stream| stream.len() >= PIECES_MIN)
        .map(|stream| stream.iter().map(|piece| piece.file).collect())
        .collect()
}

/// Position of the segment number in the name.
fn number_in(name: &[u8]) -> Option<Range<usize>> {
    let start = memchr::memrchr(b'/', name).map_or(0, |slash| slash + 1);
    let end = memchr::memrchr(b'.', name).filter(|point| *point > start)?;
    let ending = name[end + 1..].to_ascii_lowercase();
    if !ENDINGS.contains(&ending.as_slice()) {
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

    fn stream_names(names: &[&str], title: u32) -> Vec<Vec<String>> {
        let names = Names::from_names(names.iter().map(|name| name.as_bytes()));
        let streams = streams(&names, &vec![title; names.len()]);
        let name = |file: &u32| names.get(*file).to_string();
        let all = streams.iter();
        all.map(|stream| stream.iter().map(name).collect())
            .collect()
    }

    #[test]
    fn segments_are_in_numeric_order_for_all_name_forms() {
        for of in [
            |piece| format!("/film/720p/{piece}.ts"),
            |piece| format!("/film/seg-{piece}-v1-a1.ts"),
            |piece| format!("/film/chunk-stream0-{piece:05}.m4s"),
            |piece| format!("/film/fileSequence{piece}.TS"),
        ] as [fn(u32) -> String; 4]
        {
            let pieces: Vec<String> = (8..12).map(of).collect();
            let names: Vec<&str> = pieces.iter().map(String::as_str).collect();
            assert_eq!(stream_names(&names, 0), [pieces.as_slice()]);
        }
    }

    #[test]
    fn renditions_are_separate_and_other_files_are_ignored() {
        let names = [
            "/f/v1/1.ts",
            "/f/v1/2.ts",
            "/f/v1/3.ts",
            "/f/v2/1.ts",
            "/f/v2/2.ts",
            "/f/v2/3.ts",
            "/f/part1.mp4",
            "/f/part2.mp4",
            "/f/part3.mp4",
            "/f/index.m3u8",
            "/f/init.m4s",
            "/f/sound-1.aac",
            "/f/sound-2.aac",
            "noise",
            "/f/.ts",
            "7",
            "/f/99999999999999999999.ts",
        ];
        let mut streams = stream_names(&names, 0);
        streams.sort();
        assert_eq!(streams, [names[..3].to_vec(), names[3..6].to_vec()]);
        let files = Names::from_names(names[..3].iter().map(|name| name.as_bytes()));
        let none: Vec<Vec<u32>> = Vec::new();
        assert_eq!(super::streams(&files, &[0, 1, 2]), none, "three titles");
    }
}
