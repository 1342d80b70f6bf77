//! The same chain by hand, typed and erased: `exception-handling(retry(pipe(FROM, TO)))`.

use bytes::Bytes;
use kafka_chain::backoff::Fixed;
use kafka_chain::codecs::bytes::bytes;
use kafka_chain::codecs::json::{Json, json};
use kafka_chain::config::{Chain, Registry};
use kafka_chain::decorators::ChainExt;
use kafka_chain::properties::Properties;
use kafka_chain::{
    Answer, Component, Context, Deserializer, Encoded, Error, Failure, Input, Outcome, Part,
    Payload, Result, Serializer, Stage, Status,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the JSON delegate reads: five heap allocations of its own.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) order: u64,
    pub(crate) customer: String,
    pub(crate) total: f64,
    pub(crate) items: Vec<u32>,
    pub(crate) currency: String,
    pub(crate) note: String,
}

/// The bytes that stand before the document, as a schema registry's framing does.
const FRAME: usize = 5;

/// A framed document of 106 bytes.
pub(crate) const FRAMED_ORDER: &[u8] = b"\0\0\0\0\x07{\"order\":123456,\"customer\":\"c-77812\",\
\"total\":129.95,\"items\":[17,4],\"currency\":\"EUR\",\"note\":\"at the door\"}";

/// The bytes behind the frame: a reference count of shared bytes, a copy of borrowed ones.
#[inline]
pub(crate) fn unframe(payload: Payload<'_>) -> Result<Option<Bytes>> {
    let too_short = || Error::malformed("the frame is cut short");
    match payload {
        Payload::Null => Ok(None),
        Payload::Borrowed(framed) => {
            let bytes = framed.get(FRAME..).ok_or_else(too_short)?;
            Ok(Some(Bytes::copy_from_slice(bytes)))
        }
        Payload::Shared(framed) if framed.len() >= FRAME => Ok(Some(framed.slice(FRAME..))),
        Payload::Shared(_) => Err(too_short()),
    }
}

static NUMBERS: [[u8; 8]; 4] = [[0; 8], [1; 8], [2; 8], [3; 8]];

/// Bytes of a table, by the first byte of the payload: the cheapest `from` there is.
#[inline]
pub(crate) fn look_up(payload: Payload<'_>) -> Result<Option<Bytes>> {
    let Some(bytes) = payload.as_bytes() else {
        return Ok(None);
    };
    let found = bytes.first().and_then(|&at| NUMBERS.get(usize::from(at)));
    match found {
        Some(number) => Ok(Some(Bytes::from_static(number))),
        None => Err(Error::malformed("not in the table")),
    }
}

/// Eight bytes as a number: the trivial delegate.
#[inline]
pub(crate) fn number(payload: Payload<'_>) -> Result<Option<i64>> {
    let Some(bytes) = payload.as_bytes() else {
        return Ok(None);
    };
    match bytes.first_chunk() {
        Some(bytes) => Ok(Some(i64::from_be_bytes(*bytes))),
        None => Err(Error::malformed("a number has eight bytes")),
    }
}

macro_rules! leaf {
    ($name:ident, $function:ident, $output:ty) => {
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name;

        impl Component for $name {}

        impl Deserializer for $name {
            type Output = Option<$output>;

            #[inline]
            fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, Option<$output>> {
                Answer::Ready($function(input.payload))
            }
        }
    };
}

leaf!(Unframe, unframe, Bytes);
leaf!(LookUp, look_up, Bytes);
leaf!(Number, number, i64);

