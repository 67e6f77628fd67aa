//! MP4 files, built byte by byte.

use headlong_http::PlannedBody;
use headlong_package::{HeaderReader, PackageFault, ReadStep, Rendition, Title, TitleHeaders};
use headlong_units::Duration;

/// A box.
pub(crate) fn boxed(kind: &str, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let mut bytes = ((body.len() + 8) as u32).to_be_bytes().to_vec();
    bytes.extend(kind.as_bytes());
    bytes.extend(body);
    bytes
}

/// A box with version and flags of zero, and numbers of four bytes.
pub(crate) fn table(kind: &str, numbers: &[u32]) -> Vec<u8> {
    let numbers: Vec<u8> = numbers.iter().flat_map(|n| n.to_be_bytes()).collect();
    boxed(kind, &[&[0; 4], &numbers])
}

/// A sample: what a player must get of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilmSample {
    pub(crate) duration: u32,
    pub(crate) composition: i32,
    pub(crate) is_sync: bool,
    pub(crate) bytes: Vec<u8>,
}

/// A track of a file.
#[derive(Debug, Clone)]
pub(crate) struct FilmTrack {
    pub(crate) is_video: bool,
    pub(crate) timescale: u32,
    pub(crate) language: &'static str,
    /// Length and media time of each edit, at a time scale of 1000 for the length.
    pub(crate) edits: Vec<(u32, i64)>,
    pub(crate) samples: Vec<FilmSample>,
}

/// A file.
#[derive(Debug, Clone)]
pub(crate) struct Film {
    pub(crate) tracks: Vec<FilmTrack>,
    /// Track and number of samples of each chunk, in the order of the file.
    pub(crate) chunks: Vec<(usize, usize)>,
    pub(crate) moov_first: bool,
    pub(crate) long_offsets: bool,
}

/// Video of `frames` of 1/25 s, with a sync sample every `gop` and B-frames, and its bytes.
pub(crate) fn video(frames: u32, gop: u32) -> FilmTrack {
    let sample = |frame: u32| FilmSample {
        duration: 40,
        composition: [40, 120, 40, 0][(frame % gop % 4) as usize],
        is_sync: frame.is_multiple_of(gop),
        bytes: contents(0, frame, 900 + frame % 50),
    };
    FilmTrack {
        is_video: true,
        timescale: 1000,
        language: "und",
        edits: vec![(frames * 40, 40)],
        samples: (0..frames).map(sample).collect(),
    }
}

/// Audio of 1024 ticks a sample, whose first one is padding.
pub(crate) fn audio(samples: u32, language: &'static str) -> FilmTrack {
    let sample = |index: u32| FilmSample {
        duration: 1024,
        composition: 0,
        is_sync: true,
        bytes: contents(1, index, 20 + index % 7),
    };
    FilmTrack {
        is_video: false,
        timescale: 32_000,
        language,
        edits: vec![(0, 1024)],
        samples: (0..samples).map(sample).collect(),
    }
}

fn contents(seed: u32, index: u32, length: u32) -> Vec<u8> {
    let byte = |at: u32| (seed * 91 + index * 7 + at * 13) as u8;
    (0..length).map(byte).collect()
}

/// Ten seconds of video and audio, interleaved by half a second.
pub(crate) fn film() -> Film {
    let mut chunks = Vec::new();
    for half in 0..20 {
        chunks.push((0, if half % 2 == 0 { 12 } else { 13 }));
        chunks.push((1, if half < 13 { 16 } else { 15 }));
    }
    Film {
        tracks: vec![video(250, 50), audio(313, "eng")],
        chunks,
        moov_first: true,
        long_offsets: false,
    }
}

