//! beanstalkd with `-f 0`, which syncs its log before it answers. It knows no batches.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_testkit::beanstalkd::Beanstalkd;

use crate::bench::{Bench, DATA_BYTES, Deadline};
use crate::work::{Contestant, Kind, Side, Work};

const FILLERS: u64 = 16;

pub(crate) struct Beanstalk<'a>(pub(crate) &'a Bench);

impl Contestant for Beanstalk<'_> {
    fn name(&self) -> &'static str {
        "beanstalkd"
    }

    fn can(&self, work: Work) -> bool {
        // A claim is not written down, so there is nothing to do in one commit.
        work.batch == 1 && work.kind != Kind::DoneAndClaim
    }

    fn open(&self) -> Box<dyn Side + '_> {
        let folder = self.0.folder();
        let starting = Beanstalkd::start(&folder);
        Box::new(Tube {
            bench: self.0,
            server: self.0.runtime.block_on(starting).unwrap(),
            waiting: 0,
        })
    }

    fn pace(&self, _work: Work) -> u64 {
        8_000
    }
}

struct Tube<'a> {
    bench: &'a Bench,
    server: Beanstalkd,
    waiting: u64,
}

impl Side for Tube<'_> {
    fn fill(&mut self, count: u64) {
        let address = self.server.address();
        std::thread::scope(|scope| {
            for filler in 0..FILLERS {
                let share = count / FILLERS + u64::from(filler < count % FILLERS);
                scope.spawn(move || {
                    let mut connection = Connection::open(address);
                    (0..share).for_each(|_| connection.put());
                });
            }
        });
        self.waiting += count;
    }

    fn rate(&mut self, work: Work, turn: Duration) -> f64 {
        let address = self.server.address();
        let connections: Vec<Connection> = (0..work.clients)
            .map(|_| Connection::open(address))
            .collect();
        let until = self.bench.until(turn);
        let rows = AtomicU64::new(0);
        let seconds = self.bench.seconds(|| {
            std::thread::scope(|scope| {
                for mut connection in connections {
                    let (rows, until) = (&rows, &until);
                    scope.spawn(move || {
                        rows.fetch_add(client(&mut connection, work, until), Ordering::Relaxed);
                    });
                }
            });
        });
        let rows = rows.into_inner();
        if work.drains() {
            self.waiting -= rows;
        }
        rows as f64 / seconds
    }

    fn waiting(&self) -> u64 {
        self.waiting
    }
}

fn client(connection: &mut Connection, work: Work, until: &Deadline) -> u64 {
    let mut rows = 0;
    while !until.is_past() {
        if matches!(work.kind, Kind::Put | Kind::Cycle) {
            connection.put();
        }
        if work.kind != Kind::Put {
            match connection.reserve() {
                Some(id) => connection.delete(id),
                None => break,
            }
        }
        rows += 1;
    }
    rows
}

/// A client of its protocol, as far as it is needed.
struct Connection {
    stream: BufReader<TcpStream>,
    put: Vec<u8>,
    line: String,
}

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        let data = "x".repeat(DATA_BYTES);
        Self {
            stream: BufReader::new(stream),
            // Priority, delay, time to run, length.
            put: format!("put 20 0 120 {DATA_BYTES}\r\n{data}\r\n").into_bytes(),
            line: String::new(),
        }
    }

    fn answer(&mut self) -> &str {
        self.line.clear();
        self.stream.read_line(&mut self.line).unwrap();
        self.line.trim_end()
    }

    fn say(&mut self, command: &str) -> &str {
        self.stream.get_mut().write_all(command.as_bytes()).unwrap();
        self.answer()
    }

    fn put(&mut self) {
        self.stream.get_mut().write_all(&self.put).unwrap();
        let answer = self.answer();
        assert!(answer.starts_with("INSERTED "), "{answer}");
    }

    /// The next job; nothing when none is ready.
    fn reserve(&mut self) -> Option<u64> {
        let answer = self.say("reserve-with-timeout 0\r\n");
        if answer == "TIMED_OUT" {
            return None;
        }
        let mut words = answer.split(' ');
        assert_eq!(words.next(), Some("RESERVED"));
        let id = words.next().unwrap().parse().unwrap();
        let mut data = [0; DATA_BYTES + 2];
        self.stream.read_exact(&mut data).unwrap();
        Some(id)
    }

    fn delete(&mut self, id: u64) {
        let answer = self.say(&format!("delete {id}\r\n"));
        assert_eq!(answer, "DELETED");
    }
}
