//! The media service: from the head of a request to the head of its reply.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use headlong_engine::{Failure, Refusal};
use headlong_http::{
    Cmcd, ContentCoding, Method, PathError, PathToken, Status, challenge_token, no_start_page,
    redirect_to_https,
};
use headlong_library::{FileEntry, composed, os_path};
use headlong_net::{CachedReply, ConnectionInfo, HeadCacheService, NoBody, RawHead};
use headlong_storage::Piece;
use headlong_telemetry::{LimitedKind, REQUEST_ID, Stage};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::service::Service;

use super::access_check::{AccessDenial, AccessRequest};
use super::acme;
use super::body::ReplyBody;
use super::client_hint::expect_next;
use super::explain::explain;
use super::file_lookup::resolve;
use super::file_reply::{device_of, requester, with_first_bytes};
use super::gzip::gzip;
use super::head_cache::{self, CopiedReply, HeadCache};
use super::host::requested_host;
use super::listing;
use super::origin_reply;
use super::packaged;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::{
    FileMetadata, PreparedReply, ReplyError, VERSIONS_TRIED_MAX, plan_for,
};
use super::response::{add_cmsd, append, build};
use super::site::TreePath;
use super::small_texts::{gzip_turn, is_up_to_date, may_be_compressed, ready_made_codings};
use super::state::{HttpSettings, MediaState};
use super::webdav;
use headlong_config::{ListenSetting, ListingFormat, ReplyField};

/// Service of the media listener. Clones share all state.
#[derive(Debug, Clone)]
pub struct MediaService {
    state: Arc<MediaState>,
    known: Arc<HeadCache>,
    /// Whether its listener redirects to TLS.
    redirects: bool,
}

impl MediaService {
    /// Creates the service.
    pub fn new(state: Arc<MediaState>) -> Self {
        let memory = state
            .devices
            .iter()
            .map(|device| device.config().memory_bytes);
        let known = Arc::new(HeadCache::new(memory.sum()));
        Self {
            state,
            known,
            redirects: false,
        }
    }

    /// The service of one listener.
    pub fn at(self, listener: &ListenSetting) -> Self {
        Self {
            redirects: listener.redirects,
            ..self
        }
    }
}

impl Service<Request<NoBody>> for MediaService {
    type Response = Response<ReplyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<NoBody>) -> Self::Future {
        if !self.redirects
            && let Some(response) = head_cache::response(&self.known, &self.state, &request)
        {
            return Box::pin(ready(Ok(response)));
        }
        let service = self.clone();
        Box::pin(async move { Ok(respond(&service, request).await) })
    }
}

impl HeadCacheService<ReplyBody> for MediaService {
    fn at_hand(
        &self,
        head: &RawHead<'_>,
        info: &Arc<ConnectionInfo>,
    ) -> Option<CachedReply<ReplyBody>> {
        match self.redirects {
            true => None,
            false => head_cache::at_hand(&self.known, &self.state, head, info),
        }
    }
}

