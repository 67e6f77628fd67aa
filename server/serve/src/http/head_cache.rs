//! Response-head cache: replies to frequent requests whose bytes are in memory as copies use a head
//! that was built before.
//!
//! A reply that the engine need not handle, to a request described by its site, target and
//! range ([`CacheableFields`]), equals the previous one as long as the settings and the version of the file
//! are unchanged. Both are compared on each lookup, so no invalidation is needed; a miss builds the
//! reply anew.
//!
//! Invariants: a cached head equals the head that the full path would build for the same request;
//! the table takes at most a hundredth of the memory for pieces; a newer entry replaces an older one
//! in its slot.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use headlong_engine::StreamId;
use headlong_http::{CacheableFields, Method, ReplyPlan};
use headlong_library::FileEntry;
use headlong_media::site_of;
use headlong_net::{
    ActiveRequest, CachedReply, ConnectionInfo, NoBody, RawHead, begin_head, head_text,
};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use smallvec::SmallVec;

use super::body::ReplyBody;
use super::copied_bytes::CopiedBytes;
use super::parsed_request::{PlainRequest, fields_of, plain_account};
use super::shared_pace::SharedRates;
use super::small_texts::may_be_compressed;
use super::state::{HttpSettings, MediaState};
use headlong_config::ReplyField;

/// Fields that differ between replies to the same request.
const DIFFERING: [ReplyField; 3] = [
    ReplyField::ServerTiming,
    ReplyField::Cmsd,
    ReplyField::RequestId,
];
/// Memory for pieces per cached head.
const BYTES_PER_REPLY: u64 = 1 << 20;
/// The heads take one part in this many of the memory for pieces: a kilobyte or two each, with that of
/// a segment ten.
const HEADS_PART: u64 = 100;
/// Lower and upper bound of entries.
const REPLIES_MIN: u64 = 64;
const REPLIES_MAX: u64 = 16 << 10;
/// Memory of a field of a cached head over HTTP/2, with its value.
const FIELD_BYTES: usize = 160;
/// Longer targets are not cached.
const TARGET_BYTES_MAX: usize = 512;
/// Longer ranges are malformed or have several parts.
const RANGE_BYTES_MAX: usize = 64;

/// A cached reply.
#[derive(Debug)]
pub(super) struct HeadCacheEntry {
    target: Box<str>,
    /// The prefix of its site.
    site: Box<str>,
    range: Box<[u8]>,
    is_http2: bool,
    /// Compared by identity, without keeping the values alive.
    settings: Weak<HttpSettings>,
    file: Weak<FileEntry>,
    /// The path that the file is looked up by.
    path: Box<str>,
    /// The requested path, if the reply is made from the file: a file there would come first.
    made_at: Option<Box<str>>,
    bytes: CopiedBytes,
    status: StatusCode,
    head: CachedHead,
}

impl HeadCacheEntry {
    /// Memory that it takes, roughly.
    fn memory_bytes(&self) -> usize {
        let head = match &self.head {
            CachedHead::Text(text) => text.len(),
            CachedHead::Fields(fields) => FIELD_BYTES * fields.capacity(),
        };
        let made_at = self.made_at.as_deref().map_or(0, str::len);
        let names = self.target.len() + self.site.len() + self.path.len() + made_at;
        size_of::<Self>() + head + names + self.range.len() + self.bytes.memory_bytes()
    }
}

/// A cached head in the form of its HTTP version.
#[derive(Debug)]
enum CachedHead {
    Text(Box<[u8]>),
    Fields(Box<HeaderMap>),
}

/// The cached heads.
#[derive(Debug)]
pub(super) struct HeadCache {
    hasher: RandomState,
    replies: Box<[ArcSwapOption<HeadCacheEntry>]>,
    /// Memory that further entries may take.
    left_bytes: AtomicUsize,
}

impl HeadCache {
    /// An empty cache, sized by the memory for pieces.
    pub(super) fn new(memory_bytes: u64) -> Self {
        let count = (memory_bytes / BYTES_PER_REPLY).clamp(REPLIES_MIN, REPLIES_MAX);
        Self {
            hasher: RandomState::new(),
            replies: (0..count).map(|_| ArcSwapOption::empty()).collect(),
            left_bytes: AtomicUsize::new((memory_bytes / HEADS_PART) as usize),
        }
    }

