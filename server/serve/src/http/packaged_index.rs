//! Indexes of files that are packaged: headers are read once, as a request of the viewer who needs
//! them first, in bounded memory ([`super::title_indexes`]).
//!
//! A file with fragments and no index of them may need thousands of reads, so they go on if the client
//! leaves, within [`READING_MAX`]. Meanwhile they count against the limit of its address. With an
//! index, the heads of the fragments of a segment are read for each request, in memory of their own.

use std::sync::Arc;
use std::time::Duration;

use headlong_engine::{Failure, Refusal};
use headlong_library::{FileEntry, FileIdentity};
use headlong_net::AddressShare;
use headlong_package::{
    FRAGMENTS_MEMORY, HeaderReader, PackageFault, ReadStep, Title, TitleHeaders, Version,
    WHOLE_BYTES_MAX,
};
use headlong_units::ByteRange;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinError;
use tokio::time::{Instant, timeout};
use xxhash_rust::xxh3::Xxh3;

use super::file_lookup::LOOKUP_MAX;
use super::fragment_store::FragmentStore;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::ReplyError;
use super::range_request::{RangeRequester, part};
use super::state::MediaState;
use super::title_indexes::{HeaderMemory, IndexKey, IndexOutcome, PackagedTitle, TitleIndexes};
use headlong_config::EtagTime;

/// Changes if the same file gives other segments than before.
const FORMAT: u64 = 1;
/// Longest time in which the headers of a file are read: twice that of 10,000 reads of a busy disk, of
/// 30 ms each.
const READING_MAX: Duration = Duration::from_secs(600);
/// Most reads for the heads of a segment, which lasts a minute at most.
const SEGMENT_READS_MAX: u32 = 2000;
/// Memory for heads of a segment, in parts of their bytes: the heads, tables while they grow, and
/// tables.
const HEADS_FACTOR: u64 = 4;

/// The key of a file's index, besides its path.
pub(super) fn index_key(state: &MediaState, asked: &ParsedRequest, file: &FileEntry) -> IndexKey {
    IndexKey {
        is_distrusted: state.titles.distrusts(file.stream.id),
        stream: file.stream.id,
        part: file.part,
        segment: asked.settings.package_segment,
        etag: asked.settings.etag,
    }
}

/// Share of an address's limit, held by a request and by the readings that it has begun.
pub(super) type RequestShare = Arc<Option<AddressShare>>;

impl From<JoinError> for ReplyError {
    fn from(_: JoinError) -> Self {
        Self::Failed(Failure::NoResources)
    }
}

/// The index of a file.
pub(super) async fn index(
    state: &Arc<MediaState>,
    asked: &ParsedRequest,
    path: &str,
    file: &FileEntry,
    asking: &RangeRequester,
    share: &RequestShare,
) -> Result<IndexOutcome, ReplyError> {
    let settings = &asked.settings;
    let key = index_key(state, asked, file);
    let within = settings.lookup_timeout.min(LOOKUP_MAX);
    // Requests for one index begin to read it one after another, if none succeeds.
    let until = Instant::now() + within;
    let begin = async {
        let turn = state.titles.turn(file.device, until).await;
        let reading = IndexReading {
            titles: state.titles.clone(),
            source: asking.clone(),
            size: file.size,
            seed: seed(file, key),
            segment: key.segment,
            within,
            is_distrusted: key.is_distrusted,
            name: path.to_owned(),
            file_version: file_version(&file.identity, file.distinction),
            _turn: turn.ok_or(ReplyError::Refused(Refusal::Full))?,
            _share: Arc::clone(share),
        };
        Ok::<_, ReplyError>(reading.run())
    };
    let bytes_max = settings.package_memory;
    state.titles.get(path, key, bytes_max, begin).await
}

