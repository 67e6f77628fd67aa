//! What a manifest means: titles, their renditions, and the order in which files are played.
//!
//! The one idea: a rendition cut into thousands of chunk files is still one linear run of bytes,
//! and only its manifest knows the order. This crate turns manifests, already parsed into the
//! plain structures below, into that order, and decides which file belongs to which run
//! ([`plan`]).
//!
//! Invariants: no I/O and no clock; nothing a manifest says panics or makes more than
//! [`SEGMENTS_PER_RENDITION_MAX`] segments of a rendition, nor all together more than the files that
//! are there and the budget of [`TitleBuilder`]; a path that leaves here has no dot
//! segment, no empty segment and no NUL, so it names something inside the tree or nothing; a file
//! belongs to at most one stream.
//!
//! Of media files it knows the headers of MP4, as far as they say how long a film plays ([`Mp4Scan`]).
//!
//! What it deliberately lacks: parsing of manifests (that needs `std`, and is done by kept libraries in
//! `server/library`), and any idea of what is on disk beyond what the caller answers.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod build;
mod dash;
mod hls;
mod mp4;
mod note;
mod plan;
mod run;
mod template;
mod timeline;
mod title;
mod uri;
mod xs_duration;

pub use build::{NamedFile, TitleBuilder};
pub use dash::{
    AdaptationSet, Addressing, Mpd, Period, Representation, SegmentBase, SegmentList,
    SegmentTemplate, SegmentUrl, Source, dash_title,
};
pub use hls::{
    HlsAlternative, HlsByteRange, HlsMap, HlsMaster, HlsMedia, HlsSegment, HlsVariant,
    PlaylistReference, master_title, media_title, playlists,
};
pub use mp4::{Mp4Facts, Mp4Fault, Mp4Progress, Mp4Scan};
pub use note::{NOTES_PER_TITLE_MAX, Notes};
pub use plan::{FileFacts, Place, Plan, PlannedStream, plan};
pub use run::{numbered_run, run_of};
pub use template::{TemplateError, TemplateValues, expand};
pub use timeline::{TimelineEntry, TimelineSegment, expand_timeline};
pub use title::{
    Kind, Media, RENDITIONS_PER_TITLE_MAX, Rendition, SEGMENTS_PER_RENDITION_MAX,
    SEGMENTS_PER_TITLE_MAX, Segment, Segments, Title, bit_rate,
};
pub use uri::{PATH_BYTES_MAX, Unresolved, encode_path, resolve, resolve_file};
pub use xs_duration::parse_xs_duration;