    /// Stores an entry in its place, if there is memory for it.
    fn store(&self, place: &ArcSwapOption<HeadCacheEntry>, entry: HeadCacheEntry) {
        let give_back = |old: Option<Arc<HeadCacheEntry>>| {
            if let Some(old) = old {
                self.left_bytes.fetch_add(old.memory_bytes(), Relaxed);
            }
        };
        give_back(place.swap(None));
        let bytes = entry.memory_bytes();
        let take = |left: usize| left.checked_sub(bytes);
        if self.left_bytes.fetch_update(Relaxed, Relaxed, take).is_ok() {
            give_back(place.swap(Some(Arc::new(entry))));
        }
    }

    fn place(&self, of: (&str, &str, &[u8], bool)) -> &ArcSwapOption<HeadCacheEntry> {
        let at = self.hasher.hash_one(of) as usize % self.replies.len();
        &self.replies[at]
    }
}

/// Whether both refer to the same value. While a weak reference exists, its address is not reused.
fn is_same<T>(one: &Arc<T>, other: &Weak<T>) -> bool {
    std::ptr::eq(Arc::as_ptr(one), other.as_ptr())
}

/// A reply served only from copies, by the path of its file.
pub(super) struct CopiedReply {
    path: String,
    file: Arc<FileEntry>,
    /// Whether it is made from the file, at another path.
    is_made: bool,
    bytes: CopiedBytes,
}

impl CopiedReply {
    /// The reply of a plan; `None` if it is of another form.
    pub(super) fn of(plan: &ReplyPlan, path: &str, file: &Arc<FileEntry>) -> Option<Self> {
        Some(Self {
            path: path.to_owned(),
            file: Arc::clone(file),
            is_made: false,
            bytes: CopiedBytes::of(&plan.body)?,
        })
    }

    /// The same, made from the file for a request of another path.
    pub(super) fn made(self) -> Self {
        Self {
            is_made: true,
            ..self
        }
    }
}

/// Caches the head of a reply to a request for `path`, if later replies to it have the same head.
pub(super) fn insert(
    replies: &HeadCache,
    (head, path): (&http::request::Parts, &str),
    settings: &Arc<HttpSettings>,
    made: CopiedReply,
    response: &Response<ReplyBody>,
) {
    let is_alike = matches!(head.version, Version::HTTP_11 | Version::HTTP_2)
        && Method::parse(head.method.as_str()) == Method::Get
        && settings.access.is_open(&made.path)
        && settings.access.have_same_rule(&made.path, path)
        && !may_be_compressed(settings, &made.file)
        && !DIFFERING.iter().any(|field| settings.has(*field))
        && settings.shared_rates == SharedRates::default();
    let fields = fields_of(head);
    let plain = CacheableFields::read(fields.iter().copied(), head.version == Version::HTTP_11)
        .filter(|_| is_alike);
    let target = head
        .uri
        .path_and_query()
        .map_or("", |target| target.as_str());
    let (Some(plain), true) = (plain, target.len() <= TARGET_BYTES_MAX) else {
        return;
    };
    if plain.range.len() > RANGE_BYTES_MAX {
        return;
    }
    let is_http2 = head.version == Version::HTTP_2;
    let (status, headers) = (response.status(), response.headers());
    let kept = match is_http2 {
        true => Some(CachedHead::Fields(Box::new(headers.clone()))),
        false => head_text(status, headers).map(|text| CachedHead::Text(text.into())),
    };
    let Some(kept) = kept else {
        return;
    };
    let site = site_of(&made.path).unwrap_or_default().to_owned();
    let site = site.as_str();
    let known = HeadCacheEntry {
        target: target.into(),
        site: site.into(),
        range: plain.range.into(),
        is_http2,
        settings: Arc::downgrade(settings),
        file: Arc::downgrade(&made.file),
        path: made.path.into(),
        made_at: made.is_made.then(|| path.into()),
        bytes: made.bytes,
        status,
        head: kept,
    };
    let place = replies.place((site, target, plain.range, is_http2));
    replies.store(place, known);
}

/// A cached reply, ready to send.
struct HeadCacheHit<H> {
    head: H,
    body: ReplyBody,
    /// `None` over HTTP/2, where the request is already counted.
    active: Option<ActiveRequest>,
}

/// The prefix of the site of a request.
fn site_prefix<'s, 'a, F>(settings: &'s HttpSettings, wanted: &PlainRequest<'a, F>) -> &'s str
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    if settings.sites.are_none() {
        return "";
    }
    let mut fields = wanted.fields.clone();
    let host = fields.find(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = host.and_then(|(_, value)| std::str::from_utf8(value).ok());
    settings.sites.prefix(host.unwrap_or(wanted.authority))
}

