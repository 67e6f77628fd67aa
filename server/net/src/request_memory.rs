//! Memory budget of HTTP/2 requests in progress, beyond the pieces of their replies: heads, tasks,
//! accounts.
//!
//! Over HTTP/1.1 a connection has one request, so `connections_max` is a bound. An HTTP/2
//! connection has up to `Limits::streams_max`, each for some hundred bytes on the wire. All of
//! them share a budget; one address may use a quarter of it, an IPv6 site half.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use http::HeaderMap;

use super::address_limits::{AddressLimits, AddressShare, ShareLimit};

/// Memory of a request without its header fields: its stream in the library, its task, its account,
/// its chain and reply in the engine. RssAnon grew by 7.3 KiB for each of 4,000 on 40 connections
/// without a window; those connections take 22 KiB each.
const REQUEST_BYTES: u64 = 7 << 10;
/// Overhead of a field beyond its name and value.
const FIELD_BYTES: u64 = 64;
/// One address may use this fraction of the budget, and the addresses of an IPv6 site together twice
/// as much.
const ADDRESS_SHARE: u64 = 4;

/// The budget of all connections.
#[derive(Debug, Default)]
pub(super) struct RequestMemory {
    used_bytes: AtomicU64,
    by_address: Arc<AddressLimits>,
}

/// A request's share of the budget, released on drop.
#[derive(Debug)]
pub(super) struct RequestShare {
    bytes: u64,
    memory: Arc<RequestMemory>,
    _of_address: Option<AddressShare>,
}

impl RequestMemory {
    /// Reserves memory for a request with these fields; `None` if the budget, or that of its
    /// address, is used up. `address` is `None` for a proxy.
    pub(super) fn take(
        self: &Arc<Self>,
        address: Option<IpAddr>,
        fields: &HeaderMap,
        bytes_max: u64,
    ) -> Option<RequestShare> {
        let bytes = REQUEST_BYTES + fields.iter().map(field_bytes).sum::<u64>();
        let of_address = match address {
            Some(address) => {
                let max = share_limit(bytes_max);
                Some(self.by_address.hold(address, bytes, max)?)
            }
            None => None,
        };
        let fits = |used: u64| Some(used + bytes).filter(|used| *used <= bytes_max);
        self.used_bytes.fetch_update(Relaxed, Relaxed, fits).ok()?;
        Some(RequestShare {
            bytes,
            memory: Arc::clone(self),
            _of_address: of_address,
        })
    }

    /// Whether requests of this address use its part of the budget or most of it, so that its further
    /// ones are refused whatever others do.
    pub(super) fn is_used_by(&self, address: IpAddr, bytes_max: u64) -> bool {
        let limit = share_limit(bytes_max);
        let (of_address, of_site) = self.by_address.held_by(address);
        of_address > limit.of_address / 2 || of_site > limit.of_site / 2
    }
}

fn share_limit(bytes_max: u64) -> ShareLimit {
    let of_address = (bytes_max / ADDRESS_SHARE).max(REQUEST_BYTES);
    ShareLimit {
        of_address,
        of_site: 2 * of_address,
    }
}

fn field_bytes((name, value): (&http::HeaderName, &http::HeaderValue)) -> u64 {
    (name.as_str().len() + value.len()) as u64 + FIELD_BYTES
}

impl Drop for RequestShare {
    fn drop(&mut self) {
        self.memory.used_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_progress_fit_into_budget_and_address_share() {
        let memory = Arc::<RequestMemory>::default();
        let bytes_max = 64 * REQUEST_BYTES;
        let none = HeaderMap::new();
        let take_all = |address: Option<IpAddr>, fields: &HeaderMap| -> Vec<RequestShare> {
            let take = || memory.take(address, fields, bytes_max);
            std::iter::from_fn(take).collect()
        };
        let one = take_all(Some([192, 0, 2, 1].into()), &none);
        let other = take_all(Some([192, 0, 2, 2].into()), &none);
        assert_eq!((one.len(), other.len()), (16, 16), "a quarter each");
        assert!(memory.is_used_by([192, 0, 2, 1].into(), bytes_max));
        assert!(!memory.is_used_by([192, 0, 2, 3].into(), bytes_max));
        let proxied = take_all(None, &none);
        assert_eq!(proxied.len(), 32, "what is left");
        drop((one, other, proxied));
        let mut fields = HeaderMap::new();
        fields.insert("x", "a".repeat(12 << 10).parse().expect("a value"));
        assert_eq!(take_all(None, &fields).len(), 23, "fields count");
        assert_eq!(memory.used_bytes.load(Relaxed), 0);
    }
}
