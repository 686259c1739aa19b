//! Cells on the way to PostgreSQL and back.

use std::error::Error as StdError;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::value::{ColumnType, Value};

type Boxed = Box<dyn StdError + Sync + Send>;

/// 2000-01-01T00:00:00Z, from which PostgreSQL counts, in milliseconds since 1970.
const EPOCH_MS: i64 = 946_684_800_000;

/// The type of a column in the binary form of COPY.
pub(super) fn wire_type(column_type: ColumnType) -> Type {
    match column_type {
        ColumnType::Text => Type::TEXT,
        ColumnType::Int => Type::INT8,
        ColumnType::Float => Type::FLOAT8,
        ColumnType::Bool => Type::BOOL,
        ColumnType::Time => Type::TIMESTAMPTZ,
        ColumnType::Json => Type::JSON,
    }
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        match (self, ty) {
            (Self::Null, _) => return Ok(IsNull::Yes),
            (Self::Text(text) | Self::Json(text), &Type::TEXT | &Type::VARCHAR | &Type::JSON) => {
                out.put_slice(text.as_bytes());
            }
            (Self::Int(number), &Type::INT8) => out.put_i64(*number),
            (Self::Int(number), &Type::INT4) => out.put_i32(i32::try_from(*number)?),
            (Self::Float(number), &Type::FLOAT8) => out.put_f64(*number),
            (Self::Bool(truth), &Type::BOOL) => out.put_u8(u8::from(*truth)),
            (Self::Time(millis), &Type::TIMESTAMPTZ) => {
                let micros = millis
                    .checked_sub(EPOCH_MS)
                    .and_then(|ms| ms.checked_mul(1000));
                out.put_i64(micros.ok_or("a moment is out of range")?);
            }
            _ => return Err(format!("a cell does not fit the type `{ty}`").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Boxed> {
        Ok(match *ty {
            Type::INT8 => Self::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Self::Int(i64::from(i32::from_sql(ty, raw)?)),
            Type::FLOAT8 => Self::Float(f64::from_sql(ty, raw)?),
            Type::BOOL => Self::Bool(bool::from_sql(ty, raw)?),
            Type::TIMESTAMPTZ => {
                let micros = i64::from_sql(&Type::INT8, raw)?;
                Self::Time(micros.div_euclid(1000).saturating_add(EPOCH_MS))
            }
            Type::JSON => Self::Json(std::str::from_utf8(raw)?.to_owned()),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::UNKNOWN => {
                Self::Text(std::str::from_utf8(raw)?.to_owned())
            }
            _ => return Err(format!("the type `{ty}` is not one that a cell can have").into()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Boxed> {
        Ok(Self::Null)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
