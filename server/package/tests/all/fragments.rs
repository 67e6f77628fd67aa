//! Files with fragments give the segments of the same film without fragments.

use headlong_media::mp4_boxes;
use headlong_package::{
    FRAGMENTED_MOOV_BYTES_MAX, HeaderReader, Links, PackageFault, Presentation, ReadStep, Title,
    TitleFile, Version, WHOLE_BYTES_MAX,
};
use headlong_units::Duration;

use crate::bad_files::{fault, with_moov_end};
use crate::film::{
    Film, FilmSample, audio, boxed, film, read_headers, read_title, segment, table, title, video,
};
use crate::playback::{assemble, check_file, expected, play, play_all, rendition};

/// What offsets of samples count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OffsetBase {
    Moof,
    /// The start of the file.
    File,
    /// The end of the track before.
    Neighbour,
}

/// An index of the fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnIndex {
    Absent,
    /// `sidx` in front of them, of the first track.
    Front,
    /// `mfra` at the end, of each track.
    End,
}

/// A file in fragments.
#[derive(Debug, Clone, Copy)]
struct FragmentedFilm {
    base: OffsetBase,
    /// Samples of each track in a fragment.
    samples: [usize; 2],
    /// Decoding times of the first samples, in ticks.
    start: [u64; 2],
    /// Samples in each fragment of a track that is not packaged, between those of the first two.
    skipped: u32,
    index: OwnIndex,
    /// The last field of each reference in `sidx`: how its first sample is accessed.
    access: u32,
}

/// Begins with a closed group of pictures; begins with a sync sample, of unknown type, as of ffmpeg.
const CLOSED: u32 = 0x9000_0000;
const UNKNOWN: u32 = 0x8000_0000;

/// The track that is not packaged, and the size of its samples by `trex`.
const SKIPPED_TRACK: u32 = 9;
const SKIPPED_BYTES: u32 = 100;

const USUAL: FragmentedFilm = FragmentedFilm {
    base: OffsetBase::Moof,
    samples: [50, 63],
    start: [0, 0],
    skipped: 0,
    index: OwnIndex::Absent,
    access: CLOSED,
};

impl FragmentedFilm {
    fn bytes(self, film: &Film) -> Vec<u8> {
        let mut headers = film.clone();
        headers.chunks.clear();
        headers.tracks.iter_mut().for_each(|of| of.samples.clear());
        let mut file = boxed("ftyp", &[b"iso6\0\0\x02\0iso6"]);
        file.extend(headers.moov(0));
        let trex = (1..=film.tracks.len()).map(|id| table("trex", &[id as u32, 1, 0, 0, 0x1_0000]));
        let mut trex = trex.collect::<Vec<_>>().concat();
        trex.extend(table("trex", &[SKIPPED_TRACK, 1, 0, SKIPPED_BYTES, 0]));
        let mut file = with_moov_end(file, &boxed("mvex", &[&trex]));
        let mut next = vec![0; film.tracks.len()];
        let pairs = film.tracks.iter().zip(self.samples);
        let counts = pairs.map(|(track, samples)| track.samples.len().div_ceil(samples));
        let count = counts.max().unwrap_or(0);
        let sidx_at = file.len();
        if self.index == OwnIndex::Front {
            file.extend(vec![0; 32 + 12 * count]);
        }
        let mut places = Vec::new();
        for _ in 0..count {
            places.push(file.len());
            file.extend(self.fragment(film, &mut next, file.len() as u64));
        }
        match self.index {
            OwnIndex::Absent => {}
            OwnIndex::Front => {
                let sidx = self.sidx(film, &places, file.len());
                file[sidx_at..sidx_at + sidx.len()].copy_from_slice(&sidx);
            }
            OwnIndex::End => file.extend(self.mfra(film, &places)),
        }
        file
    }

