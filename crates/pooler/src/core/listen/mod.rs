//! LISTEN in transaction mode: clients that listen share one connection a database, and keep none.
//!
//! ```text
//!  LISTEN runs on a client's server ─► its transaction ends ─► what does it listen to? ─► the hub listens to that, too
//!        ─► one notification of the pooler's own, the marker, reaches both: what comes before it is the server's to deliver,
//!           what comes behind it the hub's ─► UNLISTEN * ─► the client leaves the server
//!  a notification reaches the hub ─► every event loop with listening clients ─► those between transactions at once, others then
//! ```
//!
//! PostgreSQL has one queue of notifications a database, and every session reads it in order: so nothing is lost or comes twice at the
//! hand-over. A hub that is lost is lost for its clients, too: they are told, as by a server that restarts.
//!
//! [`Listens`] is a client's part, [`Hub`] that of the loop that has the connection; what they say to each other is a [`Said`].

mod deliver;
mod hand_over;
mod hub;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

pub(in crate::core) use hub::Hub;

use corun_wire::read;

/// The channel of markers.
const MARKERS: &str = "corun_marker";
/// Channels of a client that listens to more stay its server's.
const CHANNELS_MAX: usize = 10_000;
/// What a channel takes beside its name, roughly: its places in sets.
const CHANNEL_BYTES: usize = 100;
/// How long a hub may take to be there or to answer, and a marker to reach it. Unmeasured: longer than a login takes on a busy server.
const PATIENCE: Duration = Duration::from_secs(10);

/// A whole NotificationResponse, as it goes to clients.
pub(in crate::core) type Message = Arc<[u8]>;

/// A client that asks a hub: its loop, slot and number, and the marker of its hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    pub event_loop: usize,
    pub client: usize,
    pub id: u64,
    pub marker: u64,
}

impl Asking {
    /// As the marker's notification has it.
    fn payload(&self) -> String {
        let Asking {
            event_loop,
            client,
            id,
            marker,
        } = self;
        format!("{event_loop} {client} {id} {marker:016x}")
    }

    /// From a marker's notification, which may be another process's or anybody's.
    fn read(payload: &str) -> Option<Self> {
        let mut words = payload.split(' ');
        let asking = Asking {
            event_loop: words.next()?.parse().ok()?,
            client: words.next()?.parse().ok()?,
            id: words.next()?.parse().ok()?,
            marker: u64::from_str_radix(words.next()?, 16).ok()?,
        };
        words.next().is_none().then_some(asking)
    }
}

/// What loops tell each other about a database's notifications.
#[derive(Debug)]
pub(crate) enum Said {
    /// To the loop with the hub: a client whose server logs in as `user` listens to these.
    Listen {
        user: Arc<str>,
        channels: Vec<Box<str>>,
        asking: Asking,
    },
    /// To the loop with the hub: the client of this number listens to these no more.
    Unlisten {
        event_loop: usize,
        id: u64,
        channels: Vec<Box<str>>,
    },
    /// To a client's loop: the hub listens as well, or cannot.
    Listening { asking: Asking, able: bool },
    /// To a client's loop: its marker has come to the hub.
    Marked(Asking),
    /// To all loops with clients of this channel.
    Notified { channel: Box<str>, message: Message },
    /// To all loops: the hub is gone.
    Lost,
}

/// A client's channels that the hub listens to for it.
#[derive(Debug, Default)]
pub(in crate::core) struct Listens {
    channels: BTreeSet<Box<str>>,
    step: Step,
    /// Its next statement asks what it listens to.
    pub shows: bool,
    /// UNLISTEN that has been sent and whose transaction has not ended.
    leaving: Vec<Leaving>,
    /// Channels to be taken from the hub.
    left: Vec<Box<str>>,
    /// Notifications that wait for the end of its transaction, or of the hand-over.
    held: Vec<Message>,
    held_bytes: usize,
    /// Bytes of the channels' names.
    channel_bytes: usize,
    /// The client's own `client_encoding` at the hand-over, which was the database's.
    encoding: Option<String>,
}