/// The reading of an index, which may outlast its request.
struct IndexReading<S> {
    titles: TitleIndexes,
    source: S,
    size: u64,
    seed: u64,
    segment: headlong_units::Duration,
    /// Longest time that it waits for memory.
    within: Duration,
    /// Whether an index of the file's fragments is not used.
    is_distrusted: bool,
    /// By these, headers are found in the state folder.
    name: String,
    /// `None` for a file that may change without another version.
    file_version: Option<u64>,
    /// Among the readers of the device.
    _turn: OwnedSemaphorePermit,
    _share: RequestShare,
}

impl<S: HeaderSource> IndexReading<S> {
    async fn run(self) -> Result<IndexOutcome, ReplyError> {
        let outcome = timeout(READING_MAX, self.find()).await;
        outcome.unwrap_or(Err(ReplyError::Failed(Failure::TimedOut)))
    }

    /// By stored headers, by an index that the file has, or by all its heads.
    async fn find(&self) -> Result<IndexOutcome, ReplyError> {
        if let Some(headers) = self.stored().await {
            return self.make(headers, None).await;
        }
        if !self.is_distrusted {
            match self.read(HeaderReader::new).await? {
                Err(PackageFault::FragmentIndex) => {}
                outcome => return Ok(outcome),
            }
        }
        self.read(HeaderReader::without_index).await
    }

    async fn read(&self, reader: fn(u64) -> HeaderReader) -> Result<IndexOutcome, ReplyError> {
        let reader = || reader(self.size);
        let bounds = ReadingBounds::of_file(&self.titles, self.within);
        match read_headers(&bounds, &self.source, reader).await? {
            Ok(headers) => self.make(headers, self.titles.store()).await,
            Err(fault) => Ok(Err(fault)),
        }
    }

    /// Makes the index. The headers of one that is right are then stored, which no viewer waits for.
    async fn make(
        &self,
        held: HeldHeaders,
        store: Option<FragmentStore>,
    ) -> Result<IndexOutcome, ReplyError> {
        let (seed, segment) = (self.seed, self.segment);
        let store = store.zip(self.file_version);
        let storing_memory = self.titles.storing_memory.clone();
        let made = tokio::task::spawn_blocking(move || {
            let copy = store.and_then(|(store, version)| {
                let bytes = store.bytes(version, &held.headers)?;
                // If others are stored slowly, these are read again by the next process.
                let memory = storing_memory.try_reserve(bytes.len() as u64)?;
                Some((store, bytes, memory))
            });
            let made = held.headers.index(segment).map(|title| {
                let version = Version(version(seed, title.moov()));
                Arc::new(PackagedTitle { title, version })
            });
            drop(held.memory);
            (made, copy)
        });
        let (made, copy) = made.await?;
        if let (Ok(_), Some((store, bytes, memory))) = (&made, copy) {
            let name = self.name.clone();
            tokio::task::spawn_blocking(move || {
                store.write(&name, &bytes);
                drop(memory);
            });
        }
        Ok(made)
    }

    /// The headers that an earlier process has stored.
    async fn stored(&self) -> Option<HeldHeaders> {
        let (store, version) = (self.titles.store()?, self.file_version?);
        let (of_file, name) = (store.clone(), self.name.clone());
        let bytes = tokio::task::spawn_blocking(move || of_file.memory_bytes(&name));
        let bytes = timeout(self.within, bytes).await.ok()?.ok()??;
        let memory = self
            .titles
            .memory
            .reserve(bytes + FRAGMENTS_MEMORY, self.within)
            .await?;
        let name = self.name.clone();
        let read = tokio::task::spawn_blocking(move || store.read(&name, version));
        let headers = timeout(self.within, read).await.ok()?.ok()??;
        Some(HeldHeaders {
            headers,
            memory: Some(memory),
            read_to: 0,
        })
    }
}

/// The heads of a segment's fragments; `None` if it can be made without.
pub(super) async fn segment_heads(
    state: &MediaState,
    asked: &ParsedRequest,
    asking: &RangeRequester,
    (title, number): (&Title, usize),
) -> Result<Result<Option<HeldHeaders>, PackageFault>, ReplyError> {
    if title.heads_of(number).is_none() {
        return Ok(Ok(None));
    }
    let reader = || {
        title
            .heads_of(number)
            .unwrap_or_else(|| HeaderReader::without_index(0))
    };
    let within = asked.settings.lookup_timeout;
    // Shorter, so that a lack of memory is reported as one.
    let bounds = ReadingBounds::of_segment(&state.titles, within.min(LOOKUP_MAX) / 2);
    let heads = timeout(within, read_headers(&bounds, asking, reader)).await;
    let heads = heads.map_err(|_| ReplyError::Failed(Failure::TimedOut))?;
    Ok(heads?.map(Some))
}

