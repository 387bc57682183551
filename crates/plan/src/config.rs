//! The inputs of a plan, as a TOML file. Numbers are checked as they are parsed;
//! [`Config::parse`] checks conditions that involve several of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::design::Design;
use crate::error::PlanError;
use crate::number::{
    Bytes, Cohort, DeadlineMs, Documents, Dollars, Hits, Kilowatts, Machines, Millis, Rate, Seed,
    Share, Trials, Variation, Watts, Years,
};
use crate::simulation::SimulationInputs;

/// The default inputs as a commented TOML file: those of the paper, and current hardware.
pub const DEFAULTS: &str = include_str!("defaults.toml");

/// Maximum number of workloads, and of platforms in each.
const MOST: usize = 100;

/// All inputs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Cost of energy.
    pub energy: Energy,
    /// $system: the prices of servers without accelerators, by name.
    pub servers: BTreeMap<String, Dollars>,
    /// $acc: the prices of accelerators, by name.
    #[serde(default)]
    pub accelerators: BTreeMap<String, Dollars>,
    /// Settings of the plot of cost ratios.
    pub plot: PlotInputs,
    /// Settings for deriving the number of documents per node from measurements.
    pub capacity: CapacityInputs,
    /// The cluster to simulate; that of the default file if there is none.
    pub simulation: Option<SimulationInputs>,
    /// The workloads, each with the platforms that its cluster could consist of.
    pub workload: Vec<Workload>,
}

/// The cost of energy.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Energy {
    /// Lifetime of machines.
    pub lifetime_years: Years,
    /// Price of energy.
    pub dollars_per_kwh: Dollars,
}

/// The settings of the plot of cost ratios against the price of a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotInputs {
    /// The server whose price varies, on all platforms that use it.
    pub server: Spanned<String>,
    /// Lowest price.
    pub from: Dollars,
    /// Highest price.
    pub to: Spanned<Dollars>,
    /// The platform whose cost is 1. Every workload has it.
    pub baseline: Spanned<String>,
}

/// The settings for deriving the number of documents per node from measurements.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CapacityInputs {
    /// Share of queries that must meet the deadline.
    pub share_in_time: Share,
    /// Number of cohorts, or queries, to simulate.
    pub trials: Trials,
    /// Seed of the random numbers. The same seed gives the same result.
    pub seed: Seed,
    /// The distribution of arrival times.
    pub arrivals: Arrivals,
    /// Variation of the time of a tile from tile to tile.
    pub variation_of_tiles: Variation,
    /// Variation of the time of all tiles from cohort to cohort.
    pub variation_of_cohorts: Variation,
    /// Number of documents of a tile, for measurements without tiles.
    pub tile_documents: Documents,
    /// Number of documents that fit into a node's memory.
    pub documents_in_memory: Documents,
}

/// The distribution of the arrival times of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Queries arrive at equal intervals. All queries of a cohort have T - C / alpha left, as in
    /// the paper.
    Even,
    /// Queries arrive at random (Poisson). Each query has waited for a different time.
    Random,
}

/// A workload of a cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name of the workload in tables.
    pub name: Spanned<String>,
    /// alpha, the number of queries per second.
    pub queries_per_s: Rate,
    /// T, the deadline.
    pub deadline_ms: DeadlineMs,
    /// N, the number of documents.
    pub documents: Documents,
    /// Number of hits per query, for the traffic of a node.
    pub hits: Hits,
    /// Size of a query in bytes, for the traffic of a node.
    pub query_bytes: Bytes,
    /// The kinds of machines that the cluster could consist of.
    pub platform: Vec<Platform>,
}

