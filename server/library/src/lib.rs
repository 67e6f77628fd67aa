//! The library: the trees of titles on disk, with the version, device and position of each file.
//!
//! A path is looked up thousands of times a second and changes once a year, so look-ups are
//! answered from memory and checked against the disk periodically. A stream id always stands for
//! one version of the bytes: a new version of any of its files makes a new stream with a new id.
//!
//! Invariants: no path outside the roots is ever opened (`openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS` on every open and look-up); only regular files are opened; a stream lies
//! on one device, which is a whole disk; an id is never reused; a scan reads manifests and
//! directory entries, and opens no file of a title before its stream is requested.
//!
//! The crate knows no network. Calls that block, block on one root: [`Library::lookup`],
//! [`Library::list_folder`],
//! [`Library::scan_out_of_order`] and [`Library::scan_root`], to be called on threads of that root,
//! and the methods of streams. All other calls touch no disk, so that a hung root blocks no other.
//!
//! Links: a scan skips symbolic links (a target inside the root is found under its own name). A
//! request for a link that ends inside its own root returns the target, under the target's own path
//! and stream; any other link is not found.

mod block_map;
mod catalogue;
mod dash;
mod deferred_roots;
mod device;
mod entry;
mod external_streams;
mod facts;
mod folder;
mod hls;
mod identity;
mod kind;
mod library;
mod links;
mod lookup;
mod manifest;
mod mounts;
mod options;
mod out_of_order_scan;
mod out_of_order_state;
mod raw;
mod root;
mod scan;
mod skipped_files;
mod state;
mod stream;
mod subtitles;
mod sysfs;
mod title;
mod walk;
mod warning;

pub use block_map::{BlockMap, FileLocation};
pub use device::{DeviceInfo, RootsInfo, inspect_roots};
pub use entry::FileEntry;
pub use facts::{FACTS_MAX, FACTS_RECORD_BYTES, FactsLoaded};
pub use folder::{FOLDER_NAMES_MAX, FolderContent, FolderEntry, FolderEntryKind};
pub use identity::FileIdentity;
pub use library::Library;
pub use lookup::{PathContent, ResolveError};
pub use mounts::{Mount, read_mounts};
pub use options::LibraryOptions;
pub use root::RootError;
pub use scan::ScanChanges;
pub use stream::{FileChanged, PartFile, RemovedStream, StreamFiles, is_changed};
pub use subtitles::SubtitlesView;
pub use title::TitleView;
pub use walk::ScanCounts;
pub use warning::Warning;

pub use dash::parse_dash;
pub use hls::{HlsPlaylist, parse_hls};
