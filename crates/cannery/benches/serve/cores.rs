//! Who runs on which core. One large download on two cores is a lottery otherwise: it is over before the system has found out
//! that client and server do not fit on one.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread on the first core, and the servers with their children on the others. With one core nothing changes.
pub(crate) struct SeparateCores {
    servers: Vec<u32>,
    all: CpuSet,
}

impl SeparateCores {
    pub(crate) fn new(servers: &[u32]) -> Self {
        let all = sched_getaffinity(None).unwrap();
        let separate = Self {
            servers: servers.to_vec(),
            all,
        };
        let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|core| all.is_set(*core))
            .collect();
        if let [first, others @ ..] = cores.as_slice()
            && !others.is_empty()
        {
            separate.place(
                &[*first].into_iter().fold(CpuSet::new(), with),
                &others.iter().copied().fold(CpuSet::new(), with),
            );
        }
        separate
    }

    fn place(&self, client: &CpuSet, servers: &CpuSet) {
        sched_setaffinity(None, client).unwrap();
        for thread in self.servers.iter().flat_map(|server| threads(*server)) {
            // It may have ended.
            sched_setaffinity(Some(thread), servers).ok();
        }
    }
}

impl Drop for SeparateCores {
    fn drop(&mut self) {
        self.place(&self.all, &self.all);
    }
}

fn with(mut set: CpuSet, core: usize) -> CpuSet {
    set.set(core);
    set
}

/// The threads of a process and of its children.
fn threads(process: u32) -> Vec<Pid> {
    let tasks = format!("/proc/{process}/task");
    let mut found = Vec::new();
    for task in std::fs::read_dir(tasks).unwrap() {
        let path = task.unwrap().path();
        let id: i32 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
        found.extend(Pid::from_raw(id));
        let children = std::fs::read_to_string(path.join("children")).unwrap_or_default();
        for child in children.split_whitespace() {
            found.extend(threads(child.parse().unwrap()));
        }
    }
    found
}
