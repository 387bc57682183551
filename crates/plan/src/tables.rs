//! The report as rows of text, for a terminal and for the page. The first row is the header.

use crate::capacity::{Bound, Capacity};
use crate::digits::count;
use crate::report::PlannedWorkload;

impl PlannedWorkload {
    /// Returns a row for each platform, after the header.
    pub fn cells(&self) -> Vec<Vec<String>> {
        let head = [
            "platform",
            "cohort",
            "documents",
            "machines",
            "published",
            "kW",
            "published",
            "M$",
            "ratio",
        ];
        let mut rows = vec![head.map(String::from).to_vec()];
        for platform in &self.platforms {
            let published = platform.published;
            let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            rows.push(vec![
                platform.name.clone(),
                format!("{:.0}", platform.shape.cohort),
                count(platform.shape.documents_per_machine),
                count(platform.shape.machines),
                or_none(published.machines.map(count)),
                format!("{:.1}", platform.power.kilowatts),
                or_none(published.kilowatts.map(|kilowatts| kilowatts.to_string())),
                format!("{:.3}", platform.cost.total / 1e6),
                format!("{:.3}", platform.ratio),
            ]);
        }
        rows
    }
}

impl Capacity {
    /// Returns a row for each measurement, after the header.
    pub fn cells(all: &[Capacity]) -> Vec<Vec<String>> {
        let head = [
            "measurement",
            "documents",
            "in time",
            "bound by",
            "machines",
            "10^9 q x docs/s",
            "/J",
            "kW",
            "",
        ];
        let mut rows = vec![head.map(String::from).to_vec()];
        let known = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
        for capacity in all {
            let bound = match capacity.bound {
                Bound::Deadline => "deadline",
                Bound::Memory => "memory",
                Bound::Tiles => "tiles",
            };
            rows.push(vec![
                capacity.measurement.clone(),
                count(capacity.documents),
                format!("{:.1}%", 100.0 * capacity.share_in_time),
                bound.to_owned(),
                capacity.machines.map_or_else(|| "-".to_owned(), count),
                format!("{:.1}", capacity.work_per_s / 1e9),
                capacity.work_per_joule.map_or("-".to_owned(), |w| format!("{:.3}", w / 1e9)),
                known(capacity.kilowatts),
                if capacity.best { "fewest".to_owned() } else { String::new() },
            ]);
        }
        rows
    }
}
