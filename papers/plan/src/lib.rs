//! Capacity planning: drives and memory for a demand, and their cost (thesis 6.2.3).
//!
//! The chain simulation gives the work of drives and the memory for a table's own demand; a greater
//! demand of the same kind scales both. The number of drives follows from their two rates and their
//! capacity.
//!
//! [`ASSUMPTIONS`] lists the assumptions, which are printed with every plan.

mod prices;
mod table;

use headlong_drive::DriveSpec;
use headlong_engine::Policy;
use serde::Serialize;

use headlong_chain_sim::{
    Algorithm, ChainTable, DriveRates, FileUse, RuleLoad, SimulationError, SimulationSettings,
    SizingRule,
};

use prices::GB;
pub use prices::{DriveCost, DriveKind, DrivePrice, PriceTable, RamPrice};
pub use table::text;

/// Assumptions of a plan.
pub const ASSUMPTIONS: &[&str] = &[
    "The demand has the table's composition: the same chains, scaled; work and memory grow in \
     proportion to the bytes that viewers consume in the table's busiest minute.",
    "Drives of a kind share their work evenly. The utilisation limit leaves room for imbalance and \
     for bursts.",
    "A drive is busy for bytes / t_max + seeks / s_max, both from its model in the middle of its \
     addresses (thesis Eq. 5.4); ordering of work and caches would do better.",
    "Memory is that of prefetch buffers, its highest mean over a minute; the operating system and \
     sockets need additional memory.",
    "Files on flash are those with the most bytes consumed per byte of size over the whole table, \
     known in advance; their chains use the same rule and the same buffers.",
    "Cost covers drives and memory only, energy their active state: no machines, cooling or space.",
];

/// Largest number of flash drive counts that are evaluated.
const FLASH_STEPS: usize = 12;
/// Drive numbers of a divided table: files on hard drives, and files on flash.
const COLD: usize = 0;
const HOT: usize = 1;

/// The demand to plan for.
#[derive(Debug, Clone, PartialEq)]
pub struct PeakDemand {
    /// Total consumption at the peak, bytes per second.
    pub bytes_per_s: f64,
    /// Bytes of all titles; by default the parts of their files that chains reached.
    pub catalogue_bytes: Option<u64>,
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
    pub count: u64,
    /// Number needed for the work.
    pub for_rate: u64,
    /// Number needed for the capacity.
    pub for_capacity: u64,
    /// Utilisation at the peak, from 0 to 1.
    pub utilisation: f64,
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
    pub flash_share: f64,
    /// Memory for prefetches, GB of 10^9 bytes.
    pub ram_gb: f64,
    /// In the price table's currency.
    pub cost: f64,
    /// Watts.
    pub watts: f64,
    /// MB (10^6 bytes) delivered per joule at the peak; nothing if the prices have no watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mb_per_joule: Option<f64>,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PurchasePlan {
    /// Peak demand, bytes per second.
    pub demand_bytes_per_s: f64,
    /// Bytes consumed in the table's busiest minute, per second.
    pub table_bytes_per_s: f64,
    /// Bytes of all titles.
    pub catalogue_bytes: u64,
    /// Whether that is a lower bound from the bytes reached by chains.
    pub catalogue_is_least: bool,
    /// Utilisation limit.
    pub utilisation_max: f64,
    /// Currency of costs.
    pub currency: String,
    /// Source of the prices.
    pub price_sources: String,
    /// Assumptions.
    pub assumptions: &'static [&'static str],
    /// The cheapest point of each rule with each choice of drives, cheapest first.
    pub needs: Vec<PlannedOption>,
}

