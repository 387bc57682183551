//! The minimum number of alternatives that must match, in the syntax of Elasticsearch's
//! `minimum_should_match`.

use std::fmt;
use std::str::FromStr;

/// Maximum number of combined rules.
const MAX_RULES: usize = 32;

/// The minimum number of alternatives that must match. It is written as:
///
/// | text | meaning |
/// |---|---|
/// | `3` | 3, however many there are |
/// | `-2` | all but 2 |
/// | `75%` | 75 % of them, rounded down |
/// | `-25%` | all but 25 % of them, rounded down |
/// | `2<75%` | all of them if there are up to 2, else 75 % |
/// | `2<-25% 9<-3` | all of them up to 2, all but 25 % up to 9, else all but 3 |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Least {
    /// The amounts, each with the number of alternatives above which it applies; ascending. Up to
    /// the first number, all alternatives must match.
    rules: Vec<(u32, Amount)>,
    /// True if the text contained `<`.
    combined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    Count(i32),
    Percent(i32),
}

impl Least {
    /// Requires this many alternatives.
    pub fn count(count: u32) -> Self {
        Amount::Count(i32::try_from(count).unwrap_or(i32::MAX)).into()
    }

    /// Returns the number of alternatives that must match, given how many there are. If the
    /// result is larger, nothing matches.
    pub fn of(&self, alternatives: usize) -> usize {
        let rule = self.rules.iter().rev().find(|(above, _)| {
            // Without `<`, the single rule also holds for 0 alternatives.
            !self.combined || alternatives > *above as usize
        });
        rule.map_or(alternatives, |(_, amount)| amount.of(alternatives))
    }
}

impl Amount {
    fn of(self, alternatives: usize) -> usize {
        let all = alternatives as i64;
        let amount = match self {
            Amount::Count(count) => i64::from(count),
            // The division rounds towards 0, so a negative percentage leaves out fewer.
            Amount::Percent(percent) => all.saturating_mul(i64::from(percent)) / 100,
        };
        let leaves_out = matches!(self, Amount::Count(..0) | Amount::Percent(..0));
        let least = if leaves_out { all + amount } else { amount };
        usize::try_from(least).unwrap_or(0)
    }
}

impl From<Amount> for Least {
    fn from(amount: Amount) -> Self {
        Least { rules: vec![(0, amount)], combined: false }
    }
}

impl FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, percent) = match text.strip_suffix('%') {
            Some(number) => (number, true),
            None => (text, false),
        };
        let wrong =
            || format!("`{text}` is not a number of clauses; it must be like `2`, `-1` or `75%`");
        let number: i32 = number.parse().map_err(|_| wrong())?;
        match percent {
            true if !(-100..=100).contains(&number) => {
                Err(format!("`{text}` is out of range; percentages are from -100 to 100"))
            }
            true => Ok(Amount::Percent(number)),
            false => Ok(Amount::Count(number)),
        }
    }
}

impl FromStr for Least {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('<') {
            return text.trim().parse().map(Amount::into);
        }
        let mut rules: Vec<(u32, Amount)> = Vec::new();
        for rule in text.split_whitespace() {
            let (above, amount) =
                rule.split_once('<').ok_or_else(|| format!("`{rule}` must be like `2<75%`"))?;
            let above: u32 = above
                .parse()
                .map_err(|_| format!("`{above}` before `<` is not a number of clauses"))?;
            if rules.last().is_some_and(|&(last, _)| last >= above) {
                return Err(format!("the numbers before `<` must ascend, but {above} does not"));
            }
            rules.push((above, amount.parse()?));
        }
        match rules.len() {
            1..=MAX_RULES => Ok(Least { rules, combined: true }),
            n => Err(format!("{n} rules are combined; there must be 1 to {MAX_RULES}")),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Count(count) => write!(f, "{count}"),
            Amount::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl fmt::Display for Least {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (above, amount)) in self.rules.iter().enumerate() {
            match (self.combined, i) {
                (false, _) => write!(f, "{amount}")?,
                (true, 0) => write!(f, "{above}<{amount}")?,
                (true, _) => write!(f, " {above}<{amount}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_those_of_elasticsearch() {
        for (text, alternatives, want) in [
            ("3", 5, 3),
            ("3", 2, 3),
            ("3", 0, 3),
            ("0", 4, 0),
            ("-2", 5, 3),
            ("-2", 2, 0),
            ("-2", 1, 0),
            ("75%", 4, 3),
            ("75%", 3, 2),
            ("75%", 1, 0),
            ("100%", 7, 7),
            ("-25%", 4, 3),
            ("-25%", 5, 4),
            ("-25%", 3, 3),
            ("-100%", 3, 0),
            ("2<75%", 0, 0),
            ("2<75%", 1, 1),
            ("2<75%", 2, 2),
            ("2<75%", 3, 2),
            ("2<75%", 4, 3),
            ("3<90%", 3, 3),
            ("3<90%", 4, 3),
            ("2<-25% 9<-3", 2, 2),
            ("2<-25% 9<-3", 3, 3),
            ("2<-25% 9<-3", 9, 7),
            ("2<-25% 9<-3", 10, 7),
        ] {
            let least: Least = text.parse().unwrap();
            assert_eq!(least.of(alternatives), want, "{text} of {alternatives}");
            assert_eq!(least.to_string().parse(), Ok(least));
        }
        assert_eq!(Least::count(2), "2".parse().unwrap());
        assert_eq!(Least::count(u32::MAX).of(3), i32::MAX as usize);
    }

    #[test]
    fn malformed_amounts_say_what_is_wrong() {
        for (text, want) in [
            ("", "is not a number of clauses"),
            ("two", "`two` is not a number of clauses"),
            ("2.5", "is not a number of clauses"),
            ("101%", "out of range"),
            ("9<1 2<1", "must ascend, but 2 does not"),
            ("2<75% 3", "`3` must be like `2<75%`"),
            ("-1<2", "`-1` before `<`"),
            ("99999999999", "is not a number of clauses"),
        ] {
            let error = text.parse::<Least>().unwrap_err();
            assert!(error.contains(want), "{text}: {error}");
        }
        let rules = |n: usize| (0..n).map(|i| format!("{i}<1 ")).collect::<String>();
        assert!(rules(MAX_RULES).parse::<Least>().is_ok());
        assert!(rules(MAX_RULES + 1).parse::<Least>().is_err());
    }
}