/// Looks a request up. On a miss, writes no memory shared between threads.
fn find<'a, F, H>(
    replies: &HeadCache,
    state: &Arc<MediaState>,
    wanted: &PlainRequest<'a, F>,
    info: &Arc<ConnectionInfo>,
    head: impl FnOnce(&HeadCacheEntry) -> Option<H>,
) -> Option<HeadCacheHit<H>>
where
    F: Iterator<Item = (&'a str, &'a [u8])> + Clone,
{
    let is_http2 = wanted.version == Version::HTTP_2;
    let plain = CacheableFields::read(wanted.fields.clone(), !is_http2)?;
    let settings = state.settings_now();
    let site = site_prefix(&settings, wanted);
    let of = (site, wanted.target, plain.range, is_http2);
    let place = replies.place(of).load();
    let known = place.as_deref()?;
    let is_meant = (&*known.site, &*known.target, &*known.range, known.is_http2) == of;
    if !is_meant || !is_same(&settings, &known.settings) {
        return None;
    }
    let client = info.remote().address;
    // A trusted proxy names its client in a header field.
    if client.is_trusted(|address| settings.proxies.trust(address)) {
        return None;
    }
    let file = state.library.recall(&known.path)?;
    if !is_same(&file, &known.file) {
        return None;
    }
    let is_replaced = |path: &str| state.library.remember(path).is_some();
    if known.made_at.as_deref().is_some_and(is_replaced) {
        return None;
    }
    let device = state.devices.get(file.device)?;
    let held = state.hold(&settings, file.device, client)?;
    let of = (StreamId(file.stream.id), file.part);
    let head = head(known)?;
    let bytes = &known.bytes;
    // Copies of the copies are generated bytes.
    let lease = match bytes.is_gathered() {
        true => state
            .generated
            .send_now(bytes.length() as usize, client.ip())?,
        false => None,
    };
    let pieces = device.copies(of, bytes.cover(), bytes.file_bytes())?;
    info.note_at_hand();
    let active = (!is_http2).then(|| info.begin_request());
    let mut account = plain_account(state, &settings, wanted, site, info);
    account.record.status = known.status.as_u16();
    if account.record.session.is_some() {
        account.record.device = Some(Arc::clone(device.name()));
    }
    account.held = held;
    account.is_packaged = known.made_at.is_some();
    let body = match bytes.is_gathered() {
        true => {
            account.generated = lease;
            account.record.bytes_from_ram = bytes.file_bytes();
            ReplyBody::made(bytes.gather(pieces), account)
        }
        false => {
            let pieces = bytes.pieces(pieces);
            ReplyBody::at_hand(bytes.preamble.clone(), pieces, bytes.length(), account)
        }
    };
    Some(HeadCacheHit { head, body, active })
}

/// The cached reply to a request over HTTP/1.1, if any.
pub(super) fn at_hand(
    replies: &HeadCache,
    state: &Arc<MediaState>,
    raw: &RawHead<'_>,
    info: &Arc<ConnectionInfo>,
) -> Option<CachedReply<ReplyBody>> {
    let wanted = PlainRequest {
        target: raw.target,
        fields: raw.pairs(),
        authority: "",
        version: Version::HTTP_11,
    };
    let head = |known: &HeadCacheEntry| match &known.head {
        CachedHead::Text(text) => Some(begin_head(text, known.bytes.length())),
        CachedHead::Fields(_) => None,
    };
    let found = find(replies, state, &wanted, info, head)?;
    Some(CachedReply {
        head: found.head,
        body: found.body,
        active: found.active?,
    })
}

/// The cached reply to a request over HTTP/2, if any.
pub(super) fn response(
    replies: &HeadCache,
    state: &Arc<MediaState>,
    request: &Request<NoBody>,
) -> Option<Response<ReplyBody>> {
    if request.version() != Version::HTTP_2 || request.method() != http::Method::GET {
        return None;
    }
    let info = request.extensions().get::<Arc<ConnectionInfo>>()?;
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| (name.as_str(), value.as_bytes()));
    let fields: SmallVec<[_; 16]> = fields.collect();
    let authority = request.uri().authority();
    let wanted = PlainRequest {
        target: request.uri().path_and_query()?.as_str(),
        fields: fields.iter().copied(),
        authority: authority.map_or("", |authority| authority.as_str()),
        version: Version::HTTP_2,
    };
    let head = |known: &HeadCacheEntry| match &known.head {
        CachedHead::Fields(fields) => Some((known.status, HeaderMap::clone(fields))),
        CachedHead::Text(_) => None,
    };
    let found = find(replies, state, &wanted, info, head)?;
    let mut response = Response::new(found.body);
    (*response.status_mut(), *response.headers_mut()) = found.head;
    Some(response)
}
