//! The server: its disks, each with its own shard, and the SSDs that they share.
//!
//! Disks are independent. A request goes to the disk of its title only; memory is divided between
//! disks once, as in the server; and only the SSDs are shared. A world of many disks therefore
//! behaves like as many worlds with one disk, except for the queues of the SSDs.

use headlong_engine::{RequestId, Slot};
use headlong_flash::SpecError;
use headlong_player::ObjectId;
use headlong_units::{BitRate, ByteRange, Duration, Instant};

use crate::device::{AccessPattern, DriveUse};
use crate::disk_server::DiskServer;
use crate::histogram::Histogram;
use crate::layout::{FileLocation, Layout};
use crate::link::Link;
use crate::next_times::NextTimes;
use crate::origin::{CacheUse, Origin, OriginEvent, ReplyPiece, Requester, ServerState};
use crate::request::{FileRequest, ServerShared, of_disk};
use crate::setup::WorldSetup;
use crate::tier::SimulatedTier;
use crate::usage::{DiskUse, FlashUse, SsdUse};

/// The server in virtual time.
#[derive(Debug)]
pub(crate) struct SimulatedServer {
    disks: Vec<DiskServer>,
    /// Number of the first disk: not 0 for a box of a fleet.
    first: u32,
    shared: ServerShared,
    layout: Layout,
    socket_bytes: u64,
    playlists_known: bool,
    /// Next timeouts of the disks, as of the latest call of a shard or drive.
    disks_next: NextTimes,
    /// Replies in progress on each disk, as of then, and on all.
    replies: (Vec<usize>, usize),
}

impl SimulatedServer {
    pub(crate) fn new(
        disks: Vec<DiskServer>,
        tier: Option<SimulatedTier>,
        layout: Layout,
        setup: &WorldSetup,
    ) -> Result<Self, SpecError> {
        let count = disks.len();
        let mut server = Self {
            first: disks.first().map_or(0, DiskServer::number),
            disks,
            shared: ServerShared::new(tier, setup),
            layout,
            socket_bytes: setup.socket_bytes,
            playlists_known: setup.playlists_known,
            disks_next: NextTimes::new(count),
            replies: (vec![0; count], 0),
        };
        for disk in 0..count {
            let now = Instant::ZERO;
            server.disks[disk].attach_flash(now, &mut server.shared)?;
            server.note(disk);
        }
        Ok(server)
    }

    /// Placement of an object, with its part number if the server knows playlists.
    fn place(&self, object: ObjectId) -> Option<FileLocation> {
        let place = self.layout.place(object)?;
        let part = place.part.filter(|_| self.playlists_known);
        Some(FileLocation { part, ..place })
    }

    fn note(&mut self, disk: usize) {
        let next = self.disks[disk].poll_timeout();
        self.disks_next.set(disk, next.unwrap_or(Instant::NEVER));
        let (of_disks, all) = &mut self.replies;
        let count = self.disks[disk].reply_count();
        *all = *all + count - std::mem::replace(&mut of_disks[disk], count);
    }

    /// Updates timeouts after an event of a disk has been handled. Its SSD jobs may have completed
    /// jobs of other disks.
    fn settled(&mut self, now: Instant, disk: usize) {
        self.note(disk);
        self.settle_others(now);
    }

    fn settle_others(&mut self, now: Instant) {
        while let Some(disk) = self.shared.tier.as_ref().and_then(SimulatedTier::ended_of) {
            self.disks[disk as usize].settle(now, &mut self.shared);
            self.note(disk as usize);
        }
    }

    /// The index of a request's disk, and the id of the request there.
    fn place_of(&self, request: RequestId) -> (usize, RequestId) {
        let (disk, request) = of_disk(request);
        ((disk - self.first) as usize, request)
    }

    /// A request for a file at a place that the caller knows.
    ///
    /// # Errors
    /// The HTTP status of the refusal.
    pub(crate) fn ask_at(
        &mut self,
        now: Instant,
        asker: Requester,
        asking: &FileRequest<'_>,
    ) -> Result<RequestId, u16> {
        let disk = asking.place.disk as usize;
        let asked = self.disks[disk].ask(now, &mut self.shared, asker, asking);
        self.settled(now, disk);
        asked
    }

    /// Writes bytes that the server has fetched.
    pub(crate) fn write(&mut self, now: Instant, disk: usize, physical: u64, bytes: u64) {
        self.disks[disk].write(now, &mut self.shared, physical, bytes);
        self.settled(now, disk);
    }

    /// The disks.
    pub(crate) fn each_disk(&self) -> impl Iterator<Item = &DiskServer> {
        self.disks.iter()
    }

    /// Calls `handle` for all disks that are due.
    fn each_due(&mut self, now: Instant, handle: fn(&mut DiskServer, Instant, &mut ServerShared)) {
        let mut from = 0;
        while let Some(disk) = self.disks_next.due_from(from, now) {
            handle(&mut self.disks[disk], now, &mut self.shared);
            self.note(disk);
            self.settle_others(now);
            from = disk + 1;
        }
    }
}

impl Origin for SimulatedServer {
    fn socket_bytes(&self, _: Option<BitRate>, _: Duration) -> u64 {
        self.socket_bytes
    }

