//! Which period a date lies in.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::date::Date;
use crate::declaration::Period;

const HOUR_MILLIS: i64 = 3_600_000;
const DAY_MILLIS: i64 = 24 * HOUR_MILLIS;

/// The number of a period: different for dates of different periods.
pub(super) fn number(period: Period, date: Date) -> i64 {
    let millis = date.as_millis();
    match period {
        Period::Hour => millis.div_euclid(HOUR_MILLIS),
        Period::Day => millis.div_euclid(DAY_MILLIS),
        Period::Month => match Timestamp::from_millisecond(millis) {
            Ok(timestamp) => {
                let date = timestamp.to_zoned(TimeZone::UTC);
                i64::from(date.year()) * 12 + i64::from(date.month())
            }
            Err(_) => 0,
        },
        Period::None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Date {
        Date::from(text.parse::<Timestamp>().unwrap())
    }

    #[test]
    fn periods_change_at_their_ends() {
        let last = at("2028-02-29T23:59:59.999Z");
        let next = at("2028-03-01T00:00:00Z");
        for period in [Period::Hour, Period::Day, Period::Month] {
            assert_ne!(number(period, last), number(period, next));
            assert_eq!(
                number(period, next),
                number(period, at("2028-03-01T00:59:00Z"))
            );
        }
        assert_eq!(number(Period::None, last), number(Period::None, next));
        assert_eq!(
            number(Period::Month, next),
            number(Period::Month, at("2028-03-31T23:59:00Z"))
        );
    }
}
