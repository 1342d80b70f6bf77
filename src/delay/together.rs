//! Many sends at once.

use crate::answer::BoxFuture;
use std::task::Poll;

/// Futures that were started in order.
pub(super) struct Together<'a, T> {
    futures: Vec<BoxFuture<'a, T>>,
    answers: Vec<Option<T>>,
}

impl<'a, T> Together<'a, T> {
    /// Starts each future before any is waited for.
    pub(super) async fn start(mut futures: Vec<BoxFuture<'a, T>>) -> Self {
        let mut answers: Vec<Option<T>> = Vec::with_capacity(futures.len());
        std::future::poll_fn(|cx| {
            for future in &mut futures {
                answers.push(match future.as_mut().poll(cx) {
                    Poll::Ready(answer) => Some(answer),
                    Poll::Pending => None,
                });
            }
            Poll::Ready(())
        })
        .await;
        Together { futures, answers }
    }

    /// All answers, in order. They are awaited in turn, so that each future is polled about twice
    /// however many there are.
    pub(super) async fn finish(self) -> Vec<T> {
        let mut all = Vec::with_capacity(self.futures.len());
        for (future, answer) in self.futures.into_iter().zip(self.answers) {
            all.push(match answer {
                Some(answer) => answer,
                None => future.await,
            });
        }
        all
    }
}

/// Starts all and waits for all.
pub(super) async fn all<T>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    Together::start(futures).await.finish().await
}