impl Film {
    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let ftyp = boxed("ftyp", &[b"isom\0\0\x02\0isom"]);
        let mdat: Vec<u8> = self.media().concat();
        let mdat = boxed("mdat", &[&mdat]);
        match self.moov_first {
            true => {
                let moov_bytes = self.moov(0).len();
                let moov = self.moov(ftyp.len() + moov_bytes + 8);
                [ftyp, moov, mdat].concat()
            }
            false => {
                let moov = self.moov(ftyp.len() + 8);
                [ftyp, mdat, moov].concat()
            }
        }
    }

    /// The bytes of each chunk.
    fn media(&self) -> Vec<Vec<u8>> {
        let mut next = vec![0; self.tracks.len()];
        let chunk = |(track, count): &(usize, usize)| {
            let from = next[*track];
            next[*track] += count;
            let samples = &self.tracks[*track].samples[from..from + count];
            samples
                .iter()
                .flat_map(|sample| sample.bytes.clone())
                .collect()
        };
        self.chunks.iter().map(chunk).collect()
    }

    pub(crate) fn moov(&self, media_at: usize) -> Vec<u8> {
        let mut offset = media_at;
        let offsets: Vec<usize> = self
            .media()
            .iter()
            .map(|chunk| {
                offset += chunk.len();
                offset - chunk.len()
            })
            .collect();
        let mut moov = vec![0; 12];
        moov.extend(1000_u32.to_be_bytes());
        moov.extend([0; 84]);
        let mut moov = boxed("mvhd", &[&moov]);
        for index in 0..self.tracks.len() {
            moov.extend(self.trak(index, &offsets));
        }
        boxed("moov", &[&moov])
    }

    fn trak(&self, index: usize, offsets: &[usize]) -> Vec<u8> {
        let track = &self.tracks[index];
        let tkhd = table("tkhd", &[0, 0, index as u32 + 1, 0, 0]);
        let is_long = |(_, media): &(u32, i64)| i32::try_from(*media).is_err();
        let is_long = track.edits.iter().any(is_long);
        let mut elst = vec![u32::from(is_long) << 24, track.edits.len() as u32];
        for (length, media) in &track.edits {
            match is_long {
                true => elst.extend([0, *length, (*media >> 32) as u32, *media as u32]),
                false => elst.extend([*length, *media as u32]),
            }
            elst.push(1 << 16);
        }
        let elst: Vec<u8> = elst.iter().flat_map(|n| n.to_be_bytes()).collect();
        let edts = boxed("edts", &[&boxed("elst", &[&elst])]);
        let [a, b, c] = [0, 1, 2].map(|at| u16::from(track.language.as_bytes()[at] - 0x60));
        let language = (a << 10 | b << 5 | c).to_be_bytes();
        let mut mdhd = table("mdhd", &[0, 0, track.timescale, 0]);
        mdhd.extend([language[0], language[1], 0, 0]);
        let length = (mdhd.len() as u32).to_be_bytes();
        mdhd[..4].copy_from_slice(&length);
        let handler: &[u8] = if track.is_video { b"vide" } else { b"soun" };
        let hdlr = boxed("hdlr", &[&[0; 8], handler, &[0; 13]]);
        let entry = match track.is_video {
            true => {
                let avcc = boxed("avcC", &[&[1, 0x64, 0, 0x1f, 0xff, 0xe0, 0]]);
                let mut body = vec![0; 78];
                body[24..28].copy_from_slice(&[2, 0x80, 1, 0x68]);
                boxed("avc1", &[&body, &avcc])
            }
            false => {
                let esds = [
                    0, 0, 0, 0, 3, 22, 0, 1, 0, 4, 17, 0x40, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                    5, 2, 0x12, 0x10,
                ];
                let mut body = vec![0; 28];
                body[17] = 2;
                body[24..26].copy_from_slice(&32_000_u16.to_be_bytes());
                boxed("mp4a", &[&body, &boxed("esds", &[&esds])])
            }
        };
        let stsd = boxed("stsd", &[&[0, 0, 0, 0, 0, 0, 0, 1], &entry]);
        let stbl = self.stbl(index, offsets, &stsd);
        let minf = boxed("minf", &[&table("vmhd", &[0, 0]), &stbl]);
        let mdia = boxed("mdia", &[&mdhd, &hdlr, &minf]);
        boxed("trak", &[&tkhd, &edts, &mdia])
    }

    fn stbl(&self, index: usize, offsets: &[usize], stsd: &[u8]) -> Vec<u8> {
        let samples = &self.tracks[index].samples;
        let runs = |value: &dyn Fn(&FilmSample) -> u32| {
            let mut runs: Vec<u32> = vec![0];
            for sample in samples {
                let value = value(sample);
                match runs[..] {
                    [_, .., last] if last == value && runs.len() > 1 => {
                        let at = runs.len() - 2;
                        runs[at] += 1;
                    }
                    _ => {
                        runs[0] += 1;
                        runs.extend([1, value]);
                    }
                }
            }
            runs
        };
        let stts = table("stts", &runs(&|sample| sample.duration));
        let mut ctts = Vec::new();
        if samples.iter().any(|sample| sample.composition != 0) {
            ctts = table("ctts", &runs(&|sample| sample.composition as u32));
        }
        let mut sync: Vec<u32> = vec![0];
        for (at, sample) in samples.iter().enumerate() {
            if sample.is_sync {
                sync.push(at as u32 + 1);
            }
        }
        sync[0] = sync.len() as u32 - 1;
        let mut stss = table("stss", &sync);
        if samples.iter().all(|sample| sample.is_sync) {
            stss.clear();
        }
        let mut sizes = vec![0, samples.len() as u32];
        sizes.extend(samples.iter().map(|sample| sample.bytes.len() as u32));
        let stsz = table("stsz", &sizes);
        let own = self.chunks.iter().zip(offsets);
        let own: Vec<_> = own.filter(|((track, _), _)| *track == index).collect();
        let mut stsc = vec![own.len() as u32];
        for (at, ((_, count), _)) in own.iter().enumerate() {
            stsc.extend([at as u32 + 1, *count as u32, 1]);
        }
        let stsc = table("stsc", &stsc);
        let offsets = own.iter().map(|(_, offset)| **offset as u64);
        let mut chunk_offsets = vec![own.len() as u32];
        for offset in offsets {
            match self.long_offsets {
                true => chunk_offsets.extend([(offset >> 32) as u32, offset as u32]),
                false => chunk_offsets.push(offset as u32),
            }
        }
        let name = if self.long_offsets { "co64" } else { "stco" };
        let stco = table(name, &chunk_offsets);
        boxed("stbl", &[stsd, &stts, &ctts, &stss, &stsz, &stsc, &stco])
    }
}