    /// When the fragments of a track are presented, and its end.
    fn times(self, film: &Film, index: usize) -> Vec<u64> {
        let samples = &film.tracks[index].samples;
        let first = samples.first().map_or(0, |of| of.composition as u64);
        let (mut times, mut time) = (Vec::new(), self.start[index] + first);
        for fragment in samples.chunks(self.samples[index]) {
            times.push(time);
            time += fragment
                .iter()
                .map(|of| u64::from(of.duration))
                .sum::<u64>();
        }
        times.push(time);
        times
    }

    fn sidx(self, film: &Film, places: &[usize], end: usize) -> Vec<u8> {
        let times = self.times(film, 0);
        let mut numbers = vec![1, film.tracks[0].timescale, times[0] as u32, 0];
        numbers.push(places.len() as u32);
        let ends = places[1..].iter().chain([&end]);
        for ((place, end), times) in places.iter().zip(ends).zip(times.windows(2)) {
            numbers.extend([
                (end - place) as u32,
                (times[1] - times[0]) as u32,
                self.access,
            ]);
        }
        table("sidx", &numbers)
    }

    fn mfra(self, film: &Film, places: &[usize]) -> Vec<u8> {
        let mut mfra = Vec::new();
        for index in 0..film.tracks.len() {
            let times = self.times(film, index);
            let mut numbers = vec![index as u32 + 1, 0x3f, times.len() as u32 - 1];
            for (time, place) in times[..times.len() - 1].iter().zip(places) {
                numbers.extend([*time as u32, *place as u32, index as u32 + 1, 1, 1]);
            }
            mfra.extend(table("tfra", &numbers));
        }
        if self.skipped > 0 {
            // As of subtitles that begin later.
            let entries = places.iter().enumerate().skip(1);
            let entries = entries.flat_map(|(time, at)| [time as u32, *at as u32, 2, 1, 1]);
            let numbers = [SKIPPED_TRACK, 0x3f, places.len() as u32 - 1];
            let numbers: Vec<u32> = numbers.into_iter().chain(entries).collect();
            mfra.extend(table("tfra", &numbers));
        }
        mfra.extend(table("mfro", &[mfra.len() as u32 + 24]));
        boxed("mfra", &[&mfra])
    }

    /// A fragment at this place of the file.
    fn fragment(self, film: &Film, next: &mut [usize], place: u64) -> Vec<u8> {
        let mut trafs = Vec::new();
        let mut media = Vec::new();
        let moof_bytes = 1 << 14;
        for (index, track) in film.tracks.iter().enumerate() {
            let count = self.samples[index].min(track.samples.len() - next[index]);
            let samples = &track.samples[next[index]..next[index] + count];
            let before = track.samples[..next[index]]
                .iter()
                .map(|of| u64::from(of.duration));
            let time = self.start[index] + before.sum::<u64>();
            next[index] += count;
            if index == 1 && self.skipped > 0 {
                let tfhd = flagged("tfhd", 0, &[SKIPPED_TRACK]);
                trafs.extend(boxed(
                    "traf",
                    &[&tfhd, &flagged("trun", 0, &[self.skipped])],
                ));
                media.extend(vec![0xee; (self.skipped * SKIPPED_BYTES) as usize]);
            }
            let media_at = moof_bytes + 8 + media.len() as u64;
            trafs.extend(self.traf(index, samples, (time, place, media_at)));
            media.extend(samples.iter().flat_map(|sample| sample.bytes.clone()));
        }
        let mut moof = [table("mfhd", &[1]), trafs].concat();
        // Bytes before the media, so that its place is known.
        let filler = vec![0; moof_bytes as usize - moof.len() - 16];
        moof.extend(boxed("free", &[&filler]));
        [boxed("moof", &[&moof]), boxed("mdat", &[&media])].concat()
    }