/// Plans for a demand with every rule at its cheapest size, on each kind of drive alone and on each
/// hard drive with each kind of flash as a tier. `size_of` returns a file's bytes, if known.
///
/// # Errors
/// Like [`headlong_chain_sim::CostPoint::simulate`].
pub fn plan(
    table: &ChainTable,
    size_of: impl Fn(u32) -> Option<u64>,
    demand: &PeakDemand,
    offers: &[DriveOffer],
    prices: &PriceTable,
    try_out: &PlanSearch<'_>,
) -> Result<PurchasePlan, SimulationError> {
    let busiest = table.consumed_by_minute().into_iter().max().unwrap_or(0);
    let table_bytes_per_s = busiest as f64 / 60.0;
    let files = RankedFiles::new(table, size_of);
    let planner = Planner {
        table,
        demand,
        prices,
        try_out,
        growth: demand.bytes_per_s / table_bytes_per_s,
        catalogue_bytes: demand.catalogue_bytes.unwrap_or(files.bytes).max(1),
        files,
    };
    let mut needs = Vec::new();
    for main in offers {
        needs.extend(planner.cheapest(main, None)?);
        let flashes = offers.iter().filter(|other| other.is_flash());
        for flash in flashes.filter(|_| !main.is_flash()) {
            needs.extend(planner.cheapest(main, Some(flash))?);
        }
    }
    needs.sort_by(|one, other| one.cost.total_cmp(&other.cost));
    Ok(PurchasePlan {
        demand_bytes_per_s: demand.bytes_per_s,
        table_bytes_per_s,
        catalogue_bytes: planner.catalogue_bytes,
        catalogue_is_least: demand.catalogue_bytes.is_none() && !planner.files.are_sized,
        utilisation_max: demand.utilisation_max,
        currency: prices.currency.clone(),
        price_sources: prices.sources.clone(),
        assumptions: ASSUMPTIONS,
        needs,
    })
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

/// Files, sorted by bytes consumed per byte of size, highest first.
struct RankedFiles {
    ranked: Vec<(FileUse, u64)>,
    bytes: u64,
    taken_bytes: u64,
    /// Whether all sizes are known.
    are_sized: bool,
}

impl RankedFiles {
    fn new(table: &ChainTable, size_of: impl Fn(u32) -> Option<u64>) -> Self {
        let mut are_sized = true;
        let mut ranked: Vec<(FileUse, u64)> = table
            .files()
            .into_iter()
            .map(|file| {
                let known = size_of(file.file);
                are_sized &= known.is_some();
                // A file that was read beyond its listed size has another size.
                let size = known.unwrap_or(0).max(file.reached_bytes);
                (file, size.max(1))
            })
            .collect();
        let heat = |(file, size): &(FileUse, u64)| file.taken_bytes as f64 / *size as f64;
        ranked.sort_by(|one, other| heat(other).total_cmp(&heat(one)));
        Self {
            bytes: ranked.iter().map(|(_, size)| size).sum(),
            taken_bytes: ranked.iter().map(|(file, _)| file.taken_bytes).sum(),
            ranked,
            are_sized,
        }
    }

    /// Assigns files to drive [`HOT`] up to the given bytes; returns the table, their bytes, and
    /// their share of the consumption.
    fn parted(&self, table: &ChainTable, flash_bytes: u64) -> (ChainTable, u64, f64) {
        let (mut bytes, mut taken) = (0_u64, 0);
        let mut hot = std::collections::HashSet::new();
        for (file, size) in &self.ranked {
            if bytes + size > flash_bytes {
                break;
            }
            bytes += size;
            taken += file.taken_bytes;
            hot.insert(file.file);
        }
        let place = |file| if hot.contains(&file) { HOT } else { COLD };
        let share = taken as f64 / self.taken_bytes.max(1) as f64;
        (table.placed(|file| place(file) as u16), bytes, share)
    }
}

struct Planner<'p> {
    table: &'p ChainTable,
    demand: &'p PeakDemand,
    prices: &'p PriceTable,
    try_out: &'p PlanSearch<'p>,
    /// Ratio of the demand to that of the table.
    growth: f64,
    catalogue_bytes: u64,
    files: RankedFiles,
}

