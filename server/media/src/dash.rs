//! DASH: the titles that an MPD describes (ISO/IEC 23009-1).
//!
//! Whichever way segments are addressed (a template by number or by time, a list, or one file with
//! an index), and on whichever level of the document, a representation becomes one list of
//! segments. A representation that continues in the next period under the same id continues the
//! same rendition.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_units::{BitRate, ByteRange, Duration};

use crate::note::TitleNotes;
use crate::template::{TemplateValues, expand, tells_segments_apart};
use crate::timeline::{
    TimelineEntry, TimelineSegment, duration_to_ticks, expand_timeline, ticks_to_duration,
};
use crate::title::{
    DeliveryKind, MediaType, RENDITIONS_PER_TITLE_MAX, Rendition, Segments, Title, brief,
};
use crate::title_builder::TitleBuilder;
use crate::uri::{UriError, resolve};

/// Expanding this many segments of a timeline costs as much as one stored segment.
const SPANS_PER_CHARGE: u64 = 64;

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mpd {
    /// `BaseURL`s, as written.
    pub base_urls: Vec<String>,
    /// `mediaPresentationDuration`.
    pub duration: Option<Duration>,
    /// The periods, in order.
    pub periods: Vec<Period>,
    /// Problems of the text.
    pub notes: TitleNotes,
}

/// One period.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Period {
    /// `BaseURL`s, as written.
    pub base_urls: Vec<String>,
    /// `start`.
    pub start: Option<Duration>,
    /// `duration`.
    pub duration: Option<Duration>,
    /// Addressing, unless a lower level overrides it.
    pub addressing: Addressing,
    /// Its adaptation sets.
    pub adaptation_sets: Vec<AdaptationSet>,
}

/// Interchangeable encodings of the same content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AdaptationSet {
    /// `BaseURL`s, as written.
    pub base_urls: Vec<String>,
    /// Media type, by `contentType` or `mimeType`; `None` if only its representations have one.
    pub media: Option<MediaType>,
    /// Addressing, unless a representation overrides it.
    pub addressing: Addressing,
    /// Its representations.
    pub representations: Vec<Representation>,
}

/// One encoding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Representation {
    /// `id`.
    pub id: String,
    /// `bandwidth`.
    pub bandwidth: Option<BitRate>,
    /// Media type.
    pub media: Option<MediaType>,
    /// `BaseURL`s, as written.
    pub base_urls: Vec<String>,
    /// How its segments are addressed.
    pub addressing: Addressing,
}

/// Addressing of segments on one level of the document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addressing {
    /// `SegmentTemplate`.
    pub template: Option<SegmentTemplate>,
    /// `SegmentList`.
    pub list: Option<SegmentList>,
    /// `SegmentBase`.
    pub base: Option<SegmentBase>,
}

/// `SegmentTemplate`; `None` fields are inherited from the level above.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentTemplate {
    /// `media`.
    pub media: Option<String>,
    /// `initialization`.
    pub initialization: Option<String>,
    /// `startNumber`; default 1.
    pub start_number: Option<u64>,
    /// `endNumber`.
    pub end_number: Option<u64>,
    /// `timescale`; default 1.
    pub timescale: Option<u64>,
    /// `presentationTimeOffset`, ticks.
    pub time_offset: Option<u64>,
    /// `duration`, ticks.
    pub duration: Option<u64>,
    /// `SegmentTimeline`.
    pub timeline: Option<Arc<[TimelineEntry]>>,
}

/// `SegmentList`; `None` or empty fields are inherited from the level above.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentList {
    /// `Initialization`.
    pub initialization: Option<UrlRange>,
    /// `timescale`; default 1.
    pub timescale: Option<u64>,
    /// `presentationTimeOffset`, ticks.
    pub time_offset: Option<u64>,
    /// `duration`, ticks.
    pub duration: Option<u64>,
    /// `SegmentTimeline`.
    pub timeline: Option<Arc<[TimelineEntry]>>,
    /// `SegmentURL`s.
    pub urls: Arc<[SegmentUrl]>,
}

