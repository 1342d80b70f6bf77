//! What a user writes: a handler of values, and what its errors say.

use crate::dead_letter::Retried;
use crate::error::{Classify, Error, Result};
use crate::record::{OutgoingRecord, Record};
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a handler produces while it handles one record.
///
/// They are written once the handler has answered `Ok`, in the order in which they were sent; those of
/// an attempt that failed are dropped.
#[derive(Debug, Default)]
pub struct Outputs(Mutex<Vec<OutgoingRecord>>);

impl Outputs {
    /// None yet.
    pub const fn new() -> Self {
        Outputs(Mutex::new(Vec::new()))
    }

    /// One more, behind the others.
    pub fn push(&self, record: OutgoingRecord) {
        self.lock().push(record);
    }

    /// Adds many, in order.
    pub fn extend(&self, records: Vec<OutgoingRecord>) {
        if !records.is_empty() {
            self.lock().extend(records);
        }
    }

    /// All of them, in order.
    pub fn into_records(self) -> Vec<OutgoingRecord> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<OutgoingRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a handler knows about the record its value was read from, and where it sends what it makes
/// of it.
#[derive(Clone, Copy)]
pub struct HandlerContext<'a> {
    record: &'a Record<'a>,
    attempt: u32,
    outputs: &'a Outputs,
}

impl<'a> HandlerContext<'a> {
    /// The context of attempt number `attempt` (1 is the first) on `record`.
    pub fn new(record: &'a Record<'a>, attempt: u32, outputs: &'a Outputs) -> Self {
        HandlerContext {
            record,
            attempt,
            outputs,
        }
    }

    /// Where the record was consumed first and which delivery this is, if it comes again through a
    /// topic of retries; `None` on the first delivery.
    pub fn retried(&self) -> Option<Retried> {
        Retried::of(self.record)
    }

    /// Has `record` written when the handler answers `Ok`. The consumed record is finished once all
    /// its outputs are acknowledged; where they cannot be written its partition holds and tries them
    /// again, without calling the handler. One that its topic never takes, for it is too large, fails
    /// the consumed record. With `processing.guarantee=exactly_once` they become
    /// visible together with the offset of the consumed record.
    ///
    /// They stay in memory until then.
    pub fn send(&self, record: OutgoingRecord) {
        self.outputs.push(record);
    }

    /// [`send`](Self::send)s many, in order.
    pub fn send_all(&self, records: Vec<OutgoingRecord>) {
        self.outputs.extend(records);
    }

    /// The record as consumed.
    pub fn record(&self) -> &'a Record<'a> {
        self.record
    }

    /// Which call for this record it is in this process, 1 being the first.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl fmt::Debug for HandlerContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerContext")
            .field("record", self.record)
            .field("attempt", &self.attempt)
            .finish()
    }
}

/// Handles one value.
///
/// The effects of a handler come at least once: it may be called again with the same record after a
/// failure, a crash or a rebalance, never twice at once. A value may also be an
/// [`Outcome`](crate::Outcome), for those who want to see what could not be read.
///
/// The future may be dropped at any await: when it takes longer than the handler's timeout, when the
/// partition is lost, or when stopping takes longer than its limit.
///
/// ```
/// use kafka_chain::pipeline::{Handler, HandlerContext};
/// use kafka_chain::Error;
///
/// struct Ship;
///
/// impl Handler<String> for Ship {
///     type Error = Error;
///
///     async fn handle(&self, order: String, context: &HandlerContext<'_>) -> Result<(), Error> {
///         if order.is_empty() {
///             return Err(Error::schema("an order is not empty"));
///         }
///         let _ = context.record().offset;
///         Ok(())
///     }
/// }
/// ```
pub trait Handler<T>: Send + Sync + 'static {
    /// What it fails with; says Temporary or Permanent, or nothing.
    type Error: HandlerError;

    /// Handles `value`.
    ///
    /// # Errors
    /// Temporary ones are tried again, Permanent ones are judged at once.
    fn handle(
        &self,
        value: T,
        context: &HandlerContext<'_>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether dropping the future ends the work. If not, no time limit ends a call: its result is
    /// awaited, however late.
    fn is_cancellable(&self) -> bool {
        true
    }
}

/// Handles many values in one call. Records are handed over in the order of their partition.
pub trait BatchHandler<T>: Send + Sync + 'static {
    /// What an item fails with.
    type Error: HandlerError;

    /// Handles `values`; `contexts` are theirs, in the same order. Answers one result an item, in the
    /// same order too: those that failed with a Temporary error come again in a smaller batch. Any
    /// other number of results stops the pipeline.
    fn handle(
        &self,
        values: Vec<T>,
        contexts: &[HandlerContext<'_>],
    ) -> impl Future<Output = Vec<Result<(), Self::Error>>> + Send;
}

/// What a handler may fail with.
///
/// An [`Error`] and a type of yours that implements [`Classify`] say whether trying again helps. Any
/// other says nothing and is Temporary: a boxed error, an I/O error, a text. An [`Error`] in a box
/// still says it; a [`Classify`] type in a box does not.
pub trait HandlerError: Send + 'static {
    /// As the crate's error.
    fn into_error(self) -> Error;
}

impl HandlerError for Error {
    fn into_error(self) -> Error {
        self
    }
}

impl<E: Classify> HandlerError for E {
    fn into_error(self) -> Error {
        self.into()
    }
}

impl HandlerError for Box<dyn std::error::Error + Send + Sync> {
    fn into_error(self) -> Error {
        match self.downcast::<Error>() {
            Ok(error) => *error,
            Err(silent) => Error::temporary(silent),
        }
    }
}

impl HandlerError for std::io::Error {
    fn into_error(self) -> Error {
        Error::temporary(self)
    }
}

