//! Today's date, in UTC.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns today's date as year-month-day.
pub(crate) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    of_day(since.as_secs() / 86_400)
}

/// Returns the date of a day, counted from 1970-01-01.
fn of_day(day: u64) -> String {
    let (mut year, mut rest) = (1970, day);
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    while rest >= 365 + u64::from(leap(year)) {
        rest -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if rest < days {
            break;
        }
        rest -= days;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", rest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        let dates = [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29")];
        for (day, date) in dates.into_iter().chain([(20_818, "2026-12-31"), (20_819, "2027-01-01")])
        {
            assert_eq!(of_day(day), date);
        }
    }
}
