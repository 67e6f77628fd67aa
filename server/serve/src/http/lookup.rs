//! File look-ups with a deadline, on threads of each root.
//!
//! A known file is looked up only on the root where it was seen; an unknown name on all roots at
//! once. A root that misses the deadline counts as slow until it answers, and look-ups then wait
//! for it only briefly. Where the scan has not been yet, a look-up also triggers detection of the
//! file's title.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headlong_kernel::thread_pool::ThreadPool;
use headlong_library::{
    FileEntry, FolderContent, FolderEntry, FolderEntryKind, Library, NameFilter, PathContent,
    ResolveError, RootError, ScanChanges, other_forms,
};
use headlong_storage::Device;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::scan_throttle;

/// Look-up threads per root: as many as a disk can usefully serve.
const THREADS_MAX: usize = 8;
/// Queued look-ups per root.
const WAITING_MAX: usize = 4096;
/// Threads per root that scan around looked-up files, and their queue; titles of files beyond it
/// are found by the scan.
const AROUND_THREADS_MAX: usize = 4;
const AROUND_MAX: usize = 256;
/// How long to wait for a slow root.
const ILL_PATIENCE: Duration = Duration::from_millis(250);

/// Look-up threads of all roots.
pub struct LookupThreads {
    library: Library,
    roots: Vec<RootThreads>,
}

/// The names in a folder.
#[derive(Debug)]
pub(super) struct FolderNames {
    pub(super) entries: Vec<FolderEntry>,
    /// The error of a root that may have more.
    pub(super) unanswered: Option<ResolveError>,
}

impl FolderNames {
    /// The names, if all roots have answered.
    pub(super) fn whole(self) -> Result<Vec<FolderEntry>, ResolveError> {
        match self.unanswered {
            None => Ok(self.entries),
            Some(error) => Err(error),
        }
    }
}

struct RootThreads {
    lookups: ThreadPool,
    around: ThreadPool,
    scans: ThreadPool,
    is_ill: Arc<AtomicBool>,
}

impl std::fmt::Debug for LookupThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

impl LookupThreads {
    /// Starts the first threads of each root.
    ///
    /// # Errors
    /// The system provides no threads.
    pub fn start(library: &Library) -> std::io::Result<Self> {
        let threads = |(root, _)| {
            Ok(RootThreads {
                lookups: ThreadPool::new(&format!("lookup-{root}"), THREADS_MAX, WAITING_MAX)?,
                around: ThreadPool::new(&format!("around-{root}"), AROUND_THREADS_MAX, AROUND_MAX)?,
                scans: ThreadPool::new(&format!("scan-{root}"), 1, 1)?,
                is_ill: Arc::default(),
            })
        };
        let roots = library.roots().into_iter().enumerate().map(threads);
        Ok(Self {
            library: library.clone(),
            roots: roots.collect::<std::io::Result<_>>()?,
        })
    }

    /// The file at a path, or at another normal form of it.
    pub(super) async fn resolve(
        &self,
        path: &str,
        within: Duration,
    ) -> Result<Arc<FileEntry>, ResolveError> {
        let deadline = Instant::now() + within;
        let mut found = self.resolve_exactly(path, deadline).await;
        for form in other_forms(path) {
            if !matches!(found, Err(ResolveError::NotFound(_))) {
                break;
            }
            found = self.resolve_exactly(&form, deadline).await;
        }
        found
    }

    async fn resolve_exactly(
        &self,
        path: &str,
        deadline: Instant,
    ) -> Result<Arc<FileEntry>, ResolveError> {
        if let Some(entry) = self.library.recall(path) {
            return Ok(entry);
        }
        let found = self.find(path, deadline).await;
        if let Ok(file) = &found {
            self.scan_out_of_order(file);
        }
        found
    }

    /// Detects the title that a file belongs to, unless the scan has done so.
    fn scan_out_of_order(&self, file: &Arc<FileEntry>) {
        if !self.library.is_alone(file) {
            return;
        }
        let (library, file) = (self.library.clone(), Arc::clone(file));
        let root = file.root;
        let job = move || library.scan_out_of_order(root, &file.path);
        self.roots[root].around.offer(job);
    }

