//! Steering of the players of packaged titles to other boxes of a fleet: what their playlists name,
//! and the steering manifest, which is answered without any disk.

use headlong_engine::{ReaderIdentity, ViewerId};
use headlong_fleet::{PathwayOrder, Steering};
use headlong_http::PlannedBody;
use headlong_package::{Links, Pathway, PlayerSteering, Resource};
use xxhash_rust::xxh3::xxh3_64;

use super::packaged_file;
use super::parsed_request::ParsedRequest;
use super::prepared_reply::{FileMetadata, PreparedReply, plan_assembled_for};
use super::state::MediaState;

/// How the players of a request's host are steered, if they are. Sites have other names at each box,
/// which no description states.
fn steering(asked: &ParsedRequest) -> Option<&Steering> {
    let steering = asked.settings.steering.as_deref();
    steering.filter(|_| asked.site.is_empty())
}

/// Whether there are steering manifests at a request's host.
pub(super) fn is_on(asked: &ParsedRequest) -> bool {
    steering(asked).is_some()
}

/// The boxes for the viewer of a request for a title.
fn pathways<'a>(
    state: &MediaState,
    asked: &'a ParsedRequest,
    title: &str,
) -> Option<PathwayOrder<'a>> {
    let (ReaderIdentity::Named(ViewerId(viewer))
    | ReaderIdentity::Unnamed {
        origin: ViewerId(viewer),
        ..
    }) = asked.identity;
    let path = format!("/{title}/{}", Resource::Master);
    Some(steering(asked)?.pathways(&path, viewer, state.share.get()))
}

/// The links of a playlist of a whole title.
pub(super) fn links(
    state: &MediaState,
    head: &http::request::Parts,
    asked: &ParsedRequest,
    title: &str,
) -> Links {
    let links = packaged_file::links(head, asked);
    let Some(order) = pathways(state, asked, title) else {
        return links;
    };
    let path = head.uri.path();
    // With the token before the path, which opens the title at each box.
    let folder = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
    let pathway = |of: &headlong_fleet::Pathway<'_>| Pathway::new(of.name, of.url, folder);
    let all = order.pathways.iter().map(pathway).collect();
    links.steered(PlayerSteering::new(all, pathway(&order.own)))
}

/// The steering manifest of a title; `None` if players are not steered.
pub(super) fn manifest(
    state: &MediaState,
    head: &http::request::Parts,
    asked: &ParsedRequest,
    title: &str,
) -> Option<PreparedReply> {
    let text = pathways(state, asked, title)?.manifest();
    let tag = xxh3_64(text.as_bytes());
    let shown = FileMetadata {
        path: &format!("{title}/{}", Resource::Steering),
        size: text.len() as u64,
        entity_tag: format!("\"{tag:016x}\""),
        modified: None,
        number: tag,
    };
    let mut plan = plan_assembled_for(head, asked, &shown, PlannedBody::text(text));
    // It is for one viewer at one moment, whatever the rule says of files.
    plan.fields.retain(|(name, _)| *name != "cache-control");
    plan.fields.push(("cache-control", "no-store".into()));
    Some(PreparedReply::without_bytes(plan))
}
