//! Prices of drives and memory, as TOML in the form of FlashStream's Table 6.

use headlong_drive::DriveSpec;
use serde::{Deserialize, Serialize};

/// FlashStream's figures.
const FLASHSTREAM: &str = include_str!("prices-2013.toml");
/// Current figures.
const CURRENT: &str = include_str!("prices-2026.toml");
/// A GB in a price table.
pub(super) const GB: f64 = 1e9;

/// A price table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTable {
    /// Source of the figures.
    pub sources: String,
    /// When they were valid, such as `2026-02`.
    pub date: Option<String>,
    /// Currency of costs.
    pub currency: String,
    /// Memory.
    pub ram: RamPrice,
    /// Drives.
    #[serde(rename = "drive")]
    pub drives: Vec<DrivePrice>,
}

/// Price of memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RamPrice {
    /// Cost of a GB (10^9 bytes).
    pub cost_per_gb: f64,
    /// Size of a module in GB.
    pub module_gb: f64,
    /// Power of a module in watts.
    pub module_watts: f64,
}

/// Kind of drive of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DriveKind {
    /// Hard disks, with one arm or two.
    HardDrive,
    /// Flash.
    SolidState,
}

/// Price of a drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrivePrice {
    /// Its kind.
    pub kind: DriveKind,
    /// Applies to this preset only; to all others of the kind if absent.
    pub preset: Option<String>,
    /// Cost of a drive; either this or `cost_per_gb`.
    pub cost: Option<f64>,
    /// Cost of a GB (10^9 bytes) of a drive.
    pub cost_per_gb: Option<f64>,
    /// Power of an active drive in watts.
    pub watts: f64,
}

/// Cost and power of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DriveCost {
    /// Cost.
    pub cost: f64,
    /// Watts.
    pub watts: f64,
}

impl DriveKind {
    /// The kind of a drive.
    pub const fn of(spec: &DriveSpec) -> Self {
        match spec {
            DriveSpec::HardDrive(_) | DriveSpec::DualActuator(_) => Self::HardDrive,
            DriveSpec::SolidState(_) => Self::SolidState,
        }
    }

    /// Its name in a price table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HardDrive => "hard-drive",
            Self::SolidState => "solid-state",
        }
    }
}

impl PriceTable {
    /// The figures of FlashStream's Table 6.
    ///
    /// # Errors
    /// None in practice: the file is part of the program.
    pub fn flashstream() -> Result<Self, Vec<String>> {
        Self::read("prices-2013.toml", FLASHSTREAM)
    }

    /// Current figures, with their dates.
    ///
    /// # Errors
    /// None in practice: the file is part of the program.
    pub fn current() -> Result<Self, Vec<String>> {
        Self::read("prices-2026.toml", CURRENT)
    }

    /// Date and source in words, for every output.
    pub fn told(&self) -> String {
        match &self.date {
            Some(date) => format!("{date}: {}", self.sources),
            None => format!("{} (no date)", self.sources),
        }
    }

    /// Parses a table called `name`.
    ///
    /// # Errors
    /// All mistakes.
    pub fn read(name: &str, text: &str) -> Result<Self, Vec<String>> {
        let prices: Self =
            toml::from_str(text).map_err(|error| vec![format!("{name}: {error}")])?;
        let wrong = prices.mistakes();
        match wrong.is_empty() {
            true => Ok(prices),
            false => Err(wrong
                .iter()
                .map(|wrong| format!("{name}: {wrong}"))
                .collect()),
        }
    }

    fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut check = |what: String, value: f64, may_be_zero: bool| {
            if !(value.is_finite() && (value > 0.0 || may_be_zero && value == 0.0)) {
                wrong.push(format!("{what} is {value}; write a number above zero"));
            }
        };
        check("ram.cost_per_gb".into(), self.ram.cost_per_gb, true);
        check("ram.module_gb".into(), self.ram.module_gb, false);
        check("ram.module_watts".into(), self.ram.module_watts, true);
        for (place, drive) in (1..).zip(&self.drives) {
            check(format!("watts of drive {place}"), drive.watts, true);
            let costs = [drive.cost, drive.cost_per_gb];
            for cost in costs.into_iter().flatten() {
                check(format!("the cost of drive {place}"), cost, true);
            }
        }
        for (place, drive) in (1..).zip(&self.drives) {
            if drive.cost.is_some() == drive.cost_per_gb.is_some() {
                wrong.push(format!(
                    "drive {place} has both or neither of cost and cost_per_gb; give one"
                ));
            }
            if let Some(preset) = &drive.preset
                && let Err(error) = headlong_drive::preset(preset)
            {
                wrong.push(format!("drive {place}: {error}"));
            }
        }
        wrong
    }

    /// Cost and power of a drive.
    ///
    /// # Errors
    /// If there is no entry for it.
    pub fn of(&self, spec: &DriveSpec) -> Result<DriveCost, String> {
        let kind = DriveKind::of(spec);
        let named = |entry: &&DrivePrice| entry.preset.as_deref() == Some(spec.name());
        let general = |entry: &&DrivePrice| entry.preset.is_none() && entry.kind == kind;
        let mut entries = self.drives.iter();
        let entry = entries
            .find(named)
            .or_else(|| self.drives.iter().find(general));
        let Some(entry) = entry else {
            return Err(format!(
                "the price table has nothing for {}; add a [[drive]] with kind = \"{}\"",
                spec.name(),
                kind.name()
            ));
        };
        let gb = spec.capacity_bytes() as f64 / GB;
        let cost = entry.cost.or(entry.cost_per_gb.map(|cost| cost * gb));
        Ok(DriveCost {
            // One of them is present, as checked while parsing.
            cost: cost.unwrap_or(0.0),
            watts: entry.watts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_prices_match_table_6() {
        let prices = PriceTable::flashstream().expect("prices");
        let red = headlong_drive::preset("wd-red-wd10efrx").expect("a preset");
        let priced = prices.of(&red).expect("a price");
        assert_eq!((priced.cost, priced.watts), (90.0, 12.0));
        assert_eq!(prices.ram.cost_per_gb, 8.0);
    }

    #[test]
    fn current_prices_have_dates_and_cover_every_drive() {
        let prices = PriceTable::current().expect("prices");
        assert!(
            prices.told().starts_with("2022-11 to 2026-02: "),
            "{}",
            prices.told()
        );
        for preset in headlong_drive::presets() {
            let cost = prices.of(&preset.spec()).expect(preset.name);
            assert!(cost.cost > 0.0 && cost.watts > 0.0);
        }
        let nearline = headlong_drive::preset("nearline-20tb").expect("a preset");
        assert!((prices.of(&nearline).expect("a price").cost - 280.0).abs() < 1.0);
    }

    #[test]
    fn preset_entry_overrides_kind_entry() {
        let text = FLASHSTREAM.to_owned()
            + "[[drive]]\nkind = \"hard-drive\"\npreset = \"wd-red-wd10efrx\"\n\
               cost = 60\nwatts = 4\n";
        let prices = PriceTable::read("mine.toml", &text).expect("prices");
        let red = headlong_drive::preset("wd-red-wd10efrx").expect("a preset");
        assert_eq!(prices.of(&red).expect("a price").cost, 60.0);
    }

    #[test]
    fn reports_all_mistakes() {
        let text = "sources = \"\"\ncurrency = \"EUR\"\n\
                    [ram]\ncost_per_gb = -1\nmodule_gb = 0\nmodule_watts = 1\n\
                    [[drive]]\nkind = \"solid-state\"\npreset = \"wd-rad\"\nwatts = 1\n";
        let wrong = PriceTable::read("mine.toml", text)
            .expect_err("mistakes")
            .join("\n");
        for part in [
            "ram.cost_per_gb",
            "ram.module_gb",
            "cost_per_gb; give one",
            "wd-red",
        ] {
            assert!(wrong.contains(part), "{part} is missing in {wrong}");
        }
        let no_table = PriceTable::read("mine.toml", "a = 1").expect_err("no table");
        assert!(no_table[0].starts_with("mine.toml"));
        let mut without = PriceTable::flashstream().expect("prices");
        without.drives.clear();
        let red = headlong_drive::preset("wd-red-wd10efrx").expect("a preset");
        let error = without.of(&red).expect_err("no price");
        assert!(error.contains("hard-drive"), "{error}");
    }
}
