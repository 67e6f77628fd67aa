use super::*;
use crate::incoming_slice::IncomingSlice;
use crate::state::TITLES_MAX;
use crate::title::OriginTitle;
use crate::version::SlicePart;

fn version(path: &str) -> Arc<Version> {
    version_in(path, "")
}

fn version_in(path: &str, folder: &str) -> Arc<Version> {
    let about = VersionDescription {
        path: path.to_owned(),
        size_bytes: 100,
        slice_bytes: 50,
        entity_tag: None,
        last_modified: None,
        asked_unix_ns: None,
    };
    let slices = Slices::new(100, 50).expect("few enough");
    Arc::new(Version::new(about, slices, PathBuf::from(folder), 1))
}

#[test]
fn slices_have_new_flash_keys_after_a_purge() {
    let names = |folder| {
        let version = version_in("film.mp4", folder);
        [version.slice_name(0), version.slice_name(1)]
    };
    let before = names("/cache/00ff-1");
    assert_eq!(before, names("/moved/00ff-1"), "stable across restarts");
    let after = names("/cache/00ff-2");
    assert!(before.iter().all(|name| !after.contains(name)));
    assert_ne!(before[0], before[1]);
}

fn state() -> PullState {
    PullState {
        titles: HashMap::new(),
        by_key: HashMap::new(),
        space: SliceCache::default(),
        coming_bytes: 0,
        unstored: VecDeque::new(),
        unstored_bytes: 0,
        negative: NegativeCache::new(Duration::from_secs(1), 10),
        looked: 0,
    }
}

/// A title after validation: its version is in both tables.
fn add(state: &mut PullState, path: &str) -> Arc<Version> {
    let version = version(path);
    state.by_key.insert(version.key, Arc::clone(&version));
    let title = state.titles.entry(Arc::from(path)).or_default();
    let fresh = Freshness::new(Instant(0), Duration::from_secs(1));
    title.version = Some((Arc::clone(&version), fresh));
    version
}

#[test]
fn query_is_cancelled_when_no_request_waits() {
    let mut state = state();
    let (say, waits) = watch::channel(None);
    let title = OriginTitle {
        version: None,
        asking: Some(waits.clone()),
    };
    state.titles.insert(Arc::from("new"), title);
    assert!(!state.gives_up("new", &say), "a request waits");
    drop(waits);
    assert!(state.gives_up("new", &say));
    assert!(
        !state.titles.contains_key("new"),
        "the next request starts a new query"
    );
    add(&mut state, "known");
    let (say, waits) = watch::channel(None);
    state.titles.get_mut("known").expect("known").asking = Some(waits);
    assert!(
        !state.gives_up("known", &say),
        "a served title is always validated"
    );
}

#[test]
fn forgets_only_unused_titles_without_slices() {
    let mut state = state();
    drop(add(&mut state, "unused"));
    add(&mut state, "kept").table().present[1] = true;
    let (_coming, comes) = watch::channel(IncomingSlice::new(50));
    let coming = add(&mut state, "coming");
    coming.table().coming.insert(SlicePart::whole(0), comes);
    drop(coming);
    let read = add(&mut state, "read");
    let (_asked, answer) = watch::channel(None);
    let asked = state.titles.entry(Arc::from("asked")).or_default();
    asked.asking = Some(answer);
    state.titles.entry(Arc::from("never there")).or_default();

    for _ in 1..TITLES_MAX {
        state.make_room();
    }
    assert_eq!(state.titles.len(), 6, "below the limit");
    assert_eq!(state.make_room().len(), 1, "one of them has a folder");

    let mut left: Vec<&str> = state.titles.keys().map(|path| &**path).collect();
    left.sort_unstable();
    assert_eq!(left, ["asked", "coming", "kept", "read"]);
    // The remaining titles are also in the table by key, and no others.
    let mut keys: Vec<&str> = state.by_key.values().map(|v| &*v.about.path).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["coming", "kept", "read"]);

    // Once its reply has ended, it is forgotten the next time.
    drop(read);
    for _ in 0..TITLES_MAX {
        state.make_room();
    }
    assert!(!state.titles.contains_key("read"));
}

#[test]
fn unstored_slices_in_memory_are_bounded() {
    let mut state = state();
    let versions = ["a", "b", "c"].map(|path| add(&mut state, path));
    for version in &versions {
        for index in 0..2 {
            let part = SlicePart::whole(index);
            let (_coming, comes) = watch::channel(IncomingSlice::new(50));
            version.table().coming.insert(part, comes);
            state.add_unstored(version, part, 200);
        }
    }
    let held = || versions.each_ref().map(|of| of.table().coming.len());
    assert_eq!((held(), state.unstored_bytes), ([0, 2, 2], 200));
    state.forget_unstored(|of| of.about.path == "c");
    assert_eq!((held(), state.unstored_bytes), ([0, 2, 0], 100));
    state.forget_unstored(|_| true);
    assert_eq!((held(), state.unstored_bytes), ([0, 0, 0], 0));
}
