//! Interpretation of manifests: titles, their renditions, and the order of files.
//!
//! A rendition in thousands of chunk files is one linear run of bytes, whose order only its
//! manifest gives. This crate turns parsed manifests into that order, and assigns each file to a
//! run ([`plan`]).
//!
//! Invariants: no I/O and no clock; no manifest makes it panic or makes more than
//! [`SEGMENTS_PER_RENDITION_MAX`] segments of a rendition, nor more segments in total than the
//! existing files and the budget of [`TitleBuilder`]; a returned path has no dot segment, no empty
//! segment and no NUL, so it can only name a file inside the tree; a file belongs to at most one
//! stream.
//!
//! Of media files it parses the headers of MP4, for the duration of the film ([`Mp4Scan`]).
//!
//! Not included: parsing of manifests (that needs `std`, and is done by libraries in
//! `server/library`), and any access to the disk other than by the caller's callbacks.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod dash;
mod header_facts;
mod hls;
mod language_tag;
mod mp4;
mod mp4_box;
mod note;
mod plan;
mod run;
mod template;
mod timeline;
mod title;
mod title_builder;
mod uri;
mod xs_duration;

pub use dash::{
    AdaptationSet, Addressing, Mpd, Period, Representation, SegmentBase, SegmentList,
    SegmentTemplate, SegmentUrl, UrlRange, dash_title,
};
pub use header_facts::HeaderFacts;
pub use hls::{
    HlsAlternative, HlsByteRange, HlsMap, HlsMaster, HlsMedia, HlsSegment, HlsVariables,
    HlsVariant, PlaylistReference, master_title, media_title, playlists,
};
pub use language_tag::is_language_tag;
pub use mp4::{Mp4Progress, Mp4Scan};
pub use mp4_box::{Mp4Box, Mp4BoxHeader, Mp4Fault, mp4_boxes};
pub use note::{NOTES_PER_TITLE_MAX, TitleNotes};
pub use plan::{FileFacts, Plan, PlannedStream, StreamPosition, plan};
pub use run::{numbered_run, run_of};
pub use template::{TemplateError, TemplateValues, expand};
pub use timeline::{TimelineEntry, TimelineSegment, expand_timeline};
pub use title::{
    DeliveryKind, MediaType, RENDITIONS_PER_TITLE_MAX, Rendition, SEGMENTS_PER_RENDITION_MAX,
    SEGMENTS_PER_TITLE_MAX, Segment, Segments, Title, bit_rate,
};
pub use title_builder::{NamedFile, TitleBuilder};
pub use uri::{
    PATH_BYTES_MAX, UriError, encode_path, resolve, resolve_file, site_of, without_own_host,
};
pub use xs_duration::parse_xs_duration;