/// `SegmentBase`: one file with its own segment index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SegmentBase {
    /// `Initialization`.
    pub initialization: Option<UrlRange>,
    /// `indexRange`.
    pub index_range: Option<ByteRange>,
}

/// A URL and a range; the defaults are the `BaseURL` and the whole file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UrlRange {
    /// As written.
    pub url: Option<String>,
    /// Byte range.
    pub range: Option<ByteRange>,
}

/// `SegmentURL`.
pub type SegmentUrl = UrlRange;

/// The title that the MPD at `path` describes. `None` if it exceeds the builder's budget.
pub fn dash_title(path: &str, mpd: &Mpd, builder: &mut TitleBuilder<'_>) -> Option<Title> {
    builder.begin();
    let mut title = Title::new(path, DeliveryKind::Dash);
    let root = rebase(&Ok(String::from(path)), &mpd.base_urls);
    // End of the last period, as far as it is known.
    let mut clock = Duration::ZERO;
    let mut whole = None;
    for (i, period) in mpd.periods.iter().enumerate() {
        let start = period.start.unwrap_or(clock);
        let next_start = mpd.periods.get(i + 1).and_then(|next| next.start);
        let end = next_start.or(mpd.duration.filter(|_| i + 1 == mpd.periods.len()));
        let until_end = end.map(|end| Duration(end.0.saturating_sub(start.0)));
        let length = period.duration.or(until_end);
        clock = start + length.unwrap_or(Duration::ZERO);
        whole = length.map(|_| clock);
        let base = rebase(&root, &period.base_urls);
        for set in &period.adaptation_sets {
            let base = rebase(&base, &set.base_urls);
            for representation in &set.representations {
                let base = rebase(&base, &representation.base_urls);
                let scope = RepresentationContext {
                    base,
                    length,
                    representation,
                    levels: [
                        &period.addressing,
                        &set.addressing,
                        &representation.addressing,
                    ],
                };
                let media = representation.media.or(set.media).unwrap_or_default();
                scope.add_to(&mut title, media, builder);
            }
        }
    }
    let mut notes = mpd.notes.clone();
    notes.add(&builder.end()?);
    title.notes = notes;
    title.measure();
    title.duration = mpd.duration.or(whole).or(title.duration);
    Some(title)
}

/// The base URL one level further down: the first `BaseURL` inside the tree, or, if there is none,
/// why the first one is not.
fn rebase(base: &Result<String, UriError>, base_urls: &[String]) -> Result<String, UriError> {
    let Some(first) = base_urls.first() else {
        return base.clone();
    };
    let resolved = |url: &String| match base {
        Ok(base) => resolve(base, url),
        // A path from the root needs no base, but below another server it is that server's root.
        Err(reason) => Err(*reason),
    };
    let ours = base_urls.iter().find_map(|url| resolved(url).ok());
    ours.map_or_else(|| resolved(first), Ok)
}

/// Context for expanding the segments of one representation.
struct RepresentationContext<'a> {
    base: Result<String, UriError>,
    length: Option<Duration>,
    representation: &'a Representation,
    levels: [&'a Addressing; 3],
}

