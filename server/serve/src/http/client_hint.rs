//! Client hints: the next request that a player announces (CMCD `nor`, `nrr`) is passed to the
//! device.
//!
//! The file is looked up like that of a real request, by the same rules, and the engine decides
//! whether to read ahead. Steps that cost others are skipped: no auth server or origin is
//! contacted, and no disk is accessed for an unknown name.

use std::sync::Arc;

use headlong_edge::SliceSource;
use headlong_engine::{AnnouncedRequest, ReaderIdentity, StreamId};
use headlong_http::{NextRequest, Peer};
use headlong_storage::{Device, StreamSource};
use headlong_telemetry::RequestId;
use headlong_units::ByteRange;
use http::{HeaderValue, Uri, header};

use super::access_check::AccessRequest;
use super::parsed_request::ParsedRequest;
use super::source::LibrarySource;
use super::state::{HttpSettings, MediaState};

/// A hint and the request that carried it.
struct ClientHint {
    next: NextRequest,
    viewer: ReaderIdentity,
    settings: Arc<HttpSettings>,
    /// The prefix of its site; the target of a hint names no host.
    site: Arc<str>,
    head: http::request::Parts,
    client: Peer,
    now: u64,
}

/// Follows the hint of a request that is being answered, if it has one.
pub(super) fn expect_next(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &ParsedRequest,
) {
    let Some(next) = NextRequest::read(&asked.cmcd, head.uri.path()) else {
        return;
    };
    let Ok(turn) = Arc::clone(&state.expecting).try_acquire_owned() else {
        return;
    };
    let record = &asked.account.record;
    let mut head = head.clone();
    // The hint must not keep the connection alive.
    head.extensions.clear();
    let hint = ClientHint {
        next,
        viewer: asked.identity,
        settings: Arc::clone(&asked.settings),
        site: Arc::clone(&asked.site),
        head,
        client: record.remote,
        now: record.start_unix_ms / 1000,
    };
    let state = Arc::clone(state);
    tokio::spawn(async move {
        // The result does not matter.
        let _ = follow(&state, hint).await;
        drop(turn);
    });
}

async fn follow(state: &MediaState, mut hint: ClientHint) -> Option<()> {
    // The hint's own query, or else that of the request, whose token may open this file too.
    let query = hint.next.query.clone();
    let query = query.or_else(|| hint.head.uri.query().map(str::to_owned));
    let target = match query {
        Some(query) => format!("{}?{query}", hint.next.path),
        None => hint.next.path.clone(),
    };
    hint.head.uri = target.parse::<Uri>().ok()?;
    let access = &hint.settings.access;
    let (path_token, path) = access.read_path(&hint.site, hint.head.uri.path());
    let path = path.ok().filter(|path| !path.is_folder())?;
    let referer = hint.head.headers.get(header::REFERER);
    access
        .check_referer(path.as_str(), referer.map(HeaderValue::as_bytes))
        .ok()?;
    let asks = AccessRequest {
        path: &path,
        path_token,
        head: &hint.head,
        client: hint.client,
        now: hint.now,
        // Unused: no auth server is contacted.
        id: &RequestId::own(0),
    };
    if access.uses_auth_server(path.as_str()) || access.check(&asks).await.is_err() {
        return None;
    }
    match state.pulls.of(path.as_str()) {
        Some((pull, below)) => {
            let is_of_viewer = |argument: &str| hint.settings.is_of_viewer(argument);
            let name = pull.name(below, hint.head.uri.query(), is_of_viewer)?;
            let version = pull.recall(&name)?;
            let range = hint.next.range(version.size_bytes())?;
            let index = version.slices().at(range.start);
            let slice = version.slices().range(index);
            if !version.has(index) {
                return None;
            }
            let end = range.end.min(slice.end);
            let here = ByteRange::new(range.start - slice.start, end - slice.start);
            let (_, device) = pull.device()?;
            let source: Arc<dyn StreamSource> = Arc::new(SliceSource {
                version: Arc::clone(&version),
                library: state.library.clone(),
                direct: hint.settings.direct,
            });
            report_expected(device, &hint, version.stream, index, here, &source).await;
        }
        None => {
            // The name is known, so at most one root is accessed.
            state.library.home(path.as_str())?;
            let within = hint.settings.lookup_timeout;
            let file = state.lookups.resolve(path.as_str(), within).await.ok()?;
            let range = hint.next.range(file.size)?;
            let device = state.devices.get(file.device)?;
            let stream = StreamId(file.stream.id);
            let source: Arc<dyn StreamSource> = Arc::new(LibrarySource {
                files: Arc::clone(&file.stream),
                direct: hint.settings.direct,
            });
            report_expected(device, &hint, stream, file.part, range, &source).await;
        }
    }
    Some(())
}

async fn report_expected(
    device: &Device,
    hint: &ClientHint,
    stream: StreamId,
    part: u32,
    range: ByteRange,
    source: &Arc<dyn StreamSource>,
) {
    let expected = AnnouncedRequest {
        viewer: hint.viewer,
        stream,
        part,
        offset: range.start,
        length: range.len(),
    };
    device.expect(expected, source).await;
}
