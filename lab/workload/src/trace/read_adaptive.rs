//! Parses players, titles and acts of adaptive sessions.
//!
//! Invariant: a session's title and player pass [`headlong_player::AdaptivePlan::check`], or the
//! trace is refused.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_player::{
    AdaptivePlan, ObjectId, ObjectRange, PlayerConfig, Rendition, SegmentTable, Title, ViewerAction,
};
use headlong_units::{BitRate, nearest};

use super::TraceErrors;
use super::line::{self, LineFlaw, LineWord};
use super::objects::ObjectTable;
use super::values::{LineValues, pairs, parsed, value};
use crate::player_config_text;

/// Largest number of segments of a title: the check inspects each of them.
const SEGMENTS_MAX: u64 = 1_000_000;
/// Renditions parsed before the title is refused for their number.
const RENDITIONS_KEPT: usize = 65;

/// Players and titles parsed so far, by their ids in the text.
#[derive(Default)]
pub(super) struct ParsedObjects {
    makes: BTreeMap<u64, Arc<PlayerConfig>>,
    titles: BTreeMap<u64, Arc<Title>>,
    /// The title whose renditions are being parsed: its line, its id, and the title so far.
    open: Option<(usize, u64, Title)>,
    /// Whether the last title was invalid: no errors are reported for its renditions.
    is_broken: bool,
}

impl ParsedObjects {
    pub(super) fn read_player(
        &mut self,
        line: usize,
        words: &[LineWord],
        errors: &mut TraceErrors,
    ) -> Result<(), LineFlaw> {
        let keys: Vec<&str> = core::iter::once("id")
            .chain(player_config_text::KEYS)
            .collect();
        let values = pairs(words, &keys)?;
        let id = self.new_id(&values, "player")?;
        let mut source = PlayerLine {
            values: &values,
            flaws: Vec::new(),
        };
        let make = player_config_text::read(&mut source);
        for (column, reason) in source.flaws {
            errors.push(line, column, reason);
        }
        self.makes.insert(id, Arc::new(make));
        Ok(())
    }

    pub(super) fn read_title(&mut self, line: usize, words: &[LineWord]) -> Result<(), LineFlaw> {
        self.is_broken = true;
        let values = pairs(words, &["id", "segment", "segments"])?;
        let id = self.new_id(&values, "title")?;
        let segments = value(&values, "segments", |text| {
            let count = line::whole(text)?;
            let count = u32::try_from(count).ok().filter(|_| count <= SEGMENTS_MAX);
            count.ok_or_else(|| {
                format!("`{text}` segments are too many; {SEGMENTS_MAX} are the most")
            })
        })?;
        let title = Title {
            segment: value(&values, "segment", line::seconds)?.unwrap_or_default(),
            segments: segments.unwrap_or(0),
            renditions: Vec::new(),
        };
        self.open = Some((line, id, title));
        self.is_broken = false;
        Ok(())
    }

    /// The id of a new player or title.
    fn new_id(&self, values: &LineValues<'_>, what: &str) -> Result<u64, LineFlaw> {
        let Some(word) = values.get("id") else {
            return Err((1, format!("the {what} has no number; write id=0")));
        };
        let id = line::whole(&word.text).map_err(|reason| (word.column, reason))?;
        let is_known = match what {
            "player" => self.makes.contains_key(&id),
            _ => self.titles.contains_key(&id),
        };
        match is_known {
            true => Err((word.column, format!("there is a {what} {id} already"))),
            false => Ok(id),
        }
    }

    pub(super) fn read_rendition(
        &mut self,
        words: &[LineWord],
        objects: &mut ObjectTable,
    ) -> Result<(), LineFlaw> {
        if self.open.is_none() {
            if self.is_broken {
                return Ok(());
            }
            let text = "belongs to no title; write it after a line `#headlong title`";
            return Err((1, text.to_string()));
        }
        let mut draft = RenditionDraft::default();
        for word in words {
            draft.read(word, objects)?;
        }
        let files = draft.file_bytes.map(|_| draft.files.len());
        let first = objects.in_row(&draft.files);
        let rendition = draft.finish(first);
        let Some((_, _, title)) = &mut self.open else {
            return Ok(());
        };
        if title.renditions.len() < RENDITIONS_KEPT {
            title.renditions.push(rendition);
        }
        match files {
            Some(count) if count != title.segments as usize => {
                let segments = title.segments;
                let text = format!("names {count} files, and the title has {segments} segments");
                Err((1, text))
            }
            _ => Ok(()),
        }
    }