async fn respond(service: &MediaService, request: Request<NoBody>) -> Response<ReplyBody> {
    let MediaService { state, known, .. } = service;
    let (mut head, _) = request.into_parts();
    join_cookies(&mut head.headers);
    let mut asked = ParsedRequest::new(state, &head);
    let origin = head
        .headers
        .get(header::ORIGIN)
        .and_then(|value| value.to_str().ok());
    let settings = Arc::clone(&asked.settings);
    let (path_token, parsed) = settings.access.read_path(&asked.site, head.uri.path());
    let site = Arc::clone(&asked.site);
    let path = parsed.as_ref().map_or(&*site, TreePath::as_str);
    let cors = settings.access.cors(path, &settings.cors);
    let is_listed = parsed.is_ok() && is_listed(state, &settings, path);
    let cors_fields = match asked.method {
        Method::Options => Vec::new(),
        _ => cors.reply_fields(origin),
    };
    let without_rules = answer_without_rules(service, &head, &asked).await;
    let is_file = without_rules.is_none() && asked.method.is_read();
    let answer = match asked.method {
        _ if let Some(answer) = without_rules => answer,
        Method::Options => {
            let wanted = head.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD);
            let wanted = wanted.and_then(|value| value.to_str().ok());
            let plan = cors.options_reply(origin, wanted);
            Ok(PreparedReply::without_bytes(plan))
        }
        Method::Propfind if !is_listed => Err(ReplyError::Status(Status::MethodNotAllowed, None)),
        Method::Other => Err(ReplyError::Status(Status::MethodNotAllowed, None)),
        Method::Get | Method::Head | Method::Propfind => match &parsed {
            Ok(path) => answer_read(state, &head, path, path_token, &mut asked).await,
            Err(PathError::Directory) if head.uri.path() == "/" => {
                Ok(PreparedReply::without_bytes(no_start_page(asked.method)))
            }
            Err(error) => Err(ReplyError::Status(error.status(), None)),
        },
    };
    let is_file = is_file && answer.is_ok() && parsed.as_ref().is_ok_and(|path| !path.is_folder());
    // Only a client that is served may announce its next request.
    if answer.as_ref().is_ok_and(PreparedReply::has_bytes) {
        expect_next(state, &head, &asked);
    }
    let now = asked.account.record.start_unix_ms / 1000;
    let mut retry_after = None;
    let mut answer = answer.unwrap_or_else(|none| {
        if let ReplyError::TooMany = none {
            let address = asked.account.record.remote.host();
            state.limited_log.write(LimitedKind::AddressRequests, |left_out| {
                tracing::warn!(
                    %address,
                    left_out,
                    "request refused: its address is at its limit of requests in progress; if it \
                    is a proxy, add it to proxies.trusted, or raise requests_per_address_max"
                );
            });
        }
        let (plan, after) = explain(none, asked.method, &mut asked.account.record);
        retry_after = after;
        PreparedReply::without_bytes(plan)
    });
    if is_listed {
        webdav::announce(&mut answer.plan, asked.method);
    }
    asked.account.turn(Stage::Other);
    let of_copies = answer.of_copies.take();
    let id = settings
        .has(ReplyField::RequestId)
        .then(|| HeaderValue::try_from(asked.account.record.id.to_string()));
    let mut response = build(answer, &asked.settings, &head, asked.account);
    let status = response.status();
    let headers = response.headers_mut();
    if is_file && matches!(status.as_u16(), 200 | 206 | 304) {
        settings.access.add_fields(path, now, headers);
    }
    for (name, value) in cors_fields {
        append(headers, name, value);
    }
    if let Some(Ok(id)) = id {
        headers.insert(REQUEST_ID, id);
    }
    if let Some(after) = retry_after {
        let seconds = after.0.div_ceil(1_000_000_000).max(1);
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(made) = of_copies {
        head_cache::insert(known, (&head, path), &settings, made, &response);
    }
    response
}

/// HTTP/2 lets a client split its cookies into several fields, which form one (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let fields = headers.get_all(header::COOKIE);
    if fields.iter().nth(1).is_none() {
        return;
    }
    let fields: Vec<&[u8]> = fields.iter().map(HeaderValue::as_bytes).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&fields.join(b"; ".as_slice())) {
        headers.insert(header::COOKIE, joined);
    }
}

/// Answers that depend on no file and no rule of a path: to a request without a host, to a
/// challenge of ACME, and redirects. A challenge is answered even where all else is redirected.
async fn answer_without_rules(
    service: &MediaService,
    head: &http::request::Parts,
    asked: &ParsedRequest,
) -> Option<Result<PreparedReply, ReplyError>> {
    let no_host = || {
        let detail = "a request must name exactly one host";
        Err(ReplyError::Status(
            Status::BadRequest,
            Some(detail.to_owned()),
        ))
    };
    let Some(host) = requested_host(head) else {
        return Some(no_host());
    };
    if let Some(folder) = &asked.settings.acme_folder
        && asked.method.is_read()
        && let Some(token) = challenge_token(head.uri.path())
    {
        return Some(acme::answer(&service.state, folder, token, asked.method).await);
    }
    service.redirects.then(|| {
        let target = head.uri.path_and_query().map_or("/", |to| to.as_str());
        let plan = redirect_to_https(host, target);
        plan.map_or_else(no_host, |plan| Ok(PreparedReply::without_bytes(plan)))
    })
}

