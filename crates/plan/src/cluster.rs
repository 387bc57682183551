//! The machines of a cluster: an aggregator collects queries into cohorts and sends each cohort
//! to the nodes of one copy of the collection (Agrawal 2016, section 3.1).

use serde::Serialize;

use crate::config::Workload;
use crate::design::Design;
use crate::number::{Cohort, Documents};

/// Maximum number of machines. A larger result means that there is a mistake in the inputs.
pub const MAX_MACHINES: u64 = 1_000_000_000_000;

/// The size of a cluster, derived from a workload and the design of a node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// Total number of machines: the work of the workload over the work of a machine, rounded up;
    /// or the number of machines that hold one copy, if this is larger.
    pub machines: u64,
    /// Number of machines if every cohort has a whole copy of the collection and every copy whole
    /// nodes, which the paper's counts do not require.
    pub machines_in_whole_copies: u64,
    /// Equation 3 without rounding: the number of machines that hold one copy.
    pub nodes_per_copy: f64,
    /// Equation 4 without rounding: the number of cohorts in progress at a time, each with its
    /// own copy.
    pub cohorts: f64,
    /// Equation 10: queries times documents that a machine processes within a deadline.
    pub work_per_machine: f64,
    /// Number of queries of a cohort.
    pub cohort: f64,
    /// Number of documents of a machine.
    pub documents_per_machine: u64,
    /// Share of the machines' work that the workload needs.
    pub load: f64,
    /// Traffic of a node in megabits per second.
    pub network_mbit_per_s: f64,
}

/// Returns alpha N T / W, rounded up: the machines of equation 13, computed exactly in integers.
/// Returns `None` if there are more than [`MAX_MACHINES`].
pub fn machines(workload: &Workload, cohort: Cohort, documents: u64) -> Option<u64> {
    let work = u128::from(workload.queries_per_s.get())
        * u128::from(workload.documents.get())
        * u128::from(workload.deadline_ms.get());
    // W is per deadline, and the deadline is in milliseconds.
    let each = 1000 * u128::from(cohort.get()) * u128::from(documents.max(1));
    u64::try_from(work.div_ceil(each)).ok().filter(|&machines| machines <= MAX_MACHINES)
}

/// Returns the traffic of a node in megabits per second: once per deadline, a cohort arrives and
/// its hits are sent (Agrawal 2016, section 6.5).
pub fn network_mbit_per_s(cohort: f64, query_bytes: f64, hits: u64, deadline_ms: f64) -> f64 {
    /// Size of a score and a document id.
    const HIT_BYTES: f64 = 8.0;
    let bytes = cohort * (query_bytes + hits as f64 * HIT_BYTES);
    bytes * 8.0 / 1e6 / (deadline_ms / 1e3)
}

/// Returns the cluster for a workload, or `None` if it has more than [`MAX_MACHINES`].
pub fn shape(workload: &Workload, design: &Design) -> Option<Shape> {
    let (rate, documents) = (workload.queries_per_s.get(), workload.documents.get());
    let deadline_ms = workload.deadline_ms.get() as f64;
    match *design {
        Design::Cohorts { cohort, cpu, accelerator } => {
            let own = cpu.map_or(0, Documents::get) + accelerator.map_or(0, Documents::get);
            let machines = machines(workload, cohort, own)?;
            let nodes = documents.div_ceil(own.max(1));
            let under_way = u128::from(rate) * u128::from(workload.deadline_ms.get());
            let cohorts = under_way.div_ceil(1000 * u128::from(cohort.get()));
            finish(workload, machines, nodes, cohorts, own, cohort.get() as f64)
        }
        Design::Measured { rate: measured, documents: at, latency, memory } => {
            // Times grow with documents, so both the deadline and the memory limit the size of a
            // shard.
            let in_time = at.get() as f64 * deadline_ms / latency.get();
            let most = memory.get().min(in_time as u64).max(1);
            let work = u128::from(rate) * u128::from(documents);
            let each = u128::from(measured.get()) * u128::from(at.get());
            let needed = u64::try_from(work.div_ceil(each)).ok()?;
            let machines = needed.max(documents.div_ceil(most));
            // One copy is divided among all machines: a shard that is smaller than the limit can
            // answer more queries.
            let own = documents.div_ceil(machines.max(1)).max(1);
            let cohort = each as f64 * deadline_ms / 1e3 / own as f64;
            finish(workload, machines, machines, 1, own, cohort)
        }
    }
}