    /// Completes the title whose renditions were being parsed.
    pub(super) fn close_title(&mut self, errors: &mut TraceErrors) {
        let Some((line, id, title)) = self.open.take() else {
            return;
        };
        for error in title.check() {
            errors.push(line, 1, format!("title {id}: {error}"));
        }
        self.titles.insert(id, Arc::new(title));
    }

    /// The plan of a session with title and player.
    pub(super) fn adaptive(
        &self,
        values: &LineValues<'_>,
    ) -> Result<Option<AdaptivePlan>, LineFlaw> {
        let Some((title, player)) = values.get("title").zip(values.get("player")) else {
            let words = ["title", "player", "acts"];
            let alone = words.into_iter().find_map(|key| values.get(key));
            return alone.map_or(Ok(None), |word| {
                let text = "a session that adapts has title=, player= and acts=";
                Err((word.column, text.to_string()))
            });
        };
        if let Some(word) = values.get("rate").or(values.get("start")) {
            let text = "is for sessions with listed calls; this session has an adaptive player";
            return Err((word.column, text.to_string()));
        }
        let title = find(&self.titles, title, "title")?;
        let make = find(&self.makes, player, "player")?;
        let acts = match values.get("acts") {
            Some(word) => acts(word, title.segments)?,
            None => Vec::new(),
        };
        Ok(Some(AdaptivePlan { title, acts, make }))
    }
}

fn find<T>(known: &BTreeMap<u64, Arc<T>>, word: &LineWord, what: &str) -> Result<Arc<T>, LineFlaw> {
    let id = line::whole(&word.text).map_err(|reason| (word.column, reason))?;
    let found = known.get(&id).map(Arc::clone);
    found.ok_or_else(|| {
        let text = format!("there is no {what} {id} above; write `#headlong {what} id={id}`");
        (word.column, text)
    })
}

/// `watch:120,pause:60.5,skip:12`.
fn acts(word: &LineWord, segments: u32) -> Result<Vec<ViewerAction>, LineFlaw> {
    let mut column = word.column;
    let mut acts = Vec::new();
    for text in word.text.split(',') {
        let act = act(text, segments).map_err(|reason| (column, reason))?;
        acts.push(act);
        column += text.len() + 1;
    }
    Ok(acts)
}

fn act(text: &str, segments: u32) -> Result<ViewerAction, String> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    match name {
        "watch" => line::seconds(value).map(ViewerAction::Watch),
        "pause" => line::seconds(value).map(ViewerAction::Pause),
        "skip" => {
            let segment = line::whole(value)?;
            let segment = u32::try_from(segment).ok();
            let segment = segment.filter(|segment| *segment < segments);
            segment.map(ViewerAction::Skip).ok_or_else(|| {
                format!("there is no segment {value}; the title has {segments}, from 0")
            })
        }
        _ => {
            let meant = nearest(name, ["watch", "pause", "skip"].into_iter());
            let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}?"));
            Err(format!(
                "`{text}` is not an act; write watch:SECONDS, pause:SECONDS or skip:SEGMENT{meant}"
            ))
        }
    }
}

/// Words of a player's line.
struct PlayerLine<'a, 'b> {
    values: &'a LineValues<'b>,
    flaws: Vec<LineFlaw>,
}

impl player_config_text::WordSource for PlayerLine<'_, '_> {
    fn take(&mut self, key: &'static str) -> Option<String> {
        self.values.get(key).map(|word| word.text.clone())
    }

    fn wrong(&mut self, key: &'static str, text: String) {
        let column = self.values.get(key).map_or(1, |word| word.column);
        self.flaws.push((column, format!("{key}: {text}")));
    }
}

