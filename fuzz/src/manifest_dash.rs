//! Input: an MPD.

use headlong_library::parse_dash;
use headlong_media::dash_title;

use crate::manifest::{built, check_title};

/// The title is bounded, references nothing outside the tree, and places each file once.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match parse_dash(text, &[]) {
        Err(reason) => assert!(!reason.is_empty()),
        Ok(mpd) => {
            check_title(built(|builder| dash_title("films/a/v.mpd", &mpd, builder)).as_ref())
        }
    }
}
