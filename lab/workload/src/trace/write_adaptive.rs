//! Writes adaptive sessions as `#headlong` lines: players and titles once, before the first session
//! that uses them, and the viewer's acts in the session's own line.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::{self, Write as _};

use headlong_player::{
    AdaptivePlan, ObjectId, ObjectRange, PlayerConfig, Rendition, SegmentTable, Title, ViewerAction,
};

use super::Trace;
use super::text::{RangeText, SecondsText};
use crate::player_config_text;

/// Players and titles written so far, with their ids. Sessions that share one share it in the text.
#[derive(Default)]
pub(super) struct WrittenObjects {
    makes: BTreeMap<*const PlayerConfig, usize>,
    titles: BTreeMap<*const Title, usize>,
}

impl Trace {
    /// Writes the player and the title of a session, unless they were written before.
    pub(super) fn write_shared(
        &self,
        plan: &AdaptivePlan,
        told: &mut WrittenObjects,
        text: &mut String,
    ) -> fmt::Result {
        let count = told.makes.len();
        let make = told.makes.entry(Arc::as_ptr(&plan.make));
        if let alloc::collections::btree_map::Entry::Vacant(new) = make {
            new.insert(count);
            write!(text, "#headlong player id={count}")?;
            for (key, value) in player_config_text::words(&plan.make) {
                write!(text, " {key}={value}")?;
            }
            text.push('\n');
        }
        let count = told.titles.len();
        let title = told.titles.entry(Arc::as_ptr(&plan.title));
        if let alloc::collections::btree_map::Entry::Vacant(new) = title {
            new.insert(count);
            let (segment, segments) = (SecondsText(plan.title.segment), plan.title.segments);
            writeln!(
                text,
                "#headlong title id={count} segment={segment} segments={segments}"
            )?;
            for rendition in &plan.title.renditions {
                self.write_rendition(rendition, plan.title.segments, text)?;
            }
        }
        Ok(())
    }

    fn write_rendition(
        &self,
        rendition: &Rendition,
        segments: u32,
        text: &mut String,
    ) -> fmt::Result {
        write!(text, "#headlong rendition rate={}", rendition.bit_rate)?;
        let mut path = None;
        if let Some(header) = rendition.header {
            self.write_object(header.object, &mut path, text);
            text.push_str(" header=");
            write_place(header, text)?;
        }
        match &rendition.segments {
            SegmentTable::OneFile {
                object,
                start,
                segment_bytes,
                file_bytes,
            } => {
                self.write_object(*object, &mut path, text);
                write!(
                    text,
                    " from={start} segment={segment_bytes} size={file_bytes}"
                )?;
            }
            SegmentTable::Files {
                first,
                file_bytes,
                last_bytes,
            } => {
                write!(text, " file={file_bytes} last={last_bytes}")?;
                for index in 0..segments {
                    text.push(' ');
                    self.write_path(first.0.saturating_add(index), true, true, text);
                }
            }
            SegmentTable::Table(places) => {
                for place in places {
                    self.write_object(place.object, &mut path, text);
                    text.push_str(" at=");
                    write_place(*place, text)?;
                }
            }
        }
        text.push('\n');
        Ok(())
    }

    /// Writes the path of an object, unless it is the current one.
    fn write_object(&self, object: ObjectId, before: &mut Option<ObjectId>, text: &mut String) {
        if before.replace(object) != Some(object) {
            text.push(' ');
            self.write_path(object.0, true, true, text);
        }
    }
}

/// Words of a session's line: its title, its player and its acts.
pub(super) fn write_session(
    plan: &AdaptivePlan,
    told: &WrittenObjects,
    text: &mut String,
) -> fmt::Result {
    let make = told.makes.get(&Arc::as_ptr(&plan.make));
    let title = told.titles.get(&Arc::as_ptr(&plan.title));
    let (make, title) = (make.unwrap_or(&0), title.unwrap_or(&0));
    write!(text, " player={make} title={title}")?;
    for (index, act) in plan.acts.iter().enumerate() {
        text.push_str(if index == 0 { " acts=" } else { "," });
        match act {
            ViewerAction::Watch(time) => write!(text, "watch:{}", SecondsText(*time))?,
            ViewerAction::Pause(time) => write!(text, "pause:{}", SecondsText(*time))?,
            ViewerAction::Skip(segment) => write!(text, "skip:{segment}")?,
        }
    }
    Ok(())
}

/// Byte range of an object, with the object's size if it does not follow: `0-99`, `all:900`.
fn write_place(place: ObjectRange, text: &mut String) -> fmt::Result {
    match place.range {
        Some(range) => write!(text, "{}", RangeText(range))?,
        None => text.push_str("all"),
    }
    let plain = place.range.filter(|range| range.end < u64::MAX);
    match (place.bytes, plain.map(|range| range.len())) {
        (bytes, plain) if bytes == plain => Ok(()),
        (Some(bytes), _) => write!(text, ":{bytes}"),
        (None, _) => write!(text, ":?"),
    }
}
