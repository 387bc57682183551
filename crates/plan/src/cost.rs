//! The cost of ownership: purchase and energy over the machines' lifetime (Agrawal 2016,
//! equations 2, 5, 6, 8, 9, 11, 13 and 14).

use serde::Serialize;

use crate::config::Energy;

/// The cost of a cluster over its lifetime, in dollars.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Price of all machines (equations 5 and 6).
    pub capital: f64,
    /// Cost of the energy of all machines (equations 8 and 9).
    pub operational: f64,
    /// Total cost, the sum of the other two (equations 2 and 13).
    pub total: f64,
}

/// Returns the cost of a watt that is drawn over the lifetime, in dollars. The paper's four years
/// and 6.7 cents per kWh give 2.348, which it rounds to 2.35.
pub fn dollars_per_watt(energy: &Energy) -> f64 {
    energy.lifetime_years.get() * 365.0 * 24.0 / 1e3 * energy.dollars_per_kwh.get()
}

/// Returns equation 13: machines x ($ of a machine + $ per watt x watts of a machine).
pub fn cost(machines: u64, machine_dollars: f64, machine_watts: f64, energy: &Energy) -> Cost {
    let machines = machines as f64;
    let capital = machines * machine_dollars;
    let operational = machines * dollars_per_watt(energy) * machine_watts;
    Cost { capital, operational, total: capital + operational }
}

/// Returns the price p at which `a` and `b` cost the same (equation 14 with a ratio of 1), where
/// each is given by its total at p = 0 and its number of machines with price p. Returns `None` if
/// there is no such price from 0 up.
pub fn break_even(a: (f64, u64), b: (f64, u64)) -> Option<f64> {
    let price = (b.0 - a.0) / (a.1 as f64 - b.1 as f64);
    (price.is_finite() && price >= 0.0).then_some(price)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use proptest::prelude::*;

    #[test]
    fn a_watt_costs_what_the_paper_says() {
        let energy = Config::default().energy;
        assert_eq!(format!("{:.2}", dollars_per_watt(&energy)), "2.35");
    }

    #[test]
    fn costs_are_equal_at_the_break_even_price() {
        let price = break_even((100.0, 7), (1000.0, 3)).unwrap();
        assert_eq!(100.0 + 7.0 * price, 1000.0 + 3.0 * price);
        assert_eq!(break_even((100.0, 3), (1000.0, 3)), None);
        assert_eq!(break_even((1000.0, 7), (100.0, 3)), None);
    }

    proptest! {
        #[test]
        fn cost_grows_with_machines_price_and_power(
            machines in 1u64..100_000, dollars in 0.0..1e5, watts in 0.0..1e4, more in 0.01..1e3,
        ) {
            let energy = Config::default().energy;
            let total = |machines, dollars, watts| cost(machines, dollars, watts, &energy).total;
            let base = total(machines, dollars, watts);
            prop_assert!(total(machines, dollars + more, watts) > base);
            prop_assert!(total(machines, dollars, watts + more) > base);
            prop_assert!(total(machines + 1, dollars, watts) >= base);
        }
    }
}