/// The headers that a reader finds in a file, and how many reads that took.
pub(crate) fn read_headers(
    bytes: &[u8],
    mut reader: HeaderReader,
) -> Result<(TitleHeaders, usize), PackageFault> {
    let mut step = reader.step(0, &[])?;
    let mut reads = 0;
    loop {
        match step {
            ReadStep::Ready(headers) => return Ok((headers, reads)),
            ReadStep::Wants(range) => {
                assert!(!range.is_empty(), "an empty range");
                reads += 1;
                let wanted = &bytes[range.start as usize..range.end as usize];
                step = reader.step(range.start, wanted)?;
            }
        }
    }
}

/// The title of a file, and how many reads its headers took.
pub(crate) fn read_title(bytes: &[u8], seconds: u64) -> Result<(Title, usize), PackageFault> {
    let size = bytes.len() as u64;
    let index = |reader| {
        let (headers, reads) = read_headers(bytes, reader)?;
        Ok((headers.index(Duration::from_secs(seconds))?, reads))
    };
    match index(HeaderReader::new(size)) {
        Err(PackageFault::FragmentIndex) => index(HeaderReader::without_index(size)),
        read => read,
    }
}

/// The title of a file.
pub(crate) fn title(bytes: &[u8], seconds: u64) -> Result<Title, PackageFault> {
    read_title(bytes, seconds).map(|(title, _)| title)
}

/// A segment of the title of a file.
pub(crate) fn segment(
    bytes: &[u8],
    title: &Title,
    rendition: Rendition,
    number: usize,
) -> Result<Option<PlannedBody>, PackageFault> {
    match title.heads_of(number) {
        None => title.segment(rendition, number),
        Some(reader) => {
            let (heads, _) = read_headers(bytes, reader)?;
            title.segment_by_heads(rendition, number, &heads)
        }
    }
}
