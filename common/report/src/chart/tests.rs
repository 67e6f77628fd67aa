use super::*;
use headlong_stats::Cdf;
use proptest::prelude::*;

fn axes() -> (Axis, Axis) {
    (
        Axis::new("Rate", "requests/s").from(0.0),
        Axis::new("Throughput", "MB/s").from(0.0),
    )
}

fn svg(figure: impl Into<Figure>) -> String {
    figure.into().to_svg()
}

/// The coordinates of a path of this class, as in its `d` attribute.
fn path<'a>(svg: &'a str, class: &str) -> &'a str {
    let start = format!("<path class=\"{class}\" d=\"");
    let rest = svg
        .split_once(&start)
        .unwrap_or_else(|| panic!("no {class} in {svg}"))
        .1;
    rest.split_once('"').expect("closed").0
}

#[test]
fn a_chart_describes_its_content_in_words() {
    let (x, y) = axes();
    let chart = Chart::lines("Two <servers>", x, y)
        .series(Series::new("ours & theirs", [(20.0, 39.2), (40.0, 68.4)]))
        .series(Series::new("none", [] as [Point; 0]));
    let svg = svg(chart);
    assert!(svg.contains("Two &lt;servers&gt;</title>"), "{svg}");
    let words = "Lines of Throughput (MB/s) over Rate (requests/s). ours &amp; theirs: 2 points, \
                 from 39.2 at 20 to 68.4 at 40, lowest 39.2, highest 68.4. none: no points.";
    assert!(svg.contains(words), "{svg}");
    assert!(
        svg.contains("aria-labelledby=\"figure-t figure-d\""),
        "{svg}"
    );
}

#[test]
fn a_distribution_spans_the_full_height() {
    let cdf = Cdf::of([0.001, 0.002, 0.002, 0.004]).expect("samples");
    let chart = Chart::steps("t", Axis::new("Latency", "ms").log(), "Reads")
        .series(Series::of_cdf("a", &cdf, 1000.0));
    let svg = svg(chart);
    let steps = path(&svg, "line s0");
    // The area for data is 320 high: from 364 at 0 % to 44 at 100 %.
    assert!(
        steps.contains(" 364.0H") && steps.contains("V284.0H") && steps.contains("V44.0H"),
        "{steps}"
    );
}

#[test]
fn many_points_give_a_small_file_and_keep_extremes() {
    let (x, y) = axes();
    let wave = (0..200_000).map(|i| {
        (
            f64::from(i),
            if i == 77_777 { 9.0 } else { f64::from(i % 5) },
        )
    });
    let lines = Chart::lines("t", x.clone(), y.clone()).series(Series::new("a", wave.clone()));
    let drawn = svg(lines);
    assert!(drawn.len() < 60_000, "{}", drawn.len());
    // Nine of ten: a tenth of 320 below the top at 44.
    assert!(
        path(&drawn, "line s0").contains(" 76.0"),
        "the peak is lost"
    );
    let dots = Chart::scatter("t", x, y).series(Series::new("a", wave));
    assert!(svg(dots).len() < 200_000);
}

#[test]
fn points_without_a_value_are_omitted_and_counted() {
    let (x, y) = axes();
    let chart = Chart::lines("t", x, y).caption("c").series(Series::new(
        "a",
        [(1.0, f64::NAN), (f64::INFINITY, 1.0), (2.0, 2.0)],
    ));
    let figure = Figure::from(chart);
    assert_eq!(
        figure.caption(),
        "c (2 points without a value are left out.)"
    );
    assert!(!figure.to_svg().contains("NaN"));
}

#[test]
fn an_empty_chart_states_that_it_is_empty() {
    let (x, y) = axes();
    assert!(svg(Chart::lines("t", x, y)).contains("nothing was measured"));
    assert!(svg(Bars::new("t", Axis::new("Rate", "MB/s"))).contains("Bars of Rate (MB/s)."));
}

#[test]
fn bars_show_measured_and_published_values() {
    let bars = Bars::new("t", Axis::new("Rate", "MB/s"))
        .series("here")
        .reference("published")
        .group("nginx", [Some(Bar::new(24.9)), Some(Bar::new(25.11))])
        .group("ours", [Some(Bar::new(80.0)), None]);
    let drawn = svg(bars.clone());
    let outlines = drawn.matches("class=\"bar ").count();
    // Three bars and two boxes in the legend.
    assert_eq!(outlines, 5, "{drawn}");
    assert!(
        drawn.contains("<title>nginx, published: 25.11</title>"),
        "{drawn}"
    );
    assert!(
        drawn.contains("ours: here 80; published no figure;"),
        "{drawn}"
    );
    let table = Figure::from(bars).table().expect("groups").to_markdown();
    assert!(
        table.contains("| ours  |") && table.contains("80"),
        "{table}"
    );
}

#[test]
fn a_separate_file_contains_its_styles() {
    let (x, y) = axes();
    let svg = svg(Chart::lines("t", x, y));
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("<style>") && svg.contains("--c0"));
}

proptest! {
    #[test]
    fn no_data_break_a_chart(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..20),
        kind in 0..3, is_log: bool, threshold: f64,
    ) {
        let (x, y) = axes();
        let y = if is_log { y.log() } else { y };
        let chart = match kind {
            0 => Chart::lines("t", x, y),
            1 => Chart::scatter("t", x.log2(), y),
            _ => Chart::steps("t", x, "y"),
        };
        let figure = Figure::from(chart.series(Series::new("a", points)).line_at_y(threshold, "l"));
        let drawn = figure.to_svg();
        for odd in ["NaN", "inf"] {
            prop_assert!(!drawn.contains(odd), "{}", drawn);
        }
        let _ = figure.table().map(|table| table.to_html());
    }
}
