//! Input: a playlist, then a line `=`, then the contents of every playlist that it references.

use headlong_library::{HlsPlaylist, parse_hls};
use headlong_media::{PATH_BYTES_MAX, TitleNotes, master_title, media_title, playlists};

use crate::manifest::{built, check_title};

/// The title is bounded, references nothing outside the tree, and places each file once.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let (first, named) = text.split_once("\n=\n").unwrap_or((text, ""));
    let path = "films/a/v.m3u8";
    match parse_hls(first, &[]) {
        Err(reason) => assert!(!reason.is_empty()),
        Ok(HlsPlaylist::Media(media)) => {
            check_title(built(|builder| media_title(path, &media, builder)).as_ref())
        }
        Ok(HlsPlaylist::Master(master)) => {
            for reference in playlists(path, &master, &mut TitleNotes::default()) {
                assert!(!reference.path.is_empty() && reference.path.len() <= PATH_BYTES_MAX);
            }
            let media = match parse_hls(named, &[]) {
                Ok(HlsPlaylist::Media(media)) => Some(media),
                _ => None,
            };
            check_title(
                built(|builder| master_title(path, &master, |_| media.as_ref(), builder)).as_ref(),
            );
        }
    }
}
