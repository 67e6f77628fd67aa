//! The titles of one path that is filled from an origin: current versions, validation with the
//! origin, and removal.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use headlong_kernel::time_scale::TimeScale;
use headlong_library::Library;
use headlong_pull::{
    CacheDecision, Freshness, FreshnessRules, NegativeCache, OriginVersion, ResponseFault,
    SliceCache, SliceKey, Slices, ToldFreshness,
};
use headlong_storage::Device;
use headlong_telemetry::RequestId;
use headlong_telemetry::degraded_parts::DegradedParts;
use headlong_units::{Duration, Instant};
use tokio::sync::{Semaphore, watch};

use super::counters::{PullCounters, PullCounts, PurgeResult};
use super::fills::Fills;
use super::origin::{CONNECT_TIMEOUT, FETCHES_MAX, Origin};
use super::peers::Peers;
use super::state::PullState;
use super::store::{self, LeftoverVersion, OpenError, Store, VersionDescription};
use super::store_health::StoreHealth;
use super::title;
use super::version::{QueryOutcome, Version};
use crate::pull_rule::PullRule;

/// The server that an edge is part of.
#[derive(Debug, Clone, Copy)]
pub struct EdgeServer<'a> {
    /// The served folders, which include those of the paths.
    pub library: &'a Library,
    /// Scale of the server's clock.
    pub scale: TimeScale,
    /// Whether another process holds the locks and is about to end.
    pub is_heir: bool,
    /// The parts out of service.
    pub degraded: &'a Arc<DegradedParts>,
}

/// Upper limit of remembered missing titles.
const NEGATIVE_MAX: usize = 65_536;
/// Upper limit of concurrent queries about titles.
const LOOKS_MAX: usize = 64;
/// How long a viewer waits for an unresponsive origin before a stale version is served.
const STALE_PATIENCE: Duration = Duration::from_secs(1);

/// Upper limit of the wait for an origin, as a multiple of the idle timeout.
const PATIENCE_PAUSES: u64 = 6;

/// A path that is filled from an origin.
pub struct Pull {
    pub(super) prefix: String,
    pub(super) rule: PullRule,
    pub(super) origin: Origin,
    pub(super) peers: Peers,
    pub(super) store: Store,
    pub(super) health: StoreHealth,
    pub(super) library: Library,
    root: usize,
    pub(super) device: OnceLock<Device>,
    state: Mutex<PullState>,
    pub(super) fetches: Semaphore,
    looks: Semaphore,
    pub(super) counters: PullCounters,
    pub(super) fills: Fills,
    pub(super) scale: TimeScale,
    /// Whether this process replaces another, which holds the store at the start.
    pub(super) is_heir: bool,
    started: std::time::Instant,
}

/// A version to serve.
#[derive(Debug)]
pub struct ServableVersion {
    /// The version.
    pub version: Arc<Version>,
    /// Time since the origin confirmed it.
    pub age: Duration,
    /// Whether validation is overdue.
    pub is_stale: bool,
    /// Whether the origin was queried for this request.
    pub is_asked: bool,
}

/// A version that an origin or a peer has.
#[derive(Debug, Clone)]
struct FoundVersion {
    version: OriginVersion,
    freshness: ToldFreshness,
    /// The peer that has it; none if the origin told of it.
    peer: Option<usize>,
}

