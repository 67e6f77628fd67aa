//! A plan as text.

use std::fmt::Write as _;

use headlong_report::{Cell, Table};

use crate::{DriveCount, PlannedOption, PurchasePlan};

/// The plan as text: the demand, the drives and memory, and the assumptions.
pub fn text(plan: &PurchasePlan) -> String {
    let mut text = format!(
        "{:.2} Gbit/s at the peak, {:.2} times that of the table; {:.1} GB of titles{}; drives at \
         most {:.0} % busy. Prices: {}.\n\n",
        plan.demand_bytes_per_s * 8.0 / 1e9,
        plan.demand_bytes_per_s / plan.table_bytes_per_s,
        plan.catalogue_bytes as f64 / 1e9,
        match plan.catalogue_is_least {
            true => " at least (only the parts read are known; set --catalogue)",
            false => "",
        },
        plan.utilisation_max * 100.0,
        plan.price_sources
    );
    text.push_str(&table(plan).to_markdown());
    text.push_str("\nAssumptions:\n");
    for assumption in plan.assumptions {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "- {assumption}");
    }
    text
}

fn table(plan: &PurchasePlan) -> Table {
    let cost = format!("Cost ({})", plan.currency);
    let mut table = Table::new([
        "Rule",
        "MB",
        "Drives",
        "for rate",
        "for bytes",
        "Busy (%)",
        "Flash",
        "Bytes from it (%)",
        "RAM (GB)",
        &cost,
        "Watts",
        "MB/J",
    ]);
    for need in &plan.needs {
        table.push(row(need));
    }
    table
}

fn row(need: &PlannedOption) -> [Cell; 12] {
    let named = |drives: &DriveCount| Cell::Text(format!("{} x {}", drives.count, drives.drive));
    [
        need.policy.into(),
        Cell::number(need.size, if need.size.fract() == 0.0 { 0 } else { 2 }),
        named(&need.drives),
        need.drives.for_rate.into(),
        need.drives.for_capacity.into(),
        Cell::number(need.drives.utilisation * 100.0, 1),
        need.flash.as_ref().map_or(Cell::Missing, named),
        match need.flash {
            None => Cell::Missing,
            Some(_) => Cell::number(need.flash_share * 100.0, 1),
        },
        Cell::number(need.ram_gb, 1),
        Cell::number(need.cost, 0),
        Cell::number(need.watts, 0),
        Cell::maybe(need.mb_per_joule, 2),
    ]
}
