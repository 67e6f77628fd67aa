//! Literal, slow implementation of the rules, as a reference for the fast one.

use std::collections::BTreeSet;

use headlong_chains::{Chain, ChainRules, GapRule, LinkRule, Request};

/// Chains, each with the lines of its requests.
pub(crate) fn chains(requests: &[Request], rules: &ChainRules) -> Vec<(Chain, BTreeSet<u64>)> {
    let parts: Vec<Request> = requests
        .iter()
        .filter(|request| request.sent_bytes > 0)
        .copied()
        .collect();
    let mut neighbours = vec![BTreeSet::new(); parts.len()];
    for (ender, starter) in links(&parts, rules) {
        neighbours[ender].insert(starter);
        neighbours[starter].insert(ender);
    }
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for first in 0..parts.len() {
        let mut members = BTreeSet::new();
        let mut ahead = vec![first];
        while let Some(place) = ahead.pop() {
            if seen.insert(place) {
                members.insert(place);
                ahead.extend(&neighbours[place]);
            }
        }
        if !members.is_empty() {
            let of: Vec<_> = members.iter().map(|&place| parts[place]).collect();
            found.push((chain(&of), of.iter().map(|request| request.line).collect()));
        }
    }
    found
}

/// A6: links between requests, as indexes of an ender and a starter.
fn links(parts: &[Request], rules: &ChainRules) -> Vec<(usize, usize)> {
    let touches = |ender: usize, starter: usize| {
        let (ender, starter) = (&parts[ender], &parts[starter]);
        (ender.session, ender.file) == (starter.session, starter.file)
            && ender.offset + ender.sent_bytes == starter.offset
            && is_near(ender, starter, rules)
    };
    // Order of arrival over the whole log is also order of arrival at each byte.
    let mut arrivals: Vec<usize> = (0..parts.len()).collect();
    arrivals.sort_by_key(|&place| (parts[place].received_ms, parts[place].line));
    let mut links = Vec::new();
    let mut taken = BTreeSet::new();
    for &ender in &arrivals {
        for &starter in &arrivals {
            if !touches(ender, starter) {
                continue;
            }
            match rules.link {
                LinkRule::OneToOne => {
                    if taken.insert(starter) {
                        links.push((ender, starter));
                        break;
                    }
                }
                LinkRule::Component => links.push((ender, starter)),
            }
        }
    }
    links
}

/// A2.
fn is_near(one: &Request, other: &Request, rules: &ChainRules) -> bool {
    let (first, second) = if one.received_ms <= other.received_ms {
        (one, other)
    } else {
        (other, one)
    };
    let from = match rules.gap {
        GapRule::Received => first.received_ms,
        GapRule::Idle => first.completed_ms,
    };
    i128::from(second.received_ms) - i128::from(from) <= i128::from(rules.within_ms)
}

/// A5 and A10.
fn chain(of: &[Request]) -> Chain {
    let head = of
        .iter()
        .min_by_key(|request| (request.offset, request.received_ms, request.line))
        .expect("a chain has a request");
    let end = of
        .iter()
        .map(|request| request.offset + request.sent_bytes)
        .max();
    let start_ms = of.iter().map(|request| request.received_ms).min();
    let end_ms = of.iter().map(|request| request.completed_ms).max();
    let is_open = head.asked_bytes.is_none();
    Chain {
        session: head.session,
        file: head.file,
        start: head.offset,
        length: end.expect("it has a request") - head.offset,
        start_ms: start_ms.expect("it has a request"),
        end_ms: end_ms.expect("it has a request"),
        is_open,
        is_mixed: of
            .iter()
            .any(|request| request.asked_bytes.is_none() != is_open),
        requests: of.len() as u32,
        disk: head.disk,
    }
}