impl RepresentationContext<'_> {
    fn add_to(&self, title: &mut Title, media: MediaType, builder: &mut TitleBuilder<'_>) {
        if builder.is_exhausted() {
            return;
        }
        builder.charge(1);
        let id = &self.representation.id;
        let base = match &self.base {
            Ok(base) => base,
            Err(reason) => {
                builder.note(format!(
                    "the BaseURL of representation `{}` {reason}",
                    brief(id)
                ));
                return;
            }
        };
        let count_max = title.segments_left();
        let known = title
            .renditions
            .iter()
            .position(|known| !id.is_empty() && known.name == *id && known.media == media);
        let at = match known {
            Some(at) => at,
            None if title.renditions.len() < RENDITIONS_PER_TITLE_MAX => {
                title.renditions.push(Rendition {
                    name: id.clone(),
                    media,
                    // The standard's `bandwidth` bounds a buffer model: it is a peak.
                    peak: self.representation.bandwidth,
                    ..Rendition::default()
                });
                title.renditions.len() - 1
            }
            None => {
                let max = RENDITIONS_PER_TITLE_MAX;
                builder.note(format!(
                    "it has more than {max} renditions; the others are ignored"
                ));
                return;
            }
        };
        let segments = Arc::make_mut(&mut title.renditions[at].segments);
        let count_max = count_max.saturating_sub(segments.list.len());
        if count_max == 0 {
            let count = segments.list.len();
            builder.note(format!(
                "it has more than {count} segments; the others are ignored"
            ));
            return;
        }
        if let Some(template) = self.template() {
            self.expand_template(&template, segments, base, count_max, builder);
        } else if let Some(list) = self.list() {
            self.expand_list(&list, segments, base, count_max, builder);
        } else {
            let length = self.length.unwrap_or(Duration::ZERO);
            segments.push(base, "", None, length, builder);
        }
    }

    fn template(&self) -> Option<SegmentTemplate> {
        let said = self
            .levels
            .iter()
            .filter_map(|level| level.template.as_ref());
        said.cloned().reduce(|above, below| SegmentTemplate {
            media: below.media.or(above.media),
            initialization: below.initialization.or(above.initialization),
            start_number: below.start_number.or(above.start_number),
            end_number: below.end_number.or(above.end_number),
            timescale: below.timescale.or(above.timescale),
            time_offset: below.time_offset.or(above.time_offset),
            duration: below.duration.or(above.duration),
            timeline: below.timeline.or(above.timeline),
        })
    }

    fn list(&self) -> Option<SegmentList> {
        let said = self.levels.iter().filter_map(|level| level.list.as_ref());
        said.cloned().reduce(|above, below| SegmentList {
            initialization: below.initialization.or(above.initialization),
            timescale: below.timescale.or(above.timescale),
            time_offset: below.time_offset.or(above.time_offset),
            duration: below.duration.or(above.duration),
            timeline: below.timeline.or(above.timeline),
            urls: if below.urls.is_empty() {
                above.urls
            } else {
                below.urls
            },
        })
    }

    fn expand_template(
        &self,
        template: &SegmentTemplate,
        segments: &mut Segments,
        base: &str,
        count_max: usize,
        builder: &mut TitleBuilder<'_>,
    ) {
        let timescale = template.timescale.unwrap_or(1);
        let mut values = TemplateValues {
            representation_id: &self.representation.id,
            bandwidth: self.representation.bandwidth.map_or(0, |rate| rate.0),
            number: None,
            time: None,
        };
        if let Some(init) = template.initialization.as_deref().filter(|_| count_max > 0) {
            match expand(init, &values) {
                Ok(url) => segments.push(base, &url, None, Duration::ZERO, builder),
                Err(error) => builder.note(format!("template `{}` {error}", brief(init))),
            }
        }
        let Some(media) = template.media.as_deref() else {
            builder.note(format!(
                "representation `{}` has a template without media",
                brief(&self.representation.id)
            ));
            return;
        };
        let count_max = count_max.saturating_sub(1);
        let count_max = if tells_segments_apart(media) {
            count_max
        } else {
            count_max.min(1)
        };
        let offset = template.time_offset.unwrap_or(0);
        let spans: Box<dyn Iterator<Item = TimelineSegment>> = match &template.timeline {
            Some(entries) => {
                let spans = self.timeline(entries, timescale, offset, count_max, builder);
                Box::new(spans.into_iter())
            }
            None => Box::new(self.regular(template, timescale, count_max, builder)),
        };
        let first = template.start_number.unwrap_or(1);
        for (i, segment) in (0u64..).zip(spans) {
            if builder.is_exhausted() {
                return;
            }
            values.number = Some(first.saturating_add(i));
            values.time = Some(segment.time);
            let length = ticks_to_duration(segment.duration, timescale);
            match expand(media, &values) {
                Ok(url) => segments.push(base, &url, None, length, builder),
                Err(error) => {
                    builder.note(format!("template `{}` {error}", brief(media)));
                    return;
                }
            }
        }
    }

    fn timeline(
        &self,
        entries: &[TimelineEntry],
        timescale: u64,
        offset: u64,
        count_max: usize,
        builder: &mut TitleBuilder<'_>,
    ) -> Vec<TimelineSegment> {
        let length = self
            .length
            .map(|length| duration_to_ticks(length, timescale));
        let end = length.map(|length| length.saturating_add(offset));
        let mut notes = TitleNotes::default();
        let spans = expand_timeline(entries, end, count_max, &mut notes);
        notes
            .iter()
            .for_each(|note| builder.note(String::from(note)));
        // The expanded segments are dropped soon, but took time.
        builder.charge(spans.len() as u64 / SPANS_PER_CHARGE);
        spans
    }

    /// Segments of equal length: by `endNumber`, or as many as the period holds.
    fn regular(
        &self,
        template: &SegmentTemplate,
        timescale: u64,
        count_max: usize,
        builder: &mut TitleBuilder<'_>,
    ) -> impl Iterator<Item = TimelineSegment> + use<> {
        let id = brief(&self.representation.id);
        let duration = template.duration.unwrap_or(0);
        let total = self
            .length
            .map(|length| duration_to_ticks(length, timescale));
        let by_number = template.end_number.map(|last| {
            let first = template.start_number.unwrap_or(1);
            last.saturating_add(1).saturating_sub(first)
        });
        let by_length = match total {
            Some(total) => total
                .checked_div(duration)
                .map(|whole| whole.saturating_add(u64::from(!total.is_multiple_of(duration)))),
            None => None,
        };
        let Some(count) = by_number.or(by_length) else {
            builder.note(format!(
                "the number of segments of representation `{id}` is not given"
            ));
            return (0..0).map(span(0, None, 0));
        };
        if count > count_max as u64 {
            builder.note(format!(
                "it has more than {count_max} segments; the others are ignored"
            ));
        }
        let offset = template.time_offset.unwrap_or(0);
        (0..count.min(count_max as u64)).map(span(duration, total, offset))
    }

    fn expand_list(
        &self,
        list: &SegmentList,
        segments: &mut Segments,
        base: &str,
        count_max: usize,
        builder: &mut TitleBuilder<'_>,
    ) {
        let timescale = list.timescale.unwrap_or(1);
        if let Some(init) = list.initialization.as_ref().filter(|_| count_max > 0) {
            let url = init.url.as_deref().unwrap_or("");
            segments.push(base, url, init.range, Duration::ZERO, builder);
        }
        let count_max = count_max.saturating_sub(1);
        if list.urls.len() > count_max {
            builder.note(format!(
                "it has more than {count_max} segments; the others are ignored"
            ));
        }
        let offset = list.time_offset.unwrap_or(0);
        let lengths = match &list.timeline {
            Some(entries) => self.timeline(entries, timescale, offset, count_max, builder),
            None => Vec::new(),
        };
        for (i, source) in list.urls.iter().take(count_max).enumerate() {
            if builder.is_exhausted() {
                return;
            }
            let ticks = lengths
                .get(i)
                .map(|segment| segment.duration)
                .or(list.duration);
            let length = ticks.map_or(Duration::ZERO, |t| ticks_to_duration(t, timescale));
            let url = source.url.as_deref().unwrap_or("");
            segments.push(base, url, source.range, length, builder);
        }
    }
}

/// The segment of this number, where all have equal length and `total` ends the last one.
fn span(duration: u64, total: Option<u64>, offset: u64) -> impl Fn(u64) -> TimelineSegment {
    move |i| {
        let start = i.saturating_mul(duration);
        let left = total.map_or(duration, |total| total.saturating_sub(start));
        TimelineSegment {
            time: start.saturating_add(offset),
            duration: left.min(duration),
        }
    }
}

#[cfg(test)]
#[path = "dash_tests.rs"]
mod tests;
