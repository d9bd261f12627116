//! Round trips: moves that end on the chart they began with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::diff::{Diff, diff};
use crate::record::Snapshot;
use crate::scenario::Outlook;

/// One round trip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoundTrip {
    /// The chart at both ends, by its name in the plan.
    pub chart: String,
    /// The charts in between, in order.
    pub through: Vec<String>,
    /// The last step that ended on the chart before it was left.
    pub from: u32,
    /// The step that brought it back.
    pub to: u32,
    /// What differs between the two ends; [`None`] when one of them was not observed.
    pub diff: Option<Diff>,
}

/// All round trips of a plan, by the steps that end them. A way that leads over an uninstalled release
/// is none.
#[must_use]
pub fn round_trips(outlook: &[Outlook], snapshots: &BTreeMap<u32, Snapshot>) -> Vec<RoundTrip> {
    let charts: Vec<_> = outlook
        .iter()
        .map(|outlook| outlook.chart.as_ref().map(|chart| chart.0.as_str()))
        .collect();
    let trips = (1..charts.len()).filter_map(|end| {
        let chart = charts[end]?;
        let mut through = Vec::new();
        let mut start = end - 1;
        while charts[start]? != chart {
            if through.last() != Some(&charts[start]?) {
                through.push(charts[start]?);
            }
            start = start.checked_sub(1)?;
        }
        if through.is_empty() {
            return None;
        }
        through.reverse();
        let number = |index: usize| u32::try_from(index + 1).ok();
        let (from, to) = (number(start)?, number(end)?);
        let ends = snapshots.get(&from).zip(snapshots.get(&to));
        Some(RoundTrip {
            chart: chart.to_owned(),
            through: through.into_iter().map(str::to_owned).collect(),
            from,
            to,
            diff: ends.map(|(before, after)| diff(before, after)),
        })
    });
    trips.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ChartName;

    fn trips(charts: &[&str]) -> Vec<(u32, u32, String, Vec<String>)> {
        let outlook = charts.iter().map(|chart| Outlook {
            chart: (*chart != "-").then(|| ChartName((*chart).to_owned())),
            revision: None,
            target: None,
            crds: None,
            aiboms: 0,
        });
        let trips = round_trips(&outlook.collect::<Vec<_>>(), &BTreeMap::new());
        let told = trips
            .into_iter()
            .map(|trip| (trip.from, trip.to, trip.chart, trip.through));
        told.collect()
    }

    fn trip(from: u32, to: u32, chart: &str, through: &[&str]) -> (u32, u32, String, Vec<String>) {
        let through = through.iter().map(|chart| (*chart).to_owned()).collect();
        (from, to, chart.to_owned(), through)
    }

    #[test]
    fn every_return_to_a_chart_is_one() {
        let steps = ["-", "a", "a", "b", "b", "a", "a", "b", "a", "-"];
        let wanted = [
            trip(3, 6, "a", &["b"]),
            trip(5, 8, "b", &["a"]),
            trip(7, 9, "a", &["b"]),
        ];
        assert_eq!(trips(&steps), wanted);
        assert_eq!(trips(&["a", "b", "c", "a"]), [trip(1, 4, "a", &["b", "c"])]);
    }

    #[test]
    fn a_reinstalled_chart_made_none() {
        assert_eq!(trips(&["a", "-", "a"]), []);
        assert_eq!(trips(&["a", "b", "-", "a"]), []);
        assert_eq!(trips(&["a", "a"]), []);
        assert_eq!(trips(&[]), []);
    }
}
