//! The token of etcd's authentication: one token for all requests.
//!
//! - If many requests need a token, one of them asks for it. The others wait for its result, and
//!   share its failure if they would ask the same member.
//! - A token is dropped only if a request was refused with exactly that token. A late refusal of an
//!   older token does not count.

use parking_lot::RwLock;
use tokio::sync::Mutex;
use tonic::metadata::{Ascii, MetadataValue};

use super::failure::Failure;

/// The current token; see the module documentation.
#[derive(Default)]
pub(super) struct Tokens {
    known: RwLock<Known>,
    /// Lock held by the request that asks for a token.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Known {
    /// Number of finished attempts to get a token.
    asked: u64,
    token: Option<Token>,
    /// Member and error of the last attempt, if it failed.
    failure: Option<(usize, Failure)>,
}

/// A token and the number of the attempt that got it.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) value: MetadataValue<Ascii>,
    generation: u64,
}

impl Tokens {
    /// Returns the current token, or runs `ask` to get one from a member.
    pub(super) async fn get(
        &self,
        member: usize,
        ask: impl Future<Output = Result<MetadataValue<Ascii>, Failure>>,
    ) -> Result<Token, Failure> {
        let (before, token) = self.with(|known| (known.asked, known.token.clone()));
        if let Some(token) = token {
            return Ok(token);
        }
        // If this future is dropped, the lock is released, and another caller asks.
        let _turn = self.turn.lock().await;
        let answered = self.with(|known| {
            if let Some(token) = &known.token {
                return Some(Ok(token.clone()));
            }
            let failure = known.failure.as_ref();
            let same = failure.filter(|(of, _)| *of == member && known.asked != before);
            same.map(|(_, failure)| Err(failure.clone()))
        });
        if let Some(answered) = answered {
            return answered;
        }
        let answer = ask.await;
        let mut known = self.known.write();
        known.asked += 1;
        match answer {
            Ok(value) => {
                let generation = known.asked;
                let token = Token { value, generation };
                known.token = Some(token.clone());
                known.failure = None;
                Ok(token)
            }
            Err(failure) => {
                known.failure = Some((member, failure.clone()));
                Err(failure)
            }
        }
    }

    /// Drops a token that a request was refused with. The next request then asks for a new one,
    /// unless another request already did.
    pub(super) fn give_up(&self, token: &Token) {
        let mut known = self.known.write();
        let is_it = |current: &mut Token| current.generation == token.generation;
        known.token.take_if(is_it);
    }

    fn with<T>(&self, read: impl FnOnce(&Known) -> T) -> T {
        read(&self.known.read())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::pin;

    use futures::future::join_all;
    use futures::poll;
    use tokio::sync::Semaphore;
    use tonic::Status;

    use super::*;

    /// A test member whose answers are counted and released one by one.
    struct Member {
        asked: Cell<u32>,
        answers: Semaphore,
        good: Cell<bool>,
    }

    impl Member {
        fn new(answers: usize) -> Self {
            Self {
                asked: Cell::new(0),
                answers: Semaphore::new(answers),
                good: Cell::new(true),
            }
        }

        async fn ask(&self) -> Result<MetadataValue<Ascii>, Failure> {
            self.asked.set(self.asked.get() + 1);
            self.answers.acquire().await.unwrap().forget();
            if self.good.get() {
                return Ok(MetadataValue::from(self.asked.get()));
            }
            Err(Failure::new("etcd", &Status::unavailable("away")))
        }
    }

    fn number(token: &Result<Token, Failure>) -> Option<&str> {
        token.as_ref().ok()?.value.to_str().ok()
    }

    #[tokio::test]
    async fn many_requests_ask_once() {
        let (tokens, member) = (Tokens::default(), Member::new(0));
        let mut all = pin!(join_all((0..200).map(|_| tokens.get(0, member.ask()))));
        assert!(poll!(all.as_mut()).is_pending());
        member.answers.add_permits(200);
        for token in all.await {
            assert_eq!(number(&token), Some("1"));
        }
        assert_eq!(member.asked.get(), 1);
    }

    #[tokio::test]
    async fn a_late_refusal_of_an_old_token_leaves_the_new_one() {
        let (tokens, member) = (Tokens::default(), Member::new(9));
        let old = tokens.get(0, member.ask()).await.ok().unwrap();
        tokens.give_up(&old);
        assert_eq!(number(&tokens.get(0, member.ask()).await), Some("2"));
        tokens.give_up(&old);
        assert_eq!(number(&tokens.get(0, member.ask()).await), Some("2"));
        assert_eq!(member.asked.get(), 2);
    }

    #[tokio::test]
    async fn a_failure_is_that_of_all_who_waited_for_the_member() {
        let (tokens, member) = (Tokens::default(), Member::new(0));
        member.good.set(false);
        let mut all = pin!(join_all((0..3).map(|_| tokens.get(0, member.ask()))));
        let mut elsewhere = pin!(tokens.get(1, member.ask()));
        assert!(poll!(all.as_mut()).is_pending());
        assert!(poll!(elsewhere.as_mut()).is_pending());
        member.answers.add_permits(1);
        assert!(all.await.iter().all(Result::is_err));
        assert_eq!(member.asked.get(), 1);
        assert!(poll!(elsewhere.as_mut()).is_pending());
        member.good.set(true);
        member.answers.add_permits(1);
        assert_eq!(number(&elsewhere.await), Some("2"));
    }

    #[tokio::test]
    async fn one_that_is_given_up_passes_its_turn_on() {
        let (tokens, member) = (Tokens::default(), Member::new(0));
        let mut first = Box::pin(tokens.get(0, member.ask()));
        let mut second = pin!(tokens.get(0, member.ask()));
        assert!(poll!(first.as_mut()).is_pending());
        assert!(poll!(second.as_mut()).is_pending());
        drop(first);
        member.answers.add_permits(1);
        assert_eq!(number(&second.await), Some("2"));
    }
}
