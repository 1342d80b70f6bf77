//! The ONE list of the names that properties may use.

use crate::backoff;
use crate::codecs;
use crate::config::{Direction, OwnKey, Registry, TypeSpec};
use crate::decorators;
use crate::matcher;
use crate::pipeline;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;

/// The keys of the consumer and its dead letters.
const OWN_KEYS: &[OwnKey] = &[
    OwnKey {
        name: "dead.letter.producer.",
        default: None,
        doc: "Settings of the producer of dead letters, beside those it inherits.",
        is_client: true,
    },
    OwnKey {
        name: "delay.producer.",
        default: None,
        doc: "Settings of the producer of delayed records, beside those it inherits.",
        is_client: true,
    },
];

impl Registry {
    /// Every part of this crate under its kebab name, its Java class and KIP-873's name for it.
    pub fn builtin() -> Self {
        let registry = Registry::empty()
            .with_type(decorators::exception_handling_spec())
            .with_type(decorators::retry_spec())
            .with_type(decorators::pipe_spec())
            .with_type(codecs::bytes::spec())
            .with_type(codecs::string::spec())
            .with_type(codecs::list::spec())
            .with_type(codecs::json::spec())
            .with_backoff(backoff::exponential_spec())
            .with_backoff(backoff::kafka_spec())
            .with_backoff(backoff::fixed_spec())
            .with_backoff(backoff::fibonacci_spec())
            .with_backoff(backoff::list_spec())
            .with_backoff(backoff::none_spec())
            .with_section(pipeline::section())
            .with_matcher(
                "org.apache.kafka.common.serialization.ExceptionHandlingDeserializer.MatchAllExceptions",
                matcher::all(),
            );
        let registry = codecs::primitives::specs()
            .into_iter()
            .fold(registry, Registry::with_type);
        #[cfg(feature = "cloudevents")]
        let registry = registry.with_type(codecs::cloudevents::spec());
        #[cfg(feature = "encryption")]
        let registry = registry.with_type(codecs::encryption::spec());
        #[cfg(feature = "kafka")]
        let registry = registry.with_section(crate::forwarder::section());
        #[cfg(all(feature = "kafka", feature = "embedded"))]
        let registry = registry.with_section(crate::scheduler::section());
        #[cfg(feature = "kafka")]
        let registry = registry.with_client_keys(crate::transport::kafka::KafkaKeys);
        OWN_KEYS
            .iter()
            .copied()
            .fold(registry, Registry::with_own_key)
    }

    /// Adds a type that travels as JSON under a Java class name or a name of one's own, in both
    /// directions: `with_json::<Order>("com.example.OrderDeserializer")`. A class that ends in
    /// `Deserializer` names its `Serializer` twin too.
    #[must_use]
    pub fn with_json<T>(self, name: &str) -> Self
    where
        T: Serialize + DeserializeOwned + Any + Send + Sync,
    {
        let mut spec = self.user_type(name, Direction::Deserializer);
        if let Some(stem) = name
            .strip_suffix("Deserializer")
            .filter(|_| name.contains('.'))
        {
            spec = spec.class(format!("{stem}Serializer"), Some(Direction::Serializer));
        }
        let spec: TypeSpec = spec
            .reads(|node| Some(node.built(codecs::json::Json::<T>::new())))
            .writes(|node| Some(node.built_writer(codecs::json::Json::<T>::new())));
        self.with_type(spec)
    }
}