    fn traf(self, index: usize, samples: &[FilmSample], places: (u64, u64, u64)) -> Vec<u8> {
        let (time, place, media_at) = places;
        let halves = |number: u64| [(number >> 32) as u32, number as u32];
        let id = index as u32 + 1;
        let (flags, base) = match self.base {
            OffsetBase::Moof => (0x02_0000, vec![]),
            OffsetBase::File => (0x01, halves(place + 4).to_vec()),
            OffsetBase::Neighbour => (0, vec![]),
        };
        let mut tfhd = flagged("tfhd", flags, &[&[id], &base[..]].concat());
        let mut numbers = vec![samples.len() as u32];
        let mut flags = 0x100 | 0x200 | 0x400 | 0x800;
        if self.base != OffsetBase::Neighbour || index == 0 {
            flags |= 1;
            let before = if self.base == OffsetBase::File { 4 } else { 0 };
            numbers.push(media_at as u32 - before);
        }
        for sample in samples {
            numbers.extend([sample.duration, sample.bytes.len() as u32]);
            numbers.push(if sample.is_sync {
                0x0200_0000
            } else {
                0x0101_0000
            });
            numbers.push(sample.composition as u32);
        }
        tfhd.extend(flagged("tfdt", 1 << 24, &halves(time)));
        tfhd.extend(flagged("trun", 1 << 24 | flags, &numbers));
        boxed("traf", &[&tfhd])
    }
}

/// The usual film in fragments with each kind of index.
pub(crate) fn with_own_index() -> [Vec<u8>; 2] {
    [OwnIndex::Front, OwnIndex::End].map(|index| FragmentedFilm { index, ..USUAL }.bytes(&film()))
}

/// A box whose version and flags are one number.
fn flagged(kind: &str, flags: u32, numbers: &[u32]) -> Vec<u8> {
    let numbers = [&[flags], numbers].concat();
    let numbers: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    boxed(kind, &[&numbers])
}

#[test]
fn samples_and_times_are_those_of_the_fragments() {
    for base in [OffsetBase::Moof, OffsetBase::File, OffsetBase::Neighbour] {
        for samples in [[50, 63], [13, 7], [1, 2], [400, 400]] {
            let fragmented = FragmentedFilm {
                base,
                samples,
                ..USUAL
            };
            check_file(&film(), &fragmented.bytes(&film()), 4);
        }
    }
    let mut all_sync = film();
    all_sync.tracks[0] = video(250, 1);
    check_file(&all_sync, &USUAL.bytes(&all_sync), 4);
}

#[test]
fn samples_and_times_are_those_of_the_fragments_by_an_index() {
    for base in [OffsetBase::Moof, OffsetBase::File, OffsetBase::Neighbour] {
        for index in [OwnIndex::Front, OwnIndex::End] {
            for (seconds, skipped) in [(2, 0), (4, 7), (60, 0)] {
                let fragmented = FragmentedFilm {
                    base,
                    index,
                    skipped,
                    ..USUAL
                };
                let (film, file) = (film(), fragmented.bytes(&film()));
                let made = title(&file, seconds).expect("a title");
                assert!(made.is_cut_by_own_index(), "{fragmented:?}");
                check_file(&film, &file, seconds);
            }
        }
    }
}

#[test]
fn title_by_an_index_has_the_playlists_of_the_whole_file() {
    let links = Links::default();
    let file = USUAL.bytes(&film());
    let whole = title(&file, 4).expect("a title");
    for (index, start) in [
        (OwnIndex::Front, [0, 0]),
        (OwnIndex::End, [0, 0]),
        (OwnIndex::End, [10_000, 320_000]),
    ] {
        let file = FragmentedFilm {
            index,
            start,
            ..USUAL
        };
        let of_index = title(&file.bytes(&film()), 4).expect("a title");
        for name in ["v1", "v1a1"] {
            let playlist = |of: &Title| of.hls_media(rendition(name), Version(1), &links);
            assert_eq!(playlist(&of_index), playlist(&whole), "{name}: {file:?}");
        }
        let init = |of: &Title| of.init(rendition("v1a1"));
        assert_eq!(init(&of_index), init(&whole));
    }
}

