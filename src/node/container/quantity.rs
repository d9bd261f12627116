//! Quantities of resources, such as `500m` or `1.5Gi`, as far as the downward API needs them.

/// A thousand-millionth, the smallest part that a quantity counts in.
const NANO: i128 = 1_000_000_000;

/// A quantity that is not negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity {
    nanos: i128,
}

impl Quantity {
    /// One whole unit.
    pub(super) const ONE: Self = Self { nanos: NANO };
    /// Nothing.
    pub(super) const ZERO: Self = Self { nanos: 0 };

    /// Reads a number with a suffix of powers of ten (`n` to `E`), of 1024 (`Ki` to `Ei`), or a
    /// decimal exponent. What lies below a nano-unit is rounded up. [`None`] for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let number = text.strip_prefix('+').unwrap_or(text);
        let end = number
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(number.len());
        let (number, suffix) = number.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let scale = i32::try_from(fraction.len()).ok()?;
        let (exponent, factor) = match suffix {
            "Ki" | "Mi" | "Gi" | "Ti" | "Pi" | "Ei" => (0, 1024_i128.checked_pow(power(suffix)?)?),
            "n" => (-9, 1),
            "u" => (-6, 1),
            "m" => (-3, 1),
            "" => (0, 1),
            "k" | "M" | "G" | "T" | "P" | "E" => (i32::try_from(3 * power(suffix)?).ok()?, 1),
            _ => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, 1),
        };
        let exponent = exponent - scale + 9;
        let digits = digits.checked_mul(factor)?;
        let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
        let nanos = match exponent < 0 {
            true => div_ceil(digits, power),
            false => digits.checked_mul(power)?,
        };
        Some(Self { nanos })
    }

    /// How many whole divisors cover it, both rounded up to milli-units first, as for CPUs.
    pub(super) fn divided_in_milli(self, divisor: Self) -> i128 {
        let milli = |quantity: Self| div_ceil(quantity.nanos, NANO / 1000);
        div_ceil(milli(self), milli(divisor).max(1))
    }

    /// How many whole divisors cover it, both rounded up to whole units first, as for bytes.
    pub(super) fn divided(self, divisor: Self) -> i128 {
        let whole = |quantity: Self| div_ceil(quantity.nanos, NANO);
        div_ceil(whole(self), whole(divisor).max(1))
    }
}

/// Which power of a thousand, or of 1024, a suffix stands for.
fn power(suffix: &str) -> Option<u32> {
    let first = suffix.chars().next()?.to_ascii_uppercase();
    let place = "KMGTPE".find(first)?;
    u32::try_from(place + 1).ok()
}

/// For numbers that are not negative, and a divisor that is not zero.
fn div_ceil(number: i128, divisor: i128) -> i128 {
    number / divisor + i128::from(number % divisor != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str) -> Option<i128> {
        Quantity::parse(text).map(|quantity| quantity.nanos)
    }

    #[test]
    fn every_form_of_a_quantity_is_read() {
        for (text, expected) in [
            ("0", 0),
            ("1", NANO),
            ("+1", NANO),
            ("250m", NANO / 4),
            ("0.25", NANO / 4),
            (".5", NANO / 2),
            ("5.", 5 * NANO),
            ("1u", 1000),
            ("0.1n", 1),
            ("1k", 1000 * NANO),
            ("1.5Gi", 3 * 512 * 1024 * 1024 * NANO),
            ("2e3", 2000 * NANO),
            ("2E-3", 2 * NANO / 1000),
            ("1E", 1_000_000_000_000_000_000 * NANO),
            ("1Ei", 1024_i128.pow(6) * NANO),
        ] {
            assert_eq!(nanos(text), Some(expected), "{text}");
        }
        for text in [
            "", ".", "m", "-1", "1.2.3", "1x", "1ki", "1e", "1e99", "1 Gi",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }

    #[test]
    fn results_are_rounded_up() {
        let quantity = |text| Quantity::parse(text).expect(text);
        assert_eq!(quantity("250m").divided_in_milli(Quantity::ONE), 1);
        assert_eq!(quantity("250m").divided_in_milli(quantity("1m")), 250);
        assert_eq!(quantity("1.5Gi").divided(quantity("1Gi")), 2);
        assert_eq!(quantity("64Mi").divided(Quantity::ONE), 67_108_864);
        assert_eq!(Quantity::ZERO.divided(Quantity::ONE), 0);
        // A divisor is never smaller than the unit that is counted in.
        assert_eq!(quantity("3").divided(quantity("1m")), 3);
    }
}
