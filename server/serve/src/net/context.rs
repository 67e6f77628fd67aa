//! What listeners of one server share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use http::HeaderMap;
use tokio::sync::Semaphore;

use super::by_address::{ByAddress, Held};
use super::counters::{ConnectionCounters, add};
use super::info::ConnectionInfo;
use super::limits::Limits;
use super::remote::{Remote, TrustedProxies};
use super::request_memory::{RequestMemory, RequestShare};
use super::tcp::TcpOptions;
use super::threads::ConnectionThreads;
use crate::log::{LimitedKind, LimitedLog};

/// Of the open connections, the part that is closed at once to make room: one in so many.
const SHED_PART: usize = 64;

/// What listeners of one server share.
#[derive(Debug, Clone)]
pub struct ListenerContext {
    /// Bounds for each connection.
    pub limits: Arc<Limits>,
    /// One permit for each connection that may be open.
    pub slots: Arc<Semaphore>,
    /// Counts what happens.
    pub counters: Arc<ConnectionCounters>,
    /// Set on each socket.
    pub tcp: Arc<TcpOptions>,
    /// If connections begin with a header of the PROXY protocol: whose are believed.
    pub proxies: Option<TrustedProxies>,
    /// Proxies that count as nobody's address.
    pub exempt: Option<TrustedProxies>,
    /// Where connections live; without, where their listener does.
    pub threads: Option<Arc<ConnectionThreads>>,
    pub(super) log: Arc<LimitedLog>,
    pub(super) request_memory: Arc<RequestMemory>,
    pub(super) open: Arc<OpenConnections>,
    pub(super) by_address: Arc<ByAddress>,
}

impl ListenerContext {
    /// With as many slots as `limits` allow connections.
    pub fn new(limits: Limits, tcp: TcpOptions, counters: Arc<ConnectionCounters>) -> Self {
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
        }
    }

    /// The address that what a remote holds is counted to.
    fn counted(&self, remote: Remote) -> Option<IpAddr> {
        let is_exempt = |exempt: &TrustedProxies| exempt.trust(remote.address);
        let address = remote.address.ip()?;
        (!self.exempt.as_ref().is_some_and(is_exempt)).then_some(address)
    }

    /// Memory for one more request over HTTP/2; `None` if there is none.
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
                    "refused an HTTP/2 request: requests in progress have all memory that they, or \
                     those of this address, may have; raise memory, of which it is an eighth"
                );
            });
        }
        share
    }

    /// One more connection from where it comes from; `None` if that has as many as it may.
    pub(super) fn hold(&self, remote: Remote) -> Option<Option<Held>> {
        let Some(address) = self.counted(remote) else {
            return Some(None);
        };
        let max = self.limits.connections_per_address_max;
        match self.by_address.hold(address, 1, max as u64) {
            Some(held) => Some(Some(held)),
            None => {
                add(&self.counters.address_refusals);
                let address = remote.address.host();
                self.log.write(LimitedKind::AddressConnections, |left_out| {
                    tracing::warn!(
                        %address,
                        left_out,
                        "closed a connection: its address has as many as one may; if it is a proxy, \
                         write it in proxies.trusted, or raise connections_per_address_max"
                    );
                });
                None
            }
        }
    }
}

/// The connections that are open.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    next: AtomicU64,
    known: Mutex<HashMap<u64, Weak<ConnectionInfo>>>,
}

/// A connection in the list, as long as this lives.
#[derive(Debug)]
pub(super) struct Listed {
    number: u64,
    list: Arc<OpenConnections>,
}

impl OpenConnections {
    /// A number that no other connection has.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    pub(super) fn add(self: &Arc<Self>, info: &Arc<ConnectionInfo>) -> Listed {
        self.lock().insert(info.number(), Arc::downgrade(info));
        Listed {
            number: info.number(),
            list: Arc::clone(self),
        }
    }

    /// Asks those connections to close on which nothing has been asked for the longest time: a few
    /// at a time, so that this is cheap although it looks at all of them.
    /// While some are closing, no more are asked.
    pub(super) fn shed_oldest(&self) {
        let known = self.lock();
        let count = known.len().div_ceil(SHED_PART);
        let all: Vec<_> = known.values().filter_map(Weak::upgrade).collect();
        drop(known);
        if all.iter().any(|info| info.is_shed()) {
            return;
        }
        let idle = all.into_iter();
        let mut idle: Vec<_> = idle
            .filter_map(|info| Some((info.idle_since()?, info)))
            .collect();
        idle.sort_by_key(|(since, _)| *since);
        for (_, info) in idle.iter().take(count) {
            info.shed();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Weak<ConnectionInfo>>> {
        // Every change under the lock is one call.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.list.lock().remove(&self.number);
    }
}
