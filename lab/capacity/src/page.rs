//! An answer as a page, with the curve of failures over the rate.

use headlong_report::{Axis, Chart, Page, Section, Series};

use crate::answer::CapacityAnswer;
use crate::text::{changes, sentence, servers};

/// The page of an answer; `command` is the command line that made it.
pub fn page(answer: &CapacityAnswer, command: &str) -> Page {
    let mut limit =
        Section::new("The limit").text(format!("What limits it: {}.", answer.limited_by));
    for table in [changes(answer), servers(answer)].into_iter().flatten() {
        limit = limit.table(table);
    }
    let mut page = Page::new("Capacity").lead(sentence(answer)).section(limit);
    if !answer.curve.is_empty() {
        page = page.section(Section::new("Failures over the rate").figure(curve(answer)));
    }
    let mut method = Section::new("How this came about");
    for remark in &answer.remarks {
        method = method.note(remark.clone());
    }
    for line in answer.method {
        method = method.text(*line);
    }
    page.section(method.command(command))
}

fn curve(answer: &CapacityAnswer) -> Chart {
    let x = Axis::new("Requested by all viewers", "Mbit/s").from(0.0);
    let y = Axis::new("Failed requests", "%").from(0.0);
    let mut chart = Chart::lines("Failed requests", x, y).line_at_x(answer.mbit_s.value, "limit");
    let mut names: Vec<&'static str> = answer.curve.iter().map(|point| point.server).collect();
    names.dedup();
    for name in names {
        let points = answer.curve.iter().filter(|point| point.server == name);
        let points = points.map(|point| (point.mbit_s, point.failed_share * 100.0));
        chart = chart.series(Series::new(name, points));
    }
    chart.caption(
        "One run for each point, with all sessions of the log. A viewer leaves at its first failed \
         request, so demand falls where many fail.",
    )
}
