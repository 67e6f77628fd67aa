//! Sessions of a workload of phases, as plans of players.

use headlong_player::SessionPlan;
use headlong_units::Duration;

use super::{ArrivingViewer, RequestedObjects, SessionPlanner};
use crate::phased::{PhasedSession, plan};
use crate::trace::Session;

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
