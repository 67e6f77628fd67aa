//! The trees of titles on disk: what is there, in which version, on which device, and where.
//!
//! The one idea: a path is asked for thousands of times a second and changes once a year, so
//! everything is answered from memory and checked against the disk now and then; and what is
//! handed out names one version of the bytes for ever. A new version of any file of a stream
//! makes a new stream under a new id.
//!
//! Invariants: nothing outside the roots is ever opened (`openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS` on every open and look-up); nothing but regular files is opened; a
//! stream lies on one device, which is a whole disk; an id is never used twice; a scan reads manifests and directory
//! entries, and no file of a title is opened before somebody asks for its stream.
//!
//! It knows no network. What blocks, blocks on one root: [`Library::look`],
//! [`Library::look_around`] and [`Library::scan_root`], to be called on threads kept for that root, and the streams' own calls.
//! Everything else touches no disk, so no root that hangs holds up another.
//!
//! What links do: at a scan, symbolic links are skipped (what they point at inside the root is
//! found under its own name). On request, a link that ends inside its own root answers with the
//! file it points at, under that file's own path and stream; any other link answers with nothing.

mod around;
mod catalogue;
mod dash;
mod device;
mod early;
mod entry;
mod facts;
mod foreign;
mod hls;
mod identity;
mod kind;
mod late;
mod library;
mod links;
mod look;
mod manifest;
mod mounts;
mod options;
mod passed_over;
mod places;
mod raw;
mod root;
mod scan;
mod state;
mod stream;
mod subtitles;
mod sysfs;
mod title;
mod walk;
mod warning;

pub use device::{DeviceInfo, RootsSeen, look_at_roots};
pub use entry::FileEntry;
pub use facts::{FACTS_MAX, FACTS_RECORD_BYTES, FactsRecalled};
pub use headlong_engine::Extent;
pub use identity::Identity;
pub use library::Library;
pub use look::{Look, ResolveError};
pub use mounts::{Mount, read_mounts};
pub use options::LibraryOptions;
pub use places::{FilePlace, Places};
pub use root::RootError;
pub use scan::Changes;
pub use stream::{Changed, Gone, PartFile, StreamFiles, is_changed};
pub use subtitles::TextView;
pub use title::TitleView;
pub use walk::Counts;
pub use warning::Warning;

pub use dash::parse_dash;
pub use hls::{HlsPlaylist, parse_hls};
