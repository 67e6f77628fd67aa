//! Planning of streams: assigns each file to one stream and an index in it.
//!
//! A stream is a linear run of files on one device. The chunk files of a rendition make one, in
//! playback order; a file that no manifest names is a stream of its own, which needs no plan. If
//! two manifests claim the same file (an HLS and a DASH one over the same segments), the first in
//! path order gets it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_units::{BitRate, Duration};

use crate::title::{Segments, Title, bit_rate};

/// The caller's information on a file on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    /// Its device, in the caller's numbering.
    pub device: usize,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// The place of a file: part `part` of stream `stream` of [`Plan::streams`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPosition {
    /// Index in [`Plan::streams`].
    pub stream: usize,
    /// Index in [`PlannedStream::files`].
    pub part: u32,
}

/// One stream of several files, or of one file that a manifest describes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStream {
    /// Index of the title in the slice that was planned.
    pub title: usize,
    /// Index in [`Title::renditions`].
    pub rendition: usize,
    /// The device of all its files.
    pub device: usize,
    /// Its files, in order; at least one, each once.
    pub files: Vec<Arc<str>>,
    /// The declared rate, or its bytes over its duration.
    pub bit_rate: Option<BitRate>,
}

/// All streams that manifests describe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The streams.
    pub streams: Vec<PlannedStream>,
    /// The place of each file.
    pub places: BTreeMap<Arc<str>, StreamPosition>,
}

/// Assigns every file that the manifests name and that `facts` knows a place in one stream.
///
/// The files of a rendition on different devices become different streams, since each device has
/// its own queue. Missing files are skipped.
pub fn plan(titles: &[Title], facts: impl Fn(&str) -> Option<FileFacts>) -> Plan {
    let mut order: Vec<usize> = (0..titles.len()).collect();
    order.sort_by(|a, b| titles[*a].path.cmp(&titles[*b].path));
    let mut plan = Plan::default();
    // If titles share segments, the first title gets the files.
    let mut planned: BTreeSet<*const Segments> = BTreeSet::new();
    for title in order {
        for rendition in 0..titles[title].renditions.len() {
            if !planned.insert(Arc::as_ptr(&titles[title].renditions[rendition].segments)) {
                continue;
            }
            plan.add(titles, title, rendition, &facts);
        }
    }
    plan
}

impl Plan {
    fn add(
        &mut self,
        titles: &[Title],
        title: usize,
        rendition: usize,
        facts: &impl Fn(&str) -> Option<FileFacts>,
    ) {
        let source = &titles[title].renditions[rendition];
        let streams_before = self.streams.len();
        let (mut bytes, mut length) = (0u64, Duration::ZERO);
        for segment in &source.segments.list {
            let Some(file) = facts(&segment.path) else {
                continue;
            };
            bytes = bytes.saturating_add(segment.range.map_or(file.size_bytes, |r| r.len()));
            length += segment.duration;
            if self.places.contains_key(&segment.path) {
                continue;
            }
            let new = &self.streams[streams_before..];
            let at = match new.iter().position(|stream| stream.device == file.device) {
                Some(at) => streams_before + at,
                None => {
                    self.streams.push(PlannedStream {
                        title,
                        rendition,
                        device: file.device,
                        files: Vec::new(),
                        bit_rate: None,
                    });
                    self.streams.len() - 1
                }
            };
            let files = &mut self.streams[at].files;
            let place = StreamPosition {
                stream: at,
                part: u32::try_from(files.len()).unwrap_or(u32::MAX),
            };
            files.push(Arc::clone(&segment.path));
            self.places.insert(Arc::clone(&segment.path), place);
        }
        let rate = bit_rate(source.average, source.peak, bytes, length);
        for stream in &mut self.streams[streams_before..] {
            stream.bit_rate = rate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hls::{HlsMedia, HlsSegment};
    use crate::title_builder::tests::build_media as media_title;
    use proptest::prelude::*;
    use std::string::{String, ToString};

    fn title(path: &str, segments: &[&str]) -> Title {
        let segment = |uri: &&str| HlsSegment {
            uri: uri.to_string(),
            duration: Duration::from_secs(1),
            ..HlsSegment::default()
        };
        let segments = segments.iter().map(segment).collect();
        media_title(
            path,
            &HlsMedia {
                segments,
                ..HlsMedia::default()
            },
        )
    }

    fn on_one_device(_: &str) -> Option<FileFacts> {
        Some(FileFacts {
            device: 0,
            size_bytes: 125_000,
        })
    }

    fn files(stream: &PlannedStream) -> Vec<&str> {
        stream.files.iter().map(|file| &**file).collect()
    }

    #[test]
    fn first_manifest_in_path_order_gets_the_file() {
        let titles = [
            title("b.m3u8", &["1.ts", "2.ts", "4.ts"]),
            title("a.m3u8", &["2.ts", "3.ts"]),
        ];
        let plan = plan(&titles, on_one_device);
        assert_eq!(files(&plan.streams[0]), ["2.ts", "3.ts"]);
        assert_eq!(files(&plan.streams[1]), ["1.ts", "4.ts"]);
        assert_eq!(plan.places["4.ts"], StreamPosition { stream: 1, part: 1 });
        assert_eq!(plan.streams[0].bit_rate, Some(BitRate::from_kbps(1000)));
    }

    #[test]
    fn file_played_twice_has_one_place() {
        let plan = plan(
            &[title("a.m3u8", &["ad.ts", "1.ts", "ad.ts"])],
            on_one_device,
        );
        assert_eq!(files(&plan.streams[0]), ["ad.ts", "1.ts"]);
    }

    #[test]
    fn missing_files_are_skipped_and_devices_not_mixed() {
        let titles = [title("a.m3u8", &["1.ts", "gone.ts", "2.ts", "3.ts"])];
        let plan = plan(&titles, |path| match path {
            "gone.ts" => None,
            "2.ts" => Some(FileFacts {
                device: 1,
                size_bytes: 1,
            }),
            _ => Some(FileFacts {
                device: 0,
                size_bytes: 1,
            }),
        });
        assert_eq!(files(&plan.streams[0]), ["1.ts", "3.ts"]);
        assert_eq!(files(&plan.streams[1]), ["2.ts"]);
        assert_eq!(plan.streams[1].device, 1);
    }

    proptest! {
        #[test]
        fn every_file_has_exactly_one_place(
            lists in proptest::collection::vec(proptest::collection::vec(0u8..20, 0..20), 0..6),
        ) {
            let names: Vec<Vec<String>> = lists
                .iter()
                .map(|list| list.iter().map(|n| std::format!("{n}.ts")).collect())
                .collect();
            let titles: Vec<Title> = names
                .iter()
                .enumerate()
                .map(|(i, list)| {
                    let list: Vec<&str> = list.iter().map(String::as_str).collect();
                    title(&std::format!("{i}.m3u8"), &list)
                })
                .collect();
            let plan = plan(&titles, |path| {
                Some(FileFacts { device: path.len() % 2, size_bytes: 1 })
            });
            let count: usize = plan.streams.iter().map(|stream| stream.files.len()).sum();
            prop_assert_eq!(count, plan.places.len());
            for (path, place) in &plan.places {
                prop_assert_eq!(&plan.streams[place.stream].files[place.part as usize], path);
            }
        }
    }
}