/// A rendition whose line is being parsed.
#[derive(Default)]
struct RenditionDraft {
    rate: BitRate,
    header: Option<ObjectRange>,
    /// The current object.
    object: Option<ObjectId>,
    /// Equal ranges: the file, the start of the first range, its size, and the file's size.
    file: Option<ObjectId>,
    from: Option<u64>,
    segment: Option<u64>,
    size: Option<u64>,
    /// Separate files: size of each, size of the last, and the files.
    file_bytes: Option<u64>,
    last_bytes: Option<u64>,
    files: Vec<ObjectId>,
    places: Vec<ObjectRange>,
}

/// Words of a rendition's line, besides paths.
const WORDS: [&str; 8] = [
    "rate", "header", "from", "segment", "size", "file", "last", "at",
];

impl RenditionDraft {
    fn read(&mut self, word: &LineWord, objects: &mut ObjectTable) -> Result<(), LineFlaw> {
        if let Some(path) = word.text.strip_prefix('/') {
            let object = objects.named(path.to_string());
            self.object = Some(object);
            if self.file_bytes.is_some() {
                self.files.push(object);
            }
            return Ok(());
        }
        let pair = word.pair().filter(|(key, _)| WORDS.contains(key));
        let Some((key, value)) = pair else {
            let key = word.text.split('=').next().unwrap_or_default();
            let meant = nearest(key, WORDS.into_iter());
            let meant = meant.map_or(String::new(), |meant| format!("; did you mean {meant}=?"));
            let text = format!("`{}` is not a path and unknown here{meant}", word.text);
            return Err((word.column, text));
        };
        let text = value.text.as_str();
        let at = |reason: String| (value.column, reason);
        let number = |to: &mut Option<u64>| -> Result<(), LineFlaw> {
            *to = Some(line::whole(text).map_err(at)?);
            Ok(())
        };
        match key {
            "rate" => self.rate = parsed(text).map_err(at)?,
            "from" => number(&mut self.from)?,
            "segment" => number(&mut self.segment)?,
            "size" => {
                number(&mut self.size)?;
                self.file = self.object;
            }
            "file" => number(&mut self.file_bytes)?,
            "last" => number(&mut self.last_bytes)?,
            _ => {
                let Some(object) = self.object else {
                    return Err(at("is in no file; write its path before it".to_string()));
                };
                let place = place(text, object).map_err(at)?;
                match key {
                    "header" => self.header = Some(place),
                    _ => self.places.push(place),
                }
            }
        }
        Ok(())
    }

    /// The rendition described by the words; invalid ones are reported by the title's check.
    /// `first` is the first of its separate files.
    fn finish(self, first: ObjectId) -> Rendition {
        let segments = match (self.file, self.file_bytes) {
            (Some(object), _) => SegmentTable::OneFile {
                object,
                start: self.from.unwrap_or(0),
                segment_bytes: self.segment.unwrap_or(0),
                file_bytes: self.size.unwrap_or(0),
            },
            (None, Some(file_bytes)) => SegmentTable::Files {
                first,
                file_bytes,
                last_bytes: self.last_bytes.unwrap_or(file_bytes),
            },
            (None, None) => SegmentTable::Table(self.places),
        };
        Rendition {
            bit_rate: self.rate,
            header: self.header,
            segments,
        }
    }
}

/// `0-99`, `100-`, `all`; with `:BYTES`, or `:?` for an unknown size.
fn place(text: &str, object: ObjectId) -> Result<ObjectRange, String> {
    let (which, bytes) = match text.split_once(':') {
        Some((which, bytes)) => (which, Some(bytes)),
        None => (text, None),
    };
    let range = match which {
        "all" => None,
        which => Some(line::range(which)?),
    };
    let plain = range.filter(|range| range.end < u64::MAX);
    Ok(ObjectRange {
        object,
        range,
        bytes: match bytes {
            None => plain.map(|range| range.len()),
            Some("?") => None,
            Some(bytes) => Some(line::whole(bytes)?),
        },
    })
}
