//! State shared by all listeners of one server: limits, slots, counters, trust in proxies, open
//! connections.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use headlong_telemetry::{LimitedKind, LimitedLog};
use http::HeaderMap;
use tokio::sync::Semaphore;
use tokio::time::{Duration, Instant};

use super::address_limits::{AddressLimits, AddressShare, ShareLimit, Site, Subscriber};
use super::counters::{ConnectionCounters, add};
use super::flood_penalties::FloodPenalties;
use super::info::ConnectionInfo;
use super::limits::ConnectionLimits;
use super::remote::{Remote, TrustedProxies};
use super::request_memory::{RequestMemory, RequestShare};
use super::tcp::TcpOptions;
use super::threads::ConnectionThreads;

/// Shedding closes one in this many of the open connections at a time.
const SHED_PART: usize = 64;
/// The same for one address that has all that it may have. As many new ones may come before the first
/// of these has closed, so that clients behind one address that reconnect together are not refused.
const SHED_PART_OF_ADDRESS: usize = 8;
/// Most that close at a time. It takes a thread some 15 us for each, for which viewers wait.
const SHED_MAX: usize = 128;
/// Time between two scans, for each connection that the first one found: ten times what it took. A
/// flood of connections for which there is no room would otherwise keep a thread busy with scans.
const SCAN_REST: Duration = Duration::from_micros(2);
/// The same for each that closes: further new ones are refused, which costs less than to close others
/// for them.
const CLOSING_REST: Duration = Duration::from_micros(500);

/// State shared by all listeners of one server.
#[derive(Debug, Clone)]
pub struct ListenerContext {
    /// Limits for each connection.
    pub limits: Arc<ConnectionLimits>,
    /// One permit for each open connection.
    pub slots: Arc<Semaphore>,
    /// Counts connection events.
    pub counters: Arc<ConnectionCounters>,
    /// Options set on each accepted socket.
    pub tcp: Arc<TcpOptions>,
    /// Proxies whose PROXY protocol header is accepted; `None` on listeners without the PROXY
    /// protocol.
    pub proxies: Option<TrustedProxies>,
    /// Proxies exempt from the limits per address.
    pub exempt: Option<TrustedProxies>,
    /// Threads that run connections; `None` runs them on the listener's thread.
    pub threads: Option<Arc<ConnectionThreads>>,
    pub(super) log: Arc<LimitedLog>,
    pub(super) request_memory: Arc<RequestMemory>,
    pub(super) open: Arc<OpenConnections>,
    pub(super) by_address: Arc<AddressLimits>,
    pub(super) penalties: Arc<FloodPenalties>,
}

