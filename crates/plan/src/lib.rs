//! Estimates the machines, the power and the cost of a search cluster, after (Agrawal 2016).
//!
//! Everything here is a pure function: text in, numbers or text out. [`Config`] holds the inputs,
//! [`Report::new`] derives everything from them, and [`capacity()`] finds by simulation how many
//! documents a node can hold so that enough queries meet their deadline.
//!
//! | file | section of the paper |
//! |---|---|
//! | `design`, `cluster` | 3.1, equations 3, 4 and 10: nodes, copies, machines, network |
//! | `power` | equations 7 and 12: power of a machine and of the cluster |
//! | `cost` | equations 2, 5, 6, 8, 9, 11, 13 and 14: purchase, energy, ratios |
//! | `capacity` | 5.1: documents per node, by Monte Carlo |
//! | `simulation` | not in the paper: failures and stragglers under a virtual clock |
//! | `defaults.toml` | tables 1 and 2, section 6.4: the inputs, with their sources |

mod capacity;
mod cluster;
mod config;
mod cost;
mod design;
mod digits;
mod error;
mod measurements;
mod number;
mod page;
mod power;
mod random;
mod report;
mod simulation;
mod tables;

pub use capacity::{Bound, Capacity, MAX_TILES, capacity};
pub use cluster::{MAX_MACHINES, Shape, machines, network_mbit_per_s, shape};
pub use config::{
    Arrivals, CapacityInputs, Config, DEFAULTS, Energy, Platform, PlotInputs, Workload,
};
pub use cost::{Cost, break_even, cost, dollars_per_watt};
pub use design::Design;
pub use error::PlanError;
pub use measurements::{CohortCell, LoadRow, Measurements};
pub use number::{
    Bytes, Cohort, DeadlineMs, Documents, Dollars, Factor, Failures, Hits, Kilowatts, Machines,
    Millis, Queries, Rate, Replicas, Seconds, Seed, Shards, Share, Stations, Trials, Variation,
    Watts, Years,
};
pub use page::page;
pub use power::{Power, PowerInputs, power, utilisation_for};
pub use report::{Planned, PlannedWorkload, Published, Report};
pub use simulation::{
    Calibrated, Calibration, ClusterMeasurement, MAX_REQUESTS, MeasuredRow, SimulatedRow,
    Simulation, SimulationInputs, simulate,
};