/// Checks whether a client may have a file, or a folder; no disk is used before that.
async fn check_access(
    state: &MediaState,
    head: &http::request::Parts,
    path: &TreePath,
    path_token: Option<PathToken<'_>>,
    asked: &mut ParsedRequest,
) -> Result<(), ReplyError> {
    let record = &asked.account.record;
    let (client, now) = (record.remote, record.start_unix_ms / 1000);
    let access = &asked.settings.access;
    let denied = |status| ReplyError::Denied(AccessDenial::Status(status));
    let referer = head.headers.get(header::REFERER).map(HeaderValue::as_bytes);
    let may_use = access.check_referer(path.as_str(), referer);
    may_use.map_err(denied)?;
    asked.account.turn(Stage::Access);
    let asks = AccessRequest {
        path,
        path_token,
        head,
        client,
        now,
        id: &asked.account.record.id,
    };
    let may_watch = access.check(&asks).await;
    asked.account.turn(Stage::Other);
    may_watch.map_err(|why| {
        if let AccessDenial::Unanswered(_, what) = &why {
            let remedy = "check the server of auth_url";
            state.limited_log.write(LimitedKind::Access, |left_out| {
                tracing::warn!(
                    path = ?os_path(path.as_str()),
                    what,
                    remedy,
                    left_out,
                    "authorization request failed"
                )
            });
        }
        ReplyError::Denied(why)
    })
}

/// Answers GET and HEAD.
async fn answer_read(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    path: &TreePath,
    path_token: Option<PathToken<'_>>,
    asked: &mut ParsedRequest,
) -> Result<PreparedReply, ReplyError> {
    if let Some(named) = packaged::named(state, asked, path) {
        check_access(state, head, &named.title, path_token, asked).await?;
        asked.account.is_packaged = true;
        match packaged::answer(state, head, asked, &named).await {
            // A folder that is named like a film may have such a file, and one that is named like a
            // list of files.
            Err(ReplyError::Folder) => asked.account.is_packaged = false,
            Err(ReplyError::Status(Status::NotFound, _))
                if named.is_alias && state.library.remember(path.as_str()).is_some() =>
            {
                asked.account.is_packaged = false;
            }
            answer => return answer,
        }
    }
    check_access(state, head, path, path_token, asked).await?;
    if path.is_folder() {
        return listing::answer(state, head, asked, path).await;
    }
    if let Some(below) = state.pulls.of(path.as_str()) {
        return origin_reply::answer(state, head, asked, below).await;
    }
    for tried in 1.. {
        asked.account.turn(Stage::Lookup);
        let found = resolve(state, path.as_str(), asked.settings.lookup_timeout).await;
        asked.account.turn(Stage::Other);
        let file = match found {
            Err(ReplyError::Folder) => {
                return listing::without_slash(state, head, asked, path.as_str()).await;
            }
            found => found?,
        };
        // The server of `auth_url` judged the path as requested, not another form of it.
        let is_other_form = *file.path != *path.as_str()
            && composed(&file.path) == composed(path.as_str())
            && asked.settings.access.uses_auth_server(path.as_str());
        if is_other_form {
            return Err(ReplyError::Status(Status::NotFound, None));
        }
        if asked.method == Method::Propfind {
            return listing::of_file(head, path.as_str(), &file);
        }
        let packed = packed_beside(state, head, asked, path.as_str(), &file).await;
        if let Some((coding, packed)) = packed {
            let sent = CodedFile {
                file: &packed,
                ready_made: Some(coding),
            };
            if let Ok(answer) = fetch(state, head, asked, path.as_str(), sent).await {
                return Ok(answer);
            }
        }
        let sent = CodedFile {
            file: &file,
            ready_made: None,
        };
        match fetch(state, head, asked, path.as_str(), sent).await {
            Err(
                ReplyError::Failed(Failure::Changed) | ReplyError::Refused(Refusal::UnknownStream),
            ) if tried < VERSIONS_TRIED_MAX => {
                state.library.distrust(path.as_str());
            }
            answer => return answer,
        }
    }
    Err(ReplyError::Failed(Failure::Changed))
}