#[test]
fn index_that_lies_is_not_used() {
    let film = film();
    for index in [OwnIndex::Front, OwnIndex::End] {
        let fragmented = FragmentedFilm { index, ..USUAL };
        let file = fragmented.bytes(&film);
        let kind: &[u8] = if index == OwnIndex::Front {
            b"sidx"
        } else {
            b"tfra"
        };
        let at = file.windows(4).position(|of| of == kind).expect("an index") + 4;
        let end = if index == OwnIndex::Front {
            20 + 5 * 12 + 4
        } else {
            16 + 5 * 20
        };
        for place in (0..end).step_by(4) {
            for number in [0, 77, u32::MAX] {
                let mut lying = file.clone();
                lying[at + place..at + place + 4].copy_from_slice(&u32::to_be_bytes(number));
                check_file(&film, &lying, 4);
            }
        }
    }
}

/// Whether the playlist of a file states that segments are independent.
fn is_independent(file: &[u8]) -> bool {
    let made = title(file, 4).expect("a title");
    assert!(made.is_cut_by_own_index());
    let playlist = made.hls_media(rendition("v1"), Version(1), &Links::default());
    let playlist = playlist.expect("a playlist").expect("a rendition");
    playlist.contains("INDEPENDENT")
}

#[test]
fn unknown_access_is_judged_by_the_heads_that_were_read() {
    let fragmented = FragmentedFilm {
        index: OwnIndex::Front,
        access: UNKNOWN,
        ..USUAL
    };
    let mut film = film();
    check_file(&film, &fragmented.bytes(&film), 4);
    assert!(is_independent(&fragmented.bytes(&film)));
    // The frame after the third sync sample is presented before it.
    film.tracks[0].samples[100].composition = 120;
    film.tracks[0].samples[101].composition = 40;
    assert!(!is_independent(&fragmented.bytes(&film)));
    // Only the head of the first fragment is in the first read.
    let (film, fragmented) = long_film();
    for (access, expected) in [(CLOSED, true), (UNKNOWN, false)] {
        let file = FragmentedFilm {
            index: OwnIndex::Front,
            access,
            ..fragmented
        };
        assert_eq!(is_independent(&file.bytes(&film)), expected);
    }
}

#[test]
fn segment_after_the_end_of_a_track_is_refused() {
    let mut film = film();
    film.tracks[1].samples.truncate(126);
    let file = FragmentedFilm {
        index: OwnIndex::Front,
        ..USUAL
    }
    .bytes(&film);
    let made = title(&file, 4).expect("a title");
    assert!(made.is_cut_by_own_index());
    let of = |name| segment(&file, &made, rendition(name), 1);
    assert_eq!(of("a1"), Err(PackageFault::FragmentIndex));
    assert!(of("v1a1").is_ok_and(|body| body.is_some()));
    let size = file.len() as u64;
    let (headers, _) = read_headers(&file, HeaderReader::without_index(size)).expect("headers");
    let whole = headers.index(Duration::from_secs(4)).expect("a title");
    assert!(segment(&file, &whole, rendition("a1"), 1).is_ok_and(|body| body.is_none()));
}

/// The bit rates of video and audio in the manifest of a file.
fn bandwidths(file: &[u8], has_index: bool) -> Vec<u64> {
    let made = title(file, 4).expect("a title");
    assert_eq!(made.is_cut_by_own_index(), has_index);
    let outline = made.outline();
    let file = TitleFile {
        suffix: "",
        outline: &outline,
        version: Version(1),
    };
    let manifest = Presentation::new(vec![file], &[]).dash_manifest(&Links::default());
    let rates = manifest.split(" bandwidth=\"").skip(1);
    let rates = rates.map(|of| of.split('"').next().and_then(|rate| rate.parse().ok()));
    rates.map(|rate| rate.expect("a number")).collect()
}