/// The bytes of a file.
trait HeaderSource: Send + Sync + 'static {
    /// Reads a range, whose pieces `input` takes in their order.
    fn read(
        &self,
        range: ByteRange,
        input: &mut RangeInput<'_>,
    ) -> impl Future<Output = Result<(), ReplyError>> + Send;
}

impl HeaderSource for RangeRequester {
    async fn read(&self, range: ByteRange, input: &mut RangeInput<'_>) -> Result<(), ReplyError> {
        let begun = self.request_from_device(&part(range, false)).await;
        let mut reply = begun.map_err(ReplyError::from)?.reply;
        while let Some(piece) = reply.next().await {
            input.take(piece.map_err(ReplyError::Failed)?.as_ref());
        }
        Ok(())
    }
}

/// Passes the pieces of a range to the reader of headers.
struct RangeInput<'a> {
    reader: &'a mut HeaderReader,
    range: ByteRange,
    step: Result<ReadStep, PackageFault>,
    /// Where the next piece begins in the file.
    offset: u64,
    /// The pieces of a range that must be passed at once: a header may begin in one piece and end in
    /// the next.
    gathered: Vec<u8>,
}

impl<'a> RangeInput<'a> {
    fn new(reader: &'a mut HeaderReader, range: ByteRange) -> Self {
        Self {
            reader,
            range,
            step: Ok(ReadStep::Wants(range)),
            offset: range.start,
            gathered: Vec::new(),
        }
    }

    fn is_gathered(&self) -> bool {
        self.range.len() <= WHOLE_BYTES_MAX
    }

    fn take(&mut self, piece: &[u8]) {
        match self.is_gathered() {
            true => self.gathered.extend_from_slice(piece),
            false => self.step = self.reader.step(self.offset, piece),
        }
        self.offset += piece.len() as u64;
    }

    /// The step after the range; `None` if bytes are missing.
    fn end(self) -> Option<Result<ReadStep, PackageFault>> {
        if self.offset < self.range.end {
            return None;
        }
        Some(match self.is_gathered() {
            true => self.reader.step(self.range.start, &self.gathered),
            false => self.step,
        })
    }
}

/// Headers, and the memory that they are counted against.
pub(super) struct HeldHeaders {
    pub(super) headers: TitleHeaders,
    memory: Option<OwnedSemaphorePermit>,
    /// The end of the bytes that were read last.
    pub(super) read_to: u64,
}

/// The bounds of a reading.
struct ReadingBounds<'a> {
    memory: &'a HeaderMemory,
    /// Memory in parts of the bytes that were read; `None` for what the reader needs at most.
    factor: Option<u64>,
    reads_max: u32,
    /// Longest time that it waits for memory.
    within: Duration,
}

impl<'a> ReadingBounds<'a> {
    /// Of a file, whose reader counts its boxes.
    fn of_file(titles: &'a TitleIndexes, within: Duration) -> Self {
        Self {
            memory: &titles.memory,
            factor: None,
            reads_max: u32::MAX,
            within,
        }
    }

    fn of_segment(titles: &'a TitleIndexes, within: Duration) -> Self {
        Self {
            memory: &titles.segment_memory,
            factor: Some(HEADS_FACTOR),
            reads_max: SEGMENT_READS_MAX,
            within,
        }
    }
}

