//! Assigns files to titles, where no files table does.
//!
//! A name consists of a folder, words, and an extension. Words for renditions (`-1080p`, `_audio`)
//! never distinguish titles. Segments of a stream (`.ts`, `.m4s`) are numbered as well, so numbers
//! are ignored there. A name without other words belongs to the title of its folder, and a folder
//! with one manifest is one title. A file with words of its own that is not a segment is a title,
//! however many files are in its folder.

use std::collections::HashMap;
use std::fmt;

use regex_lite::Regex;

use crate::files::FileFacts;
use crate::names::{Interner, Names};

/// How a file was assigned to its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TitleRule {
    Table,
    Rule,
    Manifest,
    Folder,
    Name,
}

/// Number of files assigned in each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TitleRuleCounts([u64; 5]);

impl TitleRuleCounts {
    /// Number of files.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl fmt::Display for TitleRuleCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WAYS: [&str; 5] = [
            "the table of files",
            "the given rule",
            "the manifest in their folder",
            "the names of their folders",
            "their own names",
        ];
        let used = self.0.iter().zip(WAYS).filter(|(count, _)| **count > 0);
        for (place, (count, way)) in used.enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{count} by {way}")?;
        }
        Ok(())
    }
}

/// Extensions of manifests.
const MANIFESTS: [&[u8]; 6] = [b"m3u8", b"m3u", b"mpd", b"ism", b"isml", b"f4m"];
/// Extensions of segments and accompanying files.
const PIECES: [&[u8]; 15] = [
    b"ts", b"m4s", b"m4f", b"cmfv", b"cmfa", b"cmft", b"aac", b"vtt", b"webvtt", b"srt", b"key",
    b"jpg", b"jpeg", b"png", b"webp",
];
/// Words that only identify a rendition or a segment.
const WORDS: [&[u8]; 38] = [
    b"audio",
    b"video",
    b"sd",
    b"hd",
    b"fhd",
    b"uhd",
    b"low",
    b"mid",
    b"medium",
    b"high",
    b"index",
    b"master",
    b"playlist",
    b"manifest",
    b"main",
    b"stream",
    b"chunklist",
    b"prog",
    b"media",
    b"segment",
    b"seg",
    b"chunk",
    b"init",
    b"filesequence",
    b"frag",
    b"fragment",
    b"part",
    b"sub",
    b"subs",
    b"subtitles",
    b"thumb",
    b"thumbs",
    b"hls",
    b"dash",
    b"rendition",
    b"track",
    b"v",
    b"a",
];
/// Units of numbers that identify a rendition.
const UNITS: [&[u8]; 5] = [b"p", b"k", b"kbps", b"kbit", b"mbps"];

/// The parts of a name.
struct NameParts<'a> {
    folder: &'a [u8],
    /// Folder and own words; `None` if it has none.
    own: Option<&'a [u8]>,
    is_manifest: bool,
    is_piece: bool,
}

impl<'a> NameParts<'a> {
    fn of(name: &'a [u8]) -> Self {
        let slash = memchr::memrchr(b'/', name);
        let start = slash.map_or(0, |slash| slash + 1);
        let point = memchr::memrchr(b'.', &name[start..]).map(|point| start + point);
        let ending = point.filter(|point| *point > start && name.len() - point <= 7);
        let stem_end = ending.unwrap_or(name.len());
        let kind = name[(stem_end + 1).min(name.len())..].to_ascii_lowercase();
        let is_manifest = MANIFESTS.contains(&kind.as_slice());
        let is_piece = PIECES.contains(&kind.as_slice());
        let words = own_words(&name[start..stem_end], is_piece || is_manifest);
        Self {
            folder: &name[..slash.unwrap_or(0)],
            own: (words > 0).then(|| &name[..start + words]),
            is_manifest,
            is_piece,
        }
    }
}

