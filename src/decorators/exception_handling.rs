use super::pass;
use crate::answer::Answer;
use crate::component::Component;
use crate::config::{Direction, KeySpec, TypeSpec};
use crate::deserializer::{Deserializer, Input};
use crate::error::{Error, Result, StageName};
use crate::matcher::{Matcher, SharedMatcher};
use crate::outcome::{Failure, Outcome};
use crate::payload::Context;
use crate::status::{ErrorKind, Status};
use crate::tree::Tree;
use crate::value::Value;
use std::borrow::Cow;
use std::marker::PhantomData;

/// Turns an error of its delegate into a value that carries the error and the untouched record
/// (KIP-873, `ExceptionHandlingDeserializer`).
///
/// Takes Permanent and Exhausted errors, or what its [matcher](Self::matcher) takes; an error it
/// does not take is returned as an error, so that an outage (Temporary, unretried) is never
/// dead-lettered by accident. An error of kind [`ErrorKind::Config`] is never taken, whatever the
/// matcher: a chain that is wired wrongly must stop, not fill a dead-letter topic.
///
/// ```
/// use kafka_chain::{deserialize, deserialize_with, Error, Part, Record};
/// use kafka_chain::decorators::ChainExt;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> kafka_chain::Result<()> {
/// let chain = deserialize_with(|_| Err::<Option<u8>, _>(Error::malformed("not a number")))
///     .handle_exceptions();
/// let failure = deserialize(&chain, &Record::of_value(Some(b"x")), Part::Value).await?.unwrap_err();
/// assert_eq!(failure.record.value.as_deref(), Some(&b"x"[..]));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ExceptionHandling<D, M = Typed> {
    delegate: D,
    matcher: Option<SharedMatcher>,
    name: StageName,
    mode: PhantomData<M>,
}

impl<D> ExceptionHandling<D> {
    /// Around `delegate`, with the default matcher.
    pub const fn new(delegate: D) -> Self {
        Self::with_mode(delegate)
    }
}

impl<D> ExceptionHandling<D, Erased> {
    /// Around a delegate of a chain built from configuration: answers [`Value::Failed`].
    pub const fn erased(delegate: D) -> Self {
        Self::with_mode(delegate)
    }
}

impl<D, M> ExceptionHandling<D, M> {
    const fn with_mode(delegate: D) -> Self {
        let name = Cow::Borrowed("exception-handling");
        ExceptionHandling {
            delegate,
            matcher: None,
            name,
            mode: PhantomData,
        }
    }

    /// Takes the errors that `matcher` takes, instead of Permanent and Exhausted ones.
    #[must_use]
    pub fn matcher(mut self, matcher: impl Matcher + 'static) -> Self {
        self.matcher = Some(SharedMatcher::new(matcher));
        self
    }

    /// The same part under a label, which its stage path and its print show.
    #[must_use]
    pub fn labelled(mut self, label: impl Into<StageName>) -> Self {
        self.name = label.into();
        self
    }

    /// What it wraps.
    pub fn get_ref(&self) -> &D {
        &self.delegate
    }

    /// What it wraps, by value.
    pub fn into_inner(self) -> D {
        self.delegate
    }

    fn takes(&self, error: &Error) -> bool {
        error.kind() != ErrorKind::Config
            && match &self.matcher {
                Some(matcher) => matcher.matches(error),
                None => error.status() != Status::Temporary,
            }
    }

    #[cold]
    fn handle<T>(&self, error: Error, context: &Context<'_>) -> Result<M::Output>
    where
        M: Mode<T>,
    {
        let taken = self.takes(&error);
        let error = error.at(self.name.clone());
        if taken {
            Ok(M::failed(Failure::new(error, context)))
        } else {
            Err(error)
        }
    }
}

impl<D: Deserializer, M: Mode<D::Output>> ExceptionHandling<D, M> {
    /// Goes on after an answer that was not a ready success.
    #[inline(never)]
    fn go_on<'a>(
        &'a self,
        answer: Answer<'a, D::Output>,
        context: &'a Context<'a>,
    ) -> Answer<'a, M::Output> {
        let settle = |result| match result {
            Ok(value) => Ok(M::ok(value)),
            Err(error) => self.handle(error, context),
        };
        answer.map_result(settle)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Component, M: Send + Sync> Component for ExceptionHandling<D, M> {
    fn close(&self) -> Answer<'_, ()> {
        self.delegate.close()
    }