/// An UNLISTEN that runs.
#[derive(Debug)]
struct Leaving {
    /// `None`: for all channels.
    channel: Option<Box<str>>,
    /// ReadyForQuery messages until it has ended.
    answers: usize,
    /// How often something of its transaction was undone before.
    undone: u32,
}

/// How far the hand-over of a client is.
#[derive(Debug, Default)]
enum Step {
    /// There is none.
    #[default]
    None,
    /// It cannot be: the client keeps its server, and it is tried again at this time.
    Unable(Duration),
    /// Its server is asked what it listens to.
    Asking,
    /// The hub is asked to listen.
    AtHub(HandOver),
    /// The hub listens.
    Listening(HandOver),
    /// The marker is sent; it is given up at this time.
    Marking(HandOver, Duration),
    /// The hub alone delivers these: the server may listen to them no more.
    HandedOver(Vec<Box<str>>),
}

/// Channels on their way from a client's server to the hub.
#[derive(Debug, Default)]
struct HandOver {
    marker: u64,
    channels: BTreeSet<Box<str>>,
    /// The marker has come to its server, or to the hub.
    by_server: bool,
    by_hub: bool,
}

impl Listens {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.held_bytes + self.channel_bytes
    }

    fn hand_over(&mut self) -> Option<&mut HandOver> {
        match &mut self.step {
            Step::AtHub(hand_over) | Step::Listening(hand_over) | Step::Marking(hand_over, _) => {
                Some(hand_over)
            }
            _ => None,
        }
    }

    /// Whether notifications are lost with the hub. One that is just handed over may listen to nothing any more.
    fn depends_on_hub(&self) -> bool {
        let marking = match &self.step {
            Step::Marking(hand_over, _) => !hand_over.channels.is_empty(),
            _ => false,
        };
        marking || !self.channels.is_empty()
    }

    /// Its own server has sent a notification. Returns whether the client gets it.
    pub fn by_server(&mut self, channel: &str, payload: &str) -> bool {
        let known = self.channels.contains(channel);
        let Some(hand_over) = self.hand_over() else {
            return !known && channel != MARKERS;
        };
        if channel == MARKERS {
            let marker = Asking::read(payload).map(|asking| asking.marker);
            hand_over.by_server |= marker == Some(hand_over.marker);
            return false;
        }
        !(known || hand_over.by_server && hand_over.channels.contains(channel))
    }

    /// The hub has got a notification. Returns whether the client is to get it.
    fn by_hub(&mut self, channel: &str) -> bool {
        let known = self.channels.contains(channel);
        match self.hand_over() {
            Some(hand_over) if !known => hand_over.by_hub && hand_over.channels.contains(channel),
            _ => known,
        }
    }

    /// Keeps a notification for later.
    fn hold(&mut self, message: Message) {
        self.held_bytes += message.len();
        self.held.push(message);
    }

    /// Where both have seen the marker, the hub alone delivers from now on.
    fn settle(&mut self) {
        let Some(hand_over) = self.hand_over() else {
            return;
        };
        if hand_over.by_server && hand_over.by_hub {
            let channels = std::mem::take(&mut hand_over.channels);
            self.step = Step::HandedOver(channels.iter().cloned().collect());
            self.channels.extend(channels);
            self.channel_bytes = self
                .channels
                .iter()
                .map(|channel| channel.len() + CHANNEL_BYTES)
                .sum();
        }
    }

    /// Statements after which its server has it all to tell, where it is going to be asked: the hub goes on delivering.
    pub fn shown_by(&mut self) -> Option<String> {
        let shows = std::mem::take(&mut self.shows) && !self.channels.is_empty();
        shows.then(|| {
            self.channels
                .iter()
                .map(|channel| statement("LISTEN", channel))
                .collect()
        })
    }

    /// UNLISTEN for this channel, or for all, is about to be sent behind what still has so many answers to come, in a transaction of
    /// which so much was undone. What the hub does not listen to is the server's matter alone.
    pub fn leaves(&mut self, channel: Option<&str>, ahead: usize, undone: u32) {
        match channel {
            None => self.leaving.clear(),
            Some(channel) if !self.knows(channel) => return,
            Some(channel) => self
                .leaving
                .retain(|other| other.channel.as_deref() != Some(channel)),
        }
        self.leaving.push(Leaving {
            channel: channel.map(Into::into),
            answers: ahead + 1,
            undone,
        });
    }

    /// An answer has ended, and its transaction with it if the server is `idle`; so much of that was undone. In doubt the hub goes on:
    /// a notification too many does less harm than one too few.
    pub fn answer_ended(&mut self, idle: bool, undone: u32) {
        for leaving in &mut self.leaving {
            leaving.answers = leaving.answers.saturating_sub(1);
        }
        if !idle || self.leaving.is_empty() {
            return;
        }
        for mut leaving in std::mem::take(&mut self.leaving) {
            if leaving.answers > 0 {
                // Its transaction begins now.
                leaving.undone = 0;
                self.leaving.push(leaving);
            } else if leaving.undone == undone {
                self.leave(leaving.channel);
            }
        }
    }

    fn leave(&mut self, channel: Option<Box<str>>) {
        let Some(channel) = channel else {
            self.left = self.all();
            return;
        };
        let handed = self
            .hand_over()
            .is_some_and(|hand_over| hand_over.channels.remove(&channel));
        if self.channels.remove(&channel) || handed {
            self.left.push(channel);
        }
    }

    fn knows(&mut self, channel: &str) -> bool {
        let handed = self
            .hand_over()
            .is_some_and(|hand_over| hand_over.channels.contains(channel));
        handed || self.channels.contains(channel)
    }

    /// All channels that the hub listens to for it, those on their way included.
    fn all(&mut self) -> Vec<Box<str>> {
        let mut all = std::mem::take(&mut self.left);
        all.extend(std::mem::take(&mut self.channels));
        if let Some(hand_over) = self.hand_over() {
            all.extend(std::mem::take(&mut hand_over.channels));
        }
        all
    }
}