#[test]
fn black_beginning_does_not_spoil_bit_rates() {
    let mut film = film();
    let samples = &mut film.tracks[0].samples;
    samples[..50]
        .iter_mut()
        .for_each(|of| of.bytes.truncate(10));
    let whole = bandwidths(&USUAL.bytes(&film), false);
    for index in [OwnIndex::Front, OwnIndex::End] {
        let by_index = bandwidths(&FragmentedFilm { index, ..USUAL }.bytes(&film), true);
        // The first track has the 16 KiB of each head, too.
        let of_heads = [16_384 * 8 / 2, 0];
        assert_eq!(by_index.len(), 2);
        for ((here, whole), heads) in by_index.iter().zip(&whole).zip(of_heads) {
            let most = (whole + heads) * 11 / 10;
            assert!(
                (whole * 9 / 10..most).contains(here),
                "{by_index:?}, {whole}"
            );
        }
    }
}

#[test]
fn index_of_the_leader_is_found_after_that_of_another_track() {
    let film = film();
    let file = FragmentedFilm {
        index: OwnIndex::Front,
        ..USUAL
    }
    .bytes(&film);
    let at = file
        .windows(4)
        .position(|of| of == b"sidx")
        .expect("a sidx")
        - 4;
    let length = u32::from_be_bytes(file[at..at + 4].try_into().expect("four bytes")) as usize;
    let mut of_audio = file[at..at + length].to_vec();
    of_audio[15] = 2;
    // Its first fragment begins after the other index.
    of_audio[24..28].copy_from_slice(&u32::to_be_bytes(length as u32));
    let file = [&file[..at], &of_audio, &file[at..]].concat();
    let made = read_headers(&file, HeaderReader::new(file.len() as u64));
    let made = made.and_then(|(headers, _)| headers.index(Duration::from_secs(4)));
    assert!(made.is_ok_and(|title| title.is_cut_by_own_index()));
    check_file(&film, &file, 4);
}

/// A file with `sidx` whose fragments have so many samples without bytes.
fn with_empty_samples(counts: &[u32], late: Option<usize>) -> Vec<u8> {
    let mut headers = film();
    headers.chunks.clear();
    headers.tracks.truncate(1);
    headers.tracks[0].samples.clear();
    headers.tracks[0].edits.clear();
    let file = [boxed("ftyp", &[b"iso6"]), headers.moov(0)].concat();
    let trex = table("trex", &[1, 1, 1000, 0, 0]);
    let mut file = with_moov_end(file, &boxed("mvex", &[&trex]));
    let fragment = |(at, count): (usize, &u32)| {
        let second = at as u32 + u32::from(late == Some(at));
        let fields = [
            flagged("tfhd", 0x02_0000, &[1]),
            table("tfdt", &[second * 1000]),
            flagged("trun", 0, &[*count]),
        ];
        boxed("moof", &[&boxed("traf", &[&fields.concat()])])
    };
    let fragments: Vec<Vec<u8>> = counts.iter().enumerate().map(fragment).collect();
    let mut sidx = vec![1, 1000, 0, 0, counts.len() as u32];
    for fragment in &fragments {
        sidx.extend([fragment.len() as u32, 1000, CLOSED]);
    }
    file.extend(table("sidx", &sidx));
    file.extend(fragments.concat());
    file
}

/// Whether the own index of a file is used.
fn has_usable_index(file: &[u8]) -> Result<bool, PackageFault> {
    let (headers, _) = read_headers(file, HeaderReader::new(file.len() as u64))?;
    let title = headers.index(Duration::from_secs(4))?;
    Ok(title.is_cut_by_own_index())
}

#[test]
fn heads_of_countless_samples_are_not_examined() {
    assert_eq!(
        has_usable_index(&with_empty_samples(&[1; 9], None)),
        Ok(true)
    );
    for count in [60_001, 1_000_000] {
        let file = with_empty_samples(&[1, 1, count, 1], None);
        assert_eq!(has_usable_index(&file), Err(PackageFault::FragmentIndex));
    }
}

