//! HLS and DASH made from the sample tables of an MP4, at the time of a request.
//!
//! A segment is a generated head and ranges of the file: the bytes of `mdat` are not touched, so the
//! engine reads the file as it would for a player that plays it as one. The caller reads the headers
//! with a [`HeaderReader`], keeps the [`Title`], and answers the names of [`Resource`]. A title may
//! have several files and subtitles ([`Presentation`]).
//!
//! Invariants: no file makes this crate panic, or need more memory than [`MOOV_BYTES_MAX`] and 14 MiB;
//! a range of a segment lies inside the file; the same file and target give the same segments.
//!
//! Boxes are read in place, by the parser of `headlong-media`: crates for MP4 files make a value of
//! each entry of each table, ten times the memory.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod bandwidth;
mod codec;
mod cuts;
mod dash;
mod fault;
mod fields;
mod file_suffix;
mod fragment;
mod fragment_index;
mod fragmented;
mod headers;
mod hls;
mod link;
mod pathway;
mod presentation;
mod reader;
mod resource;
mod sample_table;
mod subrip;
mod subtitles;
mod title;
mod title_headers;
mod track;

pub use fault::PackageFault;
pub use file_suffix::{is_file_suffix, title_of_urlset};
pub use link::Links;
pub use pathway::{Pathway, PlayerSteering};
pub use presentation::{FILES_MAX, Presentation, TitleFile, TitleOutline};
pub use reader::{
    FRAGMENTED_MOOV_BYTES_MAX, FRAGMENTS_MEMORY, HeaderReader, MOOV_BYTES_MAX, ReadStep,
    WHOLE_BYTES_MAX,
};
pub use resource::{Rendition, Resource, Version};
pub use subrip::webvtt;
pub use subtitles::{Subtitles, SubtitlesForm};
pub use title::{AUDIO_TRACKS_MAX, Title};
pub use title_headers::TitleHeaders;
