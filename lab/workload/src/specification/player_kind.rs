//! Viewers and their players.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_player::PlayerConfig;

use crate::player_config_text;

/// Viewers with one kind of player.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayerKind {
    /// Its name: `tv`, `phone`.
    pub name: String,
    /// Share of sessions with it; shares add up to 1.
    pub share: f64,
    /// How it adapts its bit rate; `None` for the papers' simple player (thesis 3.4), whose
    /// requests [`super::RequestSettings`] describes.
    pub make: Option<Arc<PlayerConfig>>,
}

impl PlayerKind {
    /// The papers' simple player, for all viewers.
    pub fn simple() -> Self {
        Self {
            name: "simple".to_string(),
            share: 1.0,
            make: None,
        }
    }
}

/// The settings of an adaptive player, in the words of a specification: `rule=bola low=10s ...`.
pub fn player_text(make: &PlayerConfig) -> String {
    let words = player_config_text::words(make).into_iter();
    let words: Vec<String> = words.map(|(key, value)| format!("{key}={value}")).collect();
    words.join(" ")
}
