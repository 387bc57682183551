//! Dates as Elasticsearch's clients write them in queries and documents: in several formats, with
//! date math and time zones.
//!
//! A text denotes the span of milliseconds that it leaves open: `2024-01` is a month, `now/d` a
//! day. The caller chooses which end of the span counts: "up to a day" includes its last
//! millisecond, and "after a day" starts behind it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// The milliseconds that the library supports as dates: the years 0 to 9999.
const FIRST: i64 = -62_167_219_200_000;
const LAST: i64 = 253_402_300_799_999;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// A date format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Every text that [`warpseek::schema::parse_date`] reads.
    Iso,
    /// ISO dates of exactly this many characters: a day, a month or a year.
    Part(usize),
    /// A day and a time separated by a blank, to the second or the millisecond.
    Blank,
    EpochMillis,
    EpochSecond,
}

/// The formats that a field or a query allows, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Formats {
    all: Vec<Format>,
    /// The formats as the user wrote them.
    text: String,
}

impl Default for Formats {
    fn default() -> Self {
        let text = "strict_date_optional_time||epoch_millis".to_owned();
        Formats { all: vec![Format::Iso, Format::EpochMillis], text }
    }
}

impl Formats {
    /// Returns true if both read and write every date alike.
    pub(crate) fn are_same(&self, other: &Self) -> bool {
        self.all == other.all
    }

    /// Reads the option `format`; the error names the format that is unsupported.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let format = |name: &str| {
            Ok(match name.strip_prefix('8').unwrap_or(name) {
                "strict_date_optional_time"
                | "date_optional_time"
                | "strict_date_optional_time_nanos"
                | "iso8601"
                | "strict_date_time"
                | "date_time"
                | "strict_date_time_no_millis"
                | "date_time_no_millis"
                | "strict_date_hour_minute_second"
                | "yyyy-MM-dd'T'HH:mm:ss"
                | "yyyy-MM-dd'T'HH:mm:ss.SSS" => Format::Iso,
                "strict_date"
                | "date"
                | "strict_year_month_day"
                | "year_month_day"
                | "yyyy-MM-dd"
                | "uuuu-MM-dd" => Format::Part(10),
                "strict_year_month" | "year_month" | "yyyy-MM" | "uuuu-MM" => Format::Part(7),
                "strict_year" | "year" | "yyyy" | "uuuu" => Format::Part(4),
                "yyyy-MM-dd HH:mm:ss"
                | "uuuu-MM-dd HH:mm:ss"
                | "yyyy-MM-dd HH:mm:ss.SSS"
                | "uuuu-MM-dd HH:mm:ss.SSS" => Format::Blank,
                "epoch_millis" => Format::EpochMillis,
                "epoch_second" => Format::EpochSecond,
                other => {
                    return Err(format!(
                        "the date format [{other}] is not supported by warpseek; use strict_date_optional_time, epoch_millis, epoch_second, yyyy-MM-dd HH:mm:ss, yyyy-MM-dd, yyyy-MM and yyyy, with || between several"
                    ));
                }
            })
        };
        let all = text.split("||").map(format).collect::<Result<_, _>>()?;
        Ok(Formats { all, text: text.to_owned() })
    }

    pub(crate) fn is_default(&self) -> bool {
        self.all == Formats::default().all
    }

    /// Returns the formats as the user wrote them.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the first and last millisecond that a value denotes, or `None` if it is not a
    /// date. A value without a time zone is in a zone that is `zone` milliseconds ahead of UTC.
    pub(crate) fn read(&self, value: &Value, zone: i64) -> Option<(i64, i64)> {
        // With the default formats, a JSON number is in milliseconds, although the first format
        // would read a number like 2020 as a year.
        if let Some(milliseconds) = value.as_i64().filter(|_| self.is_default()) {
            return Some((milliseconds, milliseconds));
        }
        match value {
            Value::String(text) => self.read_text(text, zone),
            Value::Number(number) => self.read_text(&number.to_string(), zone),
            _ => None,
        }
    }

    fn read_text(&self, text: &str, zone: i64) -> Option<(i64, i64)> {
        self.all.iter().find_map(|format| match format {
            Format::Iso => calendar_span(text, zone),
            Format::Part(length) if text.len() == *length => calendar_span(text, zone),
            Format::Part(_) => None,
            Format::Blank if text.get(10..11) == Some(" ") => calendar_span(text, zone),
            Format::Blank => None,
            Format::EpochMillis => text.parse().ok().map(|at| (at, at)),
            Format::EpochSecond => {
                let seconds: f64 = text.parse().ok().filter(|s: &f64| s.abs() < 9e15)?;
                let first = (seconds * 1000.0).round() as i64;
                Some((first, if text.contains('.') { first } else { first + SECOND - 1 }))
            }
        })
    }
}

