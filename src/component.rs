//! What every part of a chain has in common, in both directions.

use crate::answer::Answer;
use crate::tree::Tree;
use std::sync::Arc;

/// A part of a chain: it can be closed, and it can say what it is.
///
/// Both have defaults, so a part of your own needs only `impl Component for MyPart {}`. A part that
/// wraps another forwards both; `#[deny(clippy::missing_trait_methods)]` on the impl proves it.
pub trait Component: Send + Sync {
    /// Lets go of what the part holds (connections, threads).
    ///
    /// Idempotent; called once by the owner of the chain, after the last answer. A part of two
    /// halves closes both even if one fails.
    fn close(&self) -> Answer<'_, ()> {
        Answer::ok(())
    }

    /// The part and its delegates, as the chain prints itself: `retry(pipe(aes-gcm, json))`.
    ///
    /// Without an implementation it is `<TypeName>`.
    fn describe(&self) -> Tree {
        Tree::opaque(std::any::type_name::<Self>())
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        #[deny(clippy::missing_trait_methods)]
        impl<C: Component + ?Sized> Component for $pointer {
            fn close(&self) -> Answer<'_, ()> {
                (**self).close()
            }

            fn describe(&self) -> Tree {
                (**self).describe()
            }
        }
    )*};
}

forward!(Box<C>, Arc<C>, &C);