/// Whether the folder of a path, or at it, is listed.
fn is_listed(state: &MediaState, settings: &HttpSettings, path: &str) -> bool {
    settings.access.listing(path) != ListingFormat::Off && !listing::is_pulled(state, path)
}

/// The compressed file beside a text, to be sent in its place. On any error the text itself is sent.
async fn packed_beside(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    path: &str,
    file: &FileEntry,
) -> Option<(ContentCoding, Arc<FileEntry>)> {
    for coding in ready_made_codings(head, asked, file) {
        let beside = format!("{path}{}", coding.extension());
        asked.account.turn(Stage::Lookup);
        let found = resolve(state, &beside, asked.settings.lookup_timeout).await;
        asked.account.turn(Stage::Other);
        if let Some(found) = found.ok().filter(|found| is_up_to_date(found, file)) {
            return Some((coding, found));
        }
    }
    None
}

/// A file to send.
struct CodedFile<'a> {
    file: &'a Arc<FileEntry>,
    /// Its coding, if it is the compressed file beside a text.
    ready_made: Option<ContentCoding>,
}

/// Plans the reply for a file, or for the compressed file beside it, and waits for the first bytes
/// of its body.
async fn fetch(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    path: &str,
    sent: CodedFile<'_>,
) -> Result<PreparedReply, ReplyError> {
    let CodedFile { file, ready_made } = sent;
    let gzip_turn = match ready_made {
        Some(_) => None,
        None => gzip_turn(state, head, asked, file),
    };
    let coding = ready_made.or(gzip_turn.as_ref().map(|_| ContentCoding::Gzip));
    let mut shown = FileMetadata::of(path, file, asked.settings.etag);
    if let Some(coding) = coding {
        shown.entity_tag = coding.tag(&shown.entity_tag);
    }
    let mut plan = plan_for(head, asked, &shown);
    if coding.is_some() || may_be_compressed(&asked.settings, file) {
        plan.fields.push(("vary", "accept-encoding".into()));
    }
    if plan.status == Status::Ok {
        if let Some(coding) = ready_made {
            plan.code(coding.name(), Some(file.size));
        } else if gzip_turn.is_some() && asked.method == Method::Head {
            // The compressed length is unknown before compression.
            plan.code("gzip", None);
        }
    }
    let device = device_of(state, asked, file)?;
    let Some(first_part) = plan.body.parts.first() else {
        return Ok(PreparedReply::without_bytes(plan));
    };
    // A client that names no range may stop reading anywhere.
    let whole = plan.status == Status::Ok;
    let asking = requester(state, asked, device, file, whole)?;
    asked.account.turn(Stage::Device);
    let begun = asking.request_from_device(first_part).await;
    let begun = begun.map_err(ReplyError::from)?;
    asked.account.record.chain = begun.reply.chain().map(|chain| chain.0);
    if let Some(turn) = gzip_turn {
        let account = &mut asked.account;
        let note = |piece: Option<&Piece>| match piece {
            Some(piece) => {
                account.note_piece(piece);
                account.got(piece, Stage::Device);
            }
            None => account.turn(Stage::Other),
        };
        let gzipped = gzip(begun.reply, turn, note).await;
        let gzipped = gzipped.map_err(ReplyError::Failed)?;
        plan.code("gzip", Some(gzipped.bytes.len() as u64));
        add_cmsd(&mut plan, asked, path, file);
        return Ok(PreparedReply {
            gzipped: Some(gzipped),
            ..PreparedReply::without_bytes(plan)
        });
    }
    let is_of_copies =
        begun.reply.is_of_copies() && ready_made.is_none() && asked.cmcd == Cmcd::default();
    let mut answer = with_first_bytes(asking, begun, asked, path, file, plan).await?;
    if is_of_copies {
        answer.of_copies = CopiedReply::of(&answer.plan, path, file);
    }
    Ok(answer)
}