/// A kind of machine and its capability for a workload, which is given either by `cohort` and
/// documents, or by the `measured_` values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Name of the platform in tables.
    pub name: Spanned<String>,
    /// Name of the server in `servers`.
    pub server: Spanned<String>,
    /// Name of the accelerator in `accelerators`, if it has one.
    pub accelerator: Option<Spanned<String>>,
    /// C, the number of queries of a cohort.
    pub cohort: Option<Cohort>,
    /// n_cpu, the number of documents that the CPU searches.
    pub documents_cpu: Option<Documents>,
    /// n_acc, the number of documents that the accelerator searches.
    pub documents_accelerator: Option<Documents>,
    /// Queries per second of a measured node.
    pub measured_queries_per_s: Option<Rate>,
    /// Number of documents of the measured node's index.
    pub measured_documents: Option<Documents>,
    /// Time within which the measured node answered nearly all queries.
    pub measured_latency_ms: Option<Millis>,
    /// Number of documents that fit into the node's memory.
    pub documents_in_memory: Option<Documents>,
    /// P_fixed, the power when idle.
    pub watts_fixed: Watts,
    /// P_cpu, the additional power while the CPU searches.
    pub watts_cpu: Option<Watts>,
    /// P_acc, the additional power while the accelerator searches.
    pub watts_accelerator: Option<Watts>,
    /// U_cpu. For its default, see [`Planned::utilisation_cpu`](crate::Planned::utilisation_cpu).
    pub utilisation_cpu: Option<Share>,
    /// U_acc. For its default, see [`Planned::utilisation_cpu`](crate::Planned::utilisation_cpu).
    pub utilisation_accelerator: Option<Share>,
    /// Published number of machines, which is shown beside the derived one.
    pub published_machines: Option<Machines>,
    /// Published power, which is shown beside the derived one.
    pub published_kilowatts: Option<Kilowatts>,
}

impl Default for Config {
    fn default() -> Self {
        // A test parses the default inputs.
        #[allow(clippy::expect_used)]
        Config::parse(DEFAULTS).expect("the default inputs are valid")
    }
}

