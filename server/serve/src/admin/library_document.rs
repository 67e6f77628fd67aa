//! `/library.json`: one document for all clients that want it at the same time.
//!
//! One document is rendered at a time, and each is reused for four times as long as its rendering
//! took, so rendering costs a fifth of a processor at most, however many clients ask. At most
//! [`DOCUMENTS_MAX`] documents are in memory, however slowly clients receive them. Each client has
//! an answer within [`ANSWER_TIMEOUT`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

/// How long a client waits for the document. The rendering continues after that.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// A document is reused for this many times the duration of its rendering.
const REUSE: u32 = 4;
/// The newest document, and older ones that clients still receive.
const DOCUMENTS_MAX: usize = 4;

/// The titles of the library.
pub trait LibraryRenderer: Send + Sync + 'static {
    /// The document `{"titles":[...]}`, of bounded size. Blocks.
    fn json(&self) -> Bytes;
}

/// Why there is no document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DocumentError {
    /// It is still being rendered.
    Late,
    /// Rendering failed.
    Failed,
}

/// A document, with its place among [`DOCUMENTS_MAX`].
struct Document {
    bytes: Bytes,
    _place: OwnedSemaphorePermit,
}

/// A document that is being sent.
struct DocumentBody(Arc<Document>);

impl AsRef<[u8]> for DocumentBody {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

/// Closed without a document if rendering failed.
type PendingDocument = watch::Receiver<Option<Arc<Document>>>;

/// The document and its rendering.
pub struct LibraryDocument {
    library: Arc<dyn LibraryRenderer>,
    /// The document that new clients get.
    current: Arc<Mutex<Option<PendingDocument>>>,
    places: Arc<Semaphore>,
}

impl LibraryDocument {
    /// Renders nothing until a client asks.
    pub fn new(library: Arc<dyn LibraryRenderer>) -> Self {
        Self {
            library,
            current: Arc::default(),
            places: Arc::new(Semaphore::new(DOCUMENTS_MAX)),
        }
    }

    pub(super) async fn get(&self) -> Result<Bytes, DocumentError> {
        let mut rendering = self.current();
        let rendered = timeout(ANSWER_TIMEOUT, rendering.wait_for(Option::is_some)).await;
        let document = rendered.map_err(|_| DocumentError::Late)?;
        let document = document.ok().and_then(|document| document.clone());
        let document = document.ok_or(DocumentError::Failed)?;
        Ok(Bytes::from_owner(DocumentBody(document)))
    }

    /// The current rendering; starts one if there is none.
    fn current(&self) -> PendingDocument {
        let mut current = lock(&self.current);
        if let Some(rendering) = &*current {
            return rendering.clone();
        }
        let (sender, rendering) = watch::channel(None);
        *current = Some(rendering.clone());
        let (library, places) = (Arc::clone(&self.library), Arc::clone(&self.places));
        let current = Arc::clone(&self.current);
        tokio::spawn(async move {
            render(library, places, &sender).await;
            *lock(&current) = None;
        });
        rendering
    }
}

impl std::fmt::Debug for LibraryDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LibraryDocument").finish_non_exhaustive()
    }
}

