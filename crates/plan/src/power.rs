//! The power of a machine and of a cluster (Agrawal 2016, equations 7 and 12).

use serde::Serialize;

use crate::number::{Share, Watts};

/// The power of a machine's parts, and the shares of the time in which they work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerInputs {
    /// P_fixed: the power when idle.
    pub fixed: Watts,
    /// P_cpu: the additional power while the CPU searches.
    pub cpu: Watts,
    /// P_acc: the additional power while the accelerator searches.
    pub accelerator: Watts,
    /// U_cpu: the share of the time in which the CPU searches.
    pub utilisation_cpu: Share,
    /// U_acc: the share of the time in which the accelerator searches.
    pub utilisation_accelerator: Share,
}

impl PowerInputs {
    /// Returns the power of one machine: P_fixed + U_cpu P_cpu + U_acc P_acc.
    pub fn machine_watts(&self) -> f64 {
        self.at(self.utilisation_cpu.get(), self.utilisation_accelerator.get())
    }

    fn at(&self, cpu: f64, accelerator: f64) -> f64 {
        self.fixed.get() + cpu * self.cpu.get() + accelerator * self.accelerator.get()
    }
}

/// The power of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Power {
    /// Power of one machine at its utilisation.
    pub machine_watts: f64,
    /// Power of all machines at their utilisation.
    pub kilowatts: f64,
    /// Power of all machines when idle.
    pub idle_kilowatts: f64,
    /// Power of all machines at full load.
    pub full_kilowatts: f64,
}

/// Computes the power of this many machines.
pub fn power(machines: u64, inputs: &PowerInputs) -> Power {
    let all = |watts: f64| machines as f64 * watts / 1e3;
    let machine_watts = inputs.machine_watts();
    Power {
        machine_watts,
        kilowatts: all(machine_watts),
        idle_kilowatts: all(inputs.at(0.0, 0.0)),
        full_kilowatts: all(inputs.at(1.0, 1.0)),
    }
}

/// Returns the utilisation of a part that draws `watts` at which a cluster, with `base_watts` per
/// machine otherwise, has this power; `None` if no share from 0 to 1 gives it. This is the
/// inverse of [`power`]; it served to infer the utilisations that the paper does not print.
pub fn utilisation_for(machines: u64, kilowatts: f64, base_watts: f64, watts: f64) -> Option<f64> {
    let share = (kilowatts * 1e3 / machines as f64 - base_watts) / watts;
    (0.0..=1.0).contains(&share).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn power_lies_between_idle_and_full_and_can_be_inverted(
            machines in 1u64..100_000, fixed in 0.0..1000.0, cpu in 1.0..1000.0, share in 0.0..1.0,
        ) {
            let inputs = PowerInputs {
                fixed: Watts::new(fixed).unwrap(),
                cpu: Watts::new(cpu).unwrap(),
                accelerator: Watts::new(0.0).unwrap(),
                utilisation_cpu: Share::new(share).unwrap(),
                utilisation_accelerator: Share::new(0.0).unwrap(),
            };
            let found = power(machines, &inputs);
            prop_assert!(found.idle_kilowatts <= found.kilowatts);
            prop_assert!(found.kilowatts <= found.full_kilowatts);
            let again = utilisation_for(machines, found.kilowatts, fixed, cpu);
            // A share at either end may come back slightly out of range.
            prop_assert!(again.is_none_or(|again| (again - share).abs() < 1e-6), "{:?}", again);
            prop_assert!(again.is_some() || !(1e-9..1.0 - 1e-9).contains(&share));
        }
    }
}
