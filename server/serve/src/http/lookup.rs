//! Look-ups of files: each root is asked on threads of its own, within a time.
//!
//! The one idea: a file that is known lies where it was seen, so only its own root is asked; a name
//! that nobody knows is asked of all at once. A root that did not answer in time is ill until it
//! answers something, and an ill root is not waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use headlong_library::{Changes, FileEntry, Library, Look, ResolveError};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::thread_pool::ThreadPool;

/// Threads for the look-ups of a root: what a disk can do at once.
const THREADS_MAX: usize = 8;
/// Most look-ups of a root that wait for a thread.
const WAITING_MAX: usize = 4096;
/// How long an ill root is waited for.
const ILL_PATIENCE: Duration = Duration::from_millis(250);

/// Where the roots are asked.
pub struct Lookups {
    library: Library,
    roots: Vec<RootThreads>,
}

struct RootThreads {
    lookups: ThreadPool,
    scans: ThreadPool,
    is_ill: Arc<AtomicBool>,
}

impl std::fmt::Debug for Lookups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookups").finish_non_exhaustive()
    }
}

impl Lookups {
    /// Starts the first threads of each root.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn start(library: &Library) -> std::io::Result<Self> {
        let threads = |(root, _)| {
            Ok(RootThreads {
                lookups: ThreadPool::new(&format!("lookup-{root}"), THREADS_MAX, WAITING_MAX)?,
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

    /// The file at a path.
    pub(super) async fn resolve(
        &self,
        path: &str,
        within: Duration,
    ) -> Result<Arc<FileEntry>, ResolveError> {
        if let Some(entry) = self.library.recall(path) {
            return Ok(entry);
        }
        let deadline = Instant::now() + within;
        if let Some(home) = self.library.home(path) {
            match self.answer(home, self.ask(home, path), deadline).await {
                Look::Absent => {}
                look => return self.library.conclude(path, [(home, look)]),
            }
        }
        let roots = 0..self.roots.len();
        let asked: Vec<_> = roots.map(|root| (root, self.ask(root, path))).collect();
        let mut looks = Vec::with_capacity(asked.len());
        for (root, asked) in asked {
            looks.push((root, self.answer(root, asked, deadline).await));
        }
        self.library.conclude(path, looks)
    }

    /// Asks one root; `None` if too many look-ups wait for it already.
    fn ask(&self, root: usize, path: &str) -> Option<oneshot::Receiver<Look>> {
        let (say, answer) = oneshot::channel();
        let (library, path) = (self.library.clone(), path.to_owned());
        let is_ill = Arc::clone(&self.roots[root].is_ill);
        let is_taken = self.roots[root].lookups.offer(move || {
            // Whoever has stopped waiting does not make the disk work.
            if !say.is_closed() {
                let look = library.look(root, &path);
                is_ill.store(false, Ordering::Relaxed);
                let _ = say.send(look);
            }
        });
        is_taken.then_some(answer)
    }

    async fn answer(
        &self,
        root: usize,
        asked: Option<oneshot::Receiver<Look>>,
        deadline: Instant,
    ) -> Look {
        let is_ill = &self.roots[root].is_ill;
        let until = match is_ill.load(Ordering::Relaxed) {
            true => deadline.min(Instant::now() + ILL_PATIENCE),
            false => deadline,
        };
        let Some(asked) = asked else {
            return Look::NoAnswer;
        };
        match timeout_at(until, asked).await {
            Ok(answer) => answer.unwrap_or(Look::NoAnswer),
            Err(_) => {
                is_ill.store(true, Ordering::Relaxed);
                Look::NoAnswer
            }
        }
    }

    /// Scans a root, which takes as long as its disk likes; `None` if a scan of it hangs.
    pub(crate) async fn scan(&self, root: usize) -> Option<Changes> {
        let (say, changes) = oneshot::channel();
        let library = self.library.clone();
        let job = move || drop(say.send(library.scan_root(root)));
        if !self.roots[root].scans.offer(job) {
            return None;
        }
        changes.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headlong_library::LibraryOptions;

    /// A library of two roots; the second has `s/x.mp4`.
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

    /// Holds all threads of a root until the senders are dropped; all are held when it returns.
    fn hang(lookups: &Lookups, root: usize) -> Vec<std::sync::mpsc::Sender<()>> {
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
    async fn a_root_that_hangs_delays_no_file_known_to_lie_in_another_and_no_other_for_ever() {
        let (library, _roots) = library();
        let lookups = Lookups::start(&library).expect("threads");
        let hung = hang(&lookups, 0);
        // Nobody knows where it lies: the ill root is given its time, once.
        let within = Duration::from_millis(200);
        let found = lookups.resolve("s/x.mp4", within).await;
        assert_eq!(found.expect("it is there").root, 1);
        assert!(lookups.roots[0].is_ill.load(Ordering::Relaxed));
        // A patience that the test would not survive shows that nobody waits for it any more.
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
    async fn more_look_ups_than_may_wait_for_a_root_are_answered_at_once() {
        let (library, _roots) = library();
        let lookups = Lookups::start(&library).expect("threads");
        let _hung = hang(&lookups, 1);
        for _ in 0..WAITING_MAX + THREADS_MAX {
            drop(lookups.ask(1, "s/x.mp4"));
        }
        let long = Duration::from_secs(3600);
        let answer = lookups.resolve("s/x.mp4", long).await;
        assert!(
            matches!(answer, Err(ResolveError::NoAnswer(_))),
            "{answer:?}"
        );
    }
}
