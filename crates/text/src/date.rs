//! Dates in ISO 8601, which the index stores as milliseconds since 1970 in UTC.
//!
//! A date is `2020`, `2020-01`, `2020-01-31`, or a day with a time: `T` or a blank, then `10:15`,
//! `10:15:30` or `10:15:30.25`, and a zone: `Z`, `+01:00`, `+0100` or `+01`. Missing parts
//! default to the earliest possible value; without a zone the time is UTC. Digits after the
//! millisecond are dropped.

use std::ops::RangeInclusive;

/// Range of milliseconds that can be written: the years 0 to 9999 of the Gregorian calendar.
pub const DATES: RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

const MILLISECONDS_A_DAY: i64 = 86_400_000;

/// Number of days before each month of a year that is not a leap year, and in the whole year.
const DAYS_BEFORE_MONTH: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];

/// Returns the milliseconds since 1970 of a date; `None` if `text` is not a date, or is outside
/// [`DATES`].
pub fn parse_date(text: &str) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.number(4, 0..=9999)?;
    let (mut month, mut day, mut time) = (1, 1, 0);
    if rest.skip(b"-") {
        month = rest.number(2, 1..=12)?;
        if rest.skip(b"-") {
            day = rest.number(2, 1..=days_of_month(year, month))?;
            time = if rest.skip(b"Tt ") { rest.time()? } else { 0 };
        }
    }
    let days = days_before(year, month) + day - 1;
    let milliseconds = days * MILLISECONDS_A_DAY + time;
    (rest.0.is_empty() && DATES.contains(&milliseconds)).then_some(milliseconds)
}

