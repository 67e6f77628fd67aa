//! Segments as a player reads them: every sample, with its times and bytes, is that of the file.

use headlong_http::PlannedBody;
use headlong_media::{Mp4Box, mp4_boxes};
use headlong_package::{Rendition, Resource, Title};

use crate::film::{Film, FilmSample, FilmTrack, audio, film, segment, title, video};

/// A sample as a player gets it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Played {
    track: u32,
    decoded: u64,
    sample: FilmSample,
}

pub(crate) fn rendition(name: &str) -> Rendition {
    match Resource::parse(&format!("{name}.m3u8")) {
        Some(Resource::Playlist(rendition)) => rendition,
        other => panic!("{name} is {other:?}"),
    }
}

/// The bytes of a body.
pub(crate) fn assemble(file: &[u8], body: &PlannedBody) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in &body.parts {
        bytes.extend(&part.preamble);
        bytes.extend(&file[part.range.start as usize..part.range.end as usize]);
    }
    bytes.extend(&body.closing);
    bytes
}

fn children<'a>(body: &'a [u8], kind: &[u8; 4]) -> Vec<Mp4Box<'a>> {
    let all = mp4_boxes(body).map(|child| child.expect("a box"));
    all.filter(|child| child.kind == *kind).collect()
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let four = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_be_bytes(four)
}

/// Reads a segment by ISO/IEC 14496-12, 8.8.
pub(crate) fn play(segment: &[u8]) -> Vec<Played> {
    let kinds: Vec<_> = mp4_boxes(segment)
        .map(|child| child.expect("a box").kind)
        .collect();
    assert_eq!(kinds, [*b"moof", *b"mdat"]);
    let moof = children(segment, b"moof")[0].body;
    let mut played = Vec::new();
    for traf in children(moof, b"traf") {
        let tfhd = children(traf.body, b"tfhd")[0].body;
        let flags = number(tfhd, 0);
        assert_eq!(flags & 0x02_0000, 0x02_0000, "offsets count from moof");
        let mut at = 12;
        let mut usual_duration = None;
        if flags & 8 != 0 {
            usual_duration = Some(number(tfhd, at));
            at += 4;
        }
        let usual_flags = number(tfhd, at);
        let tfdt = children(traf.body, b"tfdt")[0].body;
        let mut decoded = u64::from(number(tfdt, 4)) << 32 | u64::from(number(tfdt, 8));
        for trun in children(traf.body, b"trun") {
            let flags = number(trun.body, 0);
            let mut place = number(trun.body, 8) as usize;
            let mut at = 12;
            let mut take = |is_there: bool| {
                let found = is_there.then(|| number(trun.body, at));
                at += if is_there { 4 } else { 0 };
                found
            };
            let first_flags = take(flags & 4 != 0);
            for index in 0..number(trun.body, 4) {
                let duration = take(flags & 0x100 != 0).or(usual_duration);
                let size = take(flags & 0x200 != 0).expect("a size") as usize;
                let own_flags = take(flags & 0x400 != 0);
                let own_flags = own_flags.or(first_flags.filter(|_| index == 0));
                let composition = take(flags & 0x800 != 0).unwrap_or(0) as i32;
                let duration = duration.expect("a duration");
                played.push(Played {
                    track: number(tfhd, 4),
                    decoded,
                    sample: FilmSample {
                        duration,
                        composition,
                        is_sync: own_flags.unwrap_or(usual_flags) & 0x1_0000 == 0,
                        bytes: segment[place..place + size].to_vec(),
                    },
                });
                decoded += u64::from(duration);
                place += size;
            }
        }
    }
    played
}

/// All samples of a rendition.
pub(crate) fn play_all(file: &[u8], title: &Title, name: &str) -> Vec<Played> {
    let mut played = Vec::new();
    for number in 0..title.segments() {
        let segment = segment(file, title, rendition(name), number);
        let Some(body) = segment.expect("a segment") else {
            continue;
        };
        played.extend(play(&assemble(file, &body)));
    }
    played
}

/// What a player must get of a track, whose samples begin `delay` ticks later.
pub(crate) fn expected(track: &FilmTrack, id: u32, delay: u64) -> Vec<Played> {
    let mut decoded = delay;
    let played = |sample: &FilmSample| {
        decoded += u64::from(sample.duration);
        Played {
            track: id,
            decoded: decoded - u64::from(sample.duration),
            sample: sample.clone(),
        }
    };
    track.samples.iter().map(played).collect()
}

fn of_track(played: Vec<Played>, id: u32) -> Vec<Played> {
    let of_track = |one: &Played| one.track == id;
    played.into_iter().filter(of_track).collect()
}

/// Checks that every rendition plays the samples of the file.
pub(crate) fn check(film: &Film, seconds: u64) {
    check_file(film, &film.bytes(), seconds);
}

/// Checks it of a file with the samples of a film.
pub(crate) fn check_file(film: &Film, file: &[u8], seconds: u64) {
    let title = title(file, seconds).expect("a title");
    let names: &[&str] = match film.tracks.len() {
        1 => &["v1"],
        2 => &["v1", "a1", "v1a1"],
        _ => &["v1", "a1", "a2", "v1a1", "v1a2"],
    };
    for name in names {
        let mut in_order = play_all(file, &title, name);
        let mut all = 0;
        for (index, track) in film.tracks.iter().enumerate() {
            let id = index as u32 + 1;
            let is_in = match index {
                0 => name.starts_with("v1"),
                _ => name.ends_with(&format!("a{index}")),
            };
            if is_in {
                let (own, others) = in_order.into_iter().partition(|one| one.track == id);
                let own: Vec<Played> = own;
                assert_eq!(own, expected(track, id, 0), "track {id} of {name}");
                all += own.len();
                in_order = others;
            }
        }
        assert!(all > 0 && in_order.is_empty(), "{name} has other samples");
    }
}

