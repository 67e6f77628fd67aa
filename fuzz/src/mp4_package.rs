//! Input: as for `mp4_header`: an MP4 file as words, of which the first is the minimal file size.

use headlong_http::PlannedBody;
use headlong_package::{
    HeaderReader, Links, PackageFault, Presentation, ReadStep, Resource, Title, TitleFile,
    TitleHeaders, Version,
};
use headlong_units::Duration;

/// Largest file size.
const FILE_BYTES_MAX: u64 = 128 << 20;
/// Memory of a title.
const MEMORY_MAX: usize = 64 << 20;

/// A file gives a title or an error of one line; segments lie inside the file, and all that is made
/// is bounded by the size of its headers.
pub fn run(data: &[u8]) {
    let mut words = data
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    let size_min = crate::input::number(words.next().unwrap_or_default()) % FILE_BYTES_MAX;
    let bytes = crate::mp4_header::assemble(words);
    let size = size_min.max(bytes.len() as u64);
    let headers = |reader| headers(&bytes, size, reader);
    let index = |reader| headers(reader)?.index(Duration::from_secs(2));
    let made = match index(HeaderReader::new(size)) {
        Err(PackageFault::FragmentIndex) => index(HeaderReader::without_index(size)),
        made => made,
    };
    match made {
        Ok(title) => check(&title, size, headers),
        Err(fault) => {
            let text = fault.to_string();
            assert!(!text.contains('\n') && text.len() < 200, "{text}");
        }
    }
}

fn headers(
    bytes: &[u8],
    size: u64,
    mut reader: HeaderReader,
) -> Result<TitleHeaders, PackageFault> {
    let mut step = reader.step(0, &[])?;
    loop {
        match step {
            ReadStep::Ready(headers) => return Ok(headers),
            ReadStep::Wants(range) => {
                assert!(!range.is_empty() && range.end <= size, "{range:?}");
                let mut wanted = vec![0; range.len() as usize];
                let here = usize::try_from(range.start).ok();
                let here = here
                    .and_then(|start| bytes.get(start..))
                    .unwrap_or_default();
                let count = here.len().min(wanted.len());
                wanted[..count].copy_from_slice(&here[..count]);
                step = reader.step(range.start, &wanted)?;
            }
        }
    }
}

fn check(
    title: &Title,
    size: u64,
    headers: impl Fn(HeaderReader) -> Result<TitleHeaders, PackageFault>,
) {
    assert!(title.memory_bytes() <= MEMORY_MAX);
    let links = Links::new("t=\"");
    let outline = title.outline();
    let file = TitleFile {
        suffix: "",
        outline: &outline,
        version: Version(1),
    };
    let presentation = Presentation::new(vec![file], &[]);
    assert!(presentation.left_out().is_empty());
    assert!(!presentation.hls_master(&links).contains("\"\""));
    presentation.dash_manifest(&links);
    for name in ["v1.m3u8", "a1.m3u8", "v1a1.m3u8"] {
        let Some(Resource::Playlist(rendition)) = Resource::parse(name) else {
            panic!("{name} is a playlist");
        };
        let playlist = title.hls_media(rendition, Version(1), &links);
        let init = title.init(rendition);
        let is_missing = matches!(playlist, Ok(None)) && matches!(init, Ok(Some(_)));
        assert!(!is_missing, "{name}");
        // Some of many.
        for number in (0..title.segments()).take(50) {
            let segment = match title.heads_of(number).map(&headers) {
                None => title.segment(rendition, number),
                Some(heads) => {
                    heads.and_then(|heads| title.segment_by_heads(rendition, number, &heads))
                }
            };
            if let Ok(Some(body)) = segment {
                check_segment(&body, size);
            }
        }
    }
}

fn check_segment(body: &PlannedBody, size: u64) {
    for part in &body.parts {
        assert!(!part.range.is_empty() && part.range.end <= size);
    }
    assert!(body.length() > 16 && body.length() < 1 << 31);
}
