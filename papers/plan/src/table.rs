//! A plan as text.

use std::fmt::Write as _;

use headlong_report::{Cell, Table};

use crate::{DriveCount, PurchasePlan};

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
    let named = |drives: &DriveCount| Cell::Text(format!("{} x {}", drives.count, drives.drive));
    let decimals = |size: f64| if size.fract() == 0.0 { 0 } else { 2 };
    Table::of(
        &plan.needs,
        &[
            ("Rule", &|need| need.policy.into()),
            ("MB", &|need| Cell::number(need.size, decimals(need.size))),
            ("Drives", &|need| named(&need.drives)),
            ("for rate", &|need| need.drives.for_rate.into()),
            ("for bytes", &|need| need.drives.for_capacity.into()),
            ("Busy (%)", &|need| {
                Cell::number(need.drives.utilisation * 100.0, 1)
            }),
            ("Flash", &|need| need.flash.as_ref().map(named).into()),
            ("Bytes from it (%)", &|need| {
                Cell::maybe(need.flash.as_ref().map(|_| need.flash_share * 100.0), 1)
            }),
            ("RAM (GB)", &|need| Cell::number(need.ram_gb, 1)),
            (&cost, &|need| Cell::number(need.cost, 0)),
            ("Watts", &|need| Cell::number(need.watts, 0)),
            ("MB/J", &|need| Cell::maybe(need.mb_per_joule, 2)),
        ],
    )
}