#[test]
fn few_of_many_heads_are_checked() {
    let of = |late| has_usable_index(&with_empty_samples(&[1; 5000], Some(late)));
    assert_eq!(of(20), Err(PackageFault::FragmentIndex));
    // When its segment is requested, this one is refused.
    assert_eq!(of(2000), Ok(true));
}

#[test]
fn segment_whose_fragments_moved_is_refused() {
    let fragmented = FragmentedFilm {
        index: OwnIndex::End,
        ..USUAL
    };
    let file = fragmented.bytes(&film());
    let made = title(&file, 4).expect("a title");
    let moofs = file.windows(4).enumerate().filter(|(_, of)| *of == b"moof");
    let third = moofs.map(|(at, _)| at).nth(2).expect("a third fragment");
    let mut moved = file.clone();
    moved[third] = b'f';
    let refused = segment(&moved, &made, rendition("v1a1"), 1);
    assert_eq!(refused, Err(PackageFault::FragmentIndex));
    let tfdt = file[third..].windows(4).position(|of| of == b"tfdt");
    let time = third + tfdt.expect("a time") + 12;
    let mut late = file.clone();
    late[time..time + 4].copy_from_slice(&u32::to_be_bytes(9000));
    let refused = segment(&late, &made, rendition("v1a1"), 1);
    assert_eq!(refused, Err(PackageFault::FragmentIndex));
    assert!(segment(&file, &made, rendition("v1a1"), 1).is_ok());
}

/// Two hours in fragments of four seconds.
fn long_film() -> (Film, FragmentedFilm) {
    let mut film = film();
    let sample = |second: u32, duration| FilmSample {
        duration,
        composition: 0,
        is_sync: second.is_multiple_of(4) || duration > 1000,
        bytes: vec![second as u8; 500],
    };
    film.tracks[0].samples = (0..7200).map(|second| sample(second, 1000)).collect();
    film.tracks[1].samples = (0..7200).map(|second| sample(second, 32_000)).collect();
    film.tracks.iter_mut().for_each(|track| track.edits.clear());
    let fragmented = FragmentedFilm {
        samples: [4, 4],
        ..USUAL
    };
    (film, fragmented)
}

#[test]
fn two_hours_with_an_index_are_cut_after_two_reads() {
    let (film, fragmented) = long_film();
    for (index, most) in [(OwnIndex::Front, 1), (OwnIndex::End, 2)] {
        let file = FragmentedFilm {
            index,
            ..fragmented
        }
        .bytes(&film);
        assert!(file.len() > 32 << 20, "{}", file.len());
        let (title, reads) = read_title(&file, 4).expect("a title");
        assert!(reads <= most, "{reads} reads: {index:?}");
        assert_eq!(title.segments(), 1800);
        assert!(title.memory_bytes() < 1 << 20, "{}", title.memory_bytes());
        let reader = title.heads_of(900).expect("unread heads");
        let (heads, reads) = read_headers(&file, reader).expect("heads");
        assert_eq!(reads, 1);
        let body = title.segment_by_heads(rendition("v1a1"), 900, &heads);
        let played = play(&assemble(&file, &body.expect("made").expect("a segment")));
        assert_eq!(played.len(), 8);
    }
}

#[test]
fn samples_after_those_of_a_skipped_track_are_found() {
    let fragmented = FragmentedFilm {
        base: OffsetBase::Neighbour,
        skipped: 7,
        ..USUAL
    };
    check_file(&film(), &fragmented.bytes(&film()), 4);
}

#[test]
fn tables_are_in_a_box_of_their_length() {
    // The tables of the sound have no composition times.
    let title = title(&USUAL.bytes(&film()), 4).expect("a title");
    let boxes: Result<Vec<_>, _> = mp4_boxes(title.moov()).collect();
    let boxes = boxes.expect("whole boxes");
    let bytes: usize = boxes.iter().map(|of| of.whole.len()).sum();
    assert_eq!(boxes.last().map(|of| of.kind), Some(*b"free"));
    assert_eq!(bytes, title.moov().len());
}

