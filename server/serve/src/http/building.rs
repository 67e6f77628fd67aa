//! The reply to an answer: its fields, what they say of where its bytes came from, and its body.

use std::borrow::Cow;
use std::sync::Arc;

use headlong_http::{Object, ReplyPlan, cmsd_dynamic};
use headlong_library::FileEntry;
use headlong_units::BitRate;
use http::{HeaderValue, Response};

use super::account::Account;
use super::answer::Answer;
use super::asked::Asked;
use super::body::ReplyBody;
use super::state::HttpSettings;
use crate::config;
use crate::disk::PieceInfo;
use crate::log::ServerTiming;

/// Fields of a reply with those that say what scripts may do, so that their table need not grow.
const FIELDS_USUAL: usize = 12;

/// What a player is told of a file and its reply, if it is; no disk is asked for it.
pub(super) fn add_cmsd(plan: &mut ReplyPlan, asked: &Asked, (path, file): (&str, &FileEntry)) {
    if !asked.settings.cmsd {
        return;
    }
    let object = Object {
        file_name: path,
        bit_rate: file.stream.bit_rate(),
    };
    if let Some(said) = object.cmsd_static() {
        plan.fields.push(("cmsd-static", said.into()));
    }
    let pace = asked.settings.access.pace(path);
    let said = cmsd_dynamic(
        throughput(asked),
        pace.bytes_per_second_max,
        asked.account.elapsed(),
    );
    plan.fields.push(("cmsd-dynamic", said.into()));
}

/// What the client's connection was measured to carry. A proxy's says nothing of the client's.
fn throughput(asked: &Asked) -> Option<BitRate> {
    let record = &asked.account.record;
    let proxies = &asked.settings.proxies;
    if record.proxy.is_some() || record.remote.is_trusted(|ip| proxies.trust(ip)) {
        return None;
    }
    let rate = asked.account.connection.as_deref()?.delivery_rate()?;
    Some(BitRate(rate.saturating_mul(8)))
}

/// The reply as hyper and the log want it.
pub(super) fn build(
    answer: Answer,
    settings: &HttpSettings,
    head: &http::request::Parts,
    mut account: Box<Account>,
) -> Response<ReplyBody> {
    let ReplyPlan {
        status,
        fields,
        body,
    } = answer.plan;
    account.record.status = status.code();
    let came_from = match (&answer.first, &answer.gzipped) {
        (Some((_, piece, _)), _) => Some(piece.info()),
        (None, gzipped) => gzipped.as_ref().map(|gzipped| gzipped.came_from),
    };
    let timing = timing_field(settings, head, came_from);
    let cache_status = came_from
        .filter(|_| settings.cache_status && answer.from.is_none())
        .map(cache_status);
    let body = match (answer.first, answer.gzipped) {
        (Some((begun, piece, asking)), _) => {
            let client = account.record.remote;
            let state = Arc::clone(&account.state);
            let shared = state.shared(settings, client, asking.request.viewer);
            ReplyBody::parts(body, (begun, piece), (asking, shared), account)
        }
        (None, Some(gzipped)) => {
            account.gzip_turn = Some(gzipped.turn);
            ReplyBody::made(gzipped.bytes, account)
        }
        (None, None) => ReplyBody::made(body.closing.into(), account),
    };
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(status.code())
        .unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.reserve(FIELDS_USUAL);
    for (name, value) in fields {
        append(headers, name, value);
    }
    if let Some(cache_status) = cache_status {
        let value = HeaderValue::from_static(cache_status);
        response.headers_mut().insert("cache-status", value);
    }
    if let Some(from) = &answer.from {
        from.add_fields(response.headers_mut(), settings.cache_status);
    }
    if let Some(timing) = timing {
        response.headers_mut().insert("server-timing", timing);
    }
    response
}

/// One more field.
pub(super) fn append(headers: &mut http::HeaderMap, name: &'static str, value: Cow<'static, str>) {
    // What the plan says is ASCII without control characters; anything else would be a bug of it.
    let value = match value {
        Cow::Borrowed(text) => Ok(HeaderValue::from_static(text)),
        Cow::Owned(text) => HeaderValue::try_from(text),
    };
    if let Ok(value) = value {
        headers.append(name, value);
    }
}

/// Where the first bytes came from, as caches say it (RFC 9211): what the disk was not asked for is a
/// hit.
fn cache_status(first: PieceInfo) -> &'static str {
    match (first.from_ram, first.from_flash) {
        (true, _) => "headlong; hit; detail=ram",
        (false, true) => "headlong; hit; detail=flash",
        (false, false) => "headlong; fwd=miss; detail=disk",
    }
}

/// Where the first bytes came from, if the configuration or the request wants to know.
fn timing_field(
    settings: &HttpSettings,
    head: &http::request::Parts,
    first: Option<PieceInfo>,
) -> Option<HeaderValue> {
    let is_wanted = match settings.server_timing {
        config::ServerTiming::Always => true,
        config::ServerTiming::OnRequest => head.headers.contains_key("server-timing"),
        config::ServerTiming::Off => false,
    };
    let info = first.filter(|_| is_wanted)?;
    let timing = ServerTiming {
        queue_time: info.queue_time,
        disk_time: info.disk_time,
        is_from_ram: info.from_ram,
        is_from_flash: info.from_flash,
    };
    timing.header_value()
}
