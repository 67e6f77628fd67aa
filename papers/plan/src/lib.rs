//! Capacity planning: drives and memory for a demand, and their cost (thesis 6.2.3).
//!
//! The chain simulation gives the work of drives and the memory for every byte that a log's viewers
//! consume; a demand of the same kind scales both. Every figure is a ratio of sums over sessions and
//! has an interval, from the same figure of sessions drawn with replacement.
//!
//! [`ASSUMPTIONS`] lists the assumptions, which are printed with every plan. A log of few sessions
//! gives no plan ([`SESSIONS_MIN`]).

mod figure;
mod planner;
mod prices;
mod ranked_files;
mod table;

use headlong_drive::DriveSpec;
use headlong_engine::Policy;
use serde::Serialize;

use headlong_chain_sim::{
    CatalogueBytes, ChainTable, DriveRates, SimulationError, SimulationSettings,
};

pub use figure::PlannedFigure;
pub use planner::plan;
use prices::GB;
pub use prices::{DriveCost, DriveKind, DrivePrice, PriceTable, RamPrice};
pub use table::text;

/// Fewest sessions for a plan: with fewer, single viewers decide.
pub const SESSIONS_MIN: usize = 200;
/// Fewest sessions for a plan without a remark.
pub const SESSIONS_NARROW: usize = 2_000;

/// Assumptions of a plan.
pub const ASSUMPTIONS: &[&str] = &[
    "The demand has the log's composition: the same chains, scaled; work and memory grow in \
     proportion to the bytes that viewers consume.",
    "Drives of a kind share their work evenly. The utilisation limit leaves room for imbalance and \
     for bursts.",
    "A drive is busy for bytes / t_max + seeks / s_max, both from its model in the middle of its \
     addresses (thesis Eq. 5.4); ordering of work and caches would do better.",
    "Memory is that of prefetch buffers, in the mean of the time at the peak; the operating system \
     and sockets need additional memory.",
    "Files on flash are those with the most bytes consumed per byte of size over the whole log, \
     known in advance; their chains use the same rule and the same buffers.",
    "A viewer is a session while it reads, with gaps of up to 40 s.",
    "Cost covers drives and memory only, energy their active state: no machines, cooling or space.",
    "Intervals are of 95 %, from sessions drawn with replacement: another log of the same viewers. \
     They do not cover the other assumptions.",
];

/// The demand to plan for.
#[derive(Debug, Clone, PartialEq)]
pub struct PeakDemand {
    /// Total consumption at the peak, bytes per second.
    pub bytes_per_s: f64,
    /// Bytes of all titles; by default the parts of their files that chains reached.
    pub catalogue: Option<CatalogueBytes>,
    /// Utilisation limit of a drive, from 0 to 1.
    pub utilisation_max: f64,
}

/// A kind of drive that can be bought.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveOffer {
    /// The drive.
    pub spec: DriveSpec,
    /// Its rates.
    pub rates: DriveRates,
    /// Its price.
    pub priced: DriveCost,
}

impl DriveOffer {
    /// A drive with its price.
    ///
    /// # Errors
    /// If the table has no price for it.
    pub fn new(spec: DriveSpec, prices: &PriceTable) -> Result<Self, String> {
        Ok(Self {
            rates: DriveRates::of(&spec),
            priced: prices.of(&spec)?,
            spec,
        })
    }

    fn is_flash(&self) -> bool {
        DriveKind::of(&self.spec) == DriveKind::SolidState
    }
}

/// Number of drives of a kind, with reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriveCount {
    /// The kind of drive.
    pub drive: String,
    /// Number of drives needed.
    pub count: PlannedFigure,
    /// Number needed for the work.
    pub for_rate: PlannedFigure,
    /// Number needed for the capacity.
    pub for_capacity: u64,
    /// Utilisation of `count` drives at the peak, from 0 to 1.
    pub utilisation: PlannedFigure,
}