/// Reads the headers of a file or segment.
async fn read_headers(
    bounds: &ReadingBounds<'_>,
    source: &impl HeaderSource,
    new_reader: impl Fn() -> HeaderReader,
) -> Result<Result<HeldHeaders, PackageFault>, ReplyError> {
    let mut reader = new_reader();
    let mut step = reader.step(0, &[]);
    let (mut memory, mut reserved, mut read_to) = (None, 0, 0);
    let (mut read_count, mut read_bytes) = (0, 0);
    loop {
        let wanted = match step {
            Err(fault) => return Ok(Err(fault)),
            Ok(ReadStep::Ready(headers)) => {
                return Ok(Ok(HeldHeaders {
                    headers,
                    memory,
                    read_to,
                }));
            }
            Ok(ReadStep::Wants(range)) => range,
        };
        if read_count == bounds.reads_max {
            return Ok(Err(PackageFault::TooMany("fragments")));
        }
        read_count += 1;
        read_bytes += wanted.len();
        read_to = wanted.end;
        let mut input = RangeInput::new(&mut reader, wanted);
        source.read(wanted, &mut input).await?;
        step = input.end().ok_or(ReplyError::Failed(Failure::Device))?;
        let bytes_max = bounds.factor.map_or(u64::MAX, |factor| factor * read_bytes);
        let bytes = reader.memory_bytes().min(bytes_max);
        if step.is_err() || bytes <= reserved {
            continue;
        }
        reserved = bytes;
        if let Some(held) = &mut memory {
            if bounds.memory.extend(held, bytes) {
                continue;
            }
            // Readers that wait for more memory hold none, so that they never wait for each other.
            drop(memory.take());
            reader = new_reader();
            step = reader.step(0, &[]);
            (read_count, read_bytes) = (0, 0);
        }
        let held = bounds.memory.reserve(bytes, bounds.within).await;
        memory = Some(held.ok_or(ReplyError::Refused(Refusal::Full))?);
    }
}

/// Distinguishes versions of a file on this machine; `None` for one that is not settled, whose bytes
/// may change without another version.
fn file_version(identity: &FileIdentity, distinction: Option<u64>) -> Option<u64> {
    if !identity.is_settled {
        return None;
    }
    let mut hash = Xxh3::new();
    let distinction = distinction.unwrap_or_default();
    for number in [identity.size, identity.dev, identity.ino, distinction] {
        hash.update(&number.to_le_bytes());
    }
    for time in [identity.mtime_ns, identity.ctime_ns] {
        hash.update(&time.to_le_bytes());
    }
    Some(hash.digest())
}

/// Distinguishes versions of a file, besides its headers.
fn seed(file: &FileEntry, key: IndexKey) -> u64 {
    let identity = &file.identity;
    let seconds = identity.mtime_seconds();
    let modified = match key.etag {
        // All files of container images and package stores have the time 0 or 1.
        _ if matches!(seconds, 0 | 1) => 0,
        EtagTime::Seconds => i128::from(seconds),
        EtagTime::Nanoseconds => identity.mtime_ns,
    };
    let mut hash = Xxh3::new();
    hash.update(&FORMAT.to_le_bytes());
    hash.update(&file.size.to_le_bytes());
    hash.update(&modified.to_le_bytes());
    hash.update(&file.distinction.unwrap_or_default().to_le_bytes());
    hash.update(&key.segment.0.to_le_bytes());
    hash.digest()
}

