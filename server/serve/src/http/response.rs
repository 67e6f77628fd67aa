//! Builds the reply from an answer: header fields, cache status, body.

use std::borrow::Cow;
use std::sync::Arc;

use headlong_http::{CmsdObject, ReplyPlan, cmsd_dynamic};
use headlong_library::FileEntry;
use headlong_storage::PieceInfo;
use headlong_telemetry::ServerTiming;
use headlong_units::BitRate;
use http::{HeaderValue, Response};

use super::account::Account;
use super::body::ReplyBody;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::PreparedReply;
use super::range_request::FirstBytes;
use super::state::HttpSettings;
use headlong_config::ReplyField;

/// Usual number of header fields with those of CORS; avoids growing the table.
const FIELDS_USUAL: usize = 12;

/// Adds the CMSD fields for a player, if enabled. Needs no disk access.
pub(super) fn add_cmsd(plan: &mut ReplyPlan, asked: &ParsedRequest, path: &str, file: &FileEntry) {
    if !asked.settings.has(ReplyField::Cmsd) {
        return;
    }
    let object = CmsdObject {
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

/// Measured delivery rate of the client's connection. A proxy's connection does not describe the
/// client's.
fn throughput(asked: &ParsedRequest) -> Option<BitRate> {
    let record = &asked.account.record;
    let proxies = &asked.settings.proxies;
    if record.proxy.is_some() || record.remote.is_trusted(|ip| proxies.trust(ip)) {
        return None;
    }
    let rate = asked.account.connection.as_deref()?.delivery_rate()?;
    Some(BitRate(rate.saturating_mul(8)))
}

/// Builds the reply for hyper, with the account for the log.
pub(super) fn build(
    answer: PreparedReply,
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
        (Some((FirstBytes::Read(_, piece), _)), _) => Some(piece.info()),
        (Some((FirstBytes::Passed(_), _)), _) => None,
        (None, gzipped) => gzipped.as_ref().map(|gzipped| gzipped.came_from),
    };
    let timing = timing_field(settings, head, came_from);
    let cache_status = came_from
        .filter(|_| settings.has(ReplyField::CacheStatus) && answer.from.is_none())
        .map(cache_status);
    let body = match (answer.first, answer.gzipped) {
        (Some((first, asking)), _) => {
            let client = account.record.remote;
            let state = Arc::clone(&account.state);
            let shared = state.shared(settings, client, asking.request.viewer);
            ReplyBody::parts(body, first, asking, shared, account)
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
        let has_cache_status = settings.has(ReplyField::CacheStatus);
        from.add_fields(response.headers_mut(), has_cache_status);
    }
    if let Some(timing) = timing {
        response.headers_mut().insert("server-timing", timing);
    }
    response
}

/// Appends a field.
pub(super) fn append(headers: &mut http::HeaderMap, name: &'static str, value: Cow<'static, str>) {
    // Field values of a plan are ASCII without control characters; others would be a bug in it.
    let value = match value {
        Cow::Borrowed(text) => Ok(HeaderValue::from_static(text)),
        Cow::Owned(text) => HeaderValue::try_from(text),
    };
    if let Ok(value) = value {
        headers.append(name, value);
    }
}

/// `Cache-Status` (RFC 9211) by the source of the first bytes: a hit unless the disk was read.
fn cache_status(first: PieceInfo) -> &'static str {
    match (first.from_ram, first.from_flash) {
        (true, _) => "headlong; hit; detail=ram",
        (false, true) => "headlong; hit; detail=flash",
        (false, false) => "headlong; fwd=miss; detail=disk",
    }
}

/// `Server-Timing` of the first bytes, if the configuration or the request asks for it.
fn timing_field(
    settings: &HttpSettings,
    head: &http::request::Parts,
    first: Option<PieceInfo>,
) -> Option<HeaderValue> {
    let is_wanted = settings.has(ReplyField::ServerTiming)
        || settings.has(ReplyField::ServerTimingOnRequest)
            && head.headers.contains_key("server-timing");
    let info = first.filter(|_| is_wanted)?;
    let timing = ServerTiming {
        queue_time: info.queue_time,
        disk_time: info.disk_time,
        is_from_ram: info.from_ram,
        is_from_flash: info.from_flash,
    };
    timing.header_value()
}
