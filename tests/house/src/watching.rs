//! The alert rules: each alert has a summary, a runbook that is a heading of a page, and unit tests
//! of firing and of not firing.

/// One alert of a file of rules.
#[derive(Debug, Default, PartialEq, Eq)]
struct Alert<'a> {
    name: &'a str,
    summary: &'a str,
    runbook: &'a str,
}

/// Parses the required part of the rules. They are YAML of one shape: one key and its value in a
/// line.
fn alerts(rules: &str) -> Vec<Alert<'_>> {
    let mut alerts = Vec::<Alert<'_>>::new();
    for line in rules.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push(Alert {
                name,
                ..Alert::default()
            });
        } else if let Some(alert) = alerts.last_mut() {
            if let Some(summary) = line.strip_prefix("summary: ") {
                alert.summary = summary.trim_matches('"');
            } else if let Some(runbook) = line.strip_prefix("runbook_url: ") {
                alert.runbook = runbook;
            }
        }
    }
    alerts
}

/// Errors in the rules. `page` is docs/operate/watch.md, which a package installs at `installed`;
/// `examples` is the file of `promtool test rules`.
pub fn wrong_alerts(rules: &str, examples: &str, page: &str, installed: &str) -> Vec<String> {
    let alerts = alerts(rules);
    let mut wrong = Vec::new();
    if alerts.is_empty() {
        wrong.push("there are no alerts".to_owned());
    }
    for Alert {
        name,
        summary,
        runbook,
    } in alerts
    {
        if summary.is_empty() {
            wrong.push(format!("{name} has no summary"));
        }
        let heading = runbook.strip_prefix(installed);
        let heading = heading.and_then(|rest| rest.strip_prefix('#'));
        let has = |heading: &str| {
            page.lines().any(|line| {
                line.strip_prefix("### ")
                    .is_some_and(|title| title.to_lowercase() == heading)
            })
        };
        if !heading.is_some_and(has) {
            wrong.push(format!("{name}: the page has no heading {runbook:?}"));
        }
        let fires = format!("alertname: {name}\n        exp_alerts:\n");
        if !examples.contains(&fires) {
            wrong.push(format!("{name} has no example in which it fires"));
        }
        let quiet = format!("alertname: {name}, exp_alerts: []");
        if !examples.contains(&quiet) {
            wrong.push(format!("{name} has no example in which it does not"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_alert_without_summary_runbook_or_examples() {
        let rules = "- alert: Good\n  summary: \"It is\"\n  runbook_url: file:/w.md#good\n\
                     - alert: Bad\n  runbook_url: file:/w.md#none\n- alert: Mute\n  summary: x\n";
        let examples = "      - {alertname: Good, exp_alerts: []}\n      - eval_time: 1m\n        \
                        alertname: Good\n        exp_alerts:\n          - exp_labels: {}\n";
        let wrong = wrong_alerts(rules, examples, "# Watch\n### Good\n", "file:/w.md");
        let told: Vec<&str> = wrong
            .iter()
            .filter_map(|text| text.split([' ', ':']).next())
            .collect();
        assert_eq!(
            told,
            ["Bad", "Bad", "Bad", "Bad", "Mute", "Mute", "Mute"],
            "{wrong:?}"
        );
        assert_eq!(wrong_alerts("", "", "", "").len(), 1);
    }
}