impl ListenerContext {
    /// Creates a context with as many slots as `limits` allow connections.
    pub fn new(
        limits: ConnectionLimits,
        tcp: TcpOptions,
        counters: Arc<ConnectionCounters>,
    ) -> Self {
        let slots = limits.connections_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            limits: Arc::new(limits),
            slots: Arc::new(Semaphore::new(slots)),
            counters,
            tcp: Arc::new(tcp),
            proxies: None,
            exempt: None,
            threads: None,
            log: Arc::default(),
            request_memory: Arc::default(),
            open: Arc::default(),
            by_address: Arc::default(),
            penalties: Arc::default(),
        }
    }

    /// The address that a remote's connections and memory are counted against; `None` if exempt.
    fn counted(&self, remote: Remote) -> Option<IpAddr> {
        let is_exempt = |exempt: &TrustedProxies| exempt.trust(remote.address);
        let address = remote.address.ip()?;
        (!self.exempt.as_ref().is_some_and(is_exempt)).then_some(address)
    }

    /// Whether requests of this remote's address use the address's part of the memory: it is refused
    /// for its own requests and not for those of others. Never of a trusted proxy.
    pub(super) fn uses_own_request_memory(&self, remote: Remote) -> bool {
        let bytes_max = self.limits.request_bytes_max;
        let address = self.counted(remote);
        address.is_some_and(|address| self.request_memory.is_used_by(address, bytes_max))
    }

    /// The client that a connection is counted against, and its site; none if it is exempt.
    fn client(&self, info: &ConnectionInfo) -> Option<(Site, Subscriber)> {
        let address = self.counted(info.remote())?;
        Some((Site::of(address), Subscriber::of(address)))
    }

    /// Asks idle connections to close, a few at a time, so that the scan of all connections is
    /// amortised: those of the site with the most connections first, of its addresses those of the
    /// one with the most, so that a client that opens all of them closes its own, and of equal ones
    /// the oldest. Does nothing while earlier ones are still closing, or if the last scan was just
    /// now; returns when it may be made again.
    pub(super) fn shed_idle(&self) -> Option<Instant> {
        if let Some(last) = self.open.last_scan.of_just_now() {
            return Some(last.rest_until);
        }
        let all = self.open.all();
        let mut of_sites = HashMap::<Site, usize>::new();
        let mut of_addresses = HashMap::<Subscriber, usize>::new();
        for (site, subscriber) in all.iter().filter_map(|info| self.client(info)) {
            *of_sites.entry(site).or_default() += 1;
            *of_addresses.entry(subscriber).or_default() += 1;
        }
        let closing = shed(&all, SHED_PART, |info| {
            let (site, subscriber) = self.client(info)?;
            Some((of_sites.get(&site)?, of_addresses.get(&subscriber)?))
        });
        self.open.last_scan.note(None, all.len(), closing);
        None
    }

    /// The same for those of one address whose site is full, and then for those of the site; returns
    /// how many of them are closing.
    fn shed_idle_of(&self, address: IpAddr) -> usize {
        let (site, subscriber) = (Site::of(address), Subscriber::of(address));
        // Seven eighths of all connections are of one address at a time. What another one's scan
        // closes is no room for this one.
        if let Some(last) = self.open.last_scan_of_one.of_just_now() {
            return if last.site == Some(site) {
                last.closing
            } else {
                0
            };
        }
        let mut all = self.open.all();
        let scanned = all.len();
        all.retain(|info| self.client(info).is_some_and(|client| client.0 == site));
        let is_own = |info: &ConnectionInfo| self.client(info) == Some((site, subscriber));
        let closing = shed(&all, SHED_PART_OF_ADDRESS, is_own);
        self.open
            .last_scan_of_one
            .note(Some(site), scanned, closing);
        closing
    }

    /// Reserves memory for one more HTTP/2 request; `None` if the budget is used up.
    pub(super) fn share(&self, remote: Remote, fields: &HeaderMap) -> Option<RequestShare> {
        let bytes_max = self.limits.request_bytes_max;
        let address = self.counted(remote);
        let share = self.request_memory.take(address, fields, bytes_max);
        if share.is_none() {
            add(&self.counters.request_memory_refusals);
            let address = remote.address.host();
            self.log.write(LimitedKind::RequestMemory, |left_out| {
                tracing::warn!(
                    %address,
                    left_out,
                    "HTTP/2 request refused: requests in progress use all memory that they, or \
                    those of this address, may have; raise memory, of which it is an eighth"
                );
            });
        }
        share
    }

    /// A connection of this remote flooded.
    pub(super) fn note_flood(&self, remote: Remote) {
        if let Some(address) = self.counted(remote) {
            self.penalties.note_flood(address, Instant::now());
        }
    }

    /// Counts one more connection for its address; `None` if the address is at its limit, or has
    /// flooded.
    pub(super) fn hold(&self, remote: Remote) -> Option<Option<AddressShare>> {
        let Some(address) = self.counted(remote) else {
            return Some(None);
        };
        if self.penalties.refuses(address, Instant::now()) {
            add(&self.counters.address_refusals);
            return None;
        }
        let max = self.limits.connections_per_address_max;
        let (of_address, of_site) = self.limits.fair_connections();
        let hold = |more: usize| {
            let share = ShareLimit {
                of_address: max.min(of_address + more) as u64,
                of_site: (of_site + more) as u64,
            };
            self.by_address.hold(address, 1, share)
        };
        let held = hold(0).or_else(|| {
            let (held_by_address, held_by_site) = self.by_address.held_by(address);
            if held_by_address >= max as u64 {
                return None;
            }
            // Below its maximum an address is only refused because its site is full; otherwise
            // another connection has closed meanwhile, and no idle one needs to.
            let is_site_full = held_by_site >= of_site as u64;
            // Each further one takes the place of one that is closing, which a client may delay.
            hold(match is_site_full {
                true => self.shed_idle_of(address),
                false => 0,
            })
        });
        match held {
            Some(held) => Some(Some(held)),
            None => {
                self.note_address_refusal(remote);
                None
            }
        }
    }

    fn note_address_refusal(&self, remote: Remote) {
        add(&self.counters.address_refusals);
        let address = remote.address.host();
        self.log.write(LimitedKind::AddressConnections, |left_out| {
            tracing::warn!(
                %address,
                left_out,
                "connection closed: its address is at its connection limit; if it is a proxy, add \
                it to proxies.trusted, or raise connections_per_address_max"
            );
        });
    }
}

