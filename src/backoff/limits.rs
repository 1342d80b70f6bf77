//! What a parameter of a backoff may be.

use super::{Backoff, SharedBackoff};
use crate::config::Scope;
use crate::error::{Error, Result};
use std::time::Duration;

/// The highest number of retries, as in AWS Step Functions.
pub const MAX_ATTEMPTS: u32 = 99_999_999;
/// The longest first wait in seconds, as in AWS Step Functions.
pub const MAX_INTERVAL_SECONDS: f64 = 99_999_999.0;
/// The highest maximum of a wait in seconds (366 days), as in AWS Step Functions.
pub const MAX_DELAY_SECONDS: f64 = 31_622_400.0;
/// The most waits that can be listed.
pub const MAX_WAITS: usize = 10_000;

/// A chance as a backoff may be given it, within `[0, 1]`; what is no number is the worst case.
pub(super) fn chance_of(chance: f64) -> f64 {
    if chance.is_nan() {
        1.0
    } else {
        chance.clamp(0.0, 1.0)
    }
}

/// Seconds that are above 0, a nanosecond at least.
pub(super) fn seconds(name: &str, value: f64, max: f64) -> Result<f64> {
    let lasts = Duration::try_from_secs_f64(value).is_ok_and(|value| !value.is_zero());
    if lasts && value <= max {
        return Ok(value);
    }
    Err(Error::config(format!(
        "{name} is above 0 and at most {max}, not {value}"
    )))
}

/// Seconds that may be 0.
pub(super) fn duration(name: &str, value: f64) -> Result<Duration> {
    let max = MAX_INTERVAL_SECONDS;
    match Duration::try_from_secs_f64(value) {
        Ok(duration) if value <= max => Ok(duration),
        _ => Err(Error::config(format!(
            "{name} is from 0 to {max}, not {value}"
        ))),
    }
}

pub(super) fn at_most(name: &str, value: u32, max: u32) -> Result<()> {
    if value <= max {
        return Ok(());
    }
    Err(Error::config(format!(
        "{name} is from 0 to {max}, not {value}"
    )))
}

/// A parameter in seconds; fractions are allowed.
pub(super) fn seconds_of(scope: &mut Scope<'_, '_, '_>, key: &str) -> Option<Option<f64>> {
    let what = format!("a number of seconds above 0 and at most {MAX_INTERVAL_SECONDS}");
    scope.parse::<f64>(key, &what, |seconds| {
        *seconds > 0.0 && *seconds <= MAX_INTERVAL_SECONDS
    })
}

/// A parameter that counts retries.
pub(super) fn attempts_of(scope: &mut Scope<'_, '_, '_>, key: &str) -> Option<Option<u32>> {
    let what = format!("a whole number from 0 to {MAX_ATTEMPTS}");
    scope.parse::<u32>(key, &what, |attempts| *attempts <= MAX_ATTEMPTS)
}

/// The backoff to share; what its constructor refuses is reported at `key`.
pub(super) fn shared<B: Backoff + 'static>(
    scope: &mut Scope<'_, '_, '_>,
    key: &str,
    built: Result<B>,
) -> Option<SharedBackoff> {
    match built {
        Ok(backoff) => Some(SharedBackoff::new(backoff)),
        Err(error) => {
            scope.problem(key, error.message().to_owned());
            None
        }
    }
}