/// Needs of a rule at its cheapest size with certain kinds of drives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedOption {
    /// The rule.
    pub policy: &'static str,
    /// Its size, MB.
    pub size: f64,
    /// Drives for all files, or for those that are not on flash.
    pub drives: DriveCount,
    /// Flash drives for the most popular files, if any.
    pub flash: Option<DriveCount>,
    /// Share of the bytes consumed that come from flash.
    pub flash_share: PlannedFigure,
    /// Memory for prefetches, GB of 10^9 bytes.
    pub ram_gb: PlannedFigure,
    /// In the price table's currency.
    pub cost: PlannedFigure,
    /// Watts.
    pub watts: PlannedFigure,
    /// MB (10^6 bytes) delivered per joule at the peak; nothing if the prices have no watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mb_per_joule: Option<PlannedFigure>,
    /// Cost for each viewer at the peak; nothing if the log has no durations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_per_viewer: Option<PlannedFigure>,
    /// Watts for each viewer at the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts_per_viewer: Option<PlannedFigure>,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PurchasePlan {
    /// Peak demand, bytes per second.
    pub demand_bytes_per_s: f64,
    /// Viewers at the peak, by their consumption in the log; nothing if it has no durations.
    pub viewers: Option<PlannedFigure>,
    /// Sessions of the log.
    pub sessions: usize,
    /// Bytes consumed in the log's busiest minute, per second.
    pub table_bytes_per_s: f64,
    /// Bytes of all titles.
    pub catalogue_bytes: u64,
    /// Whether there may be more, so that drive counts for the capacity are lower bounds.
    pub catalogue_is_least: bool,
    /// Utilisation limit.
    pub utilisation_max: f64,
    /// Currency of costs.
    pub currency: String,
    /// Date and source of the prices.
    pub price_sources: String,
    /// What makes this plan less certain than its intervals.
    pub remarks: Vec<String>,
    /// Assumptions.
    pub assumptions: &'static [&'static str],
    /// The cheapest point of each rule with each choice of drives, cheapest first.
    pub needs: Vec<PlannedOption>,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Single viewers would decide.
    #[error(
        "no plan: it needs at least {SESSIONS_MIN} sessions ({SESSIONS_NARROW} for narrow \
         intervals), and the log has {sessions}; give a longer log"
    )]
    Sessions {
        /// Sessions of the log.
        sessions: usize,
    },
    /// The simulation has no result.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// The readings of a log to plan from.
#[derive(Debug, Clone, Copy)]
pub struct LogReadings<'t> {
    /// Its chains.
    pub table: &'t ChainTable,
    /// The chains at the other bound, if offsets are unknown: figures then lie between both.
    pub scattered: Option<&'t ChainTable>,
}

/// Rules and sizes to evaluate.
#[derive(Debug, Clone, Copy)]
pub struct PlanSearch<'t> {
    /// Rules.
    pub policies: &'t [Policy],
    /// Sizes, MB.
    pub sizes_mb: &'t [f64],
    /// Definition of MB, and number of threads.
    pub settings: &'t SimulationSettings,
}

#[cfg(test)]
mod tests {
    use headlong_chain_sim::ChainRow;
    use headlong_units::BitRate;

    use super::*;

    fn row(index: i64, sessions: i64) -> ChainRow {
        ChainRow {
            session: (index % sessions) as u32,
            file: match index % 2 {
                0 => 0,
                _ => (index % 100) as u32,
            },
            start: 0,
            length: 60_000_000 + index.unsigned_abs() * 7_919 % 80_000_000,
            start_ms: index * 500,
            end_ms: index * 500 + 400_000,
            is_open: true,
            bit_rate: Some(BitRate::from_kbps(2_000)),
            disk: 0,
        }
    }

    /// A hundred files of about 100 MB; the first is requested as often as all others together.
    pub(crate) fn table() -> ChainTable {
        ChainTable::new((0..2_000).map(|index| row(index, 500))).expect("chains")
    }