/// Returns the span of milliseconds that a calendar date leaves open.
fn calendar_span(text: &str, zone: i64) -> Option<(i64, i64)> {
    let first = warpseek::schema::parse_date(text)?;
    let time = text.get(11..).unwrap_or("");
    let clock = time.split(['Z', 'z', '+', '-']).next().unwrap_or("");
    let first = if clock.len() == time.len() { first.checked_sub(zone)? } else { first };
    let unit = match (text.len(), clock.matches(':').count()) {
        (4, _) => Unit::Year,
        (7, _) => Unit::Month,
        (10, _) => Unit::Day,
        (_, 1) => Unit::Minute,
        (_, 2) if !clock.contains(['.', ',']) => Unit::Second,
        _ => return Some((first, first)),
    };
    let next = unit.add(first.checked_add(zone)?, 1)?.checked_sub(zone)?;
    Some((first, next - 1))
}

/// A unit of date math.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
}

impl Unit {
    fn of(letter: char) -> Option<Self> {
        Some(match letter {
            'y' => Unit::Year,
            'M' => Unit::Month,
            'w' => Unit::Week,
            'd' => Unit::Day,
            'h' | 'H' => Unit::Hour,
            'm' => Unit::Minute,
            's' => Unit::Second,
            _ => return None,
        })
    }

    /// Returns the length in milliseconds, if all units of this kind have the same.
    fn fixed(self) -> Option<i64> {
        match self {
            Unit::Year | Unit::Month => None,
            Unit::Week => Some(7 * DAY),
            Unit::Day => Some(DAY),
            Unit::Hour => Some(HOUR),
            Unit::Minute => Some(MINUTE),
            Unit::Second => Some(SECOND),
        }
    }

    /// Adds this many units to a time. A day that the target month lacks becomes the month's last
    /// day.
    fn add(self, at: i64, many: i64) -> Option<i64> {
        if let Some(unit) = self.fixed() {
            return at.checked_add(many.checked_mul(unit)?);
        }
        let months = if self == Unit::Year { many.checked_mul(12)? } else { many };
        let (year, month, day) = calendar(at.div_euclid(DAY));
        let month = year.checked_mul(12)?.checked_add(month - 1)?.checked_add(months)?;
        // Years further away are outside the calendar.
        let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
        if !(-100_000..=100_000).contains(&year) {
            return None;
        }
        let first = days_before(year, month);
        let length = match month {
            12 => 31,
            month => days_before(year, month + 1) - first,
        };
        Some((first + day.min(length) - 1) * DAY + at.rem_euclid(DAY))
    }

    /// Returns the start of the unit that contains a time. Weeks begin on Monday.
    fn floor(self, at: i64) -> i64 {
        let (year, month, _) = calendar(at.div_euclid(DAY));
        match self {
            Unit::Year => days_before(year, 1) * DAY,
            Unit::Month => days_before(year, month) * DAY,
            // 1 January 1970 was a Thursday.
            Unit::Week => (at + 3 * DAY).div_euclid(7 * DAY) * 7 * DAY - 3 * DAY,
            Unit::Day => at.div_euclid(DAY) * DAY,
            Unit::Hour => at.div_euclid(HOUR) * HOUR,
            Unit::Minute => at.div_euclid(MINUTE) * MINUTE,
            Unit::Second => at.div_euclid(SECOND) * SECOND,
        }
    }
}

/// A reader of the dates of one query.
pub(crate) struct Reader {
    pub(crate) formats: Formats,
    /// Milliseconds by which the time zone is ahead of UTC.
    pub(crate) zone: i64,
    /// The time that `now` denotes.
    pub(crate) now: i64,
}

impl Reader {
    /// Returns the first and last millisecond that a value denotes, clamped to the supported
    /// dates, or `None` if it is not a date.
    pub(crate) fn read(&self, value: &Value) -> Option<(i64, i64)> {
        let (first, last) = self.read_any(value)?;
        Some((first.clamp(FIRST, LAST), last.clamp(FIRST, LAST)))
    }

