//! Numbers as they are written. None is ever computed with.

use crate::json_scan::Scan;

/// Whether the whole text is a number as JSON spells one.
pub(super) fn is_number(text: &str) -> bool {
    let is_it = |mut scan: Scan<'_>| scan.number().is_ok_and(|number| number.len() == text.len());
    Scan::new(text.as_bytes()).is_ok_and(is_it)
}

/// Whether a number is an integer of 64 bits with sign, written without point or exponent.
pub(super) fn is_integer(number: &str) -> bool {
    number.parse::<i64>().is_ok()
}

/// Whether a number is a finite float, and 0 only if it says 0.
pub(super) fn is_float(number: &str) -> bool {
    let says_zero = || Decimal::of(number).is_some_and(|decimal| decimal.digits.is_empty());
    number
        .parse::<f64>()
        .is_ok_and(|float| float.is_finite() && (float != 0.0 || says_zero()))
}

/// Whether a number has at most so many digits before and behind its point, zeros that say nothing left out.
pub(super) fn has_digits(number: &str, before: i64, behind: i64) -> bool {
    Decimal::of(number).is_some_and(|decimal| {
        let length = i64::try_from(decimal.digits.len()).unwrap_or(i64::MAX);
        decimal.digits.is_empty()
            || (decimal.point <= before && length.saturating_sub(decimal.point) <= behind)
    })
}

/// Whether a number stays what it is in a column of JSON: an integer of 64 bits, or a decimal that some printer of floats
/// of 64 bits writes.
pub(super) fn is_kept(number: &str) -> bool {
    number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() || is_printed_float(number)
}

fn is_printed_float(number: &str) -> bool {
    let (Ok(float), Some(written)) = (number.parse::<f64>(), Decimal::of(number)) else {
        return false;
    };
    let shortest = Decimal::of(&format!("{float:e}"));
    float.is_finite()
        && (shortest.as_ref() == Some(&written)
            || shortest.is_some_and(|shortest| are_equally_near(&written, &shortest, float)))
}

/// The digits of any float that is written out are fewer.
const EXACT_DIGITS_MAX: usize = 800;

/// Where a float lies right in the middle of two decimals, as ….25 between ….2 and ….3, printers differ in which they write.
fn are_equally_near(written: &Decimal, shortest: &Decimal, float: f64) -> bool {
    let exact = Decimal::of(&format!("{float:.EXACT_DIGITS_MAX$e}"));
    let Some((b'5', lower)) = exact.as_ref().and_then(|exact| exact.digits.split_last()) else {
        return false;
    };
    let is_neighbour = |decimal: &Decimal| {
        let Some((last, before)) = decimal.digits.split_last() else {
            return false;
        };
        // A neighbour that ends in 0 would be shorter.
        lower
            .split_last()
            .is_some_and(|(lower_last, lower_before)| {
                before == lower_before && (last == lower_last || *last == lower_last + 1)
            })
    };
    written.point == shortest.point && is_neighbour(written) && is_neighbour(shortest)
}

/// `0.<digits>` times ten to the power of `point`, without needless zeros; the sign is left out.
#[derive(PartialEq, Eq)]
struct Decimal {
    digits: Vec<u8>,
    point: i64,
}

impl Decimal {
    /// `None` when the exponent is beyond all bounds.
    fn of(number: &str) -> Option<Self> {
        let unsigned = number.strip_prefix('-').unwrap_or(number);
        let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            return Some(Self { digits, point: 0 });
        }
        let exponent: i64 = exponent.parse().ok()?;
        let point = i64::try_from(whole.len()).ok()? - i64::try_from(zeros).ok()?;
        let point = point.checked_add(exponent)?;
        Some(Self { digits, point })
    }
}