impl std::fmt::Debug for Pull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pull")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl Pull {
    pub(super) fn open(
        prefix: &str,
        rule: &PullRule,
        root: usize,
        server: &EdgeServer<'_>,
    ) -> Result<Self, String> {
        let EdgeServer {
            library,
            scale,
            is_heir,
            degraded,
        } = *server;
        let store = Store::new(&rule.folder, prefix, rule.free_bytes_min);
        let pull = Self {
            prefix: prefix.to_owned(),
            origin: Origin::new(rule, scale)?,
            peers: Peers::open(prefix, rule, scale)?,
            store: store.map_err(|error| format!("no thread for its disk: {error}"))?,
            health: StoreHealth::new(prefix, Arc::clone(degraded)),
            library: library.clone(),
            root,
            device: OnceLock::new(),
            state: Mutex::new(PullState {
                titles: HashMap::new(),
                by_key: HashMap::new(),
                space: SliceCache::default(),
                coming_bytes: 0,
                unstored: VecDeque::new(),
                unstored_bytes: 0,
                negative: NegativeCache::new(rule.negative, NEGATIVE_MAX),
                looked: 0,
            }),
            fetches: Semaphore::new(FETCHES_MAX),
            looks: Semaphore::new(LOOKS_MAX),
            counters: PullCounters::default(),
            fills: Fills::default(),
            scale,
            is_heir,
            // Leaves room for confirmation times before the start.
            started: std::time::Instant::now(),
            rule: rule.clone(),
        };
        match pull.open_store() {
            Err(error @ OpenError::InUse) => {
                Err(format!("{} cannot be used: {error}", rule.folder.display()))
            }
            // The store is retried; meanwhile bytes are sent on.
            Ok(()) | Err(OpenError::Io(_)) => Ok(pull),
        }
    }

    pub(super) fn device_index(&self) -> Option<usize> {
        self.library.device_of_root(self.root)
    }

    /// Its device, with the index among all devices.
    pub fn device(&self) -> Option<(usize, &Device)> {
        self.device_index().zip(self.device.get())
    }

    /// Whether fetched slices can be stored.
    pub fn is_storing(&self) -> bool {
        self.health.fault().is_none()
    }

    pub(super) fn now(&self) -> Instant {
        // Far from zero, so that confirmation times before the start can be represented.
        Instant::ZERO + EPOCH + self.scale.model(self.started.elapsed())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, PullState> {
        // No code under the lock can panic in the middle of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over a version of an earlier process.
    pub(super) fn take_over(
        &self,
        LeftoverVersion {
            about,
            folder,
            confirmed,
            present,
        }: LeftoverVersion,
    ) {
        let age = SystemTime::now()
            .duration_since(confirmed)
            .unwrap_or_default();
        let age = Duration(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
        let confirmed = Instant(self.now().0.saturating_sub(age.0));
        let Some(slices) = Slices::new(about.size_bytes, about.slice_bytes) else {
            return;
        };
        let path: Arc<str> = Arc::from(about.path.as_str());
        let version = self.version(about, slices, folder);
        let mut state = self.state();
        // The store was opened late, and replies may use the version found meanwhile.
        if self.health.fault().is_some() && state.titles.contains_key(&path) {
            self.store
                .begin(move || store::remove_version(&version.folder));
            return;
        }
        // One version may have two folders, left by an ended process and its successor. The state
        // by key belongs to the first one, which is retired before.
        let known = state.titles.get_mut(&path);
        if let Some((before, _)) = known.and_then(|title| title.version.take()) {
            self.retire(&mut state, &before);
        }
        for (index, disk_bytes) in present {
            version.table().present[index as usize] = true;
            let key = SliceKey {
                version: version.key,
                index,
            };
            state.space.add(key, disk_bytes);
        }
        // Not fresh: it is validated before it is served.
        let known = (version, Freshness::new(confirmed, Duration::ZERO));
        state.by_key.insert(known.0.key, Arc::clone(&known.0));
        state.titles.entry(path).or_default().version = Some(known);
    }

    fn version(&self, about: VersionDescription, slices: Slices, folder: PathBuf) -> Arc<Version> {
        let stream = self.library.new_stream_id();
        Arc::new(Version::new(about, slices, folder, stream))
    }

    /// The name of the title identified by a path below the prefix and a query, without the query
    /// arguments for which `is_of_viewer` holds; `None` if the query is too long.
    pub fn name(
        &self,
        path: &str,
        query: Option<&str>,
        is_of_viewer: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let query = self
            .rule
            .query
            .of(query.unwrap_or_default(), is_of_viewer)?;
        Some(title::name(path, &query))
    }

    /// Returns the current version of the title with this name.
    ///
    /// # Errors
    /// If there is no version to serve.
    pub async fn find(
        self: &Arc<Self>,
        path: &str,
        by: Option<&RequestId>,
    ) -> Result<ServableVersion, ResponseFault> {
        let rules = self.rules();
        let (mut answer, old) = {
            let now = self.now();
            let mut state = self.state();
            if state.negative.has(now, key_of(path)) {
                return Err(ResponseFault::Absent);
            }
            let title = state.titles.get(path);
            let known = title.and_then(|title| title.version.as_ref());
            let judged = known
                .map(|(version, fresh)| (fresh.judge(now, &rules), servable(version, fresh, now)));
            let old = match judged {
                Some((CacheDecision::Fresh, known)) => return Ok(known),
                Some((CacheDecision::Stale, known)) => return Ok(self.stale(known)),
                Some((CacheDecision::TooOld, _)) => return Err(ResponseFault::Unreachable),
                Some((CacheDecision::Ask { may_be_stale }, known)) => may_be_stale.then_some(known),
                None => None,
            };
            (self.query_origin(&mut state, path, by), old)
        };
        let answered = async { self.wait(&mut answer, |outcome| *outcome).await? };
        let outcome = match old {
            None => answered.await,
            Some(old) => {
                match tokio::time::timeout(self.scale.wall(STALE_PATIENCE), answered).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(fault)) if fault == ResponseFault::Absent => Err(fault),
                    _ => return Ok(self.stale(old)),
                }
            }
        };
        outcome?;
        let (now, state) = (self.now(), self.state());
        let known = state
            .titles
            .get(path)
            .and_then(|title| title.version.as_ref());
        known
            .map(|(version, fresh)| ServableVersion {
                is_asked: true,
                is_stale: fresh.left(now) == Duration::ZERO,
                ..servable(version, fresh, now)
            })
            .ok_or(ResponseFault::Changed)
    }

    /// Returns the version of a title that may be served without a query, if there is one.
    pub fn recall(&self, path: &str) -> Option<Arc<Version>> {
        let now = self.now();
        let state = self.state();
        let (version, fresh) = state.titles.get(path)?.version.as_ref()?;
        let judged = fresh.judge(now, &self.rules());
        matches!(judged, CacheDecision::Fresh | CacheDecision::Stale).then(|| Arc::clone(version))
    }

    fn rules(&self) -> FreshnessRules {
        FreshnessRules {
            fresh: self.rule.fresh,
            stale_max: self.rule.stale_max,
        }
    }

    /// Waits until `find` finds something in the state of a query or fetch, with a time limit,
    /// because many may be queued before it.
    pub(super) async fn wait<T, R>(
        &self,
        state: &mut watch::Receiver<T>,
        mut find: impl FnMut(&T) -> Option<R>,
    ) -> Result<R, ResponseFault> {
        let patience = self.rule.idle_timeout.times(PATIENCE_PAUSES) + CONNECT_TIMEOUT;
        let mut found = None;
        let wait = state.wait_for(|state| {
            found = find(state);
            found.is_some()
        });
        let waited = tokio::time::timeout(self.scale.wall(patience), wait).await;
        waited.map(drop).map_err(|_| ResponseFault::TimedOut)?;
        // The query or fetch ended without a result.
        found.ok_or(ResponseFault::Unreachable)
    }

    fn stale(&self, known: ServableVersion) -> ServableVersion {
        PullCounters::add(&self.counters.stale, 1);
        ServableVersion {
            is_stale: true,
            ..known
        }
    }

    /// Queries the origin about a title, unless a query is in flight.
    fn query_origin(
        self: &Arc<Self>,
        state: &mut PullState,
        path: &str,
        by: Option<&RequestId>,
    ) -> watch::Receiver<QueryOutcome> {
        if let Some(answer) = state
            .titles
            .get(path)
            .and_then(|title| title.asking.clone())
        {
            return answer;
        }
        for folder in state.make_room() {
            self.store.begin(move || store::remove_version(&folder));
        }
        let path: Arc<str> = Arc::from(path);
        let (say, answer) = watch::channel(None);
        let title = state.titles.entry(Arc::clone(&path)).or_default();
        title.asking = Some(answer.clone());
        let (pull, by) = (Arc::clone(self), by.cloned());
        tokio::spawn(async move {
            let _turn = pull.looks.acquire().await;
            if pull.state().gives_up(&path, &say) {
                return;
            }
            let told = pull.ask(&path, by.as_ref()).await;
            let outcome = pull.take_in(&path, told);
            if let Err(fault) = outcome {
                pull.counters.fault(fault);
                tracing::debug!(
                    prefix = pull.prefix,
                    path = title::split(&path).0,
                    fault = fault.name(),
                    "origin query about a title failed"
                );
            }
            let _ = say.send(Some(outcome));
        });
        answer
    }

    /// Asks the peers about a title, then the origin. While that does not answer, an outdated
    /// version of a peer is better than none.
    async fn ask(&self, path: &str, by: Option<&RequestId>) -> Result<FoundVersion, ResponseFault> {
        let of_peer = self.peers.find(path, by).await.map(|found| FoundVersion {
            version: found.version,
            freshness: found.freshness,
            peer: Some(found.peer),
        });
        let of_peer = of_peer.filter(|found| self.is_news(path, found.freshness));
        if let Some(found) = of_peer.as_ref().filter(|of| of.freshness.is_fresh()) {
            return Ok(found.clone());
        }
        match (self.origin.query_version(path, by).await, of_peer) {
            (Ok((version, freshness)), _) => Ok(FoundVersion {
                version,
                freshness,
                peer: None,
            }),
            (Err(fault), Some(found)) if fault.is_passing() => Ok(found),
            (Err(fault), _) => Err(fault),
        }
    }

    /// Whether the origin has confirmed the version of a peer later than the one that is known here.
    fn is_news(&self, path: &str, told: ToldFreshness) -> bool {
        let (now, state) = (self.now(), self.state());
        let title = state.titles.get(path);
        let known = title.and_then(|title| title.version.as_ref());
        let is_before = known.is_none_or(|(_, fresh)| fresh.is_before(now, told));
        is_before && told.age < self.rule.stale_max
    }

    /// The version of a title that this box can serve alone, and how much longer it is fresh: the
    /// answer to a peer.
    pub fn stored(&self, path: &str) -> Option<(ServableVersion, Duration)> {
        let now = self.now();
        let state = self.state();
        let (version, fresh) = state.titles.get(path)?.version.as_ref()?;
        let has_some = version.table().present.contains(&true);
        let is_shared = version.told.validators.strong_tag().is_some();
        let is_young = fresh.age(now) < self.rule.stale_max;
        (has_some && is_shared && is_young)
            .then(|| (servable(version, fresh, now), fresh.left(now)))
    }

    /// Applies the result of a query about a title.
    fn take_in(
        &self,
        path: &Arc<str>,
        told: Result<FoundVersion, ResponseFault>,
    ) -> Result<(), ResponseFault> {
        let now = self.now();
        let mut state = self.state();
        if let Some(title) = state.titles.get_mut(path) {
            title.asking = None;
        }
        let FoundVersion {
            version: told,
            freshness,
            peer,
        } = match told {
            Ok(told) => told,
            Err(fault) => {
                self.note_fault(&mut state, path, fault, now);
                return Err(fault);
            }
        };
        let known = state
            .titles
            .get_mut(path)
            .and_then(|title| title.version.as_mut());
        let is_the_same = |version: &Version| version.told == told && told.validators.are_any();
        if let Some((version, fresh)) = known.filter(|(version, _)| is_the_same(version)) {
            *fresh = Freshness::told(now, freshness);
            version.set_peer(peer);
            if peer.is_none() {
                let folder = version.folder.clone();
                self.store.begin(move || store::note_confirmed(&folder));
            }
            return Ok(());
        }
        let slices =
            Slices::new(told.size_bytes, self.rule.slice_bytes).ok_or(ResponseFault::TooLarge)?;
        // Only the length identifies this version, so its key includes the time.
        let asked_unix_ns = match told.validators.are_any() {
            true => None,
            false => Some(unix_ns()),
        };
        let about = VersionDescription {
            path: path.to_string(),
            size_bytes: told.size_bytes,
            slice_bytes: self.rule.slice_bytes,
            entity_tag: told.validators.entity_tag,
            last_modified: told.validators.last_modified,
            asked_unix_ns,
        };
        let folder = self.store.new_folder(about.key());
        let version = self.version(about, slices, folder);
        version.set_peer(peer);
        state.by_key.insert(version.key, Arc::clone(&version));
        let title = state.titles.entry(Arc::clone(path)).or_default();
        let before = title
            .version
            .replace((version, Freshness::told(now, freshness)));
        if let Some((before, _)) = before {
            self.retire(&mut state, &before);
        }
        Ok(())
    }

    fn note_fault(
        &self,
        state: &mut PullState,
        path: &Arc<str>,
        fault: ResponseFault,
        now: Instant,
    ) {
        let Some(title) = state.titles.get_mut(path) else {
            return;
        };
        if fault == ResponseFault::Absent {
            state.negative.note(now, key_of(path));
            let gone = title.version.take();
            state.titles.remove(path);
            if let Some((gone, _)) = gone {
                self.retire(state, &gone);
            }
        } else if let Some((_, fresh)) = &mut title.version {
            fresh.note_failure(now);
        } else {
            state.titles.remove(path);
        }
    }

    /// A fetch showed that the origin has another version: validate the title before the next
    /// reply.
    pub(super) fn distrust(&self, version: &Version) {
        let mut state = self.state();
        let title = state.titles.get_mut(version.about.path.as_str());
        if let Some((known, fresh)) = title.and_then(|title| title.version.as_mut())
            && known.key == version.key
        {
            let age = fresh.age(self.now());
            *fresh = Freshness::new(Instant(self.now().0.saturating_sub(age.0)), Duration::ZERO);
        }
    }

    /// Retires a version: no path refers to it and its slices are removed. Returns their size in
    /// bytes.
    fn retire(&self, state: &mut PullState, version: &Version) -> u64 {
        version.is_retired.store(true, Ordering::Relaxed);
        state.by_key.remove(&version.key);
        state.forget_unstored(|of| std::ptr::eq(of, version));
        let mut bytes = 0;
        for index in 0..version.slices.count() {
            let freed = state.space.remove(SliceKey {
                version: version.key,
                index,
            });
            if freed > 0 {
                bytes += version.slices.range(index).len();
            }
        }
        version.table().present.fill(false);
        if let Some(device) = self.device.get() {
            device.stream_removed(version.stream, false);
        }
        let folder = version.folder.clone();
        self.store.begin(move || store::remove_version(&folder));
        bytes
    }

    pub(super) fn purge(&self, is_meant: impl Fn(&str) -> bool) -> PurgeResult {
        let mut state = self.state();
        let meant: Vec<Arc<str>> = state
            .titles
            .keys()
            .filter(|name| is_meant(title::split(name).0))
            .cloned()
            .collect();
        let mut purged = PurgeResult::default();
        for path in meant {
            let title = state
                .titles
                .get_mut(&path)
                .and_then(|title| title.version.take());
            if let Some((version, _)) = title {
                purged.titles += 1;
                purged.bytes += self.retire(&mut state, &version);
            }
        }
        // Missing titles may exist now.
        state.negative.clear();
        purged
    }

    /// The full path of a title, without a leading slash.
    pub fn whole_path(&self, version: &Version) -> String {
        let (path, _) = title::split(&version.about.path);
        format!("{}{path}", &self.prefix[1..])
    }

    pub(super) fn counts(&self) -> PullCounts {
        let state = self.state();
        PullCounts {
            used_bytes: state.space.used_bytes(),
            titles: state.titles.len() as u64,
            fills_running: self.fills.running(),
            ..self.counters.counts(&self.prefix)
        }
    }
}

/// Offset of the clock, for confirmation times before the start.
const EPOCH: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn key_of(path: &str) -> u128 {
    xxhash_rust::xxh3::xxh3_128(path.as_bytes())
}

fn servable(version: &Arc<Version>, fresh: &Freshness, now: Instant) -> ServableVersion {
    ServableVersion {
        version: Arc::clone(version),
        age: fresh.age(now),
        is_stale: false,
        is_asked: false,
    }
}

#[cfg(test)]
#[path = "titles_tests.rs"]
mod tests;
