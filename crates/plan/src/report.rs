//! The report: everything that is derived from the inputs.

use serde::Serialize;

use crate::capacity::Capacity;
use crate::cluster::{Shape, shape};
use crate::config::{Config, Platform, Workload};
use crate::cost::{Cost, break_even, cost, dollars_per_watt};
use crate::design::Design;
use crate::error::PlanError;
use crate::number::{Kilowatts, Machines, Share, Watts};
use crate::power::{Power, PowerInputs, power};

/// Number of steps between the prices of the plot.
const STEPS: u32 = 55;

/// A report on all workloads with their platforms.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Cost of a watt over the lifetime, in dollars.
    pub dollars_per_watt: f64,
    /// The workloads.
    pub workloads: Vec<PlannedWorkload>,
}

/// The results for one workload.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedWorkload {
    /// Name of the workload.
    pub name: String,
    /// alpha, the number of queries per second.
    pub queries_per_s: u64,
    /// T, the deadline.
    pub deadline_ms: u64,
    /// N, the number of documents.
    pub documents: u64,
    /// The platforms, in the order of the file.
    pub platforms: Vec<Planned>,
    /// The server whose price varies in the plot.
    pub plot_server: String,
    /// The platform whose cost is 1.
    pub baseline: String,
    /// The prices of the plot. [`Planned::ratios`] has one ratio for each.
    pub prices: Vec<f64>,
    /// Numbers of documents per node derived from measurements, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacity: Vec<Capacity>,
}

/// The results for one platform.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    /// Name of the platform.
    pub name: String,
    /// Size of the cluster.
    #[serde(flatten)]
    pub shape: Shape,
    /// Price of a machine.
    pub machine_dollars: f64,
    /// U_cpu. The default is 1 - C / (alpha T), the largest share that is left after a cohort has
    /// formed, or, for a measured node, the share of its work that is needed.
    pub utilisation_cpu: f64,
    /// U_acc, with the same default.
    pub utilisation_accelerator: f64,
    /// Power of the cluster.
    #[serde(flatten)]
    pub power: Power,
    /// Cost of the cluster.
    pub cost: Cost,
    /// Equation 14: the cost divided by that of the baseline.
    pub ratio: f64,
    /// The ratio for each price of the plot.
    pub ratios: Vec<f64>,
    /// Price of the plot's server at which the platform costs as much as the baseline.
    pub break_even_dollars: Option<f64>,
    /// Published figures to compare with.
    pub published: Published,
}

/// The published figures of a platform.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Published {
    /// Number of machines.
    pub machines: Option<u64>,
    /// Power of the cluster in kilowatts.
    pub kilowatts: Option<f64>,
}

impl Report {
    /// Derives everything. If `utilisation` is given, it applies to all parts of all machines.
    ///
    /// # Errors
    ///
    /// Fails if a cluster would have more than 10^12 machines, if a platform is incomplete, or if
    /// a workload has no baseline.
    pub fn new(config: &Config, utilisation: Option<Share>) -> Result<Self, PlanError> {
        let plan = |workload| PlannedWorkload::new(config, workload, utilisation);
        let workloads = config.workload.iter().map(plan).collect::<Result<_, _>>()?;
        Ok(Report { dollars_per_watt: dollars_per_watt(&config.energy), workloads })
    }
}

impl PlannedWorkload {
    fn new(
        config: &Config,
        workload: &Workload,
        utilisation: Option<Share>,
    ) -> Result<Self, PlanError> {
        let (plot, step) = (&config.plot, f64::from(STEPS));
        let (from, to) = (plot.from.get(), plot.to.get_ref().get());
        let prices: Vec<f64> =
            (0..=STEPS).map(|i| from + (to - from) * f64::from(i) / step).collect();
        let plan = |platform| derive(workload, platform, utilisation);
        let clusters = workload.platform.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        let server = plot.server.get_ref();
        // Computes the cost if the plot's server has the given price, or its configured one.
        let total = |(platform, shape, inputs): &(&Platform, Shape, PowerInputs), price| {
            let dollars = config.machine_dollars(platform, price);
            cost(shape.machines, dollars, inputs.machine_watts(), &config.energy)
        };
        let baseline = plot.baseline.get_ref();
        let base = clusters.iter().find(|(platform, ..)| platform.name.get_ref() == baseline);
        let Some(base) = base else {
            let name = workload.name.get_ref().clone();
            return Err(PlanError::NoBaseline { workload: name, baseline: baseline.clone() });
        };
        let varying = |cluster: &(&Platform, Shape, PowerInputs)| {
            let has_server = cluster.0.server.get_ref() == server;
            let free = total(cluster, Some((server, 0.0))).total;
            (free, if has_server { cluster.1.machines } else { 0 })
        };
        let platforms = clusters.iter().map(|cluster| {
            let (platform, shape, inputs) = cluster;
            let own = total(cluster, None);
            let at = |&price: &f64| {
                let price = Some((server.as_str(), price));
                ratio(total(cluster, price).total, total(base, price).total)
            };
            Planned {
                name: platform.name.get_ref().clone(),
                shape: *shape,
                machine_dollars: config.machine_dollars(platform, None),
                utilisation_cpu: inputs.utilisation_cpu.get(),
                utilisation_accelerator: inputs.utilisation_accelerator.get(),
                power: power(shape.machines, inputs),
                cost: own,
                ratio: ratio(own.total, total(base, None).total),
                ratios: prices.iter().map(at).collect(),
                break_even_dollars: break_even(varying(cluster), varying(base)),
                published: Published {
                    machines: platform.published_machines.map(Machines::get),
                    kilowatts: platform.published_kilowatts.map(Kilowatts::get),
                },
            }
        });
        let platforms = platforms.collect();
        Ok(PlannedWorkload {
            name: workload.name.get_ref().clone(),
            queries_per_s: workload.queries_per_s.get(),
            deadline_ms: workload.deadline_ms.get(),
            documents: workload.documents.get(),
            platforms,
            plot_server: server.clone(),
            baseline: baseline.clone(),
            prices,
            capacity: Vec::new(),
        })
    }
}

/// Returns the ratio of two costs. Costs below one cent count as one cent, so that ratios stay
/// finite.
fn ratio(own: f64, baseline: f64) -> f64 {
    own.max(0.01) / baseline.max(0.01)
}

fn derive<'a>(
    workload: &Workload,
    platform: &'a Platform,
    utilisation: Option<Share>,
) -> Result<(&'a Platform, Shape, PowerInputs), PlanError> {
    let what = || format!("`{}` for `{}`", platform.name.get_ref(), workload.name.get_ref());
    let design = platform.design().map_err(|(key, message)| PlanError::Platform {
        what: what(),
        key,
        message,
    })?;
    let shape = shape(workload, &design).ok_or_else(|| PlanError::TooMany { what: what() })?;
    let most = match design {
        Design::Cohorts { .. } => 1.0 - 1.0 / shape.cohorts,
        Design::Measured { .. } => shape.load,
    };
    let most = Share::clamped(most);
    let none = Watts::clamped(0.0);
    let inputs = PowerInputs {
        fixed: platform.watts_fixed,
        cpu: platform.watts_cpu.unwrap_or(none),
        accelerator: platform.watts_accelerator.unwrap_or(none),
        utilisation_cpu: utilisation.or(platform.utilisation_cpu).unwrap_or(most),
        utilisation_accelerator: utilisation.or(platform.utilisation_accelerator).unwrap_or(most),
    };
    Ok((platform, shape, inputs))
}