/// Renders a document, and returns when it is too old for new clients.
async fn render(
    library: Arc<dyn LibraryRenderer>,
    places: Arc<Semaphore>,
    sender: &watch::Sender<Option<Arc<Document>>>,
) {
    // The semaphore is never closed.
    let Ok(place) = places.acquire_owned().await else {
        return;
    };
    let began = Instant::now();
    match spawn_blocking(move || library.json()).await {
        Ok(bytes) => {
            let document = Document {
                bytes,
                _place: place,
            };
            sender.send_replace(Some(Arc::new(document)));
            sleep(began.elapsed() * REUSE).await;
        }
        Err(error) => tracing::error!(%error, "cannot render the list of titles"),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under the lock is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use tokio::time::advance;

    use super::*;

    /// A library whose rendering ends when the test says so.
    struct SlowLibrary {
        renderings: AtomicUsize,
        go_on: Mutex<mpsc::Receiver<()>>,
    }

    impl LibraryRenderer for SlowLibrary {
        fn json(&self) -> Bytes {
            let number = self.renderings.fetch_add(1, Ordering::SeqCst) + 1;
            lock(&self.go_on).recv().expect("the test continues");
            Bytes::from(number.to_string())
        }
    }

    fn slow() -> (Arc<SlowLibrary>, Arc<LibraryDocument>, mpsc::Sender<()>) {
        let (go_on, waits) = mpsc::channel();
        let library = Arc::new(SlowLibrary {
            renderings: AtomicUsize::new(0),
            go_on: Mutex::new(waits),
        });
        let document = LibraryDocument::new(Arc::<SlowLibrary>::clone(&library));
        (library, Arc::new(document), go_on)
    }

    type Asking = tokio::task::JoinHandle<Result<Bytes, DocumentError>>;

    /// A client that has asked.
    async fn ask(document: &Arc<LibraryDocument>) -> Asking {
        let document = Arc::clone(document);
        let asking = tokio::spawn(async move { document.get().await });
        tokio::task::yield_now().await;
        asking
    }

    /// Lets time pass, and the tasks run that waited for it.
    async fn pass(seconds: u64) {
        advance(Duration::from_secs(seconds)).await;
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    }

    async fn answer(asking: Asking) -> Result<Bytes, DocumentError> {
        asking.await.expect("an answer")
    }

    #[tokio::test(start_paused = true)]
    async fn simultaneous_clients_share_one_rendering() {
        let (library, document, go_on) = slow();
        let clients = [
            ask(&document).await,
            ask(&document).await,
            ask(&document).await,
        ];
        pass(2).await;
        go_on.send(()).expect("it is rendered");
        for client in clients {
            assert_eq!(answer(client).await, Ok(Bytes::from("1")));
        }
        // It is reused for eight seconds.
        pass(7).await;
        assert_eq!(document.get().await, Ok(Bytes::from("1")));
        pass(2).await;
        go_on.send(()).expect("it is rendered");
        assert_eq!(document.get().await, Ok(Bytes::from("2")));
        assert_eq!(library.renderings.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn late_rendering_is_for_clients_that_retry() {
        let (_, document, go_on) = slow();
        let early = ask(&document).await;
        pass(5).await;
        let later = ask(&document).await;
        pass(6).await;
        assert_eq!(answer(early).await, Err(DocumentError::Late));
        go_on.send(()).expect("it is rendered");
        assert_eq!(answer(later).await, Ok(Bytes::from("1")));
        assert_eq!(document.get().await, Ok(Bytes::from("1")));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_clients_hold_bounded_number_of_documents() {
        let (library, document, go_on) = slow();
        let mut received = Vec::new();
        for number in 1..=DOCUMENTS_MAX {
            go_on.send(()).expect("it is rendered");
            let bytes = document.get().await.expect("a document");
            assert_eq!(bytes, number.to_string());
            received.push(bytes);
            pass(1).await;
        }
        go_on.send(()).expect("it is rendered");
        assert_eq!(document.get().await, Err(DocumentError::Late));
        assert_eq!(library.renderings.load(Ordering::SeqCst), DOCUMENTS_MAX);
        received.pop();
        assert_eq!(document.get().await, Ok(Bytes::from("5")));
    }

    struct PanickingLibrary;

    impl LibraryRenderer for PanickingLibrary {
        fn json(&self) -> Bytes {
            panic!("as this test wants");
        }
    }

    #[tokio::test]
    async fn failed_rendering_is_reported_and_retried() {
        let document = LibraryDocument::new(Arc::new(PanickingLibrary));
        for _ in 0..2 {
            assert_eq!(document.get().await, Err(DocumentError::Failed));
        }
    }
}