/// Asks idle connections to close, at most one part in this many of all and [`SHED_MAX`]: those with
/// the most by `weight`, and of equal ones the oldest. Returns how many are closing.
fn shed<W: Ord>(
    all: &[Arc<ConnectionInfo>],
    part: usize,
    weight: impl Fn(&ConnectionInfo) -> W,
) -> usize {
    let closing = all.iter().filter(|info| info.is_shed()).count();
    if closing > 0 {
        return closing;
    }
    let mut idle: Vec<_> = all
        .iter()
        .filter_map(|info| Some((Reverse(weight(info)), info.idle_since()?, info)))
        .collect();
    idle.sort_by(|one, other| (&one.0, one.1).cmp(&(&other.0, other.1)));
    idle.truncate(all.len().div_ceil(part).min(SHED_MAX));
    idle.iter().for_each(|(_, _, info)| info.shed());
    idle.len()
}

/// The last scan of the open connections.
#[derive(Debug, Default)]
struct LastScan(Mutex<Option<ScanOutcome>>);

/// What a scan found.
#[derive(Debug, Clone, Copy)]
struct ScanOutcome {
    /// Whose connections were scanned; `None` for all.
    site: Option<Site>,
    /// Idle connections that are closing.
    closing: usize,
    /// When the next scan may be made.
    rest_until: Instant,
}

impl LastScan {
    /// A scan that is not repeated yet.
    fn of_just_now(&self) -> Option<ScanOutcome> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.filter(|last| Instant::now() < last.rest_until)
    }

    fn note(&self, site: Option<Site>, scanned: usize, closing: usize) {
        let times =
            |each: Duration, count| each.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
        let rest = times(SCAN_REST, scanned).max(times(CLOSING_REST, closing));
        let outcome = ScanOutcome {
            site,
            closing,
            rest_until: Instant::now() + rest,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }
}

/// Registry of the open connections.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    next: AtomicU64,
    known: Mutex<HashMap<u64, Weak<ConnectionInfo>>>,
    last_scan: LastScan,
    /// That of the connections of one address.
    last_scan_of_one: LastScan,
}

/// An entry in the registry, removed on drop.
#[derive(Debug)]
pub(super) struct RegistryEntry {
    number: u64,
    list: Arc<OpenConnections>,
}

impl OpenConnections {
    /// A unique connection number.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    pub(super) fn add(self: &Arc<Self>, info: &Arc<ConnectionInfo>) -> RegistryEntry {
        self.lock().insert(info.number(), Arc::downgrade(info));
        RegistryEntry {
            number: info.number(),
            list: Arc::clone(self),
        }
    }

    /// The open connections.
    fn all(&self) -> Vec<Arc<ConnectionInfo>> {
        self.lock().values().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Weak<ConnectionInfo>>> {
        // Every change under the lock is a single call, so a poisoned map is still consistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        self.list.lock().remove(&self.number);
    }
}