impl Planner<'_> {
    /// The cheapest point of each rule, with the best amount of flash.
    fn cheapest(
        &self,
        main: &DriveOffer,
        flash: Option<&DriveOffer>,
    ) -> Result<Vec<PlannedOption>, SimulationError> {
        let mut cheapest: Vec<Option<PlannedOption>> = vec![None; self.try_out.policies.len()];
        for flash_count in self.flash_counts(flash) {
            let flash_bytes = flash.map_or(0, |flash| flash.spec.capacity_bytes() * flash_count);
            let (parted, hot_bytes, share) = self.files.parted(self.table, flash_bytes);
            for (policy, cheapest) in self.try_out.policies.iter().zip(&mut cheapest) {
                for size_mb in self.try_out.sizes_mb {
                    let load = self.load(&parted, *policy, *size_mb)?;
                    let cold_bytes = self.catalogue_bytes.saturating_sub(hot_bytes);
                    let drives = self.drives(main, load.busiest(COLD, &main.rates), cold_bytes);
                    let flash = flash.map(|flash| {
                        let busy = load.busiest(HOT, &flash.rates);
                        (flash, self.drives(flash, busy, hot_bytes))
                    });
                    // If either kind has nothing to store, the plan equals that of the other kind
                    // alone.
                    let has_both =
                        |of: &(&DriveOffer, DriveCount)| of.1.count > 0 && drives.count > 0;
                    if !flash.as_ref().is_none_or(has_both) {
                        continue;
                    }
                    let need = self.need(&ChosenRule {
                        policy: *policy,
                        size_mb: *size_mb,
                        memory_bytes: load.memory_bytes,
                        main: (main, drives),
                        flash,
                        flash_share: share,
                    });
                    if cheapest.as_ref().is_none_or(|best| need.cost < best.cost) {
                        *cheapest = Some(need);
                    }
                }
            }
        }
        Ok(cheapest.into_iter().flatten().collect())
    }

    /// Numbers of flash drives to evaluate: none without flash, else one, two, four and so on until
    /// they hold everything.
    fn flash_counts(&self, flash: Option<&DriveOffer>) -> Vec<u64> {
        let Some(flash) = flash else {
            return vec![0];
        };
        let all = self
            .files
            .bytes
            .div_ceil(flash.spec.capacity_bytes().max(1));
        let mut counts: Vec<u64> = (0..FLASH_STEPS as u32).map(|power| 1 << power).collect();
        counts.retain(|count| *count < all);
        counts.push(all.max(1));
        counts.truncate(FLASH_STEPS);
        counts
    }

    fn load(
        &self,
        parted: &ChainTable,
        policy: Policy,
        size_mb: f64,
    ) -> Result<RuleLoad, SimulationError> {
        let settings = SimulationSettings {
            disks: Some(2),
            ..*self.try_out.settings
        };
        let rule = SizingRule::new(Algorithm::plain(policy), size_mb, settings.megabyte);
        RuleLoad::of(parted, &rule, &settings)
    }

    /// Number of drives for work that would keep `busy` drives busy, and for this many bytes.
    fn drives(&self, offer: &DriveOffer, busy: f64, bytes: u64) -> DriveCount {
        let busy = busy * self.growth;
        let for_rate = (busy / self.demand.utilisation_max).ceil() as u64;
        let for_capacity = bytes.div_ceil(offer.spec.capacity_bytes().max(1));
        let count = for_rate.max(for_capacity);
        DriveCount {
            drive: offer.spec.name().to_owned(),
            count,
            for_rate,
            for_capacity,
            utilisation: busy / count.max(1) as f64,
        }
    }

    fn need(&self, chosen: &ChosenRule<'_>) -> PlannedOption {
        let ram_gb = chosen.memory_bytes * self.growth / GB;
        let ram = self.prices.ram;
        let modules = (ram_gb / ram.module_gb).ceil();
        let mut cost = ram_gb * ram.cost_per_gb;
        let mut watts = modules * ram.module_watts;
        for (offer, drives) in std::iter::once(&chosen.main).chain(&chosen.flash) {
            cost += drives.count as f64 * offer.priced.cost;
            watts += drives.count as f64 * offer.priced.watts;
        }
        PlannedOption {
            policy: chosen.policy.name(),
            size: chosen.size_mb,
            drives: chosen.main.1.clone(),
            flash: chosen.flash.as_ref().map(|(_, drives)| drives.clone()),
            flash_share: chosen.flash_share,
            ram_gb,
            cost,
            watts,
            mb_per_joule: (watts > 0.0).then(|| self.demand.bytes_per_s / 1e6 / watts),
        }
    }
}

