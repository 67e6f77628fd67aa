//! The library: the trees of titles on disk, with the version, device and position of each file.
//!
//! A path is looked up thousands of times a second and changes once a year, so look-ups are
//! answered from memory and checked against the disk periodically. A stream id always stands for
//! one version of the bytes: a new version of any of its files makes a new stream with a new id.
//!
//! Invariants: no path outside the roots and the listed targets of links is ever opened (`openat2`
//! with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS` on every open and look-up); only regular files are opened; a stream lies
//! on one device, which is a whole disk; an id is never reused; a scan reads manifests and
//! directory entries, and opens no file of a title before its stream is requested.
//!
//! The crate knows no network. Calls that block, block on one root: [`Library::lookup`],
//! [`Library::list_folder`],
//! [`Library::scan_out_of_order`] and [`Library::scan_root`], to be called on threads of that root,
//! and the methods of streams. All other calls touch no disk, so that a hung root blocks no other.
//!
//! Links: a scan skips symbolic links into the own root (the target is found under its own name).
//! A request for one returns the target, under the target's own path and stream. A link into a
//! folder that the operator lists ([`LibraryOptions::link_targets`]) is followed by scans and
//! requests; what it leads to has the path of the link. Any other link is not found; a scan warns.

mod block_map;
mod catalogue;
mod dash;
mod deferred_roots;
mod device;
mod entry;
mod external_streams;
mod facts;
mod folder;
mod header_scan;
mod hls;
mod identity;
mod kind;
mod library;
mod links;
mod lookup;
mod manifest;
mod matroska_scan;
mod mounted_root;
mod mounts;
mod normal_form;
mod options;
mod os_path;
mod out_of_order_scan;
mod out_of_order_state;
mod past_versions;
mod places;
mod raw;
mod records;
mod root;
mod scan;
mod skipped_files;
mod state;
mod stream;
mod subtitles;
mod sysfs;
mod title;
mod version_table;
mod walk;
mod warning;

pub use block_map::{BlockMap, FileLocation};
pub use device::{DeviceInfo, RootsInfo, inspect_roots};
pub use entry::FileEntry;
pub use folder::{FOLDER_NAMES_MAX, FolderContent, FolderEntry, FolderEntryKind, NameFilter};
pub use identity::FileIdentity;
pub use library::Library;
pub use lookup::{PathContent, ResolveError};
pub use mounted_root::MountedRoot;
pub use mounts::{Mount, read_mounts};
pub use normal_form::{composed, other_forms};
pub use options::LibraryOptions;
pub use os_path::os_path;
pub use records::RecordKind;
pub use root::RootError;
pub use scan::ScanChanges;
pub use stream::{FileChanged, PartFile, RemovedStream, StreamFiles, is_changed};
pub use subtitles::SubtitlesView;
pub use title::TitleView;
pub use version_table::RecordsLoaded;
pub use walk::{ScanCounts, links_out};
pub use warning::Warning;

pub use dash::parse_dash;
pub use hls::{HlsPlaylist, parse_hls};