fn version(seed: u64, moov: &[u8]) -> u64 {
    let mut hash = Xxh3::with_seed(seed);
    hash.update(moov);
    hash.digest()
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use headlong_config::PACKAGE_READING_BYTES;
    use headlong_units::MIB;
    use tokio::sync::Semaphore;

    use super::*;

    const KEY: IndexKey = IndexKey {
        stream: 1,
        part: 0,
        segment: headlong_units::Duration::ZERO,
        etag: EtagTime::Seconds,
        is_distrusted: false,
    };
    const WITHIN: Duration = Duration::from_secs(60);

    /// A file, which notes where it is read, and lets a read return for each permit.
    #[derive(Clone)]
    struct TestFile {
        bytes: Arc<[u8]>,
        reads: Arc<Mutex<Vec<u64>>>,
        permits: Arc<Semaphore>,
    }

    impl TestFile {
        fn new(bytes: Vec<u8>) -> Self {
            Self {
                bytes: bytes.into(),
                reads: Arc::default(),
                permits: Arc::new(Semaphore::new(0)),
            }
        }

        fn note(&self, read: u64) {
            let reads = self.reads.lock();
            reads.unwrap_or_else(PoisonError::into_inner).push(read);
        }

        /// Where the reads began.
        fn reads(&self) -> Vec<u64> {
            let reads = self.reads.lock();
            reads.unwrap_or_else(PoisonError::into_inner).clone()
        }

        /// Waits until so many reads were begun.
        async fn has_begun(&self, reads: usize) {
            while self.reads().len() < reads {
                tokio::task::yield_now().await;
            }
        }
    }

    impl HeaderSource for TestFile {
        async fn read(
            &self,
            range: ByteRange,
            input: &mut RangeInput<'_>,
        ) -> Result<(), ReplyError> {
            self.note(range.start);
            self.permits.acquire().await.expect("open").forget();
            input.take(&self.bytes[range.start as usize..range.end as usize]);
            Ok(())
        }
    }

    /// A box of so many bytes, which begins with `body`.
    fn boxed(kind: &[u8; 4], bytes: u64, body: &[u8]) -> Vec<u8> {
        let mut boxed = (bytes as u32).to_be_bytes().to_vec();
        boxed.extend(kind);
        boxed.extend(body);
        boxed.resize(bytes as usize, 0);
        boxed
    }

    /// Four boxes of 2 MiB, each of which needs a read, without an index.
    fn four_boxes() -> TestFile {
        TestFile::new(boxed(b"free", 2 * MIB, &[]).repeat(4))
    }

    /// A file with fragments, whose `moov` has 2 MiB.
    fn fragmented() -> TestFile {
        let mvex = boxed(b"mvex", 8, &[]);
        let rest = boxed(b"free", 2 * MIB - 16, &[]);
        let moov = boxed(b"moov", 2 * MIB, &[mvex, rest].concat());
        TestFile::new([moov, boxed(b"free", 2 * MIB, &[])].concat())
    }

    async fn reading(titles: &TitleIndexes, file: &TestFile, share: &RequestShare) -> IndexOutcome {
        let outcome = request(titles, file, share).await;
        outcome.unwrap_or_else(|_| panic!("it is read"))
    }

    async fn request(
        titles: &TitleIndexes,
        file: &TestFile,
        share: &RequestShare,
    ) -> Result<IndexOutcome, ReplyError> {
        let begin = async {
            let turn = titles.turn(0, Instant::now() + WITHIN).await;
            let reading = IndexReading {
                titles: titles.clone(),
                source: file.clone(),
                size: file.bytes.len() as u64,
                seed: 0,
                segment: KEY.segment,
                within: WITHIN,
                is_distrusted: false,
                name: "a".to_owned(),
                file_version: Some(0),
                _turn: turn.ok_or(ReplyError::TooMany)?,
                _share: Arc::clone(share),
            };
            Ok::<_, ReplyError>(reading.run())
        };
        titles.get("a", KEY, 1 << 20, begin).await
    }

    #[tokio::test]
    async fn reading_goes_on_when_client_leaves() {
        let (titles, file, share) = (TitleIndexes::new(1), four_boxes(), RequestShare::default());
        file.permits.add_permits(1);
        tokio::select! {
            _ = reading(&titles, &file, &share) => panic!("its second read has not returned"),
            () = file.has_begun(2) => {}
        }
        assert_eq!(Arc::strong_count(&share), 2, "the reading holds the share");
        file.permits.add_permits(100);
        assert!(reading(&titles, &file, &share).await.is_err());
        assert_eq!(file.reads(), [0, 2 * MIB, 4 * MIB, 6 * MIB]);
        assert_eq!(Arc::strong_count(&share), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn reading_ends_at_its_deadline() {
        let (titles, file, share) = (TitleIndexes::new(1), four_boxes(), RequestShare::default());
        let outcome = request(&titles, &file, &share).await;
        assert!(matches!(
            outcome,
            Err(ReplyError::Failed(Failure::TimedOut))
        ));
        assert_eq!(Arc::strong_count(&share), 1);
        file.permits.add_permits(100);
        assert!(reading(&titles, &file, &share).await.is_err());
    }

    /// The memory that is held for the headers of a file, in MiB.
    async fn held_mib(titles: &TitleIndexes, file: &TestFile) -> Option<usize> {
        let size = file.bytes.len() as u64;
        let bounds = ReadingBounds::of_file(titles, WITHIN);
        let headers = read_headers(&bounds, file, || HeaderReader::new(size)).await;
        let memory = headers.ok()?.ok()?.memory;
        memory.map(|held| held.num_permits())
    }

    #[tokio::test]
    async fn memory_for_fragments_behind_large_moov_is_reserved() {
        let (titles, file) = (TitleIndexes::new(1), fragmented());
        file.permits.add_permits(100);
        assert_eq!(held_mib(&titles, &file).await, Some(2 + 32));
        assert_eq!(file.reads(), [0, MIB, 2 * MIB]);
    }

    #[tokio::test]
    async fn reader_that_waits_for_more_memory_holds_none() {
        let (titles, file) = (TitleIndexes::new(1), fragmented());
        file.permits.add_permits(100);
        // Enough is left for `moov`, not for fragments.
        let others = titles
            .memory
            .reserve(PACKAGE_READING_BYTES - 2 * MIB, WITHIN);
        let others = others.await.expect("memory");
        let frees = async {
            file.has_begun(2).await;
            drop(others);
        };
        let (held, ()) = tokio::join!(held_mib(&titles, &file), frees);
        assert_eq!(held, Some(2 + 32));
        assert_eq!(file.reads(), [0, MIB, 0, MIB, 2 * MIB]);
    }

    #[tokio::test(start_paused = true)]
    async fn segment_never_waits_for_memory_of_indexes() {
        let (titles, file) = (TitleIndexes::new(1), fragmented());
        file.permits.add_permits(100);
        let _others = titles.memory.reserve(PACKAGE_READING_BYTES, WITHIN).await;
        let waits = titles.memory.reserve(MIB, WITHIN);
        let size = file.bytes.len() as u64;
        let reads = async {
            tokio::task::yield_now().await;
            let bounds = ReadingBounds::of_segment(&titles, Duration::ZERO);
            let heads = read_headers(&bounds, &file, || HeaderReader::without_index(size)).await;
            let held = heads.ok()?.ok()?.memory;
            held.map(|held| held.num_permits())
        };
        let (waited, units) = tokio::join!(waits, reads);
        assert!(waited.is_none(), "there was none in time");
        // Four times what was read up to the end of `moov`, in units of 16 KiB.
        assert_eq!(units, Some(4 * 2 * 64));
    }

    #[tokio::test]
    async fn segment_takes_bounded_number_of_reads() {
        let (titles, file) = (TitleIndexes::new(1), four_boxes());
        file.permits.add_permits(100);
        let mut bounds = ReadingBounds::of_segment(&titles, Duration::ZERO);
        bounds.reads_max = 3;
        let size = file.bytes.len() as u64;
        let heads = read_headers(&bounds, &file, || HeaderReader::without_index(size)).await;
        let too_many = PackageFault::TooMany("fragments");
        assert!(heads.is_ok_and(|heads| heads.err() == Some(too_many)));
        assert_eq!(file.reads().len(), 3);
    }

    #[test]
    fn headers_of_unsettled_or_distinguished_file_are_not_those_of_another() {
        let file = tempfile::tempfile().expect("a file");
        let unsettled = FileIdentity::of_open(&file).expect("known");
        let settle = |within| unsettled.settling(Duration::from_secs(within));
        assert_eq!(file_version(&settle(3600), None), None);
        let version = |distinction| file_version(&settle(0), distinction);
        assert!(version(None).is_some());
        assert_ne!(version(None), version(Some(1)));
        assert_ne!(version(Some(2)), version(Some(1)));
    }
}
