//! Sessions of adaptive players: a work with all its renditions, and the viewer's acts.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headlong_player::{
    AdaptivePlan, ObjectId, ObjectRange, PlayerConfig, Rendition, SegmentTable, SessionPlan,
    ViewerAction,
};
use headlong_random::Generator;
use headlong_units::{ByteRange, Duration};

use super::{ArrivingViewer, RequestedObjects, SessionPlanner, happens};
use crate::TitleForm;
use crate::catalogue::{Catalogue, Title};
use crate::phased::{PhasedSession, plan};
use crate::specification::{StartPosition, bit_rate};
use crate::trace::Session;

impl SessionPlanner<'_> {
    /// The plan of session `index` with this adaptive player, from the point at which `seen` of it
    /// has been watched.
    pub(super) fn adaptive(
        &self,
        (index, seen): (u64, Duration),
        make: &Arc<PlayerConfig>,
        objects: &mut RequestedObjects,
    ) -> AdaptivePlan {
        let (work, acts) = self.acts(index, seen);
        AdaptivePlan {
            title: objects.watched(self.catalogue, work),
            acts,
            make: Arc::clone(make),
        }
    }

    /// The work watched, and the viewer's acts: before each segment the same probabilities as a
    /// simple player has before each request; playback may stop at any moment.
    pub(super) fn acts(&self, index: u64, seen: Duration) -> (&[Title], Vec<ViewerAction>) {
        let session = self.sessions.fork_at(index);
        let work = self.work(&mut session.fork("title"));
        let acts = self.acts_from_start(&work[0], &session);
        (work, after(acts, seen, work[0].segment_time))
    }

    fn acts_from_start(&self, title: &Title, session: &Generator) -> Vec<ViewerAction> {
        let specification = self.specification;
        let (mut viewing, mut whims) = (session.fork("viewing"), session.fork("whims"));
        let segments = u64::from(title.segments());
        let mut acts = ActionList::default();
        let (mut place, mut left) = match specification.viewing.start {
            StartPosition::Beginning => {
                let fraction = specification.viewing.fraction.law.sample(&mut viewing);
                let length = title.segment_time.times(segments);
                let watched = libm::ceil(fraction * length.as_secs_f64() * 1000.0);
                let watched = Duration::from_millis((watched as u64).max(1));
                (0, watched.min(length))
            }
            StartPosition::RandomSegment => {
                let place = viewing.below(segments);
                acts.skip(place);
                (place, title.segment_time)
            }
        };
        let chances = &specification.viewing;
        let mut is_first = true;
        while left > Duration::ZERO {
            if !is_first {
                if happens(&mut whims, chances.early_end) {
                    break;
                }
                if happens(&mut whims, chances.skip) {
                    place = whims.below(segments);
                    acts.skip(place);
                }
                if happens(&mut whims, chances.pause) {
                    let seconds = chances.pause_time.law.sample(&mut whims);
                    let time = Duration::from_millis(libm::round(seconds * 1000.0) as u64);
                    acts.0.push(ViewerAction::Pause(time));
                }
            }
            if place >= segments {
                break;
            }
            let piece = left.min(title.segment_time);
            acts.watch(piece);
            left = left - piece;
            place += 1;
            is_first = false;
        }
        acts.0
    }
}

/// The acts that remain after the first `seen` of them. A resumed session does not start with a
/// pause, and begins with the segment that contains its playback position.
fn after(acts: Vec<ViewerAction>, seen: Duration, segment: Duration) -> Vec<ViewerAction> {
    if seen == Duration::ZERO {
        return acts;
    }
    let mut left = ActionList::default();
    // Playback position, from the beginning of the title.
    let (mut place, mut to_go) = (Duration::ZERO, seen);
    for act in acts {
        let is_left = !left.0.is_empty();
        match act {
            _ if is_left => left.0.push(act),
            ViewerAction::Skip(to) => place = segment.times(u64::from(to)),
            ViewerAction::Pause(time) => to_go = to_go - time,
            ViewerAction::Watch(time) if time <= to_go => {
                place += time;
                to_go = to_go - time;
            }
            ViewerAction::Watch(time) => {
                left.skip((place + to_go).0 / segment.0.max(1));
                left.watch(time - to_go);
            }
        }
    }
    left.0
}

/// A list of consecutive acts.
#[derive(Default)]
struct ActionList(Vec<ViewerAction>);