impl HandlerError for String {
    fn into_error(self) -> Error {
        Error::temporary(self)
    }
}

impl HandlerError for &'static str {
    fn into_error(self) -> Error {
        Error::temporary(self)
    }
}

impl HandlerError for Infallible {
    fn into_error(self) -> Error {
        match self {}
    }
}

/// An `async fn` of a value and its context, or a closure like it.
pub trait HandlerFn<'a, T>: Fn(T, &'a HandlerContext<'a>) -> Self::Future {
    /// What it fails with.
    type Error: HandlerError;
    /// What it answers.
    type Future: Future<Output = Result<(), Self::Error>> + Send + 'a;
}

impl<'a, T, F, R, E> HandlerFn<'a, T> for F
where
    F: Fn(T, &'a HandlerContext<'a>) -> R,
    R: Future<Output = Result<(), E>> + Send + 'a,
    E: HandlerError,
{
    type Error = E;
    type Future = R;
}

/// The handler of [`handle_with`].
pub struct HandleWith<T, F, E> {
    call: F,
    types: PhantomData<fn(T) -> E>,
}

/// A handler of a function: an `async fn(T, &HandlerContext<'_>) -> Result<(), E>`, or a closure whose
/// future does not borrow the context. A closure names the types of both its arguments.
///
/// `E` is an [`Error`], a type of one's own that says by [`Classify`] which kind and status it is, or one
/// that says nothing and is Temporary: `Box<dyn Error + Send + Sync>`, `io::Error`, a text. An `E` of
/// another crate is boxed by `?`.
///
/// ```
/// use kafka_chain::pipeline::{HandlerContext, handle_with};
/// use kafka_chain::{Classify, ErrorKind, OutgoingRecord, Status};
///
/// #[derive(Debug, thiserror::Error)]
/// enum ShopError {
///     #[error("there is no item {0}")]
///     NoSuchItem(u64),
///     #[error("the warehouse does not answer")]
///     Warehouse,
/// }
///
/// impl Classify for ShopError {
///     fn kind(&self) -> ErrorKind {
///         match self {
///             ShopError::NoSuchItem(_) => ErrorKind::Schema,
///             ShopError::Warehouse => ErrorKind::Unavailable,
///         }
///     }
///
///     fn status(&self) -> Status {
///         match self {
///             ShopError::NoSuchItem(_) => Status::Permanent,
///             ShopError::Warehouse => Status::Temporary,
///         }
///     }
/// }
///
/// async fn bill(order: String, context: &HandlerContext<'_>) -> Result<(), ShopError> {
///     let id = order.parse().map_err(|_| ShopError::NoSuchItem(0))?;
///     if id > 100 {
///         return Err(ShopError::NoSuchItem(id));
///     }
///     // Written, and acknowledged, before the offset is committed.
///     context.send(OutgoingRecord::to("bills").key_of(context.record()).value(order));
///     Ok(())
/// }
/// let handler = handle_with(bill);
/// # drop(handler);
/// ```
pub fn handle_with<T, F, E>(call: F) -> HandleWith<T, F, E>
where
    F: for<'a> HandlerFn<'a, T, Error = E> + Send + Sync + 'static,
    E: HandlerError,
{
    HandleWith {
        call,
        types: PhantomData,
    }
}

impl<T, F, E> Handler<T> for HandleWith<T, F, E>
where
    T: Send + 'static,
    F: for<'a> HandlerFn<'a, T, Error = E> + Send + Sync + 'static,
    E: HandlerError,
{
    type Error = E;

    fn handle(
        &self,
        value: T,
        context: &HandlerContext<'_>,
    ) -> impl Future<Output = Result<(), E>> + Send {
        (self.call)(value, context)
    }
}

impl<T, F, E> fmt::Debug for HandleWith<T, F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandleWith")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{ErrorKind, Status};

    async fn named(_: String, _: &HandlerContext<'_>) -> Result<(), Error> {
        Err(Error::schema("no"))
    }

    async fn called<T>(handler: impl Handler<T>, value: T) -> Error {
        let record = Record::of_value(None);
        let outputs = Outputs::new();
        let context = HandlerContext::new(&record, 1, &outputs);
        let answer = handler.handle(value, &context).await;
        answer.unwrap_err().into_error()
    }

    #[tokio::test]
    async fn a_named_function_and_a_closure_are_handlers() {
        let error = called(handle_with(named), String::new()).await;
        assert_eq!(error.status(), Status::Permanent);
        let error = called(
            handle_with(|value: u32, context: &HandlerContext<'_>| {
                let attempt = context.attempt();
                async move { Err(format!("{value} {attempt}")) }
            }),
            7,
        )
        .await;
        assert_eq!(
            (error.message(), error.status()),
            ("7 1", Status::Temporary)
        );
    }

    #[test]
    fn an_error_that_says_nothing_is_temporary() {
        #[derive(Debug, thiserror::Error)]
        #[error("gone")]
        struct Gone;
        impl Classify for Gone {
            fn status(&self) -> Status {
                Status::Permanent
            }
        }
        type Boxed = Box<dyn std::error::Error + Send + Sync>;
        let says = |error: Error| (error.status(), error.kind());
        let silent = (Status::Temporary, ErrorKind::Unavailable);
        assert_eq!(says("x".into_error()), silent);
        assert_eq!(says(String::from("x").into_error()), silent);
        assert_eq!(says(std::io::Error::other("x").into_error()), silent);
        assert_eq!(says(Boxed::from("x").into_error()), silent);
        let permanent = Status::Permanent;
        assert_eq!(says(Gone.into_error()), (permanent, ErrorKind::Other));
        let boxed = Boxed::from(Error::malformed("x"));
        assert_eq!(says(boxed.into_error()), (permanent, ErrorKind::Malformed));
    }
}