#[test]
fn samples_and_times_are_those_of_the_file() {
    for moov_first in [true, false] {
        for long_offsets in [true, false] {
            let film = Film {
                moov_first,
                long_offsets,
                ..film()
            };
            check(&film, 4);
        }
    }
}

#[test]
fn muxed_segment_is_one_range_of_the_file() {
    let film = film();
    let file = film.bytes();
    let title = title(&file, 4).expect("a title");
    // Sync samples every two seconds.
    assert_eq!(title.segments(), 3);
    let mut ends = Vec::new();
    for number in 0..3 {
        let body = title.segment(rendition("v1a1"), number);
        let body = body.expect("a segment").expect("there is one");
        assert_eq!(body.parts.len(), 1);
        ends.push((body.parts[0].range.start, body.parts[0].range.end));
        // Three kilobytes of heads for a segment of 90.
        assert!(body.parts[0].preamble.len() < 3500);
    }
    // Together they are the media, and overlap by what is interleaved.
    let media = film.tracks.iter().flat_map(|track| &track.samples);
    let media: usize = media.map(|sample| sample.bytes.len()).sum();
    assert_eq!(ends[0].0 as usize, file.len() - media);
    assert_eq!(ends[2].1 as usize, file.len());
    for pair in ends.windows(2) {
        let overlap = pair[0].1.saturating_sub(pair[1].0);
        assert!(overlap < 12_000, "{overlap} bytes are sent twice");
    }
}

#[test]
fn tracks_apart_are_sent_as_few_ranges() {
    let mut film = film();
    film.chunks = vec![(0, 250), (1, 313)];
    check(&film, 4);
    let file = film.bytes();
    let title = title(&file, 4).expect("a title");
    let body = title.segment(rendition("v1a1"), 1).expect("a segment");
    assert_eq!(body.expect("there is one").parts.len(), 2);
}

#[test]
fn several_audio_tracks_are_sent_apart() {
    let mut film = film();
    film.tracks.push(audio(313, "deu"));
    film.chunks.extend([(2, 313)]);
    check(&film, 4);
}

#[test]
fn empty_edit_delays_a_track() {
    let mut film = film();
    film.tracks[1].edits = vec![(500, -1), (0, 1024)];
    let file = film.bytes();
    let title = title(&file, 4).expect("a title");
    let audio = play_all(&file, &title, "a1");
    assert_eq!(audio, expected(&film.tracks[1], 2, 16_000));
}

#[test]
fn video_before_its_edit_is_presented_and_audio_stays_in_step() {
    let mut film = film();
    // The first second is left out by the edit list, but its frames are in the file.
    film.tracks[0].edits = vec![(9000, 1040)];
    let file = film.bytes();
    let title = title(&file, 4).expect("a title");
    let all = play_all(&file, &title, "v1a1");
    assert_eq!(of_track(all, 1), expected(&film.tracks[0], 1, 1000));
    let all = play_all(&file, &title, "v1a1");
    assert_eq!(of_track(all, 2), expected(&film.tracks[1], 2, 32_000));
}

#[test]
fn negative_composition_times_become_positive() {
    let mut film = film();
    for sample in &mut film.tracks[0].samples {
        sample.composition -= 40;
    }
    film.tracks[0].edits = vec![(10_000, 0)];
    let file = film.bytes();
    let title = title(&file, 4).expect("a title");
    let played = play_all(&file, &title, "v1");
    assert_eq!(played, expected(&video(250, 50), 1, 0));
    let init = title.init(rendition("v1")).expect("an init segment");
    // The media begins at the shift: version 1 of `elst`.
    let elst = [
        &[0, 0, 0, 1],
        &[0; 8][..],
        &40_u64.to_be_bytes(),
        &[0, 1, 0, 0],
    ]
    .concat();
    let init = init.expect("there is one");
    assert!(init.windows(elst.len()).any(|window| window == elst));
}

#[test]
fn init_segment_has_descriptions_and_no_samples() {
    let file = film().bytes();
    let title = title(&file, 4).expect("a title");
    let init = title.init(rendition("v1a1")).expect("an init segment");
    let init = init.expect("there is one");
    let moov = children(&init, b"moov")[0].body;
    let traks = children(moov, b"trak");
    assert_eq!(traks.len(), 2);
    for trak in traks {
        let mdia = children(trak.body, b"mdia")[0].body;
        let minf = children(mdia, b"minf")[0].body;
        assert_eq!(children(minf, b"vmhd").len(), 1);
        let stbl = children(minf, b"stbl")[0].body;
        assert_eq!(number(children(stbl, b"stsd")[0].body, 4), 1);
        for kind in [b"stts", b"stsc", b"stco"] {
            assert_eq!(number(children(stbl, kind)[0].body, 4), 0);
        }
        assert_eq!(number(children(stbl, b"stsz")[0].body, 8), 0);
    }
    assert_eq!(children(children(moov, b"mvex")[0].body, b"trex").len(), 2);
}