impl ActionList {
    fn watch(&mut self, time: Duration) {
        match self.0.last_mut() {
            Some(ViewerAction::Watch(before)) => *before += time,
            _ => self.0.push(ViewerAction::Watch(time)),
        }
    }

    fn skip(&mut self, place: u64) {
        let segment = u32::try_from(place).unwrap_or(u32::MAX);
        self.0.push(ViewerAction::Skip(segment));
    }
}

impl RequestedObjects {
    /// A work in the player's form; concurrent sessions of the same work share it.
    fn watched(&mut self, catalogue: &Catalogue, work: &[Title]) -> Arc<headlong_player::Title> {
        let number = work[0].number;
        if let Some(title) = self.watched.get(&number).and_then(|known| known.upgrade()) {
            return title;
        }
        let renditions = work.iter().map(|title| self.rendition(catalogue, title));
        let title = Arc::new(headlong_player::Title {
            segment: work[0].segment_time,
            segments: work[0].segments(),
            renditions: renditions.collect(),
        });
        self.watched.insert(number, Arc::downgrade(&title));
        title
    }

    /// One rendition in the player's form.
    fn rendition(&mut self, catalogue: &Catalogue, title: &Title) -> Rendition {
        let mut files = catalogue.files(title).map(|file| {
            let object = self.id((title.number, file.range.start), || file.path);
            ObjectRange::whole(object, file.range.len())
        });
        if catalogue.form == TitleForm::Segments {
            return Rendition {
                bit_rate: bit_rate(title.segment_bytes, title.segment_time),
                header: (title.header_bytes > 0).then(|| files.next()).flatten(),
                segments: SegmentTable::Table(files.collect()),
            };
        }
        let object = files.next().map(|place| place.object);
        in_one_file(title, object.unwrap_or(ObjectId(0)))
    }
}

/// A rendition in a single file.
fn in_one_file(title: &Title, object: ObjectId) -> Rendition {
    let start = title.header_bytes;
    let header = ByteRange::new(0, start);
    Rendition {
        bit_rate: bit_rate(title.segment_bytes, title.segment_time),
        header: (start > 0).then(|| ObjectRange::part(object, header)),
        segments: match title.segment_ends.is_empty() {
            true => SegmentTable::OneFile {
                object,
                start,
                segment_bytes: title.segment_bytes,
                file_bytes: title.file_bytes,
            },
            false => {
                let mut from = start;
                let places = title.segment_ends.iter().map(|end| {
                    let range = ByteRange::new(from, start + end);
                    from = range.end;
                    ObjectRange::part(object, range)
                });
                SegmentTable::Table(places.collect())
            }
        },
    }
}

// Sessions of a workload of phases, as plans of players.

impl SessionPlanner<'_> {
    /// Session `index` of a workload of phases.
    pub(super) fn phased_session(&self, index: u64, arrival: Duration) -> Option<PhasedSession> {
        let context = self.phased.as_ref()?;
        // Without requests of an earlier session to reuse.
        Some(context.session(index, arrival.as_secs_f64(), Default::default()))
    }

    /// The session as a player plays it. As in a log, requests that complete at `log_end_ms` or
    /// later are omitted.
    pub(super) fn phased(
        &self,
        viewer: ArrivingViewer,
        log_end_ms: Option<i64>,
        objects: &mut RequestedObjects,
    ) -> Option<Session> {
        let (specification, titles) = self.phases()?;
        let mut session = self.phased_session(viewer.index, viewer.arrival)?;
        let end_ms = log_end_ms.unwrap_or(i64::MAX);
        session
            .requests
            .retain(|request| request.completed_ms < end_ms);
        let mut object = |file: u32| {
            let title = &self.catalogue.titles[file as usize];
            let path = || self.catalogue.files(title).next().map(|file| file.path);
            objects.id((file, 0), || path().unwrap_or_default())
        };
        let arrival_ms = libm::round(session.arrival_s * 1000.0) as u64;
        let from_ms = (arrival_ms + viewer.seen.as_millis()) as i64;
        let device = &specification.devices[usize::from(session.device)];
        let plan = plan::plan(&session.requests, titles, from_ms, &mut object);
        Some(Session {
            arrival: Duration::from_millis(arrival_ms),
            class: plan::class_of(specification, session.bandwidth, device),
            plan: SessionPlan::Phases(plan),
        })
    }
}

#[cfg(test)]
#[path = "adaptive_tests.rs"]
mod tests;
