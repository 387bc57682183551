//! Arguments that are a share of a whole.

/// Parses a number from 0 to 1.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is not a number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_parsed() {
        assert_eq!(parse_share("0.25"), Ok(0.25));
        for bad in ["", "-0.1", "1.1", "nan", "half"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }
}