/// A rule with its size and its drives.
struct ChosenRule<'o> {
    policy: Policy,
    size_mb: f64,
    memory_bytes: f64,
    main: (&'o DriveOffer, DriveCount),
    flash: Option<(&'o DriveOffer, DriveCount)>,
    flash_share: f64,
}

#[cfg(test)]
mod tests {
    use headlong_units::BitRate;

    use super::*;
    use headlong_chain_sim::ChainRow;

    /// A hundred files of 100 MB; the first is requested as often as all others together.
    fn table() -> ChainTable {
        let rows = (0..2_000_i64).map(|index| ChainRow {
            file: if index % 2 == 0 {
                0
            } else {
                (index % 100) as u32
            },
            start: 0,
            length: 100_000_000,
            start_ms: index * 500,
            end_ms: index * 500 + 400_000,
            is_open: true,
            bit_rate: Some(BitRate::from_kbps(2_000)),
            disk: 0,
        });
        ChainTable::new(rows).expect("chains")
    }

    fn offer(name: &str, prices: &PriceTable) -> DriveOffer {
        let spec = headlong_drive::preset(name).expect("a preset");
        DriveOffer::new(spec, prices).expect("a price")
    }

    fn planned(gigabits: f64, limit: f64, names: &[&str]) -> PurchasePlan {
        planned_of(100_000_000, gigabits, limit, names)
    }

    /// A plan for files of this size.
    fn planned_of(file_bytes: u64, gigabits: f64, limit: f64, names: &[&str]) -> PurchasePlan {
        let prices = PriceTable::flashstream().expect("prices");
        planned_for(file_bytes, gigabits, limit, names, &prices)
    }

    fn planned_for(
        file_bytes: u64,
        gigabits: f64,
        limit: f64,
        names: &[&str],
        prices: &PriceTable,
    ) -> PurchasePlan {
        let offers: Vec<DriveOffer> = names.iter().map(|name| offer(name, prices)).collect();
        let demand = PeakDemand {
            bytes_per_s: gigabits * 1e9 / 8.0,
            catalogue_bytes: None,
            utilisation_max: limit,
        };
        let settings = SimulationSettings::default();
        let try_out = PlanSearch {
            policies: &[Policy::Fixed, Policy::FirstGrowSr],
            sizes_mb: &[1.0, 4.0, 8.0],
            settings: &settings,
        };
        let size_of = |_| Some(file_bytes);
        plan(&table(), size_of, &demand, &offers, prices, &try_out).expect("a plan")
    }

    #[test]
    fn doubled_demand_doubles_drives_and_memory() {
        let one = planned(10.0, 0.8, &["wd-red-wd10efrx"]);
        let two = planned(20.0, 0.8, &["wd-red-wd10efrx"]);
        assert_eq!(one.needs.len(), 2);
        let of = |plan: &PurchasePlan| {
            let need = plan.needs.iter().find(|need| need.policy == "fixed");
            need.expect("a need").clone()
        };
        let (one, two) = (of(&one), of(&two));
        assert!(
            one.drives.count >= 10 && one.drives.for_capacity == 1,
            "{one:?}"
        );
        assert!(two.drives.count.abs_diff(2 * one.drives.count) <= 1);
        assert!((two.ram_gb / one.ram_gb - 2.0).abs() < 1e-9 || two.size != one.size);
        assert!(one.drives.utilisation <= 0.8);
    }

    #[test]
    fn lower_limit_needs_more_drives_and_cost() {
        let loose = planned(10.0, 0.9, &["wd-red-wd10efrx"]);
        let tight = planned(10.0, 0.45, &["wd-red-wd10efrx"]);
        assert!(tight.needs[0].drives.count > loose.needs[0].drives.count);
        assert!(tight.needs[0].cost > loose.needs[0].cost);
    }

    #[test]
    fn prices_without_watts_give_no_energy_figure() {
        let prices = "sources = \"none\"\ncurrency = \"EUR\"\n[ram]\ncost_per_gb = 1\n\
            module_gb = 1\nmodule_watts = 0\n[[drive]]\nkind = \"hard-drive\"\ncost = 60\nwatts = 0\n";
        let prices = PriceTable::read("prices.toml", prices).expect("prices");
        let plan = planned_for(100_000_000, 10.0, 0.8, &["wd-red-wd10efrx"], &prices);
        assert_eq!(plan.needs[0].mb_per_joule, None);
        assert!(!text(&plan).contains("inf"));
    }

    #[test]
    fn flash_holds_most_popular_files() {
        let files = RankedFiles::new(&table(), |_| Some(100_000_000));
        let (parted, bytes, share) = files.parted(&table(), 150_000_000);
        assert_eq!(bytes, 100_000_000);
        assert!((share - 0.5).abs() < 0.02, "{share}");
        assert_eq!(parted.files().len(), table().files().len());
        let drives = ["wd-red-wd10efrx", "ssd-qlc-consumer"];
        for (file_bytes, rows, both) in [(100_000_000_000, 6, 2), (100_000_000, 4, 0)] {
            let plan = planned_of(file_bytes, 10.0, 0.8, &drives);
            let with_flash = plan.needs.iter().filter(|need| need.flash.is_some());
            // Each rule on the disk, on the flash, and on both, unless the flash holds everything.
            assert_eq!((plan.needs.len(), with_flash.count()), (rows, both));
            assert!(plan.needs.is_sorted_by(|one, other| one.cost <= other.cost));
        }
    }

    #[test]
    fn text_lists_assumptions() {
        let plan = planned(10.0, 0.8, &["wd-red-wd10efrx"]);
        let text = text(&plan);
        for part in [
            "first-grow-sr",
            "wd-red-wd10efrx",
            "FlashStream",
            "USD",
            "80 %",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        for assumption in ASSUMPTIONS {
            assert!(text.contains(&assumption[..30]), "{assumption}");
        }
    }
}