impl Config {
    /// Parses and checks a TOML file.
    ///
    /// # Errors
    ///
    /// Returns the line, the key, the error and the allowed values.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let config: Config = toml::from_str(text).map_err(|error| {
            let line = line_at(text, error.span().map_or(0, |span| span.start));
            let source = text.lines().nth(line - 1).unwrap_or_default();
            let key = source.split(['=', '#']).next().unwrap_or_default().trim().to_owned();
            PlanError::Config { line, key, message: error.message().to_owned() }
        })?;
        config.check(text)?;
        Ok(config)
    }

    /// Returns the price of a platform's machine, including its accelerator. `other` replaces the
    /// price of one server.
    pub(crate) fn machine_dollars(&self, platform: &Platform, other: Option<(&str, f64)>) -> f64 {
        let server = platform.server.get_ref();
        let own = self.servers.get(server).map_or(0.0, |price| price.get());
        let system = other.filter(|(name, _)| name == server).map_or(own, |(_, price)| price);
        let accelerator = platform.accelerator.as_ref();
        let accelerator = accelerator.and_then(|name| self.accelerators.get(name.get_ref()));
        system + accelerator.map_or(0.0, |price| price.get())
    }

    fn check(&self, text: &str) -> Result<(), PlanError> {
        let problem = |at: usize, key: &str, message: String| {
            Err(PlanError::Config { line: line_at(text, at), key: key.to_owned(), message })
        };
        let plot = &self.plot;
        if !self.servers.contains_key(plot.server.get_ref()) {
            let name = plot.server.get_ref();
            let message = format!(
                "there is no server `{name}`; name one of [servers]: {}",
                names(&self.servers)
            );
            return problem(plot.server.span().start, "server", message);
        }
        if plot.to.get_ref() <= &plot.from {
            let message = format!("must be above `from`, which is {}", plot.from.get());
            return problem(plot.to.span().start, "to", message);
        }
        if !(1..=MOST).contains(&self.workload.len()) {
            let message = format!("give 1 to {MOST} workloads, each as [[workload]]");
            return problem(0, "workload", message);
        }
        let mut seen = BTreeSet::new();
        for workload in &self.workload {
            let (name, at) = (workload.name.get_ref(), workload.name.span().start);
            if !seen.insert(name) {
                return problem(
                    at,
                    "name",
                    format!("two workloads are named `{name}`; rename one"),
                );
            }
            if !(1..=MOST).contains(&workload.platform.len()) {
                let message = format!("workload `{name}` needs 1 to {MOST} [[workload.platform]]");
                return problem(at, "platform", message);
            }
            let mut platforms = BTreeSet::new();
            for platform in &workload.platform {
                let name = platform.name.get_ref();
                if !platforms.insert(name) {
                    let message =
                        format!("two platforms of a workload are named `{name}`; rename one");
                    return problem(platform.name.span().start, "name", message);
                }
                self.check_platform(workload, platform).or_else(|(at, key, message)| {
                    problem(at, key, format!("platform `{name}`: {message}"))
                })?;
            }
            let baseline = plot.baseline.get_ref();
            if !platforms.contains(baseline) {
                let message = format!(
                    "workload `{name}` has no platform `{baseline}`; add it, or name one that every workload has"
                );
                return problem(plot.baseline.span().start, "baseline", message);
            }
        }
        Ok(())
    }

    fn check_platform(
        &self,
        workload: &Workload,
        platform: &Platform,
    ) -> Result<(), (usize, &'static str, String)> {
        let server = &platform.server;
        if !self.servers.contains_key(server.get_ref()) {
            let known = names(&self.servers);
            let message =
                format!("there is no server `{}`; [servers] has {known}", server.get_ref());
            return Err((server.span().start, "server", message));
        }
        let accelerator = platform.accelerator.as_ref();
        if let Some(name) = accelerator.filter(|n| !self.accelerators.contains_key(n.get_ref())) {
            let known = names(&self.accelerators);
            let message =
                format!("there is no accelerator `{}`; [accelerators] has {known}", name.get_ref());
            return Err((name.span().start, "accelerator", message));
        }
        let at = platform.name.span().start;
        let design = platform.design().map_err(|(key, message)| (at, key, message.to_owned()))?;
        if let Design::Cohorts { cohort, .. } = design {
            let (rate, ms) = (workload.queries_per_s.get(), workload.deadline_ms.get());
            if 1000 * u128::from(cohort.get()) >= u128::from(rate) * u128::from(ms) {
                let message = format!(
                    "{} queries at {rate} per second take the whole deadline of {ms} ms to arrive; take a smaller cohort",
                    cohort.get()
                );
                return Err((at, "cohort", message));
            }
        }
        Ok(())
    }
}

impl Platform {
    /// Returns the work of a node of this platform; the error has the key and a description.
    pub(crate) fn design(&self) -> Result<Design, (&'static str, &'static str)> {
        let measured =
            (self.measured_queries_per_s, self.measured_documents, self.measured_latency_ms);
        match (self.cohort, measured) {
            (Some(cohort), (None, None, None)) => {
                let (cpu, accelerator) = (self.documents_cpu, self.documents_accelerator);
                if self.accelerator.is_some() != accelerator.is_some() {
                    return Err((
                        "documents_accelerator",
                        "give both `accelerator` and `documents_accelerator`, or neither",
                    ));
                }
                if cpu.is_none() && accelerator.is_none() {
                    return Err((
                        "documents_cpu",
                        "a node needs documents; give `documents_cpu`, `documents_accelerator` or both",
                    ));
                }
                Ok(Design::Cohorts { cohort, cpu, accelerator })
            }
            (None, (Some(rate), Some(documents), Some(latency))) => {
                let memory = self.documents_in_memory.ok_or((
                    "documents_in_memory",
                    "give the number of documents that fit into the memory of the measured node",
                ))?;
                Ok(Design::Measured { rate, documents, latency, memory })
            }
            _ => Err((
                "cohort",
                "give either `cohort` and documents, or all of `measured_queries_per_s`, `measured_documents` and `measured_latency_ms`",
            )),
        }
    }
}

