//! Moments in a time zone: `timezone(zone, moment)`, which is what `moment AT TIME ZONE zone` means, and the text of a moment.
//!
//! A `timestamptz` becomes the local time there, a local time the `timestamptz` that it is there.

use crate::data::DataError;
use crate::session::Zone;
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder, TimestampMicrosecondBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use corun_wire::values::{Format, TimeZone, Timestamp, Value};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The function of `AT TIME ZONE`.
pub(super) const TIMEZONE: &str = "timezone";
const SECOND_US: i64 = 1_000_000;
const UTC: &str = "+00:00";

/// `timezone(zone, moment)`.
pub(crate) fn timezone() -> ScalarUDF {
    ScalarUDF::new_from_impl(Zones::new(TIMEZONE))
}

/// The text of a moment as PostgreSQL writes it in a time zone.
pub(crate) fn moment_text() -> ScalarUDF {
    ScalarUDF::new_from_impl(Zones::new("corun_moment_text"))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Zones {
    name: &'static str,
    signature: Signature,
}

impl Zones {
    fn new(name: &'static str) -> Zones {
        Zones {
            name,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

fn micros(zone: Option<Arc<str>>) -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, zone)
}

/// Zones by their names, of which most columns have one.
#[derive(Default)]
struct Known(Option<(String, Zone)>);

impl Known {
    fn zone(&mut self, name: &str) -> Result<Zone> {
        if let Some((known, zone)) = &self.0
            && known == name
        {
            return Ok(*zone);
        }
        let Some((zone, _)) = Zone::of(name) else {
            let what = format!("time zone \"{name}\" not recognized");
            return Err(DataError::new("22023", what).into());
        };
        self.0 = Some((name.to_owned(), zone));
        Ok(zone)
    }
}

fn is_infinite(moment: i64) -> bool {
    matches!(moment, i64::MAX | i64::MIN)
}

/// A local time as a moment, or a moment as a local time.
fn moved(moment: i64, zone: Zone, is_local: bool) -> Option<i64> {
    if is_infinite(moment) {
        return Some(moment);
    }
    let seconds = moment.div_euclid(SECOND_US);
    match is_local {
        true => moment.checked_sub(i64::from(zone.offset_of_local(seconds)) * SECOND_US),
        false => moment.checked_add(i64::from(zone.offset_at(seconds)) * SECOND_US),
    }
}

fn shown(moment: i64, zone: Zone, is_local: bool) -> Result<String> {
    let of = match moment {
        i64::MAX => Timestamp::INFINITY,
        i64::MIN => Timestamp::NEGATIVE_INFINITY,
        finite => Timestamp::from_unix_microseconds(finite)
            .ok_or_else(|| DataError::new("22008", "timestamp out of range"))?,
    };
    let value = match is_local {
        true => Value::Timestamp(of),
        false => Value::Timestamptz(of),
    };
    let mut out = Vec::new();
    value.write(&mut out, Format::Text, &zone);
    Ok(String::from_utf8_lossy(&out).into_owned())
}

impl ScalarUDFImpl for Zones {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if self.name != TIMEZONE {
            return Ok(DataType::Utf8);
        }
        Ok(match types.get(1) {
            Some(DataType::Timestamp(_, Some(_))) => micros(None),
            _ => micros(Some(UTC.into())),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [zones, moments] = arguments.args.as_slice() else {
            return exec_err!("{} takes a time zone and a moment", self.name);
        };
        let is_local = !matches!(moments.data_type(), DataType::Timestamp(_, Some(_)));
        let rows = arguments.number_rows;
        let zones = cast(&zones.to_array(rows)?, &DataType::Utf8)?;
        let moments = moments.to_array(rows)?;
        let zone = (!is_local).then(|| UTC.into());
        let moments = cast(&moments, &micros(zone))?;
        let pairs = zones
            .as_string::<i32>()
            .iter()
            .zip(moments.as_primitive::<TimestampMicrosecondType>());
        let mut known = Known::default();
        let made: ArrayRef = if self.name == TIMEZONE {
            let mut made = TimestampMicrosecondBuilder::with_capacity(moments.len());
            for pair in pairs {
                let (Some(zone), Some(moment)) = pair else {
                    made.append_null();
                    continue;
                };
                let moved = moved(moment, known.zone(zone)?, is_local);
                made.append_value(moved.ok_or_else(|| DataError::new("22008", "timestamp out of range"))?);
            }
            let zone = is_local.then_some(UTC);
            Arc::new(made.finish().with_timezone_opt(zone))
        } else {
            let mut made = StringBuilder::new();
            for pair in pairs {
                let (Some(zone), Some(moment)) = pair else {
                    made.append_null();
                    continue;
                };
                made.append_value(shown(moment, known.zone(zone)?, is_local)?);
            }
            Arc::new(made.finish())
        };
        Ok(ColumnarValue::Array(made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_local_times() {
        let (chicago, _) = Zone::of("America/Chicago").unwrap();
        let hour = 3600 * SECOND_US;
        // 2010-01-01 02:00 UTC.
        let moment = 1_262_311_200 * SECOND_US;
        assert_eq!(moved(moment, chicago, false), Some(moment - 6 * hour));
        assert_eq!(moved(moment - 6 * hour, chicago, true), Some(moment));
        assert_eq!(moved(i64::MAX, chicago, true), Some(i64::MAX));
        assert_eq!(shown(moment, chicago, false).unwrap(), "2009-12-31 20:00:00-06");
        assert_eq!(shown(moment, chicago, true).unwrap(), "2010-01-01 02:00:00");
    }
}