/// Length of the own words at the start of a file's name.
fn own_words(stem: &[u8], is_of_stream: bool) -> usize {
    let is_gap = |byte: &u8| matches!(byte, b'.' | b'-' | b'_');
    let mut end = stem.len();
    loop {
        let start = stem[..end].iter().rposition(is_gap).map_or(0, |at| at + 1);
        let word = &stem[start..end];
        let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
        let says_nothing = is_rendition(word) || is_of_stream && is_number;
        match (says_nothing, start) {
            (true, 0) => return 0,
            (true, start) => end = start - 1,
            (false, _) => break,
        }
    }
    // `video-3000` is a rendition, `2001` is a film.
    let words = || stem[..end].split(is_gap);
    let is_number = |word: &[u8]| word.iter().all(u8::is_ascii_digit);
    let says_nothing = words().next().is_some_and(is_rendition)
        && words().all(|word| is_number(word) || is_rendition(word));
    if says_nothing { 0 } else { end }
}

/// `1080p`, `2000k`, `audio`, `seg12`, `v1`.
fn is_rendition(word: &[u8]) -> bool {
    let lower = word.to_ascii_lowercase();
    let digits = lower
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if digits > 0 {
        return UNITS.contains(&&lower[digits..]);
    }
    let letters = lower
        .iter()
        .take_while(|byte| !byte.is_ascii_digit())
        .count();
    let is_numbered = lower[letters..].iter().all(u8::is_ascii_digit);
    // A single letter may be a name.
    let is_word = letters > 1 || letters < lower.len();
    is_word && is_numbered && WORDS.contains(&&lower[..letters])
}

/// A folder without components that only identify a rendition: `/film/hls/1080p` is `/film`.
fn titled(folder: &[u8]) -> &[u8] {
    let mut end = folder.len();
    while let Some(slash) = memchr::memrchr(b'/', &folder[..end]).filter(|slash| *slash > 0) {
        let word = &folder[slash + 1..end];
        if own_words(word, false) > 0 {
            break;
        }
        end = slash;
    }
    &folder[..end]
}

/// Folders with a manifest, and the own words of its name: `Some(None)` if it has none, `None` if
/// there are several manifests.
type Manifests<'a> = HashMap<&'a [u8], Option<Option<&'a [u8]>>>;

/// The title of a file, and how it was found.
fn title<'a>(name: &'a [u8], manifests: &Manifests<'a>) -> (&'a [u8], TitleRule) {
    let told = NameParts::of(name);
    let folder = titled(told.folder);
    let is_there = |folder: &[u8]| match manifests.get(folder) {
        Some(Some(None)) => true,
        Some(Some(own)) => told.is_piece || told.own.is_none() || told.own == *own,
        _ => false,
    };
    // The playlist of a rendition may lie below the master playlist.
    let above = memchr::memrchr(b'/', folder).map_or(folder, |slash| &folder[..slash]);
    let by_manifest = [above, folder, told.folder].into_iter();
    let by_manifest = by_manifest
        .filter(|at| !at.is_empty())
        .find(|at| is_there(at));
    if let Some(at) = by_manifest {
        return (titled(at), TitleRule::Manifest);
    }
    match told.own {
        Some(own) => (own, TitleRule::Name),
        None if folder.is_empty() => (name, TitleRule::Name),
        None => (folder, TitleRule::Folder),
    }
}

/// Compiles a rule given by a user.
///
/// # Errors
/// Why it is invalid.
pub(crate) fn rule(text: &str) -> Result<Regex, String> {
    let rule = Regex::new(text).map_err(|error| error.to_string())?;
    match rule.captures_len() {
        2 => Ok(rule),
        groups => Err(format!("it has {} groups", groups - 1)),
    }
}

