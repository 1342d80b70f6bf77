//! How the values of `serdes.json` are written.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// How a value of a type is written in the vectors.
pub(super) trait Shown: Sized {
    fn show(&self) -> Json;
    fn read(value: &Json) -> Result<Self, String>;
}

macro_rules! shown_integers {
    ($($type:ty),*) => {$(
        impl Shown for $type {
            fn show(&self) -> Json {
                json!(self)
            }

            fn read(value: &Json) -> Result<Self, String> {
                let number = value.as_i64().ok_or_else(|| format!("{value} is not a number"))?;
                <$type>::try_from(number).map_err(|error| error.to_string())
            }
        }
    )*};
}

shown_integers!(i16, i32);

macro_rules! shown_floats {
    ($($type:ty as $bits:ty),*) => {$(
        impl Shown for $type {
            fn show(&self) -> Json {
                json!({ "bits_hex": hex(&self.to_bits().to_be_bytes()) })
            }

            fn read(value: &Json) -> Result<Self, String> {
                <$bits>::from_str_radix(text(&value["bits_hex"])?, 16)
                    .map(<$type>::from_bits)
                    .map_err(|error| error.to_string())
            }
        }
    )*};
}

shown_floats!(f32 as u32, f64 as u64);

macro_rules! shown_texts {
    ($($type:ty),*) => {$(
        impl Shown for $type {
            fn show(&self) -> Json {
                json!(self.to_string())
            }

            fn read(value: &Json) -> Result<Self, String> {
                text(value)?.parse().map_err(|_| format!("{value} is not such a value"))
            }
        }
    )*};
}

shown_texts!(i64, String, uuid::Uuid);

impl Shown for bool {
    fn show(&self) -> Json {
        json!(self)
    }

    fn read(value: &Json) -> Result<Self, String> {
        value
            .as_bool()
            .ok_or_else(|| format!("{value} is not a boolean"))
    }
}

impl Shown for Bytes {
    fn show(&self) -> Json {
        json!({ "hex": hex(self) })
    }

    fn read(value: &Json) -> Result<Self, String> {
        Ok(unhex(&value["hex"])?
            .ok_or_else(|| format!("{value} is not bytes"))?
            .into())
    }
}

impl Shown for std::convert::Infallible {
    fn show(&self) -> Json {
        match *self {}
    }

    fn read(value: &Json) -> Result<Self, String> {
        Err(format!("{value} where nothing but null can be"))
    }
}

impl<T: Shown> Shown for Option<T> {
    fn show(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::show)
    }

    fn read(value: &Json) -> Result<Self, String> {
        if value.is_null() {
            Ok(None)
        } else {
            T::read(value).map(Some)
        }
    }
}

impl<T: Shown> Shown for Vec<T> {
    fn show(&self) -> Json {
        self.iter().map(T::show).collect()
    }

    fn read(value: &Json) -> Result<Self, String> {
        let entries = value
            .as_array()
            .ok_or_else(|| format!("{value} is not a list"))?;
        entries.iter().map(T::read).collect()
    }
}

pub(super) fn text(value: &Json) -> Result<&str, String> {
    value
        .as_str()
        .ok_or_else(|| format!("{value} is not a string"))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

pub(super) fn unhex(value: &Json) -> Result<Option<Vec<u8>>, String> {
    let Some(hex) = value.as_str() else {
        return Ok(None);
    };
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes: Option<Vec<u8>> = hex.as_bytes().chunks(2).map(byte).collect();
    bytes.map(Some).ok_or_else(|| format!("{hex} is not hex"))
}
