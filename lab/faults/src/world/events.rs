//! Events of the world: the steps of the plan, and the end of a fault.

use headlong_mutants::{Mutant, is_active};
use headlong_units::Duration;

use super::{ViewerState, World};
use crate::disk::SimulatedDisk;
use crate::event_queue::Event;
use crate::fault::{CrashPoint, FileChange, RestartKind};
use crate::session::path;
use crate::step::PlanStep;

impl World<'_> {
    pub(super) fn heal(&mut self) {
        let wall_ns = self.wall_ns();
        for disk in &mut self.disks {
            if disk.recover(self.now) {
                disk.files.change_all(self.now, wall_ns);
            }
        }
        self.ssds
            .iter_mut()
            .for_each(|ssd| ssd.drive.recover(self.now));
        self.share_hangs();
    }

    fn share_hangs(&mut self) {
        if is_active(Mutant::HangShared) {
            let hangs = self.disks.iter().any(SimulatedDisk::hangs);
            self.disks
                .iter_mut()
                .for_each(|disk| disk.is_held_up = hangs);
        }
    }

    pub(super) fn take_step(&mut self, number: usize) {
        let plan = self.plan;
        let Some((_, step)) = plan.steps.get(number) else {
            return;
        };
        match step {
            PlanStep::Session(session) => {
                self.sessions.push(session);
                self.viewers.push(ViewerState::default());
                self.begin_exchange(self.sessions.len() - 1);
            }
            PlanStep::Disk(disk, fault, lasts) => {
                self.disks[*disk].fall_ill(*fault, self.now + *lasts);
                self.queue.plan(self.now + *lasts, Event::Heal);
                self.share_hangs();
            }
            PlanStep::Ssd(ssd, fault, lasts) => {
                self.ssds[*ssd].fall_ill(*fault, self.now + *lasts);
                self.queue.plan(self.now + *lasts, Event::Heal);
            }
            PlanStep::File(disk, title, part, change) => {
                self.change_file(*disk, &path(*disk, *title, *part), *change);
            }
            PlanStep::Restart(RestartKind::Clean, moment) => {
                self.restart(RestartKind::Clean, *moment)
            }
            PlanStep::Restart(how, moment) => {
                let lag = match moment {
                    CrashPoint::Any => self.chance.pick(&[0, 2000, 10_000, 30_000]),
                    _ => 30_000,
                };
                self.ends = Some((*how, *moment, self.now + Duration::from_millis(lag)));
            }
            PlanStep::Clock(milliseconds) => {
                self.has_jumped = true;
                self.wall_offset_ns += milliseconds * 1_000_000;
            }
            PlanStep::Settings(disk, change) => {
                let mut config = self.configs[*disk];
                change.apply(&mut config);
                if config.check().next().is_none() {
                    self.configs[*disk] = config;
                    let wait = &mut self.waits_max[*disk];
                    *wait = config.wait_timeout.max(*wait);
                }
                self.with_device(*disk, |device, around| device.configure(around, config));
                self.pass_on(*disk);
            }
        }
    }

    fn change_file(&mut self, disk: usize, path: &str, change: FileChange) {
        let (now, wall_ns) = (self.now, self.wall_ns());
        let files = &mut self.disks[disk].files;
        let size = files
            .lookup(path)
            .and_then(|inode| files.current(inode))
            .map(|of| of.size);
        match (change, size) {
            (FileChange::InPlace, Some(_)) => files.write(now, wall_ns, path, None),
            (FileChange::Truncate(to), Some(size)) => {
                files.write(now, wall_ns, path, Some(size * u64::from(to) / 256));
            }
            (FileChange::Extend(by), Some(size)) => {
                files.write(now, wall_ns, path, Some(size + by))
            }
            (FileChange::Replace(of), _) => {
                let size = size.unwrap_or(50_000) * u64::from(of) / 128;
                files.create(now, wall_ns, path, size);
            }
            (FileChange::Remove, Some(_)) => files.remove(now, path),
            (FileChange::Restore, None) => files.create(now, wall_ns, path, 60_000),
            _ => {}
        }
    }
}
