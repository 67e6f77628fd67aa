//! A playlist for each title with several files: it tells a server their order and durations.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use headlong_workload::{Catalogue, Title, TitleForm};

use super::RigError;

/// Its file name, in the title's folder.
const NAME: &str = "index.m3u8";

/// Writes the playlists of `catalogue` below `root`.
pub(super) fn write_all(root: &Path, catalogue: &Catalogue) -> Result<(), RigError> {
    if !catalogue.form.is_split() {
        return Ok(());
    }
    for title in &catalogue.titles {
        let first = catalogue.files(title).next();
        let folder = first.and_then(|file| Some(root.join(file.path).parent()?.join(NAME)));
        if let Some(path) = folder {
            let text = playlist(catalogue, title);
            fs::write(&path, text).map_err(|error| RigError::io(path.display(), error))?;
        }
    }
    Ok(())
}

/// The header file before the segments, if there is one, then every file with its duration.
fn playlist(catalogue: &Catalogue, title: &Title) -> String {
    let (mut lines, mut longest_s) = (String::new(), 0.0_f64);
    for file in catalogue.files(title) {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        // Writing to a string cannot fail.
        if catalogue.form == TitleForm::Segments && file.range.end <= title.header_bytes {
            let _ = writeln!(lines, "#EXT-X-MAP:URI=\"{name}\"");
            continue;
        }
        let seconds = match catalogue.form {
            TitleForm::Segments => title.segment_time.as_secs_f64(),
            TitleForm::Whole | TitleForm::Chunks(_) => {
                file.range.len() as f64 * 8.0 / title.bit_rate()
            }
        };
        longest_s = longest_s.max(seconds);
        let _ = writeln!(lines, "#EXTINF:{seconds:.3},\n{name}");
    }
    let target = longest_s.ceil();
    format!("#EXTM3U\n#EXT-X-TARGETDURATION:{target}\n{lines}#EXT-X-ENDLIST\n")
}

#[cfg(test)]
mod tests {
    use headlong_workload::Specification;

    use super::*;

    fn first_title(preset: &str, changes: &[(&str, &str)]) -> String {
        let changes: Vec<_> = changes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        let specification = Specification::preset(preset, &changes).expect("right");
        let catalogue = Catalogue::of(&specification);
        playlist(&catalogue, &catalogue.titles[0])
    }

    #[test]
    fn chunk_duration_follows_bytes() {
        let text = first_title(
            "youtube-sd",
            &[("catalogue.chunk", "1MiB"), ("title.sd.count", "1")],
        );
        let start = "#EXTM3U\n#EXT-X-TARGETDURATION:20\n#EXTINF:20.000,\n00000.bin\n";
        assert!(text.starts_with(start), "{text}");
        assert!(text.ends_with("#EXT-X-ENDLIST\n"), "{text}");
    }

    #[test]
    fn segments_have_durations_and_header_is_map() {
        let changes = [("catalogue.chunk", "segment"), ("title.dash.count", "1")];
        let text = first_title("dash-vod", &changes);
        let start = "#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXT-X-MAP:URI=\"00000-0.bin\"\n\
                     #EXTINF:4.000,\n00001-";
        assert!(text.starts_with(start), "{text}");
    }
}