    fn describe(&self) -> Tree {
        Tree::of("exception-handling", [self.delegate.describe()])
            .labelled((self.name != "exception-handling").then(|| self.name.to_string()))
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Deserializer, M: Mode<D::Output>> Deserializer for ExceptionHandling<D, M> {
    type Output = M::Output;

    #[inline]
    fn deserialize<'a>(&'a self, input: Input<'a>) -> Answer<'a, M::Output> {
        let context = input.context;
        M::pass(&self.delegate, input, |answer| self.go_on(answer, context))
    }
}

/// How exception handling says what happened: as an [`Outcome`], or within a [`Value`].
pub trait Mode<T>: Send + Sync {
    /// What it answers.
    type Output: Send;
    /// The delegate's value.
    fn ok(value: T) -> Self::Output;
    /// The failure instead of a value.
    fn failed(failure: Box<Failure>) -> Self::Output;

    /// Answers what `delegate` answers at once and well; anything else goes on with `otherwise`.
    #[inline]
    fn pass<'a>(
        delegate: &'a impl Deserializer<Output = T>,
        input: Input<'a>,
        otherwise: impl FnOnce(Answer<'a, T>) -> Answer<'a, Self::Output>,
    ) -> Answer<'a, Self::Output> {
        match delegate.deserialize(input) {
            Answer::Ready(Ok(value)) => Answer::Ready(Ok(Self::ok(value))),
            answer => otherwise(answer),
        }
    }
}

/// Answers an [`Outcome`] of what the delegate yields.
#[derive(Clone, Copy, Debug)]
pub struct Typed;

impl<T: Send> Mode<T> for Typed {
    type Output = Outcome<T>;

    #[inline]
    fn ok(value: T) -> Outcome<T> {
        Ok(value)
    }

    fn failed(failure: Box<Failure>) -> Outcome<T> {
        Err(failure)
    }
}

/// Answers a [`Value`]; the failure of an inner exception handling passes through, so the result is
/// flat.
#[derive(Clone, Copy, Debug)]
pub struct Erased;

impl Mode<Value> for Erased {
    type Output = Value;

    #[inline]
    fn ok(value: Value) -> Value {
        value
    }

    fn failed(failure: Box<Failure>) -> Value {
        Value::Failed(failure)
    }

    #[inline]
    fn pass<'a>(
        delegate: &'a impl Deserializer<Output = Value>,
        input: Input<'a>,
        otherwise: impl FnOnce(Answer<'a, Value>) -> Answer<'a, Value>,
    ) -> Answer<'a, Value> {
        pass(delegate, input, otherwise)
    }
}

const KEYS: &[KeySpec] = &[
    KeySpec::part("delegate", "What it wraps."),
    KeySpec::new(
        "matcher",
        "matcher",
        "Which errors it takes; without it Permanent and Exhausted ones. Never kind `config`.",
    ),
];

/// The type as properties name it.
pub(crate) fn spec() -> TypeSpec {
    TypeSpec::new("exception-handling")
        .doc("Turns an error of its delegate into a value that carries the untouched record.")
        .class(
            "org.apache.kafka.common.serialization.ExceptionHandlingDeserializer",
            Some(Direction::Deserializer),
        )
        .keys(KEYS)
        .reads(|node| {
            let (matcher, delegate) = (node.matcher("matcher"), node.delegate("delegate"));
            let (matcher, delegate) = (matcher?, delegate?);
            let mut part = ExceptionHandling::erased(delegate.stage);
            if let Some(matcher) = matcher {
                part = part.matcher(matcher);
            }
            if let Some(label) = node.label() {
                part = part.labelled(label.to_owned());
            }
            Some(node.built_value(Box::new(part), delegate.yields))
        })
}