    fn read_any(&self, value: &Value) -> Option<(i64, i64)> {
        if let Some(text) = value.as_str() {
            if let Some(math) = text.strip_prefix("now") {
                return self.calculate((self.now, self.now), math);
            }
            if let Some((anchor, math)) = text.split_once("||") {
                // An incomplete anchor denotes its first millisecond; only math rounds up.
                let (first, _) = self.formats.read(&anchor.into(), self.zone)?;
                return self.calculate((first, first), math);
            }
        }
        self.formats.read(value, self.zone)
    }

    /// Applies date math such as `+1d`, `-2M` or `/y`. Rounding moves the first millisecond to
    /// the start of the unit and the last one to its end.
    fn calculate(&self, (first, last): (i64, i64), math: &str) -> Option<(i64, i64)> {
        let local = |at: i64| at.checked_add(self.zone);
        let (mut first, mut last) = (local(first)?, local(last)?);
        let mut rest = math;
        while let Some(operation) = rest.chars().next() {
            // Far beyond all dates, where sums would overflow.
            if first.unsigned_abs().max(last.unsigned_abs()) > 1 << 56 {
                return None;
            }
            rest = &rest[operation.len_utf8()..];
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, behind) = rest.split_at(digits);
            let unit = Unit::of(behind.chars().next()?)?;
            rest = &behind[1..];
            let many = if number.is_empty() { 1 } else { number.parse::<i64>().ok()? };
            match operation {
                '/' if number.is_empty() => {
                    first = unit.floor(first);
                    last = unit.add(unit.floor(last), 1)? - 1;
                }
                '+' => (first, last) = (unit.add(first, many)?, unit.add(last, many)?),
                '-' => (first, last) = (unit.add(first, -many)?, unit.add(last, -many)?),
                _ => return None,
            }
        }
        Some((first.checked_sub(self.zone)?, last.checked_sub(self.zone)?))
    }
}

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Returns how many milliseconds a zone is ahead of UTC: `Z`, `UTC`, `+01:00`, `-0530`, `+01`.
/// Returns `None` for named zones such as `Europe/Berlin`, whose rules are not available here.
pub(crate) fn zone(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "z" | "UTC" | "GMT") {
        return Some(0);
    }
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits = digits.replacen(':', "", 1);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = match digits.len() {
        1 | 2 => (digits.as_str(), "0"),
        4 => digits.split_at(2),
        _ => return None,
    };
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 18 && minutes < 60).then_some(sign * (hours * HOUR + minutes * MINUTE))
}