    /// Looks a path up on the disks.
    async fn find(&self, path: &str, deadline: Instant) -> Result<Arc<FileEntry>, ResolveError> {
        if let Some(home) = self.library.home(path) {
            match self.lookup(home, path, deadline).await {
                PathContent::Absent => {}
                look => return self.library.conclude(path, [(home, look)]),
            }
        }
        let roots = self.library.roots_at(path);
        let look = |root: usize| {
            let path = path.to_owned();
            let look = move |library: &Library| library.lookup(root, &path);
            (root, self.enqueue(root, look))
        };
        let asked: Vec<_> = roots.map(look).collect();
        let mut looks = Vec::with_capacity(asked.len());
        for (root, asked) in asked {
            let look = self.answer(root, asked, deadline).await;
            looks.push((root, look.unwrap_or(PathContent::NoAnswer)));
        }
        self.library.conclude(path, looks)
    }

    /// The content of one root at a path.
    async fn lookup(&self, root: usize, path: &str, deadline: Instant) -> PathContent {
        let path = path.to_owned();
        let asked = self.enqueue(root, move |library| library.lookup(root, &path));
        let answer = self.answer(root, asked, deadline).await;
        answer.unwrap_or(PathContent::NoAnswer)
    }

    /// The names in a folder of all roots, or the wanted ones, each once: a name in an earlier root
    /// hides the others. A root that does not answer is listed as of its last scan. An error of one
    /// root leaves the names of the others.
    pub(super) async fn list(
        &self,
        folder: &str,
        wanted: Option<Arc<NameFilter>>,
        within: Duration,
    ) -> Result<FolderNames, ResolveError> {
        let deadline = Instant::now() + within;
        let path = folder.trim_end_matches('/');
        let list = |root: usize| {
            let (path, wanted) = (path.to_owned(), wanted.clone());
            let list = move |library: &Library| library.list_folder(root, &path, wanted.as_deref());
            (root, self.enqueue(root, list))
        };
        let asked: Vec<_> = self.library.roots_at(folder).map(list).collect();
        let owned = || folder.to_owned();
        let (mut all, mut unanswered) = (None, None);
        for (root, asked) in asked {
            let content = match self.answer(root, asked, deadline).await {
                None | Some(FolderContent::NoAnswer) => {
                    let library = &self.library;
                    library.remember_folder(root, path, wanted.as_deref())
                }
                Some(content) => content,
            };
            let error = match content {
                FolderContent::Names(names) => {
                    all.get_or_insert_with(Vec::new).push(names);
                    continue;
                }
                FolderContent::Absent => continue,
                FolderContent::TooLarge => return Err(ResolveError::FolderTooLarge(owned())),
                FolderContent::NoAnswer => ResolveError::NoAnswer(owned()),
                FolderContent::Failed(error)
                    if error.kind() == std::io::ErrorKind::PermissionDenied =>
                {
                    ResolveError::Forbidden(owned())
                }
                FolderContent::Failed(source) => ResolveError::Io {
                    path: owned(),
                    source,
                },
            };
            unanswered.get_or_insert(error);
        }
        match (all, unanswered) {
            (Some(all), unanswered) => Ok(FolderNames {
                entries: merged(all),
                unanswered,
            }),
            (None, Some(error)) => Err(error),
            (None, None) => Err(ResolveError::NotFound(owned())),
        }
    }