/// What an event loop keeps of notifications.
#[derive(Default)]
pub(in crate::core) struct Listening {
    /// Clients (slots) by database that listen through a hub, or are about to.
    clients: HashMap<Arc<str>, BTreeSet<usize>>,
    /// Those that are this loop's.
    hubs: HashMap<Arc<str>, Hub>,
}

/// The loop of `loops` that has the hub of a database.
fn loop_of(database: &str, loops: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    database.hash(&mut hasher);
    (hasher.finish() % loops.max(1) as u64) as usize
}

/// The channel and the payload of a NotificationResponse.
pub(in crate::core) fn notification(body: &[u8]) -> Option<(&str, &str)> {
    let (channel, rest) = read::text(body.get(4..)?)?;
    let (payload, _) = read::text(rest)?;
    Some((
        std::str::from_utf8(channel).ok()?,
        std::str::from_utf8(payload).unwrap_or_default(),
    ))
}

/// LISTEN or UNLISTEN for a channel.
fn statement(what: &str, channel: &str) -> String {
    format!("{what} \"{}\";", channel.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handing(channels: &[&str]) -> Listens {
        Listens {
            channels: ["old".into()].into(),
            step: Step::Listening(HandOver {
                marker: 7,
                channels: channels.iter().map(|&channel| channel.into()).collect(),
                ..HandOver::default()
            }),
            ..Listens::default()
        }
    }

    fn mark(listens: &mut Listens, by_server: bool) {
        if by_server {
            assert!(listens.by_server("a", ""), "before its marker");
            assert!(
                !listens.by_server(MARKERS, "0 1 2 0000000000000008"),
                "another's marker"
            );
            assert!(listens.by_server("a", ""), "before its marker");
            assert!(!listens.by_server(MARKERS, "0 1 2 0000000000000007"));
            assert!(!listens.by_server("a", ""), "the hub delivers that");
        } else {
            assert!(!listens.by_hub("a"), "its server delivers that");
            listens.hand_over().expect("one").by_hub = true;
        }
    }

    #[test]
    fn each_notification_comes_by_one_way() {
        for server_first in [true, false] {
            let mut listens = handing(&["a"]);
            mark(&mut listens, server_first);
            listens.settle();
            assert!(listens.hand_over().is_some());
            if !server_first {
                assert!(listens.by_hub("a"), "behind what its server has yet to say");
            }
            mark(&mut listens, !server_first);
            listens.settle();
            assert!(matches!(&listens.step, Step::HandedOver(channels) if **channels == ["a".into()]));
            assert!(listens.by_hub("a"));
            assert!(!listens.by_server("a", ""));
            assert!(!listens.by_hub("b"));
            assert!(listens.by_hub("old"));
        }
    }

    #[test]
    fn what_a_transaction_leaves_counts_once_it_commits() {
        let mut listens = handing(&[]);
        for (idle, undone, left) in [(false, 0, false), (true, 1, false)] {
            listens.leaves(Some("old"), 0, 0);
            listens.answer_ended(idle, undone);
            assert_eq!(listens.channels.contains("old"), !left, "{idle} {undone}");
        }
        listens.leaves(Some("unknown"), 0, 0);
        assert!(listens.leaving.is_empty());
        // What was undone before it does not count.
        listens.leaves(Some("old"), 0, 2);
        listens.answer_ended(true, 2);
        assert!(listens.channels.is_empty() && *listens.left == ["old".into()]);
        listens.channels = ["a".into()].into();
        listens.hand_over().expect("one").channels = ["b".into()].into();
        listens.leaves(None, 0, 0);
        listens.answer_ended(true, 0);
        assert_eq!(*listens.left, ["old".into(), "a".into(), "b".into()]);
    }

    #[test]
    fn a_lost_hub_is_missed_by_those_it_listens_for() {
        let mut listens = handing(&["a"]);
        assert!(listens.depends_on_hub(), "it delivers the old one");
        listens.channels.clear();
        assert!(!listens.depends_on_hub(), "its server delivers");
        let hand_over = listens.hand_over().map(std::mem::take).expect("one");
        listens.step = Step::Marking(hand_over, PATIENCE);
        assert!(listens.depends_on_hub(), "the marker may have passed");
        listens.leaves(Some("a"), 0, 0);
        listens.answer_ended(true, 0);
        assert!(!listens.depends_on_hub(), "it listens no more");
    }

    #[test]
    fn what_stands_in_a_pipeline_ends_with_its_own_answer() {
        // select 1/0; | unlisten old; | select 1
        let mut listens = handing(&[]);
        listens.leaves(Some("old"), 1, 0);
        listens.answer_ended(true, 1);
        assert!(listens.channels.contains("old"));
        listens.answer_ended(true, 0);
        assert!(listens.channels.is_empty());
        // select 1; | unlisten old; select 1/0
        let mut listens = handing(&[]);
        listens.leaves(Some("old"), 1, 0);
        listens.answer_ended(true, 0);
        listens.answer_ended(true, 1);
        assert!(listens.channels.contains("old") && listens.leaving.is_empty());
    }

    #[test]
    fn names_are_quoted() {
        let sql = statement("LISTEN", "a\"; drop table t; --");
        assert_eq!(sql, "LISTEN \"a\"\"; drop table t; --\";");
    }

    #[test]
    fn notifications_are_read() {
        assert_eq!(notification(b"\0\0\0\x07news\0hello\0"), Some(("news", "hello")));
        for broken in [
            &b""[..],
            b"\0\0\0\x07",
            b"\0\0\0\x07news",
            b"\0\0\0\x07news\0hello",
        ] {
            assert_eq!(notification(broken), None, "{broken:?}");
        }
    }
}
