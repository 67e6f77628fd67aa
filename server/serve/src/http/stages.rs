//! Stage timing of a request, for the log of slow replies.
//!
//! Without `log.slow_after` it does not exist and no clock is read for it.

use std::time::Instant;

use headlong_units::Duration;

use headlong_kernel::time_scale::TimeScale;
use headlong_net::ConnectionInfo;
use headlong_storage::PieceInfo;
use headlong_telemetry::{PieceTier, PieceWaits, RequestMoment, Stage, StageTrace, Stages};

/// Stage timing of one request.
#[derive(Debug)]
pub(super) struct StageTiming {
    trace: StageTrace,
    /// Server time from which on the reply is logged as slow.
    after: Duration,
    is_shared: bool,
    started: Instant,
    time_scale: TimeScale,
}

impl StageTiming {
    /// For a request whose head was complete at `started`.
    pub(super) fn begin(
        after: Duration,
        connection: Option<&ConnectionInfo>,
        version: http::Version,
        (started, time_scale): (Instant, TimeScale),
    ) -> Self {
        let is_shared = version == http::Version::HTTP_2;
        let own = connection.filter(|_| !is_shared);
        let now = started.into();
        let head = own.and_then(|connection| connection.head_time(now));
        let waited = own.map(|connection| connection.writes_waited(now));
        let [head, waited] = [head, waited].map(|time| time_scale.model(time.unwrap_or_default()));
        Self {
            trace: StageTrace::begin(head, waited, is_shared),
            after,
            is_shared,
            started,
            time_scale,
        }
    }

    fn moment(&self, now: Instant, connection: Option<&ConnectionInfo>) -> RequestMoment {
        let own = connection.filter(|_| !self.is_shared);
        let waited = own.map(|connection| connection.writes_waited(now.into()));
        RequestMoment {
            passed: self.time_scale.model(now.duration_since(self.started)),
            writes_waited: self.time_scale.model(waited.unwrap_or_default()),
        }
    }

    /// Enters the next stage.
    pub(super) fn turn(&mut self, connection: Option<&ConnectionInfo>, next: Stage) {
        let moment = self.moment(Instant::now(), connection);
        self.trace.turn(moment, next);
    }

    /// A piece arrived; enters the next stage.
    pub(super) fn got(
        &mut self,
        connection: Option<&ConnectionInfo>,
        piece: PieceInfo,
        next: Stage,
    ) {
        let waited = PieceWaits {
            queue: piece.queue_time,
            read: piece.disk_time,
            tier: match (piece.from_ram, piece.from_flash) {
                (true, _) => PieceTier::Ram,
                (false, true) => PieceTier::Flash,
                (false, false) => PieceTier::Disk,
            },
        };
        let moment = self.moment(Instant::now(), connection);
        self.trace.got(moment, waited, next);
    }

    /// Ends the timing; returns the stages if the server took longer than `after`.
    pub(super) fn end(
        self,
        now: Instant,
        connection: Option<&ConnectionInfo>,
    ) -> Option<Box<Stages>> {
        let moment = self.moment(now, connection);
        let stages = self.trace.end(moment);
        (stages.of_server() > self.after).then(|| Box::new(stages))
    }
}
