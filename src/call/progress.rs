//! How far a call is, for clients that want to see it.

use tokio::sync::mpsc::Sender;

/// Where a running tool reports how far it is.
#[derive(Debug, Clone)]
pub enum Progress {
    /// Nowhere: the client did not ask for it, and would not see it.
    Unasked,
    /// Nowhere: the door cannot show it. The client waits all the same, for the end.
    Unseen,
    /// To the client, at its pace.
    Notes(Sender<Note>),
}

impl Progress {
    /// Whether a client waits for what follows a mailbox.
    pub(super) fn is_waited_for(&self) -> bool {
        !matches!(self, Progress::Unasked)
    }

    /// Tells the client, unless it is behind with listening.
    pub(super) fn mention(&self, note: Note) {
        if let Progress::Notes(notes) = self {
            // No reason to stop: the next note says more than the lost one.
            let _ = notes.try_send(note);
        }
    }

    /// Tells the client, at its pace. One that has gone away is no reason to stop.
    pub(super) async fn tell(&self, note: Note) {
        if let Progress::Notes(notes) = self {
            let _ = notes.send(note).await;
        }
    }
}

/// How far a running tool is.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// Strictly increasing.
    pub progress: f64,
    /// What `progress` runs up to, where that is known.
    pub total: Option<f64>,
    /// A line for people, or JSON for programs.
    pub message: Option<String>,
}