/// Returns the days from 1970 to the first of a month (Hinnant 2013, days_from_civil).
/// Internally, years begin in March, so that leap days come last.
fn days_before(year: i64, month: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day = (153 * ((month + 9) % 12) + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day - 719_468
}

/// Returns the year, month and day of a number of days since 1970 (Hinnant 2013,
/// civil_from_days).
fn calendar(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> i64 {
        warpseek::schema::parse_date(text).unwrap()
    }

    /// Reads a text with `now` at 12:30 on 29 February 2024, a Thursday.
    fn read(text: &str, format: &str, zone_of: &str) -> Option<(i64, i64)> {
        let formats = Formats::parse(format).unwrap();
        Reader { formats, zone: zone(zone_of).unwrap(), now: at("2024-02-29T12:30:45.678Z") }
            .read(&json!(text))
    }

    #[test]
    fn date_math() {
        let default = "strict_date_optional_time||epoch_millis";
        for (text, first, last) in [
            ("now", "2024-02-29T12:30:45.678", "2024-02-29T12:30:45.678"),
            ("now+1h", "2024-02-29T13:30:45.678", "2024-02-29T13:30:45.678"),
            ("now-1d/d", "2024-02-28", "2024-02-28T23:59:59.999"),
            ("now/w", "2024-02-26", "2024-03-03T23:59:59.999"),
            ("now/M-1y", "2023-02-01", "2023-02-28T23:59:59.999"),
            ("now+1y", "2025-02-28T12:30:45.678", "2025-02-28T12:30:45.678"),
            ("now-2M/y", "2023-01-01", "2023-12-31T23:59:59.999"),
            ("now/m", "2024-02-29T12:30", "2024-02-29T12:30:59.999"),
            ("now/H+30s", "2024-02-29T12:00:30", "2024-02-29T13:00:29.999"),
            ("2024-01-31||+1M", "2024-02-29", "2024-02-29"),
            ("2024-01-15||/M", "2024-01-01", "2024-01-31T23:59:59.999"),
            ("2024-01||", "2024-01-01", "2024-01-01"),
            ("now+9000y", "9999-12-31T23:59:59.999", "9999-12-31T23:59:59.999"),
            ("1704067200000||+1d", "2024-01-02", "2024-01-02"),
        ] {
            assert_eq!(read(text, default, "Z"), Some((at(first), at(last))), "{text}");
        }
        for wrong in [
            "now+",
            "now-1",
            "now-1x",
            "nowhere",
            "now/",
            "now/2d",
            "now*1d",
            "now+1d+",
            "now+ü",
            "soon||+1d",
            "2024-01-01||1d",
            "now+9999999999999y",
            "now+99999999999999999999d",
            "",
        ] {
            assert_eq!(read(wrong, default, "Z"), None, "{wrong}");
        }
    }

    #[test]
    fn zones() {
        for (text, hours) in
            [("Z", 0.0), ("UTC", 0.0), ("+01:00", 1.0), ("-0530", -5.5), ("+2", 2.0)]
        {
            assert_eq!(zone(text), Some((hours * 3_600_000.0) as i64), "{text}");
        }
        for wrong in ["", "Europe/Berlin", "01:00", "+1:2:3", "+19:00", "+01:60", "+x", "ü"] {
            assert_eq!(zone(wrong), None, "{wrong}");
        }
        let iso = "strict_date_optional_time";
        let day = |first: &str| Some((at(first), at(first) + DAY - 1));
        assert_eq!(read("2024-01-02", iso, "+01:00"), day("2024-01-01T23:00"));
        assert_eq!(read("now/d", iso, "+12:00"), day("2024-02-29T12:00"));
        // A zone in the text takes precedence.
        let noon = at("2024-01-02T12:00");
        assert_eq!(read("2024-01-02T12:00:00.0Z", iso, "+01:00"), Some((noon, noon)));
        assert_eq!(read("2024-01-02T10:00:00.0-02:00", iso, "+01:00"), Some((noon, noon)));
        assert_eq!(read("2024-02-01", iso, "-03:00"), day("2024-02-01T03:00"));
        let february = (at("2024-02-01T03:00"), at("2024-03-01T03:00") - 1);
        assert_eq!(read("2024-02", iso, "-03:00"), Some(february));
    }

    #[test]
    fn formats() {
        let year = Some((at("2024"), at("2025") - 1));
        for (text, format, wanted) in [
            ("2024", "yyyy", year),
            ("2024", "yyyy-MM-dd||yyyy", year),
            ("2024", "yyyy-MM-dd", None),
            ("2024-01-01T10:00", "yyyy-MM-dd", None),
            ("2024", "epoch_millis", Some((2024, 2024))),
            ("2024", "epoch_second", Some((2_024_000, 2_024_999))),
            ("1.5", "epoch_second", Some((1500, 1500))),
            (
                "2024-01-01 00:00:07",
                "yyyy-MM-dd HH:mm:ss",
                Some((at("2024") + 7000, at("2024") + 7999)),
            ),
            ("2024-01-01T00:00:07", "yyyy-MM-dd HH:mm:ss", None),
            ("today", "strict_date_optional_time||epoch_millis", None),
        ] {
            assert_eq!(read(text, format, "Z"), wanted, "{text} {format}");
        }
        for wrong in ["dd/MM/yyyy", "", "yyyy||", "basic_date", "strict_date||MM"] {
            let reason = Formats::parse(wrong).unwrap_err();
            assert!(reason.contains("is not supported"), "{reason}");
        }
        assert_eq!(Formats::default().read(&json!(2024), 0), Some((2024, 2024)));
        assert_eq!(Formats::parse("yyyy").unwrap().read(&json!(2024), 0), year);
    }

    proptest! {
        #[test]
        fn the_calendar_is_that_of_the_library(days in -719_528i64..2_932_897) {
            let (year, month, day) = calendar(days);
            prop_assert_eq!(days_before(year, month) + day - 1, days);
            prop_assert_eq!(at(&format!("{year:04}-{month:02}-{day:02}")), days * DAY);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(now|2024-01-31\\|\\|)?([-+/]?[0-9]{0,20}[yMwdhHmsx]?){0,4}|\\PC{0,12}") {
            let default = "strict_date_optional_time||epoch_millis||epoch_second";
            if let Some((first, last)) = read(&text, default, "-05:30") {
                prop_assert!(first <= last);
            }
            let _ = zone(&text);
            let _ = Formats::parse(&text);
        }
    }
}