/// A fragmented film with so many more bytes in its `moov`.
fn with_large_moov(bytes: u64) -> Vec<u8> {
    with_moov_end(
        USUAL.bytes(&film()),
        &boxed("free", &[&vec![0; bytes as usize]]),
    )
}

#[test]
fn memory_is_known_as_soon_as_moov_is_complete() {
    let file = with_large_moov(2 * WHOLE_BYTES_MAX);
    let mut reader = HeaderReader::new(file.len() as u64);
    let mut step = reader.step(0, &[]).expect("a step");
    let mut needed = vec![reader.memory_bytes()];
    while let ReadStep::Wants(range) = step {
        let end = range.end.min(range.start + WHOLE_BYTES_MAX);
        let bytes = &file[range.start as usize..end as usize];
        step = reader.step(range.start, bytes).expect("a step");
        if matches!(step, ReadStep::Wants(_)) {
            needed.push(reader.memory_bytes());
        }
    }
    needed.dedup();
    assert_eq!(needed.len(), 3, "{needed:?}");
    assert!(needed.is_sorted(), "{needed:?}");
}

#[test]
fn fragmented_file_with_huge_moov_is_refused() {
    let file = with_large_moov(FRAGMENTED_MOOV_BYTES_MAX);
    assert_eq!(fault(&file), PackageFault::FragmentedMoovTooLarge);
}

#[test]
fn fragmented_file_has_segments_of_the_same_film_in_one_piece() {
    let file = USUAL.bytes(&film());
    let whole = film().bytes();
    let of_whole = title(&whole, 4).expect("a title");
    let (of_fragments, reads) = read_title(&file, 4).expect("a title");
    assert_eq!(of_fragments.segments(), of_whole.segments());
    assert_eq!(reads, 1, "the file is smaller than a read");
}

#[test]
fn common_start_of_a_recording_is_left_out() {
    for (start, delays) in [
        // Ten seconds, and half a second more for the sound; then half a century.
        ([10_000, 336_000], [0, 16_000]),
        ([1_700_000_000_000, 54_400_000_000_000], [0, 0]),
        ([300, 0], [300, 0]),
    ] {
        let film = film();
        let file = FragmentedFilm { start, ..USUAL }.bytes(&film);
        let title = title(&file, 4).expect("a title");
        for (index, name) in ["v1", "a1"].into_iter().enumerate() {
            let expected = expected(&film.tracks[index], index as u32 + 1, delays[index]);
            assert_eq!(play_all(&file, &title, name), expected, "{name}: {start:?}");
        }
    }
}

#[test]
fn interrupted_recording_is_played_up_to_its_last_whole_sample() {
    let film = film();
    let file = USUAL.bytes(&film);
    let last = file.windows(4).rposition(|window| window == b"moof");
    let last = last.expect("fragments") - 4;
    for end in [last, last + 6, last + 100] {
        let title = title(&file[..end], 4).expect("a title");
        let played = play_all(&file[..end], &title, "v1");
        assert_eq!(played, expected(&film.tracks[0], 1, 0)[..200], "{end}");
    }
    // In the midst of the last video sample.
    let audio: usize = film.tracks[1].samples[252..]
        .iter()
        .map(|of| of.bytes.len())
        .sum();
    let title = title(&file[..file.len() - audio - 1], 4).expect("a title");
    assert_eq!(play_all(&file, &title, "v1").len(), 249);
    assert_eq!(play_all(&file, &title, "a1").len(), 252);
}

#[test]
fn samples_before_the_fragments_are_played_first() {
    let film = film();
    // Both tracks up to the same time, in one piece.
    let mut first = film.clone();
    first.tracks[0].samples.truncate(100);
    first.tracks[1].samples.truncate(126);
    first.chunks = vec![(0, 100), (1, 126)];
    first.moov_first = false;
    let trex = table("trex", &[1, 1, 0, 0, 0]);
    let mut file = with_moov_end(first.bytes(), &boxed("mvex", &[&trex]));
    let mut next = vec![100, 126];
    while next[0] < 250 {
        file.extend(USUAL.fragment(&film, &mut next, file.len() as u64));
    }
    check_file(&film, &file, 4);
}