fn names(prices: &BTreeMap<String, Dollars>) -> String {
    match prices.is_empty() {
        true => "none".to_owned(),
        false => prices.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the line of a byte, counted from 1.
fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a workload without platforms, with the paper's hits and bytes.
    pub(crate) fn workload(rate: u64, deadline_ms: u64, documents: u64) -> Workload {
        let mut workload = Config::default().workload.remove(0);
        workload.queries_per_s = Rate::new(rate).unwrap();
        workload.deadline_ms = DeadlineMs::new(deadline_ms).unwrap();
        workload.documents = Documents::new(documents).unwrap();
        workload.platform.clear();
        workload
    }

    /// Returns the error for the defaults with one replacement.
    fn error(from: &str, to: &str) -> String {
        assert!(DEFAULTS.contains(from), "{from}");
        Config::parse(&DEFAULTS.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_line_key_and_remedy() {
        let line = |key: &str| 1 + DEFAULTS.lines().position(|l| l.starts_with(key)).unwrap();
        let message = error("xeon = 6000.0", "xeon = -1");
        assert!(message.starts_with(&format!("line {}, `xeon`: ", line("xeon"))), "{message}");
        assert!(
            message.contains("-1 is not allowed; give a price in dollars from 0 to"),
            "{message}"
        );
        for (from, to, parts) in [
            ("xeon = 6000.0", "xeon = nan", &["`xeon`", "NaN is not allowed"][..]),
            ("xeon = 6000.0", "xeon = inf", &["`xeon`", "inf is not allowed"]),
            ("xeon = 6000.0", "xeon = \"dear\"", &["`xeon`", "invalid type: string \"dear\""]),
            ("xeon = 6000.0", "xeon 6000", &["`xeon 6000`", "expected `=`"]),
            ("lifetime_years", "life_years", &["`life_years`", "unknown field", "lifetime_years"]),
            ("lifetime_years = 4.0 ", "#", &["missing field `lifetime_years`"]),
            ("cohort = 1\n", "cohort = 0\n", &["`cohort`", "0 is not allowed", "from 1 to"]),
            ("cohort = 1\n", "cohort = 1.5\n", &["`cohort`", "floating point"]),
            ("cohort = 1\n", "cohort = 50\n", &["`cohort`", "Xeon", "take a smaller cohort"]),
            ("cohort = 1\n", "", &["`cohort`", "give either `cohort` and documents"]),
            ("documents_cpu = 56_000_000\n", "", &["`documents_cpu`", "a node needs documents"]),
            ("server = \"arm\"", "server = \"leg\"", &["`server`", "no server `leg`", "arm, "]),
            ("accelerator = \"titan\"", "accelerator = \"t\"", &["no accelerator `t`", "maxwell"]),
            ("baseline = \"Xeon\"", "baseline = \"X\"", &["`baseline`", "no platform `X`"]),
            ("to = 6000", "to = 500", &["`to`", "must be above `from`, which is 500"]),
            ("arrivals = \"even\"", "arrivals = \"odd\"", &["`arrivals`", "even", "random"]),
        ] {
            let message = error(from, to);
            assert!(message.starts_with("line "), "{message}");
            assert!(parts.iter().all(|part| message.contains(part)), "{parts:?}: {message}");
        }
    }

    #[test]
    fn a_file_without_workloads_is_refused() {
        let head = DEFAULTS.split("[[workload]]").next().unwrap();
        let message = Config::parse(&format!("workload = []\n{head}")).unwrap_err().to_string();
        assert!(message.contains("give 1 to 100 workloads"), "{message}");
        assert!(Config::parse(head).is_err());
        assert!(Config::parse("").is_err());
    }
}