    /// Queues a call that may block on one root; `None` if its queue is full.
    fn enqueue<T: Send + 'static>(
        &self,
        root: usize,
        ask: impl FnOnce(&Library) -> T + Send + 'static,
    ) -> Option<oneshot::Receiver<T>> {
        let (say, answer) = oneshot::channel();
        let library = self.library.clone();
        let is_ill = Arc::clone(&self.roots[root].is_ill);
        let is_taken = self.roots[root].lookups.offer(move || {
            // Saves disk work if the caller no longer waits.
            if !say.is_closed() {
                let answer = ask(&library);
                is_ill.store(false, Ordering::Relaxed);
                let _ = say.send(answer);
            }
        });
        is_taken.then_some(answer)
    }

    /// The result of a queued call; `None` if there is none in time.
    async fn answer<T>(
        &self,
        root: usize,
        asked: Option<oneshot::Receiver<T>>,
        deadline: Instant,
    ) -> Option<T> {
        let is_ill = &self.roots[root].is_ill;
        let until = match is_ill.load(Ordering::Relaxed) {
            true => deadline.min(Instant::now() + ILL_PATIENCE),
            false => deadline,
        };
        match timeout_at(until, asked?).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                is_ill.store(true, Ordering::Relaxed);
                None
            }
        }
    }

    /// Scans a root, yielding to work of its devices; returns the changes, and the error if the
    /// root cannot be opened. `None` if an earlier scan of it hangs.
    pub(crate) async fn scan(
        &self,
        root: usize,
        devices: &[Device],
    ) -> Option<(ScanChanges, Option<RootError>)> {
        let (say, changes) = oneshot::channel();
        let library = self.library.clone();
        let here = library.devices_of_root(root).into_iter();
        let devices: Vec<&Device> = here.filter_map(|index| devices.get(index)).collect();
        let is_busy = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_busy);
        let job = move || {
            let found = library.scan_root_gently(root, &mut scan_throttle::resting(&seen));
            let _ = say.send((found, library.root_trouble(root)));
        };
        if !self.roots[root].scans.offer(job) {
            return None;
        }
        tokio::select! {
            () = scan_throttle::watch(&devices, &is_busy) => None,
            changes = changes => changes.ok(),
        }
    }
}

/// The names of the roots together, in the order of the roots.
fn merged(roots: Vec<Vec<FolderEntry>>) -> Vec<FolderEntry> {
    let is_one = roots.len() == 1;
    let mut known = HashSet::new();
    let names = roots.into_iter().flatten();
    let served = names.filter(|entry| {
        let is_first = is_one || known.insert(entry.name.clone());
        is_first && entry.kind != FolderEntryKind::Unserved
    });
    served.collect()
}

#[cfg(test)]
mod tests {
    use headlong_library::LibraryOptions;

    use super::*;

    /// A library of two roots; the second contains `s/x.mp4`.
    fn library() -> (Library, [tempfile::TempDir; 2]) {
        let roots = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
        std::fs::create_dir(roots[1].path().join("s")).expect("made");
        std::fs::write(roots[1].path().join("s/x.mp4"), "x").expect("written");
        let paths = roots.each_ref().map(|root| root.path().to_path_buf());
        let options = LibraryOptions {
            revalidate: Duration::ZERO,
            ..LibraryOptions::default()
        };
        (Library::open(&paths, options).expect("right"), roots)
    }

    /// Blocks all look-up threads of a root until the senders are dropped.
    fn hang(lookups: &LookupThreads, root: usize) -> Vec<std::sync::mpsc::Sender<()>> {
        let (begun, begins) = std::sync::mpsc::channel::<()>();
        let hang_one = |_| {
            let (release, hang) = std::sync::mpsc::channel::<()>();
            let begun = begun.clone();
            lookups.roots[root].lookups.run(move || {
                let _ = begun.send(());
                let _ = hang.recv();
            });
            release
        };
        let held = (0..THREADS_MAX).map(hang_one).collect();
        for _ in 0..THREADS_MAX {
            begins.recv().expect("a thread is held");
        }
        held
    }

    #[tokio::test]
    async fn hanging_root_delays_only_unknown_files_and_only_once() {
        let (library, _roots) = library();
        let lookups = LookupThreads::start(&library).expect("threads");
        let hung = hang(&lookups, 0);
        // The file is unknown: the look-up waits once for the hanging root.
        let within = Duration::from_millis(200);
        let found = lookups.resolve("s/x.mp4", within).await;
        assert_eq!(found.expect("it is there").root, 1);
        assert!(lookups.roots[0].is_ill.load(Ordering::Relaxed));
        // With a timeout far beyond the test's, this shows that the root is not waited for again.
        let long = Duration::from_secs(3600);
        let found = lookups.resolve("s/x.mp4", long).await;
        assert_eq!(found.expect("it is there").root, 1);
        let missing = lookups.resolve("y.mp4", long).await;
        assert!(
            matches!(missing, Err(ResolveError::NoAnswer(_))),
            "{missing:?}"
        );
        drop(hung);
        while lookups.roots[0].is_ill.load(Ordering::Relaxed) {
            let _ = lookups.resolve("y.mp4", long).await;
        }
        let missing = lookups.resolve("y.mp4", long).await;
        assert!(
            matches!(missing, Err(ResolveError::NotFound(_))),
            "{missing:?}"
        );
    }

