//! Streams that are held open and told nothing.

use tokio::task::JoinSet;

use super::Stage;
use super::agents::Agent;
use super::wire::Stream;

/// How many of them open at once.
const AT_ONCE: usize = 64;

/// Open streams; they are cut when this is dropped.
pub struct Crowd(JoinSet<()>);

impl Crowd {
    /// Opens a stream for each agent, spread over the pods, and waits until each is greeted.
    pub async fn open(stage: &Stage, agents: &[Agent]) -> Crowd {
        let mut opening = JoinSet::new();
        for first in 0..AT_ONCE.min(agents.len()) {
            let place = |place: usize| (stage.host(place).to_owned(), agents[place].clone());
            let mine: Vec<_> = (first..agents.len()).step_by(AT_ONCE).map(place).collect();
            opening.spawn(async move {
                let mut open = Vec::with_capacity(mine.len());
                for (host, agent) in mine {
                    open.push(Stream::open(&host, &agent).await);
                }
                open
            });
        }
        let mut held = JoinSet::new();
        for stream in opening.join_all().await.into_iter().flatten() {
            held.spawn(stream.hold());
        }
        Crowd(held)
    }

    /// Ends the bench when one of them has ended by itself.
    pub fn must_be_whole(&mut self) {
        assert!(self.0.try_join_next().is_none(), "a stream ended");
    }
}