fn finish(
    workload: &Workload,
    machines: u64,
    nodes: u64,
    cohorts: u128,
    own: u64,
    cohort: f64,
) -> Option<Shape> {
    let whole = u64::try_from(u128::from(nodes) * cohorts).ok()?;
    if machines.max(whole) > MAX_MACHINES {
        return None;
    }
    let (documents, deadline_ms) =
        (workload.documents.get() as f64, workload.deadline_ms.get() as f64);
    let in_deadline = workload.queries_per_s.get() as f64 * deadline_ms / 1e3;
    let work_per_machine = cohort * own as f64;
    Some(Shape {
        machines,
        machines_in_whole_copies: whole,
        nodes_per_copy: documents / own as f64,
        cohorts: in_deadline / cohort,
        work_per_machine,
        cohort,
        documents_per_machine: own,
        load: (in_deadline * documents / (work_per_machine * machines as f64)).min(1.0),
        // A node cannot get more queries than arrive.
        network_mbit_per_s: network_mbit_per_s(
            cohort.min(in_deadline),
            workload.query_bytes.get() as f64,
            workload.hits.get(),
            deadline_ms,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::workload;
    use crate::number::*;
    use proptest::prelude::*;

    fn cohorts(cohort: u64, cpu: u64) -> Design {
        let (cohort, cpu) = (Cohort::new(cohort).unwrap(), Documents::new(cpu).ok());
        Design::Cohorts { cohort, cpu, accelerator: None }
    }

    #[test]
    fn a_node_has_the_traffic_of_section_6_5() {
        // (256 x 20 + 256 x 32 x 8) bytes every 50 ms: "11 Mbps".
        let mbit = network_mbit_per_s(256.0, 20.0, 32, 50.0);
        assert_eq!(mbit.floor(), 11.0, "{mbit}");
    }

    #[test]
    fn whole_copies_need_more() {
        let shape = shape(&workload(1000, 50, 1_000_000_000), &cohorts(1, 56_000_000)).unwrap();
        // 17.9 nodes hold a copy, and 50 cohorts are in progress.
        assert_eq!((shape.machines, shape.machines_in_whole_copies), (893, 18 * 50));
        assert_eq!(shape.cohorts, 50.0);
    }

    #[test]
    fn counts_are_exact_where_they_divide_evenly() {
        let needed = |documents| {
            let workload = workload(1000, 50, documents);
            machines(&workload, Cohort::new(10).unwrap(), 1000)
        };
        assert_eq!((needed(1000), needed(1001), needed(999)), (Some(5), Some(6), Some(5)));
        let huge = workload(1_000_000_000, 3_600_000, 1_000_000_000_000_000);
        assert_eq!(machines(&huge, Cohort::new(1).unwrap(), 1), None);
        assert_eq!(shape(&huge, &cohorts(1, 1)), None);
    }

    #[test]
    fn memory_and_deadline_bound_the_shard_of_a_measured_node() {
        let measured = |latency, memory| Design::Measured {
            rate: Rate::new(100_000).unwrap(),
            documents: Documents::new(10_000_000).unwrap(),
            latency: Millis::new(latency).unwrap(),
            memory: Documents::new(memory).unwrap(),
        };
        let machines = |rate, design| {
            shape(&workload(rate, 50, 1_000_000_000), &design).map(|shape| shape.machines)
        };
        // Each can process 10^12 queries x documents per second: one machine would have the time,
        // but not the memory.
        assert_eq!(machines(1000, measured(1.0, 200_000_000)), Some(5));
        // Searching ten times the documents takes the whole deadline.
        assert_eq!(machines(1000, measured(5.0, 200_000_000)), Some(10));
        assert_eq!(machines(25_000, measured(5.0, 200_000_000)), Some(25));
    }

    proptest! {
        #[test]
        fn machines_grow_with_load_and_shrink_with_work(
            rate in 1u64..100_000, ms in 1u64..1000, documents in 1u64..10_000_000_000,
            cohort in 1u64..2000, own in 1u64..100_000_000, more in 1u64..1000,
        ) {
            let needed = |rate, ms, documents, cohort, own| {
                machines(&workload(rate, ms, documents), Cohort::new(cohort).unwrap(), own).unwrap()
            };
            let base = needed(rate, ms, documents, cohort, own);
            prop_assert!(base >= 1);
            prop_assert!(needed(rate + more, ms, documents, cohort, own) >= base);
            prop_assert!(needed(rate, ms + more, documents, cohort, own) >= base);
            prop_assert!(needed(rate, ms, documents + more, cohort, own) >= base);
            prop_assert!(needed(rate, ms, documents, cohort + more, own) <= base);
            prop_assert!(needed(rate, ms, documents, cohort, own + more) <= base);
            // The work can be done, and could not be done with one machine less.
            let work = rate as f64 * documents as f64 * ms as f64 / 1e3;
            let each = cohort as f64 * own as f64;
            prop_assert!(base as f64 * each >= work * (1.0 - 1e-9));
            prop_assert!((base - 1) as f64 * each < work * (1.0 + 1e-9));
            if let Some(shape) = shape(&workload(rate, ms, documents), &cohorts(cohort, own)) {
                prop_assert!(shape.machines_in_whole_copies >= shape.machines);
            }
        }
    }
}
