//! The time limit of a search.

use std::time::Duration;

use clap::Args;

/// The time limit of a search.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Query")]
pub(crate) struct Deadline {
    /// Stop after this time, e.g. 5ms or 1.5s (a bare number means milliseconds), and return the
    /// best hits so far. The output says how much of the index was searched
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) deadline: Option<Duration>,
}

/// Parses a time such as 50ms, 1.5s or 800us. A number without a unit means milliseconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[number.len()..] {
        "" | "ms" => 1e-3,
        "us" => 1e-6,
        "s" => 1.0,
        unit => return Err(format!("unit `{unit}` is not one of us, ms, s")),
    };
    let seconds: Option<f64> = number.parse().ok().map(|n: f64| n * scale);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("`{text}` is not a time; try 50ms or 1.5s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_with_and_without_units() {
        let all = ["5", "5ms", "0.005s", "5000us"].map(parse_time);
        assert!(all.iter().all(|time| *time == Ok(Duration::from_millis(5))), "{all:?}");
        for bad in ["", "ms", "-1", "1h", "nan", "1e99s"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }
}
