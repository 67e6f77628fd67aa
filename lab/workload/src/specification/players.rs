//! Players: the table `[player]`, or one `[player.NAME]` for each kind.

use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use alloc::{format, vec};

use headlong_player::{PlayerConfig, RequestExtent};
use headlong_settings::{Document, choice, number};

use super::check::check_name;
use super::{PlayerKind, Specification};
use crate::{TitleForm, player_keys};

/// Keys of the requests of simple players, which do not apply to adaptive ones.
const SIMPLE_KEYS: [&str; 6] = [
    "requests.size",
    "requests.unpaced",
    "requests.pacing",
    "requests.timeout",
    "requests.connections",
    "requests.open_ended",
];

/// Reads all kinds of players; a simple one if none is present.
pub(super) fn players(table: &mut Document) -> Vec<PlayerKind> {
    let names = table.children("player");
    if names.is_empty() {
        let is_written = table.is_written("player");
        let make = player(table, "player", is_written);
        let name = if make.is_some() { "adaptive" } else { "simple" };
        return vec![PlayerKind {
            name: name.to_string(),
            share: 1.0,
            make,
        }];
    }
    let kinds = names.into_iter().map(|name| {
        let prefix = format!("player.{name}");
        let share = table.get(&format!("{prefix}.share"), &number().between(0.0, 1e9));
        PlayerKind {
            make: player(table, &prefix, true),
            share: share.unwrap_or(1.0),
            name,
        }
    });
    let mut kinds: Vec<PlayerKind> = kinds.collect();
    let sum: f64 = kinds.iter().map(|kind| kind.share).sum();
    if sum > 0.0 {
        kinds.iter_mut().for_each(|kind| kind.share /= sum);
    } else {
        table.wrong(
            "player",
            "no player has a share; write share = 1 for one of them",
        );
    }
    kinds
}

/// One player, unless it is a simple one.
fn player(table: &mut Document, prefix: &str, is_written: bool) -> Option<Arc<PlayerConfig>> {
    let kinds = [("adaptive", true), ("simple", false)];
    let kind = table.get(&format!("{prefix}.kind"), &choice(&kinds));
    if kind.unwrap_or(is_written) {
        return Some(Arc::new(player_keys::read(table, prefix)));
    }
    let is_changed = table.is_overridden(&format!("{prefix}.kind"));
    for key in player_keys::names() {
        let key = format!("{prefix}.{key}");
        // An override of the kind cannot remove the keys of the old kind: they are ignored.
        let is_wrong = table.take(&key).is_some() && !is_changed;
        let text = "is for adaptive players; remove it, or write kind = \"adaptive\"";
        table.wrong_if(is_wrong, &key, text);
    }
    None
}

impl Specification {
    /// Whether any viewer's player adapts its bit rate.
    pub fn has_adaptive_players(&self) -> bool {
        let mut watched = self.players.iter().filter(|kind| kind.share > 0.0);
        watched.any(|kind| kind.make.is_some())
    }
}

/// Reports settings that are incompatible with adaptive players.
pub(super) fn check_players(specification: &Specification, table: &mut Document) {
    for kind in &specification.players {
        check_name(table, &format!("player.{}.share", kind.name), &kind.name);
    }
    if !specification.has_adaptive_players() {
        return;
    }
    let form = specification.storage.form;
    let text = "adaptive players request whole segments; write \"segment\" or \"off\"";
    table.wrong_if(form.chunk_bytes().is_some(), "catalogue.chunk", text);
    let makes = || specification.players.iter().map(|kind| kind.make.as_ref());
    let is_open = |make: &Arc<PlayerConfig>| make.shape == RequestExtent::OpenEnded;
    if makes().flatten().any(is_open) {
        let text = "adaptive players may abandon an open-ended request at any byte, so its range \
                    is unknown; write 0, or request_segments = 1";
        let warms = specification.sessions.warming_count > 0;
        table.wrong_if(warms, "sessions.warming", text);
        let text = "an open-ended request ends where its file does; write \"off\", or \
                    request_segments = 1";
        table.wrong_if(form == TitleForm::Segments, "catalogue.chunk", text);
        let text = "open-ended requests of adaptive players need segments of one size; write 0, \
                    or request_segments = 1";
        for group in &specification.groups {
            let key = format!("title.{}.segment_variation", group.name);
            table.wrong_if(group.segment_variation > 0.0, &key, text);
        }
    }
    if makes().all(|make| make.is_some()) {
        let is_changed = table.is_overridden("player.kind");
        let text = "is for simple players, but all are adaptive; remove it, or see the keys of \
                    [player]";
        for key in SIMPLE_KEYS {
            let is_meant = !is_changed || table.is_overridden(key);
            table.wrong_if(table.is_written(key) && is_meant, key, text);
        }
    }
}
