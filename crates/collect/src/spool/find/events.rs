//! Events: what the operating system tells of the watched folders.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use cannery_runtime::disk::Kind;
use inotify::{EventMask, Inotify};
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};

use super::folder::{Folder, is_good_name, is_hidden};
use super::shared::Shared;
use super::watch_table::{Place, WatchTable, is_absent};
use super::{Errand, Evidence, Found, Manner, Sighting};

/// Room for the events of one read: some hundred.
const BUFFER_BYTES: usize = 64 << 10;
/// How long to wait after a failed read, which is not known to happen.
const PAUSE: Duration = Duration::from_secs(1);

/// Where events come from.
pub(super) struct EventSource {
    runtime: OwnRuntime,
    inotify: Inotify,
}

/// A runtime for this thread alone, to wait for events, the time and the end at once.
struct OwnRuntime(Option<Runtime>);

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // Whoever fails to start a thread may be on another runtime, where waiting for the end of this one is forbidden.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl OwnRuntime {
    fn block_on(&self, work: impl Future<Output = ()>) {
        if let Some(runtime) = &self.0 {
            runtime.block_on(work);
        }
    }
}

/// A source without any watch; how many there are is said in `count`.
pub(super) fn open(count: Arc<AtomicU64>) -> io::Result<(EventSource, WatchTable)> {
    let inotify = Inotify::init()?;
    let watches = WatchTable::new(inotify.watches(), count);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let runtime = OwnRuntime(Some(runtime));
    Ok((EventSource { runtime, inotify }, watches))
}

/// Reads events and asks for scans when they are due, until the end.
pub(super) fn run(shared: &Shared, source: EventSource, first_scan: Duration) {
    let EventSource { runtime, inotify } = source;
    runtime.block_on(async {
        tokio::select! {
            biased;
            () = shared.stop.cancelled() => {}
            () = read(shared, inotify) => {}
            () = ask_for_scans(shared, first_scan) => {}
        }
    });
}

async fn ask_for_scans(shared: &Shared, first_scan: Duration) {
    let mut due = first_scan;
    loop {
        let pause = due.saturating_sub(shared.clock.elapsed());
        shared.clock.sleep(pause).await;
        shared.sweeps.add(Manner::Overdue);
        due = shared.next_scan();
    }
}

#[allow(
    deprecated,
    reason = "its successor is an unsafe function that asks for an owned descriptor, and this one is"
)]
fn wait_on(inotify: Inotify) -> io::Result<AsyncFd<Inotify>> {
    AsyncFd::new(inotify)
}

/// Ends when nobody wants to know any more.
async fn read(shared: &Shared, inotify: Inotify) {
    let mut inotify = match wait_on(inotify) {
        Ok(inotify) => inotify,
        Err(error) => {
            tracing::error!(%error, "cannot wait for events of the spool; files are found by scans alone");
            return std::future::pending().await;
        }
    };
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match read_once(shared, &mut inotify, &mut buffer).await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return,
            Err(error) => {
                tracing::error!(%error, "cannot read events of the spool; everything is scanned instead");
                shared.overflowed();
                shared.clock.sleep(PAUSE).await;
            }
        }
    }
}

async fn read_once(
    shared: &Shared,
    inotify: &mut AsyncFd<Inotify>,
    buffer: &mut [u8],
) -> io::Result<ControlFlow<()>> {
    let mut ready = inotify.readable_mut().await?;
    let events = match ready.try_io(move |inotify| inotify.get_mut().read_events(buffer)) {
        Ok(events) => events?,
        Err(_nothing_to_read) => return Ok(ControlFlow::Continue(())),
    };
    for event in events {
        let id = event.wd.get_watch_descriptor_id();
        if let Some(sighting) = interpret(shared, id, event.mask, event.name)
            && shared.tell(vec![sighting]).await.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// What to do about an event; what it tells the consumer.
pub(super) fn interpret(
    shared: &Shared,
    id: i32,
    mask: EventMask,
    name: Option<&OsStr>,
) -> Option<Sighting> {
    if mask.contains(EventMask::Q_OVERFLOW) {
        shared.overflowed();
        return None;
    }
    let place = if mask.contains(EventMask::IGNORED) {
        shared.watches().forget(id)
    } else {
        shared.watches().place(id).cloned()
    }?;
    if mask.intersects(EventMask::IGNORED | EventMask::MOVE_SELF) {
        left(shared, &place);
        return None;
    }
    arrived(shared, &place, mask, name?)
}

/// A watched folder has gone, or has another name now. Its watches would follow it; but another folder may have taken its
/// place and be watched already by whoever scans. Therefore all watches there go, and the place is looked at once more.
fn left(shared: &Shared, place: &Place) {
    match place {
        Place::Above { .. } | Place::Root => {
            shared.watches().remove_all();
            shared.look_into(Errand::Root);
        }
        Place::Folder(folder) => {
            shared.watches().remove_within(*folder);
            shared.look_into(Errand::Folder(*folder));
        }
    }
}

fn arrived(shared: &Shared, place: &Place, mask: EventMask, name: &OsStr) -> Option<Sighting> {
    let is_folder = mask.contains(EventMask::ISDIR);
    match place {
        Place::Above { awaited } => {
            // A link may stand here: the way to the root is the operator's.
            if name == awaited {
                shared.look_into(Errand::Root);
            }
            None
        }
        Place::Root => {
            new_folder(shared, shared.layout.datatype(name).filter(|_| is_folder));
            None
        }
        Place::Folder(Folder::Day(..)) if is_folder => None,
        Place::Folder(day @ Folder::Day(datatype, date)) => {
            (is_good_name(name) && !is_hidden(name)).then_some(())?;
            is_file(shared, *day, *datatype, name).then(|| {
                Sighting::File(Found {
                    datatype: *datatype,
                    date: *date,
                    name: name.into(),
                    evidence: evidence(mask),
                })
            })
        }
        Place::Folder(folder) => {
            new_folder(shared, folder.child(name).filter(|_| is_folder));
            None
        }
    }
}

fn new_folder(shared: &Shared, folder: Option<Folder>) {
    if let Some(folder) = folder {
        shared.look_into(Errand::Folder(folder));
    }
}

fn evidence(mask: EventMask) -> Evidence {
    if mask.contains(EventMask::MOVED_TO) {
        Evidence::Moved
    } else {
        Evidence::Closed
    }
}

/// An event does not say what it is about: links are moved too, and pipes closed. In doubt the consumer finds out.
fn is_file(shared: &Shared, day: Folder, datatype: usize, name: &OsStr) -> bool {
    match shared.disk.metadata(&shared.layout.path(day).join(name)) {
        Ok(found) if found.kind == Kind::File => {
            shared.census.heard_of(datatype, found.len, found.modified);
            true
        }
        Ok(_) => false,
        Err(error) => !is_absent(&error),
    }
}
