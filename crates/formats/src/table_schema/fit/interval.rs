//! Spans of time as BigQuery prints them: `1-2 3 4:5:6.789`.

const YEARS_MAX: u32 = 10_000;
const DAYS_MAX: u32 = 3_660_000;
const HOURS_MAX: u32 = 87_840_000;

pub(super) fn is_interval(text: &str) -> bool {
    let mut groups = text.split(' ');
    let (Some(months), Some(days), Some(time), None) =
        (groups.next(), groups.next(), groups.next(), groups.next())
    else {
        return false;
    };
    are_months(unsigned(months)) && is_at_most(unsigned(days), DAYS_MAX) && is_time(unsigned(time))
}

fn unsigned(group: &str) -> &str {
    group.strip_prefix('-').unwrap_or(group)
}

/// The largest value of each group is refused: what else of the interval it leaves room for is not certain.
fn is_at_most(digits: &str, max: u32) -> bool {
    !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.parse::<u32>().is_ok_and(|number| number < max)
}

fn are_months(group: &str) -> bool {
    group
        .split_once('-')
        .is_some_and(|(years, months)| is_at_most(years, YEARS_MAX) && is_at_most(months, 12))
}

fn is_time(group: &str) -> bool {
    let (clock, fraction) = group.split_once('.').unwrap_or((group, "0"));
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts[..] else {
        return false;
    };
    is_at_most(hours, HOURS_MAX)
        && is_at_most(minutes, 60)
        && is_at_most(seconds, 60)
        && fraction.len() <= 6
        && is_at_most(fraction, 1_000_000)
}
