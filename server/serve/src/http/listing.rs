//! Replies for folders: pages, JSON, and properties for WebDAV clients.
//!
//! Names come from look-up threads; sorting and text run beside the connection threads. Invariants:
//! a listing names only what its reader would be served ([`super::access_rules`]), and the memory of
//! all listings is bounded ([`super::listing_slots`]).

use std::sync::Arc;

use headlong_engine::{Failure, Refusal};
use headlong_http::{
    FieldList, HttpDate, Method, PlannedBody, PreconditionResult, Preconditions, ReplyPlan,
    RequestHead, Status, Validators, evaluate,
};
use headlong_library::{FileEntry, FolderEntry, FolderEntryKind};
use headlong_telemetry::Stage;
use xxhash_rust::xxh3::xxh3_64;

use super::file_lookup::{LOOKUP_MAX, not_found};
use super::listing_page::{ListingOrder, ListingPage};
use super::parsed_request::{ParsedRequest, fields_of};
use super::prepared_reply::{PreparedReply, ReplyError};
use super::site::TreePath;
use super::state::{HttpSettings, MediaState};
use super::webdav::{self, Depth};
use headlong_config::ListingFormat;

/// Scripts, frames and other sources have no place in a listing.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                              form-action 'self'; frame-ancestors 'self'";

/// The input of a listing, besides the names.
struct ListingInputs {
    state: Arc<MediaState>,
    settings: Arc<HttpSettings>,
    /// Its path among all sites, which ends in a slash.
    folder: String,
    /// The same below its site.
    shown: String,
    /// Its path as requested.
    target: String,
    query: String,
    /// `None` for a GET.
    depth: Option<Depth>,
}

/// A listing, ready to send.
struct ListingText {
    text: String,
    media_type: &'static str,
    /// The page after it.
    next: Option<String>,
}

/// Whether the files at a path come from an origin.
pub(super) fn is_pulled(state: &MediaState, path: &str) -> bool {
    state.pulls.covers(path)
}

/// Answers a request for a folder, whose path ends in a slash.
pub(super) async fn answer(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    path: &TreePath,
) -> Result<PreparedReply, ReplyError> {
    let folder = path.as_str();
    if is_pulled(state, folder) {
        return Err(ReplyError::Status(Status::NotFound, None));
    }
    let depth = match asked.method {
        Method::Propfind => match Depth::read(&head.headers) {
            Some(depth) => Some(depth),
            None => return Ok(PreparedReply::without_bytes(webdav::refuse_depth())),
        },
        _ => None,
    };
    let within = asked.settings.lookup_timeout.min(LOOKUP_MAX);
    asked.account.turn(Stage::Lookup);
    let turn = state.listings.make(within).await;
    let turn = turn.ok_or(ReplyError::Refused(Refusal::Full))?;
    let found = state.lookups.list(folder, None, within).await;
    asked.account.turn(Stage::Other);
    let entries = found.map_err(|error| not_found(state, error))?;
    let inputs = ListingInputs {
        state: Arc::clone(state),
        settings: Arc::clone(&asked.settings),
        folder: folder.to_owned(),
        shown: path.below_site().to_owned(),
        target: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        depth,
    };
    // It goes on if the client leaves.
    let made = tokio::task::spawn_blocking(move || (inputs.write(entries), turn)).await;
    let (made, turn) = made.map_err(|_| ReplyError::Failed(Failure::NoResources))?;
    let made = made?;
    let held = hold_text(state, asked, made.text.len());
    drop(turn);
    held?;
    let plan = match depth {
        Some(_) => webdav::reply(made.text),
        None => plan_for(head, asked, made),
    };
    Ok(PreparedReply::without_bytes(plan))
}

/// Counts a generated text against the memory for those, until it was sent.
pub(super) fn hold_text(
    state: &MediaState,
    asked: &mut ParsedRequest,
    bytes: usize,
) -> Result<(), ReplyError> {
    let proxies = &asked.settings.proxies;
    let address = asked.account.record.remote.ip();
    let address = address.filter(|address| !proxies.trust(*address));
    let held = state.listings.send(bytes, address);
    if let Some(large) = held.ok_or(ReplyError::Refused(Refusal::Full))? {
        asked.account.listing_units = Some(large.units);
        asked.account.held = large.share;
    }
    Ok(())
}