#[test]
fn fragments_that_lie_are_named() {
    let film = film();
    let fault_with = |kind: &str, at: usize, number: u32| {
        let mut file = USUAL.bytes(&film);
        let mut places = file
            .windows(4)
            .enumerate()
            .filter(|(_, of)| *of == kind.as_bytes());
        let place = places.nth(1).expect("a second one").0 + 4 + at;
        file[place..place + 4].copy_from_slice(&number.to_be_bytes());
        match title(&file, 4) {
            Err(fault) => fault.to_string(),
            Ok(_) => String::new(),
        }
    };
    // More samples than the box has, one before the file, and times that go back or far ahead.
    assert!(fault_with("trun", 4, 1 << 30).contains("trun"));
    assert!(fault_with("trun", 8, 1 << 31).contains("trun"));
    assert!(fault_with("tfdt", 4, u32::MAX).contains("tfdt"));
    let mut back = USUAL;
    back.start = [0, 0];
    let mut file = back.bytes(&film);
    let again = file.clone();
    let moof = file
        .windows(4)
        .position(|of| of == b"moof")
        .expect("a fragment")
        - 4;
    file.extend(&again[moof..]);
    assert_eq!(fault(&file), PackageFault::Table(*b"tfdt"));
}

#[test]
fn run_of_countless_samples_takes_bounded_memory() {
    let mut headers = film();
    headers.chunks.clear();
    headers.tracks.iter_mut().for_each(|of| of.samples.clear());
    let file = [boxed("ftyp", &[b"iso6"]), headers.moov(0)].concat();
    let trex = table("trex", &[1, 1, 1, 0, 0]);
    let mut file = with_moov_end(file, &boxed("mvex", &[&trex]));
    let traf = [
        flagged("tfhd", 0x02_0000, &[1]),
        flagged("trun", 0, &[u32::MAX]),
    ]
    .concat();
    file.extend(boxed("moof", &[&boxed("traf", &[&traf])]));
    assert_eq!(fault(&file), PackageFault::TooMany("samples"));
}

#[test]
fn runs_of_many_tracks_take_bounded_memory() {
    let mut headers = film();
    headers.chunks.clear();
    headers.tracks = vec![audio(0, "eng"); 1000];
    let file = [boxed("ftyp", &[b"iso6"]), headers.moov(0)].concat();
    let trex: Vec<u8> = (1..=1000)
        .flat_map(|id| table("trex", &[id, 1, 1, 0, 0]))
        .collect();
    let mut file = with_moov_end(file, &boxed("mvex", &[&trex]));
    let trafs: Vec<u8> = (1..=1000)
        .flat_map(|id| {
            let tfhd = flagged("tfhd", 0x02_0000, &[id]);
            boxed("traf", &[&tfhd, &flagged("trun", 0, &[1_000_000])])
        })
        .collect();
    file.extend(boxed("moof", &[&trafs]));
    assert!(file.len() < 1 << 20, "{}", file.len());
    assert_eq!(fault(&file), PackageFault::TooMany("samples"));
}

#[test]
fn each_fragment_far_from_others_costs_one_read() {
    let film = film();
    let mut file = USUAL.bytes(&film);
    let places: Vec<usize> = (4..file.len())
        .filter(|at| file[*at..].starts_with(b"moof"))
        .collect();
    assert_eq!(places.len(), 5);
    // Bytes in front of all but the first.
    for place in places[1..].iter().rev() {
        let filler = boxed("free", &[&vec![0; 2 << 20]]);
        file.splice(place - 4..place - 4, filler);
    }
    let (_, reads) = read_title(&file, 4).expect("a title");
    // And one of the end of the file, for an index.
    assert_eq!(reads, 6);
    check_file(&film, &file, 4);
}