/// The decorators' logic around `attempt` in one function.
#[inline]
pub(crate) fn by_hand<T>(
    context: &Context<'_>,
    payload: Payload<'_>,
    attempt: impl Fn(Payload<'_>) -> Result<T>,
) -> Result<Outcome<T>> {
    let mut attempts = 1;
    loop {
        match attempt(payload.clone()) {
            Ok(value) => return Ok(Ok(value)),
            Err(error) => {
                if let Some(failure) = fail_or_wait(error, attempts, context) {
                    return Ok(Err(failure));
                }
            }
        }
        attempts += 1;
    }
}

#[cold]
fn fail_or_wait(error: Error, attempts: u32, context: &Context<'_>) -> Option<Box<Failure>> {
    if error.status() == Status::Temporary && attempts < 3 {
        std::thread::sleep(Duration::from_secs(1));
        return None;
    }
    Some(Failure::new(error, context))
}

pub(crate) fn json_by_hand<T: DeserializeOwned>(
    context: &Context<'_>,
    payload: Payload<'_>,
) -> Result<Outcome<Option<T>>> {
    by_hand(context, payload, |payload| {
        let Some(bytes) = unframe(payload)? else {
            return Ok(None);
        };
        // As the codec does, which spares serde_json the look at each string's bytes.
        let text = std::str::from_utf8(&bytes).map_err(|_| Error::malformed("not UTF-8"))?;
        let read = serde_json::from_str(text);
        read.map(Some)
            .map_err(|_| Error::malformed("not a JSON document"))
    })
}

/// The two leaves of the trivial chain and nothing around them.
#[inline]
pub(crate) fn number_bare(_: &Context<'_>, payload: Payload<'_>) -> Result<Option<i64>> {
    number(Payload::from(look_up(payload)?))
}

pub(crate) fn typed<T: Send>(
    from: impl Deserializer<Output = Option<Bytes>>,
    to: impl Deserializer<Output = T>,
) -> impl Deserializer<Output = Outcome<T>> {
    from.pipe(to).retry(Fixed::default()).handle_exceptions()
}

pub(crate) fn json_typed() -> impl Deserializer<Output = Outcome<Option<serde_json::Value>>> {
    typed(Stage::new("unframe", Unframe), json())
}

pub(crate) fn order_typed() -> impl Deserializer<Output = Outcome<Option<Order>>> {
    typed(Stage::new("unframe", Unframe), json::<Order>())
}

pub(crate) fn number_typed() -> impl Deserializer<Output = Outcome<Option<i64>>> {
    typed(Stage::new("look-up", LookUp), Stage::new("number", Number))
}

/// The chain that properties build.
fn erased<T: std::any::Any + Send>(chain: &str) -> Chain<T> {
    let registry = Registry::builtin()
        .with_deserializer("unframe", |_| Some(Unframe))
        .with_deserializer("look-up", |_| Some(LookUp))
        .with_deserializer("number", |_| Some(Number))
        .with_deserializer("order", |_| Some(Json::<Order>::new()));
    let properties = Properties::from_iter([("value.deserializer", chain)]);
    let configuration = registry.configure(&properties).unwrap();
    configuration.deserializer(Part::Value).unwrap()
}

/// The built-in `json`, which travels as [`kafka_chain::Value::Json`].
pub(crate) fn json_erased() -> Chain<serde_json::Value> {
    erased("exception-handling(retry(pipe(unframe, json)))")
}

/// A registered type, which travels in a box of its own.
pub(crate) fn order_erased() -> Chain<Order> {
    erased("exception-handling(retry(pipe(unframe, order)))")
}

pub(crate) fn number_erased() -> Chain<i64> {
    erased("exception-handling(retry(pipe(look-up, number)))")
}

pub(crate) fn order_writer() -> impl Serializer<Input = Order> {
    json::<Order>().pipe(bytes()).retry(Fixed::default())
}

pub(crate) fn order_written_by_hand(order: Option<&Order>) -> Result<Encoded> {
    let Some(order) = order else {
        return Ok(Encoded::default());
    };
    match serde_json::to_vec(order) {
        Ok(document) => Ok(Encoded::from(document)),
        Err(_) => Err(Error::schema("the order has no form in JSON")),
    }
}

/// The answer of a chain that never waits.
#[inline(always)]
pub(crate) fn read<D: Deserializer>(
    chain: &D,
    context: &Context<'_>,
    payload: Payload<'_>,
) -> D::Output {
    match chain.deserialize(Input { payload, context }) {
        Answer::Ready(Ok(value)) => value,
        _ => refused(),
    }
}

/// The same of what was written by hand.
#[inline(always)]
pub(crate) fn taken<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(_) => refused(),
    }
}

#[cold]
pub(crate) fn refused() -> ! {
    panic!("the record is a good one")
}
