//! Numbers with a range, which is checked at construction, so that no computation has to handle
//! values that are infinite, negative or absurd.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($type:ty), $low:expr, $high:expr, $unit:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
        #[serde(transparent)]
        pub struct $name($type);

        impl $name {
            /// The smallest and the largest value.
            pub const RANGE: ($type, $type) = ($low, $high);

            /// Checks a value.
            ///
            /// # Errors
            ///
            /// Returns the allowed range if the value is outside of [`Self::RANGE`] or not a
            /// number.
            pub fn new(value: $type) -> Result<Self, String> {
                let (low, high) = Self::RANGE;
                match (low..=high).contains(&value) {
                    true => Ok($name(value)),
                    false => Err(format!("{value} is not allowed; give {} from {low} to {high}", $unit)),
                }
            }

            /// Returns the nearest allowed value; the smallest one if the value is not a number.
            #[allow(dead_code)]
            pub(crate) fn clamped(value: $type) -> Self {
                let (low, high) = Self::RANGE;
                $name(if value >= low { if value <= high { value } else { high } } else { low })
            }

            /// Returns the value.
            pub fn get(self) -> $type {
                self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(<$type>::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    };
}

number!(
    /// A price in dollars.
    Dollars(f64), 0.0, 1e9, "a price in dollars"
);
number!(
    /// A power in watts.
    Watts(f64), 0.0, 1e6, "a power in watts"
);
number!(
    /// A share of a whole.
    Share(f64), 0.0, 1.0, "a share"
);
number!(
    /// A time in years.
    Years(f64), 0.01, 100.0, "a number of years"
);
number!(
    /// A coefficient of variation: standard deviation over mean.
    Variation(f64), 0.0, 5.0, "a coefficient of variation"
);
number!(
    /// A time in milliseconds, with microseconds as the finest step.
    Millis(f64), 0.001, 3.6e6, "milliseconds"
);
number!(
    /// A deadline in milliseconds. It is a whole number, so that machines are counted exactly.
    DeadlineMs(u64), 1, 3_600_000, "a whole number of milliseconds"
);
number!(
    /// A number of queries per second. It is a whole number, so that machines are counted
    /// exactly.
    Rate(u64), 1, 1_000_000_000, "a whole number of queries per second"
);
number!(
    /// A number of documents.
    Documents(u64), 1, 1_000_000_000_000_000, "a number of documents"
);
number!(
    /// A number of queries that are answered together.
    Cohort(u64), 1, 1_000_000, "a number of queries"
);
number!(
    /// A number of hits of a query.
    Hits(u64), 1, 1_000_000, "a number of hits"
);
number!(
    /// The size of a query on the network in bytes.
    Bytes(u64), 1, 1_000_000, "a number of bytes"
);
number!(
    /// A published number of machines.
    Machines(u64), 1, 1_000_000_000_000, "a number of machines"
);
number!(
    /// A published power.
    Kilowatts(f64), 0.0, 1e9, "a power in kilowatts"
);
number!(
    /// A number of repetitions of a simulation.
    Trials(u64), 100, 10_000, "a number of trials"
);
number!(
    /// The seed of a sequence of random numbers.
    Seed(u64), 0, i64::MAX as u64, "a seed"
);

number!(
    /// A number of parts of a collection.
    Shards(u64), 1, 100_000, "a number of shards"
);
number!(
    /// A number of nodes for each shard.
    Replicas(u64), 1, 16, "a number of replicas"
);
number!(
    /// A number of queries to simulate.
    Queries(u64), 20, 1_000_000, "a number of queries"
);
number!(
    /// A number of requests that a node processes at the same time.
    Stations(u64), 1, 1024, "a number of requests at once"
);
number!(
    /// A factor by which something takes longer.
    Factor(f64), 1.0, 10_000.0, "a factor"
);
number!(
    /// A number of failures per year.
    Failures(f64), 0.0, 1e6, "a number of failures per year"
);
number!(
    /// A time in seconds.
    Seconds(f64), 0.001, 1e8, "seconds"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_allowed_and_what_is_beyond_is_not() {
        assert!(Dollars::new(0.0).is_ok() && Dollars::new(1e9).is_ok());
        for value in [-0.01, 1.000_001e9, f64::NAN, f64::INFINITY] {
            assert!(Dollars::new(value).unwrap_err().contains("from 0 to 1000000000"), "{value}");
        }
        assert!(Cohort::new(1).is_ok() && Cohort::new(1_000_000).is_ok());
        assert!(Cohort::new(0).is_err() && Cohort::new(1_000_001).is_err());
    }
}