    fn leaves_at(&mut self, now: Instant, piece: &ReplyPiece) -> Instant {
        let (disk, request) = self.place_of(piece.request);
        self.disks[disk].leaves_at(now, request, piece.bytes)
    }

    fn ask(
        &mut self,
        now: Instant,
        asker: Requester,
        object: ObjectId,
        range: Option<ByteRange>,
    ) -> Result<RequestId, u16> {
        let Some(place) = self.place(object) else {
            return Err(404);
        };
        let asking = FileRequest {
            object,
            place: &place,
            range,
        };
        self.ask_at(now, asker, &asking)
    }

    fn expect(
        &mut self,
        now: Instant,
        asker: Requester,
        object: ObjectId,
        range: Option<ByteRange>,
    ) {
        let Some(place) = self.place(object) else {
            return;
        };
        let asking = FileRequest {
            object,
            place: &place,
            range,
        };
        let disk = place.disk as usize;
        self.disks[disk].expect(now, &mut self.shared, asker, &asking);
        self.settled(now, disk);
    }

    fn taken(&mut self, now: Instant, request: RequestId, slot: Slot) {
        let (disk, request) = self.place_of(request);
        self.disks[disk].taken(now, &mut self.shared, request, slot);
        self.settled(now, disk);
    }

    fn gone(&mut self, now: Instant, request: RequestId) {
        let (disk, request) = self.place_of(request);
        self.disks[disk].gone(now, &mut self.shared, request);
        self.settled(now, disk);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.each_due(now, DiskServer::handle_disk_timeout);
        let tier = self.shared.tier.as_mut();
        if let Some(tier) = tier.filter(|tier| tier.poll_timeout().is_some_and(|at| at <= now)) {
            tier.handle_timeout(now);
            self.settle_others(now);
        }
        self.each_due(now, DiskServer::handle_core_timeout);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let tier = self.shared.tier.as_ref();
        let tier = tier.and_then(SimulatedTier::poll_timeout);
        let first = self.disks_next.first();
        tier.into_iter()
            .chain((first < Instant::NEVER).then_some(first))
            .min()
    }

    fn poll_outcome(&mut self) -> Option<OriginEvent> {
        self.shared.outcomes.pop_front()
    }

    fn handed(&mut self, _: Instant, _: &ReplyPiece, _: &Link, taken: Instant) -> Instant {
        taken
    }

    fn write_state(&mut self, now: Instant) {
        for disk in &mut self.disks {
            disk.write_state(now);
        }
    }

    fn kill(&mut self, now: Instant) {
        let shared = &mut self.shared;
        let written = self.disks.iter_mut().map(|disk| disk.kill(shared));
        let written: Vec<u64> = written.collect();
        if let Some(tier) = &mut self.shared.tier {
            tier.kill(written.into_iter());
        }
        for disk in 0..self.disks.len() {
            self.disks[disk].settle(now, &mut self.shared);
            self.settled(now, disk);
        }
    }

    fn start_again(&mut self, now: Instant) {
        for disk in 0..self.disks.len() {
            self.disks[disk].start_again(now, &mut self.shared);
            self.settled(now, disk);
        }
    }

    fn flash(&self) -> Option<FlashUse> {
        self.shared.tier.as_ref()?;
        let mut all = FlashUse::default();
        self.disks.iter().for_each(|disk| all += disk.flash());
        Some(all)
    }

    fn reply_count(&self) -> usize {
        self.replies.1
    }

    fn drive_use(&self) -> DriveUse {
        let mut all = DriveUse::default();
        for disk in &self.disks {
            all += disk.disk().device().used();
        }
        all
    }

    fn pattern(&self) -> Option<&AccessPattern> {
        Some(self.disks.first()?.disk().device().pattern())
    }

    fn begin_window(&mut self, now: Instant) {
        for disk in &mut self.disks {
            disk.disk_mut().device_mut().begin_pattern();
        }
        if let Some(tier) = &mut self.shared.tier {
            tier.begin_window(now);
        }
    }

    fn disk_of(&self, object: ObjectId) -> u32 {
        self.layout.disk(object).unwrap_or(0)
    }

    fn disks(&self) -> Vec<DiskUse> {
        let of = |disk: &DiskServer| DiskUse {
            stats: disk.stats(),
            drive: disk.disk().device().used(),
            flash: disk.flash().counts,
        };
        self.disks.iter().map(of).collect()
    }

    fn ssds(&self, now: Instant) -> Vec<SsdUse> {
        let tier = self.shared.tier.as_ref();
        tier.map_or(Vec::new(), |tier| tier.used(now))
    }

    fn take_waits(&mut self) -> Histogram {
        std::mem::take(&mut self.shared.waits)
    }

    fn know(&mut self, object: ObjectId, _: u32, place: FileLocation) {
        self.layout.know(object, place);
    }

    fn live(&self) -> usize {
        let disks: usize = self.disks.iter().map(DiskServer::live).sum();
        let tier = self.shared.tier.as_ref().map_or(0, SimulatedTier::live);
        disks + self.shared.outcomes.len() + tier
    }

    fn state(&self) -> ServerState {
        let states = self.disks.iter().map(DiskServer::state);
        ServerState::of_all(states).expect("World::of_disks refuses a server without a disk")
    }

    fn cache(&self) -> Option<CacheUse> {
        None
    }
}
