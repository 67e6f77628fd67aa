//! Catalogue: all files and titles at one moment, built from the contents of the roots.
//!
//! A scan describes the whole library anew; entries that are unchanged are kept with their ids.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headlong_media::{FileFacts, Plan, Title, plan};
use headlong_units::BitRate;

use crate::entry::{FileEntry, Files};
use crate::identity::FileIdentity;
use crate::kind::is_film;
use crate::stream::{LibraryContext, PartFile, StreamFiles};
use crate::subtitles::SubtitlesByFilm;
use crate::title::{SegmentTotalsTable, TitleRecord, assign_folder_posters};

/// The library at one moment.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) files: Files,
    /// Titles of the last scan, in path order.
    pub(crate) titles: Arc<Vec<TitleRecord>>,
}

/// A file as found by a scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScannedFile {
    pub(crate) root: usize,
    pub(crate) identity: FileIdentity,
    /// When it was checked, nanoseconds since the library began.
    pub(crate) checked_ns: u64,
}

/// The inputs of a stream; equal recipes make the same stream.
pub(crate) struct StreamInputs {
    pub(crate) title: Arc<str>,
    pub(crate) parts: Vec<PartFile>,
    pub(crate) device: usize,
    pub(crate) bit_rate: Option<BitRate>,
}

/// Makes streams with new ids.
#[derive(Debug)]
pub(crate) struct StreamFactory {
    pub(crate) ground: Arc<LibraryContext>,
    pub(crate) next_id: AtomicU64,
}

impl StreamFactory {
    pub(crate) fn new(ground: LibraryContext) -> Self {
        Self {
            ground: Arc::new(ground),
            next_id: AtomicU64::new(1),
        }
    }

    pub(crate) fn make(&self, recipe: StreamInputs) -> Arc<StreamFiles> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let StreamInputs {
            title,
            parts,
            device,
            bit_rate,
        } = recipe;
        Arc::new(StreamFiles::new(
            id,
            title,
            parts,
            device,
            bit_rate,
            &self.ground,
        ))
    }

    /// The stream of the recipe: that of `old` if it is the same, else a new one.
    fn make_or_keep(&self, recipe: StreamInputs, old: &Files) -> Arc<StreamFiles> {
        let before = recipe.parts.first().and_then(|part| old.get(&part.path));
        match before.map(|entry| &entry.stream) {
            Some(stream)
                if stream.parts == recipe.parts
                    && stream.title == recipe.title
                    && stream.device == recipe.device
                    && stream.manifest_bit_rate == recipe.bit_rate =>
            {
                Arc::clone(stream)
            }
            _ => self.make(recipe),
        }
    }
}

/// Builds the library from the files of all roots and the titles of all manifests.
pub(crate) fn build(
    located: &HashMap<Arc<str>, ScannedFile>,
    titles: &[Title],
    old: &Catalogue,
    maker: &StreamFactory,
) -> Catalogue {
    let mut new = Catalogue {
        files: HashMap::with_capacity(located.len()),
        ..Catalogue::default()
    };
    let mut facts: HashMap<&str, FileFacts> = HashMap::with_capacity(located.len());
    for (path, file) in located {
        let fact = FileFacts {
            device: maker
                .ground
                .place(file.root, path, file.identity.dev)
                .device,
            size_bytes: file.identity.size,
        };
        facts.insert(path, fact);
    }
    let plan = plan(titles, |path| facts.get(path).copied());
    for stream in &plan.streams {
        let parts = stream.files.iter().filter_map(|path| {
            let file = located.get(path)?;
            Some(PartFile {
                path: Arc::clone(path),
                root: file.root,
                identity: file.identity,
            })
        });
        let recipe = StreamInputs {
            title: Arc::clone(&titles[stream.title].path),
            parts: parts.collect(),
            device: stream.device,
            bit_rate: stream.bit_rate,
        };
        new.insert(recipe, located, old, maker);
    }
    for (path, file) in located {
        if plan.places.contains_key(path) {
            continue;
        }
        let part = PartFile {
            path: Arc::clone(path),
            root: file.root,
            identity: file.identity,
        };
        let recipe = StreamInputs {
            title: Arc::clone(path),
            parts: vec![part],
            device: facts.get(&**path).map_or(0, |fact| fact.device),
            bit_rate: None,
        };
        new.insert(recipe, located, old, maker);
    }
    new.titles = Arc::new(records(titles, &plan, located));
    new
}

impl Catalogue {
    fn insert(
        &mut self,
        recipe: StreamInputs,
        located: &HashMap<Arc<str>, ScannedFile>,
        old: &Catalogue,
        maker: &StreamFactory,
    ) {
        let stream = maker.make_or_keep(recipe, &old.files);
        for (part, file) in (0u32..).zip(&stream.parts) {
            let checked_ns = located.get(&file.path).map_or(0, |file| file.checked_ns);
            let entry = match old.files.get(&file.path) {
                Some(entry) if Arc::ptr_eq(&entry.stream, &stream) => {
                    entry.check(checked_ns);
                    Arc::clone(entry)
                }
                before => {
                    if let Some(before) = before {
                        before.note_past();
                    }
                    Arc::new(FileEntry::new(&stream, part, checked_ns))
                }
            };
            self.files.insert(Arc::clone(&file.path), entry);
        }
    }

    /// Replaces the entries of a stream's files. Files already in the catalogue keep the time of
    /// their last check; the others were checked at `checked_ns`.
    pub(crate) fn put(&mut self, stream: &Arc<StreamFiles>, checked_ns: u64) {
        for (part, file) in (0u32..).zip(&stream.parts) {
            let before = self.files.get(&file.path);
            if let Some(before) = before {
                before.note_past();
            }
            let before = before.filter(|entry| entry.identity == file.identity);
            let checked_ns = before.map_or(checked_ns, |entry| entry.checked_ns());
            let entry = FileEntry::new(stream, part, checked_ns);
            self.files.insert(Arc::clone(&file.path), Arc::new(entry));
        }
    }
}

/// The listed titles: those with a manifest, and every playable file that no manifest names.
fn records(
    titles: &[Title],
    plan: &Plan,
    located: &HashMap<Arc<str>, ScannedFile>,
) -> Vec<TitleRecord> {
    let size = |path: &str| located.get(path).map(|file| file.identity.size);
    let mut measures = SegmentTotalsTable::default();
    let with_manifest = titles
        .iter()
        .filter_map(|title| TitleRecord::of_manifest(title, &size, &mut measures));
    let alone = located.iter().filter(|(path, file)| {
        is_film(path) && file.identity.size > 0 && !plan.places.contains_key(*path)
    });
    let texts = SubtitlesByFilm::new(located.keys());
    let alone =
        alone.map(|(path, file)| TitleRecord::of_file(path, file.identity.size, texts.of(path)));
    let mut records: Vec<TitleRecord> = with_manifest.chain(alone).collect();
    records.sort_by(|a, b| a.path.cmp(&b.path));
    assign_folder_posters(&mut records);
    records
}