    /// A demand in Gbit/s and the drives to choose from.
    struct Wanted<'w> {
        file_bytes: u64,
        gigabits: f64,
        utilisation_max: f64,
        drives: &'w [&'w str],
    }

    const RED: Wanted<'_> = Wanted {
        file_bytes: 100_000_000,
        gigabits: 10.0,
        utilisation_max: 0.8,
        drives: &["wd-red-wd10efrx"],
    };

    fn planned_from(
        log: LogReadings<'_>,
        wanted: &Wanted<'_>,
        prices: &PriceTable,
    ) -> Result<PurchasePlan, PlanError> {
        let offer = |name: &&str| {
            let spec = headlong_drive::preset(name).expect("a preset");
            DriveOffer::new(spec, prices).expect("a price")
        };
        let offers: Vec<DriveOffer> = wanted.drives.iter().map(offer).collect();
        let demand = PeakDemand {
            bytes_per_s: wanted.gigabits * 1e9 / 8.0,
            catalogue: None,
            utilisation_max: wanted.utilisation_max,
        };
        let settings = SimulationSettings::default();
        let search = PlanSearch {
            policies: &[Policy::Fixed, Policy::FirstGrowSr],
            sizes_mb: &[1.0, 4.0, 8.0],
            settings: &settings,
        };
        let size_of = |_| Some(wanted.file_bytes);
        plan(log, size_of, &demand, &offers, prices, &search)
    }

    fn planned(wanted: &Wanted<'_>) -> PurchasePlan {
        let prices = PriceTable::flashstream().expect("prices");
        let log = LogReadings {
            table: &table(),
            scattered: None,
        };
        planned_from(log, wanted, &prices).expect("a plan")
    }

    #[test]
    fn doubled_demand_doubles_drives_and_memory() {
        let one = planned(&RED);
        let two = planned(&Wanted {
            gigabits: 20.0,
            ..RED
        });
        assert_eq!(one.needs.len(), 2);
        let of = |plan: &PurchasePlan| {
            let need = plan.needs.iter().find(|need| need.policy == "fixed");
            need.expect("a need").clone()
        };
        let viewers = |plan: &PurchasePlan| plan.viewers.expect("durations").value;
        assert!((viewers(&two) / viewers(&one) - 2.0).abs() < 1e-9);
        let (one, two) = (of(&one), of(&two));
        let count = one.drives.count.value;
        assert!(count >= 10.0 && one.drives.for_capacity == 1, "{one:?}");
        assert!((two.drives.count.value - 2.0 * count).abs() <= 1.0);
        assert!((two.ram_gb.value / one.ram_gb.value - 2.0).abs() < 1e-9 || two.size != one.size);
        assert!(one.drives.utilisation.value <= 0.8);
    }

    #[test]
    fn every_figure_lies_in_its_interval() {
        let plan = planned(&Wanted {
            drives: &["wd-red-wd10efrx", "ssd-qlc-consumer"],
            ..RED
        });
        let mut wide = 0;
        for need in &plan.needs {
            let optional = [
                need.cost_per_viewer,
                need.watts_per_viewer,
                need.mb_per_joule,
            ];
            let drives = std::iter::once(&need.drives).chain(&need.flash);
            let of_drives = drives.flat_map(|of| [of.count, of.for_rate, of.utilisation]);
            let all = [need.flash_share, need.ram_gb, need.cost, need.watts];
            let all = all.into_iter().chain(of_drives);
            for figure in all
                .chain(optional.into_iter().flatten())
                .chain(plan.viewers)
            {
                assert!(
                    figure.low <= figure.value && figure.value <= figure.high,
                    "{figure:?}"
                );
                wide += u32::from(figure.low < figure.value && figure.value < figure.high);
            }
        }
        assert!(wide > 10, "{wide} figures have a real interval");
    }

    #[test]
    fn order_of_chains_changes_nothing() {
        let prices = PriceTable::flashstream().expect("prices");
        let plan = |rows: Vec<ChainRow>| {
            let table = ChainTable::new(rows).expect("chains");
            let log = LogReadings {
                table: &table,
                scattered: None,
            };
            planned_from(log, &RED, &prices).expect("a plan")
        };
        let rows: Vec<ChainRow> = (0..2_000).map(|index| row(index, 500)).collect();
        let reversed = rows.iter().rev().copied().collect();
        assert_eq!(plan(rows), plan(reversed));
    }

    #[test]
    fn too_few_sessions_give_no_plan_and_few_a_remark() {
        let prices = PriceTable::flashstream().expect("prices");
        let plan = |sessions: i64| {
            let rows = (0..3_000).map(|index| row(index, sessions));
            let table = ChainTable::new(rows).expect("chains");
            let log = LogReadings {
                table: &table,
                scattered: None,
            };
            planned_from(log, &RED, &prices)
        };
        assert_eq!(plan(199), Err(PlanError::Sessions { sessions: 199 }));
        let width = |plan: &PurchasePlan| {
            let ram = plan.needs[0].ram_gb;
            (ram.high - ram.low) / ram.value
        };
        let (few, many) = (plan(200).expect("a plan"), plan(2_000).expect("a plan"));
        assert!(few.remarks[0].contains("fewer than 2000"), "{few:?}");
        assert!(
            many.remarks
                .iter()
                .all(|remark| !remark.contains("sessions"))
        );
        assert!(width(&few) > 0.0 && width(&many) > 0.0);
    }

    #[test]
    fn unknown_offsets_widen_every_interval() {
        let prices = PriceTable::flashstream().expect("prices");
        let joined = table();
        let parts = (0..2_000).flat_map(|index| {
            let whole = row(index, 500);
            (0..10).map(move |part| ChainRow {
                length: whole.length / 10,
                start_ms: whole.start_ms + part * 40_000,
                end_ms: whole.start_ms + part * 40_000 + 39_000,
                ..whole
            })
        });
        let scattered = ChainTable::new(parts).expect("chains");
        let plan = |scattered| {
            let log = LogReadings {
                table: &joined,
                scattered,
            };
            planned_from(log, &RED, &prices).expect("a plan")
        };
        let (known, unknown) = (plan(None), plan(Some(&scattered)));
        let drives = |plan: &PurchasePlan| plan.needs[0].drives.for_rate;
        assert_eq!(drives(&known).value, drives(&unknown).value);
        assert!(
            drives(&unknown).high > 1.1 * drives(&known).high,
            "{unknown:?}"
        );
        assert!(
            unknown
                .remarks
                .iter()
                .any(|remark| remark.contains("no byte ranges"))
        );
    }

    #[test]
    fn lower_limit_needs_more_drives_and_cost() {
        let of = |utilisation_max| {
            planned(&Wanted {
                utilisation_max,
                ..RED
            })
        };
        let (loose, tight) = (of(0.9), of(0.45));
        assert!(tight.needs[0].drives.count.value > loose.needs[0].drives.count.value);
        assert!(tight.needs[0].cost.value > loose.needs[0].cost.value);
    }

    #[test]
    fn prices_without_watts_give_no_energy_figure() {
        let prices = "sources = \"none\"\ncurrency = \"EUR\"\n[ram]\ncost_per_gb = 1\n\
            module_gb = 1\nmodule_watts = 0\n[[drive]]\nkind = \"hard-drive\"\ncost = 60\nwatts = 0\n";
        let prices = PriceTable::read("prices.toml", prices).expect("prices");
        let log = LogReadings {
            table: &table(),
            scattered: None,
        };
        let plan = planned_from(log, &RED, &prices).expect("a plan");
        assert_eq!(plan.needs[0].mb_per_joule, None);
        let text = text(&plan);
        assert!(
            !text.contains("inf") && text.contains("none (no date)"),
            "{text}"
        );
    }

    #[test]
    fn flash_and_disks_are_planned_unless_flash_holds_all() {
        let drives = ["wd-red-wd10efrx", "ssd-qlc-consumer"];
        for (file_bytes, rows, both) in [(100_000_000_000, 6, 2), (100_000_000, 4, 0)] {
            let plan = planned(&Wanted {
                file_bytes,
                drives: &drives,
                ..RED
            });
            let with_flash = plan.needs.iter().filter(|need| need.flash.is_some());
            // Each rule on the disk, on the flash, and on both, unless the flash holds everything.
            assert_eq!((plan.needs.len(), with_flash.count()), (rows, both));
            let is_cheaper =
                |one: &PlannedOption, other: &PlannedOption| one.cost.value <= other.cost.value;
            assert!(plan.needs.is_sorted_by(is_cheaper));
        }
    }

    #[test]
    fn text_lists_assumptions_and_what_is_only_known_at_least() {
        let plan = planned(&RED);
        assert!(plan.catalogue_is_least);
        let text = text(&plan);
        for part in [
            "first-grow-sr",
            "wd-red-wd10efrx",
            "Prices of 2013: FlashStream",
            "USD",
            "80 %",
            "5.1 GB of titles at least",
            "| at least 1 |",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        for assumption in ASSUMPTIONS {
            assert!(text.contains(&assumption[..30]), "{assumption}");
        }
    }
}