    #[tokio::test]
    async fn folder_of_hanging_root_is_listed_as_last_scanned() {
        let (library, roots) = library();
        std::fs::create_dir(roots[0].path().join("s")).expect("made");
        for name in ["x.mp4", "y.mp4"] {
            std::fs::write(roots[0].path().join("s").join(name), "longer").expect("written");
        }
        let lookups = LookupThreads::start(&library).expect("threads");
        let list = async |within| {
            let listed = lookups
                .list("s/", None, Duration::from_millis(within))
                .await;
            listed.and_then(FolderNames::whole).map(|entries| {
                let mut names: Vec<_> = entries.into_iter().map(|e| (e.name, e.kind)).collect();
                names.sort_by(|a, b| a.0.cmp(&b.0));
                names
            })
        };
        let expected = ["x.mp4", "y.mp4"].map(|name| (name.to_owned(), FolderEntryKind::File(6)));
        assert_eq!(list(60_000).await.expect("listed"), expected);
        let hung = hang(&lookups, 0);
        let unknown = list(50).await;
        assert!(
            matches!(unknown, Err(ResolveError::NoAnswer(_))),
            "{unknown:?}"
        );
        let known = lookups.list("s/", None, Duration::from_millis(50)).await;
        let known = known.expect("the other root has the folder");
        assert_eq!(known.entries.len(), 1);
        assert!(matches!(known.unanswered, Some(ResolveError::NoAnswer(_))));
        library.rescan();
        assert_eq!(list(50).await.expect("known"), expected);
        drop(hung);
    }

    #[tokio::test]
    async fn look_up_beyond_queue_limit_fails_immediately() {
        let (library, _roots) = library();
        let lookups = LookupThreads::start(&library).expect("threads");
        let _hung = hang(&lookups, 1);
        for _ in 0..WAITING_MAX + THREADS_MAX {
            drop(lookups.enqueue(1, |library| library.lookup(1, "s/x.mp4")));
        }
        let long = Duration::from_secs(3600);
        let answer = lookups.resolve("s/x.mp4", long).await;
        assert!(
            matches!(answer, Err(ResolveError::NoAnswer(_))),
            "{answer:?}"
        );
    }

    #[tokio::test]
    async fn look_up_finds_title_while_scan_hangs() {
        let (library, roots) = library();
        let text = "#EXTM3U\n#EXTINF:4,\n1.ts\n#EXTINF:4,\n2.ts\n";
        for (name, bytes) in [("index.m3u8", text), ("1.ts", "1"), ("2.ts", "2")] {
            std::fs::write(roots[1].path().join("s").join(name), bytes).expect("written");
        }
        let lookups = LookupThreads::start(&library).expect("threads");
        let (_release, hang) = std::sync::mpsc::channel::<()>();
        let (begun, begins) = std::sync::mpsc::channel();
        let searched = library.clone();
        lookups.roots[1].scans.run(move || {
            searched.scan_root_gently(1, &mut |_| {
                let _ = begun.send(());
                let _ = hang.recv();
            });
        });
        begins.recv().expect("it has begun");
        let within = Duration::from_secs(3600);
        let playlist = lookups.resolve("s/index.m3u8", within).await;
        playlist.expect("it is there");
        let of_stream = async {
            loop {
                let file = lookups.resolve("s/1.ts", within).await;
                let file = file.expect("it is there");
                if file.stream.parts.len() == 2 && library.titles().len() == 1 {
                    break file;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let file = tokio::time::timeout(within, of_stream).await;
        assert_eq!(&*file.expect("found").stream.title, "s/index.m3u8");
    }
}