/// The title of each file, as provisional numbers, and how they were found.
pub(crate) fn of_files(
    files: &Names,
    facts: &[FileFacts],
    rule: Option<&Regex>,
    titles: &Interner,
) -> (Vec<u32>, TitleRuleCounts) {
    let names: Vec<_> = (0..files.len() as u32)
        .map(|file| files.bytes(file))
        .collect();
    let mut manifests = Manifests::new();
    for name in &names {
        let told = NameParts::of(name);
        if told.is_manifest && !told.folder.is_empty() {
            let known = manifests.entry(told.folder).or_insert(Some(told.own));
            *known = match *known {
                Some(own) if own == told.own || told.own.is_none() => Some(told.own),
                Some(None) => Some(None),
                _ => None,
            };
        }
    }
    let mut by = TitleRuleCounts::default();
    let numbers = names.iter().enumerate().map(|(file, name)| {
        let row = facts.get(file).and_then(FileFacts::title);
        let ruled = || {
            let text = str::from_utf8(name).ok()?;
            Some(rule?.captures(text)?.get(1)?.as_str().as_bytes())
        };
        let (number, way) = match (row, ruled()) {
            (Some(title), _) => (title, TitleRule::Table),
            (_, Some(title)) => (titles.intern(title).0, TitleRule::Rule),
            _ => {
                let (title, way) = title(name, &manifests);
                (titles.intern(title).0, way)
            }
        };
        by.0[way as usize] += 1;
        number
    });
    (numbers.collect(), by)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn title_names(names: &[&str], text: Option<&str>) -> (Vec<String>, String) {
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        let files = Names::from_names(sorted.iter().map(|name| name.as_bytes()));
        let titles = Interner::new(6);
        let rule = text.map(|text| rule(text).expect("a rule"));
        let (of, by) = of_files(&files, &[], rule.as_ref(), &titles);
        let (names_of, renumber) = titles.finish();
        let title = |name: &&str| {
            let number = files.find(name).expect("a file");
            let title = renumber.of(of[number as usize]).expect("a title");
            names_of.get(title).to_string()
        };
        (names.iter().map(title).collect(), by.to_string())
    }

    fn of<const N: usize>(names: [&str; N]) -> Vec<String> {
        title_names(&names, None).0
    }

    #[test]
    fn unrelated_films_in_one_folder_are_separate_titles() {
        let names: Vec<String> = (0..20)
            .map(|film| format!("/films/film{film}.mp4"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (mut titles, by) = title_names(&names, None);
        titles.sort_unstable();
        titles.dedup();
        assert_eq!((titles.len(), by.as_str()), (20, "20 by their own names"));
    }

    #[test]
    fn renditions_are_one_title() {
        assert_eq!(of(["/t/1/audio.mp4", "/t/1/video.mp4"]), ["/t/1", "/t/1"]);
        assert_eq!(of(["/t/9/video-3000.mp4", "plain"]), ["/t/9", "plain"]);
        assert_eq!(
            of([
                "/film17-1080p.mp4",
                "/film17_audio.m4a",
                "/f/2012.mp4",
                "17",
                "/18"
            ]),
            ["/film17", "/film17", "/f/2012", "17", "/18"]
        );
    }

    #[test]
    fn segments_belong_to_the_title_of_manifest_or_folder() {
        let streams = [
            "/film/master.m3u8",
            "/film/720p/index.m3u8",
            "/film/720p/seg-00001.ts",
            "/film/hls/v1/00007.m4s",
            "/other/hls/v1/00007.m4s",
            "/hls/a.m3u8",
            "/hls/a_00001.ts",
            "/hls/b.m3u8",
            "/hls/b_00001.ts",
            "/one/tears.mpd",
            "/one/init-1.m4s",
            "/one/tears_1080p.mp4",
        ];
        assert_eq!(
            of(streams),
            [
                "/film", "/film", "/film", "/film", "/other", "/hls/a", "/hls/a", "/hls/b",
                "/hls/b", "/one", "/one", "/one"
            ]
        );
    }

    #[test]
    fn rule_applies_where_it_matches() {
        let (titles, by) = title_names(&["/a/x-1.mp4", "/a/x-2.mp4", "/b.mp4"], Some("/(x)-"));
        assert_eq!(titles, ["x", "x", "/b"]);
        assert_eq!(by, "2 by the given rule, 1 by their own names");
        assert_eq!(rule("x").map(|_| ()), Err("it has 0 groups".to_owned()));
        assert!(rule("(").is_err());
    }
}
