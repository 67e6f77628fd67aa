//! A plan as text.

use std::fmt::Write as _;

use headlong_report::{Cell, Table};

use crate::{DriveCount, PlannedFigure, PurchasePlan};

/// The plan as text: the demand, the drives and memory, remarks and assumptions.
pub fn text(plan: &PurchasePlan) -> String {
    let mut text = format!(
        "{:.2} Gbit/s at the peak",
        plan.demand_bytes_per_s * 8.0 / 1e9
    );
    if let Some(viewers) = &plan.viewers {
        let _ = write!(text, ", {} viewers", viewers.text(0));
    }
    let _ = write!(
        text,
        "; {} times that of the log's busiest minute, from {} sessions; {:.1} GB of titles{}; \
         drives at most {:.0} % busy. Prices of {}.\n\n",
        two_digits(plan.demand_bytes_per_s / plan.table_bytes_per_s),
        plan.sessions,
        plan.catalogue_bytes as f64 / 1e9,
        match plan.catalogue_is_least {
            true => " at least (only what the log reached is known; set --catalogue)",
            false => "",
        },
        plan.utilisation_max * 100.0,
        plan.price_sources
    );
    text.push_str(&table(plan).to_markdown());
    for (heading, lines) in [
        ("Remarks", plan.remarks.iter().map(String::as_str).collect()),
        ("Assumptions", plan.assumptions.to_vec()),
    ] {
        let lines: Vec<&str> = lines;
        if lines.is_empty() {
            continue;
        }
        let _ = writeln!(text, "\n{heading}:");
        for line in lines {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "- {line}");
        }
    }
    text
}

/// A factor with two significant digits: more would suggest an exactness that is not there.
fn two_digits(factor: f64) -> String {
    if factor >= 10.0 {
        let unit = 10_f64.powf(factor.log10().floor() - 1.0);
        return format!("{:.0}", (factor / unit).round() * unit);
    }
    format!("{factor:.1}")
}

fn table(plan: &PurchasePlan) -> Table {
    let cost = format!("Cost ({})", plan.currency);
    let least = if plan.catalogue_is_least {
        "at least "
    } else {
        ""
    };
    let counted = |drives: &DriveCount| {
        // The capacity decides, and more of it may be needed.
        let is_least =
            plan.catalogue_is_least && drives.for_capacity as f64 >= drives.for_rate.value;
        let least = if is_least { least } else { "" };
        Cell::Text(format!(
            "{least}{} x {}",
            drives.count.text(0),
            drives.drive
        ))
    };
    let decimals = |size: f64| if size.fract() == 0.0 { 0 } else { 2 };
    let figure = |figure: &PlannedFigure, decimals| Cell::Text(figure.text(decimals));
    let percent = |figure: &PlannedFigure| {
        let [value, low, high] = [figure.value, figure.low, figure.high].map(|of| of * 100.0);
        Cell::Text(PlannedFigure { value, low, high }.text(0))
    };
    Table::of(
        &plan.needs,
        &[
            ("Rule", &|need| need.policy.into()),
            ("MB", &|need| Cell::number(need.size, decimals(need.size))),
            ("Drives", &|need| counted(&need.drives)),
            ("for rate", &|need| figure(&need.drives.for_rate, 0)),
            ("for bytes", &|need| {
                Cell::Text(format!("{least}{}", need.drives.for_capacity))
            }),
            ("Busy (%)", &|need| percent(&need.drives.utilisation)),
            ("Flash", &|need| need.flash.as_ref().map(counted).into()),
            ("Bytes from it (%)", &|need| {
                need.flash
                    .as_ref()
                    .map(|_| percent(&need.flash_share))
                    .into()
            }),
            ("RAM (GB)", &|need| figure(&need.ram_gb, 1)),
            (&cost, &|need| figure(&need.cost, 0)),
            ("per viewer", &|need| {
                need.cost_per_viewer
                    .as_ref()
                    .map(|cost| figure(cost, 2))
                    .into()
            }),
            ("Watts", &|need| figure(&need.watts, 0)),
            ("Watts per viewer", &|need| {
                need.watts_per_viewer
                    .as_ref()
                    .map(|watts| figure(watts, 3))
                    .into()
            }),
            ("MB/J", &|need| {
                need.mb_per_joule.as_ref().map(|of| figure(of, 2)).into()
            }),
        ],
    )
}