impl ListingInputs {
    /// Writes the reply; takes milliseconds of a processor.
    fn write(&self, mut entries: Vec<FolderEntry>) -> Result<ListingText, ReplyError> {
        entries.retain(|entry| self.is_named(entry));
        let order = ListingOrder::read(&self.query);
        if let Some(depth) = self.depth {
            ListingOrder::default().sort(&mut entries);
            let text = webdav::folder(&self.target, depth, &entries).ok_or_else(|| {
                let detail = "the folder is too large for a reply to PROPFIND; read it in pages, \
                              with GET";
                ReplyError::Status(Status::Forbidden, Some(detail.to_owned()))
            })?;
            return Ok(ListingText {
                text,
                media_type: webdav::MEDIA_TYPE,
                next: None,
            });
        }
        order.sort(&mut entries);
        let page = ListingPage::new(&self.shown, &entries, order, &self.query);
        let (text, media_type) = match self.settings.access.listing(&self.folder) {
            ListingFormat::Json => (page.json(), "application/json"),
            _ => (page.html(), "text/html; charset=utf-8"),
        };
        Ok(ListingText {
            text,
            media_type,
            next: page.next(),
        })
    }

    fn is_named(&self, entry: &FolderEntry) -> bool {
        let slash = match entry.kind {
            FolderEntryKind::Folder => "/",
            _ => "",
        };
        let path = format!("{}{}{slash}", self.folder, entry.name);
        self.settings.access.may_be_named(&self.folder, &path) && !is_pulled(&self.state, &path)
    }
}

/// The reply to GET or HEAD. Caches may keep it and must ask whether it is still the same: names
/// change at any time.
fn plan_for(head: &http::request::Parts, asked: &ParsedRequest, made: ListingText) -> ReplyPlan {
    let entity_tag = format!("\"{:016x}\"", xxh3_64(made.text.as_bytes()));
    let mut fields: FieldList = vec![
        ("etag", entity_tag.clone().into()),
        ("cache-control", "no-cache".into()),
    ];
    let received = HttpDate::EPOCH;
    let pairs = fields_of(head);
    let boundary = headlong_http::Boundary { seed: 0 };
    let request = RequestHead::read(asked.method, received, boundary, pairs.iter().copied());
    let preconditions = Preconditions {
        if_match: request.if_match.as_deref(),
        if_none_match: request.if_none_match.as_deref(),
        if_modified_since: None,
        if_unmodified_since: None,
        if_range: None,
    };
    let validators = Validators {
        entity_tag: &entity_tag,
        modified: None,
    };
    let body = PlannedBody::default();
    match evaluate(asked.method, &preconditions, &validators, received) {
        PreconditionResult::NotModified => ReplyPlan {
            status: Status::NotModified,
            fields,
            body,
        },
        PreconditionResult::PreconditionFailed => {
            headlong_http::error_reply(Status::PreconditionFailed, asked.method, None)
        }
        PreconditionResult::Proceed { .. } => {
            fields.extend([
                ("content-type", made.media_type.into()),
                ("content-length", made.text.len().to_string().into()),
                ("content-security-policy", CONTENT_POLICY.into()),
                ("x-content-type-options", "nosniff".into()),
            ]);
            if let Some(next) = made.next {
                fields.push(("link", format!("<?{next}>; rel=\"next\"").into()));
            }
            ReplyPlan {
                status: Status::Ok,
                fields,
                body: match asked.method {
                    Method::Head => body,
                    _ => PlannedBody::text(made.text),
                },
            }
        }
    }
}

/// Answers a request for a folder whose path lacks the slash at its end: with the right URL, if the
/// folder is listed.
pub(super) async fn without_slash(
    state: &Arc<MediaState>,
    head: &http::request::Parts,
    asked: &mut ParsedRequest,
    path: &str,
) -> Result<PreparedReply, ReplyError> {
    let folder = format!("{path}/");
    let is_off = asked.settings.access.listing(&folder) == ListingFormat::Off;
    if is_off || is_pulled(state, &folder) {
        return Err(ReplyError::Folder);
    }
    let target = head.uri.path();
    let name = target.rsplit('/').next().unwrap_or_default();
    let query = head.uri.query().map(|query| format!("?{query}"));
    // Relative, so that it is right behind a proxy and a path token; the dot protects names with a
    // colon.
    let location = format!("./{name}/{}", query.unwrap_or_default());
    let detail = "this is a folder; its URL ends in a slash";
    let mut plan = headlong_http::error_reply(Status::MovedPermanently, asked.method, Some(detail));
    plan.fields.push(("location", location.into()));
    Ok(PreparedReply::without_bytes(plan))
}

/// The properties of a file.
pub(super) fn of_file(
    head: &http::request::Parts,
    path: &str,
    file: &FileEntry,
) -> Result<PreparedReply, ReplyError> {
    if Depth::read(&head.headers).is_none() && head.headers.contains_key("depth") {
        return Ok(PreparedReply::without_bytes(webdav::refuse_depth()));
    }
    let entry = FolderEntry {
        name: path.rsplit('/').next().unwrap_or(path).to_owned(),
        kind: FolderEntryKind::File(file.size),
        mtime: file.mtime,
    };
    let text = webdav::file(head.uri.path(), &entry);
    Ok(PreparedReply::without_bytes(webdav::reply(text)))
}
