//! Numbers as callers send them: `5`, `5.0`, `5e0` and `"5"` are the same five.

use serde_json::{Number, Value};

use super::Bounds;

/// The largest whole number that every JSON reader keeps exact: 2^53 − 1.
const SAFE: i64 = (1 << 53) - 1;

/// A whole number within its bounds. Without any bound it saturates at ±[`SAFE`].
pub(super) fn whole(value: &Value, bounds: Bounds) -> Result<Value, String> {
    let wanted = || bounds.wanted("a whole number");
    let number = number_in(value).ok_or_else(wanted)?;
    let fits = match safe_whole(&number) {
        Some(whole) if bounds.hold(whole as f64) => return Ok(whole.into()),
        Some(_) => false,
        None => bounds.is_open() && number.as_f64().is_some_and(|float| float.fract() == 0.0),
    };
    if !fits {
        return Err(wanted());
    }
    Ok(if number.as_f64().is_some_and(f64::is_sign_negative) { -SAFE } else { SAFE }.into())
}

/// Any number within its bounds; one that is whole is given as an integer.
pub(super) fn number(value: &Value, bounds: Bounds) -> Result<Value, String> {
    let number = number_in(value).filter(|number| number.as_f64().is_some_and(|float| bounds.hold(float)));
    let number = number.ok_or_else(|| bounds.wanted("a number"))?;
    Ok(safe_whole(&number).map_or(Value::Number(number), Value::from))
}

/// The decimal text of a number: no exponent, no needless `.0`. `None` for a double so large that
/// its digits are no longer those the caller wrote.
pub(super) fn decimal(number: &Number) -> Option<String> {
    if number.is_i64() || number.is_u64() {
        return Some(number.to_string());
    }
    number.as_f64().filter(|float| float.abs() <= SAFE as f64).map(|float| float.to_string())
}

fn safe_whole(number: &Number) -> Option<i64> {
    let whole = number.as_i64().or_else(|| {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= SAFE as f64)?;
        Some(float as i64)
    });
    whole.filter(|whole| (-SAFE..=SAFE).contains(whole))
}

/// A number, or text that spells one as JSON does; longer text than any double needs is not read.
fn number_in(value: &Value) -> Option<Number> {
    match value {
        Value::Number(number) => Some(number.clone()),
        Value::String(text) if text.len() <= 64 && !text.contains(char::is_whitespace) => {
            serde_json::from_str(text).ok()
        }
        _ => None,
    }
}

impl Bounds {
    fn hold(self, number: f64) -> bool {
        self.min.is_none_or(|min| number >= min)
            && self.max.is_none_or(|max| number <= max)
            && self.above.is_none_or(|above| number > above)
    }

    fn is_open(self) -> bool {
        self.min.is_none() && self.max.is_none() && self.above.is_none()
    }

    fn wanted(self, what: &str) -> String {
        let above = self.above.map(|above| format!("above {above}"));
        let range = match (self.min, self.max) {
            (Some(min), Some(max)) => Some(format!("from {min} to {max}")),
            (Some(min), None) => Some(format!("of at least {min}")),
            (None, Some(max)) => Some(format!("of at most {max}")),
            (None, None) => None,
        };
        [Some(format!("must be {what}")), range, above].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}