/// Formats a date with its time, as `2020-01-31T10:15:30.250Z`. Milliseconds outside [`DATES`]
/// give the nearest date in the range.
pub fn format_date(milliseconds: i64) -> String {
    let milliseconds = milliseconds.clamp(*DATES.start(), *DATES.end());
    let (days, time) =
        (milliseconds.div_euclid(MILLISECONDS_A_DAY), milliseconds.rem_euclid(MILLISECONDS_A_DAY));
    let (year, month, day) = calendar(days);
    let (seconds, fraction) = (time / 1000, time % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{fraction:03}Z")
}

/// The bytes that remain to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// Skips one byte if it is among `bytes`.
    fn skip(&mut self, bytes: &[u8]) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if bytes.contains(first) => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn digit(&mut self) -> Option<i64> {
        let (first, rest) = self.0.split_first().filter(|(first, _)| first.is_ascii_digit())?;
        self.0 = rest;
        Some(i64::from(first - b'0'))
    }

    /// Reads a number of exactly this many digits.
    fn number(&mut self, digits: usize, allowed: RangeInclusive<i64>) -> Option<i64> {
        let mut number = 0;
        for _ in 0..digits {
            number = 10 * number + self.digit()?;
        }
        Some(number).filter(|number| allowed.contains(number))
    }

    /// Reads a time of day and its zone, in milliseconds from midnight in UTC.
    fn time(&mut self) -> Option<i64> {
        let hours = self.number(2, 0..=23)?;
        let minutes = if self.skip(b":") { self.number(2, 0..=59)? } else { return None };
        // Second 60 is a leap second. It counts as second 0 of the next minute.
        let seconds = if self.skip(b":") { Some(self.number(2, 0..=60)?) } else { None };
        let mut fraction = 0;
        if seconds.is_some() && self.skip(b".,") {
            fraction = 100 * self.digit()?;
            for unit in [10, 1] {
                fraction += unit * self.digit().unwrap_or(0);
            }
            while self.digit().is_some() {}
        }
        let minutes = 60 * hours + minutes - self.zone()?;
        Some((60 * minutes + seconds.unwrap_or(0)) * 1000 + fraction)
    }

    /// Reads a zone and returns how many minutes it is ahead of UTC.
    fn zone(&mut self) -> Option<i64> {
        let sign = match () {
            () if self.skip(b"+") => 1,
            () if self.skip(b"-") => -1,
            () => {
                self.skip(b"Zz");
                return Some(0);
            }
        };
        let hours = self.number(2, 0..=23)?;
        let minutes =
            if self.skip(b":") || !self.0.is_empty() { self.number(2, 0..=59)? } else { 0 };
        Some(sign * (60 * hours + minutes))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the days from the first of January of year 0, a leap year, to that of `year`.
fn days_before_year(year: i64) -> i64 {
    365 * year + (year + 3) / 4 - (year + 99) / 100 + (year + 399) / 400
}

/// Returns the days from 1970 to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let leap_day = i64::from(month > 2 && is_leap(year));
    let days = days_before_year(year) + DAYS_BEFORE_MONTH[month as usize - 1] + leap_day;
    days - days_before_year(1970)
}

fn days_of_month(year: i64, month: i64) -> i64 {
    let leap_day = i64::from(month == 2 && is_leap(year));
    DAYS_BEFORE_MONTH[month as usize] - DAYS_BEFORE_MONTH[month as usize - 1] + leap_day
}

/// Returns year, month and day of a number of days since 1970.
fn calendar(days: i64) -> (i64, i64, i64) {
    let since_zero = days + days_before_year(1970);
    // 400 years have 146,097 days; the guess is off by less than a year.
    let guess = since_zero * 400 / 146_097;
    let mut year = guess + 1;
    while days_before_year(year) > since_zero {
        year -= 1;
    }
    let mut month = 12;
    while days_before(year, month) > days {
        month -= 1;
    }
    (year, month, days - days_before(year, month) + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms() {
        let day = 1_580_428_800_000;
        for (text, want) in [
            ("1970", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2020", 1_577_836_800_000),
            ("2020-03", 1_583_020_800_000),
            ("2020-01-31", day),
            ("2020-01-31T10:15", day + 36_900_000),
            ("2020-01-31 10:15:30", day + 36_930_000),
            ("2020-01-31t10:15:30.5z", day + 36_930_500),
            ("2020-01-31T10:15:30,1239999Z", day + 36_930_123),
            ("2020-01-31T10:15:30+01:00", day + 33_330_000),
            ("2020-01-31T10:15-0130", day + 42_300_000),
            ("2020-01-31T00:15+01", day - 2_700_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("2000-02-29", 951_782_400_000),
            ("0000-01-01", *DATES.start()),
            ("9999-12-31T23:59:59.999Z", *DATES.end()),
        ] {
            assert_eq!(parse_date(text), Some(want), "{text}");
        }
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "",
            "20",
            "202",
            "20200",
            "2020-",
            "2020-1",
            "2020-13",
            "2020-00",
            "2020-01-",
            "2020-01-00",
            "2020-01-32",
            "2019-02-29",
            "1900-02-29",
            "2020-04-31",
            "20200131",
            "2020/01/31",
            "2020--31",
            "2020-01T10:15",
            "2020T10:15",
            "2020-01-31T",
            "2020-01-31T10",
            "2020-01-31T24:00",
            "2020-01-31T10:60",
            "2020-01-31T10:15:61",
            "2020-01-31T10:15.5",
            "2020-01-31T10:15:30.",
            "2020-01-31T10:15:30ZZ",
            "2020-01-31T10:15:30+24",
            "2020-01-31T10:15:30+1",
            "2020-01-31T10:15+",
            "2020-01-31T10:15:30+01:",
            "2020-01-31Z",
            " 2020",
            "2020 ",
            "-2020",
            "+2020",
            "２０２０",
            "today",
            "0000-01-01T00:00+01:00",
            "9999-12-31T23:59:60Z",
        ] {
            assert_eq!(parse_date(text), None, "{text:?}");
        }
    }

    /// Checks every day of the range by counting.
    #[test]
    fn the_calendar() {
        let (mut year, mut month, mut day) = (0, 1, 1);
        let first = DATES.start() / MILLISECONDS_A_DAY;
        for days in first..=DATES.end().div_euclid(MILLISECONDS_A_DAY) {
            assert_eq!(calendar(days), (year, month, day));
            assert_eq!(days_before(year, month) + day - 1, days);
            let length = match month {
                2 if year % 400 == 0 || (year % 4 == 0 && year % 100 > 0) => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            assert_eq!(days_of_month(year, month), length);
            (day, month) = if day == length { (1, month + 1) } else { (day + 1, month) };
            (year, month) = if month > 12 { (year + 1, 1) } else { (year, month) };
        }
        assert_eq!((year, month, day), (10_000, 1, 1));
    }

    #[test]
    fn dates_out_of_range_are_shown_as_the_nearest() {
        assert_eq!(format_date(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(format_date(i64::MIN), "0000-01-01T00:00:00.000Z");
        assert_eq!(format_date(1_580_465_730_250), "2020-01-31T10:15:30.250Z");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(milliseconds in DATES) {
            prop_assert_eq!(parse_date(&format_date(milliseconds)), Some(milliseconds));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "([0-9]{1,4}|[-T:+Z., ]){0,14}|\\PC{0,20}") {
            if let Some(milliseconds) = parse_date(&text) {
                prop_assert!(DATES.contains(&milliseconds));
            }
        }
    }
}
