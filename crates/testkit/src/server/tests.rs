use super::*;

fn shell(script: &str) -> Command {
    let mut command = command(Path::new("/bin/sh"));
    command.args(["-c", script]);
    command
}

fn alive(pid: &str) -> bool {
    // A zombie is dead; its parent may be slow to notice.
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// Waits for something another process does; the test fails by its own time limit, not by this one's.
async fn eventually(what: impl Fn() -> bool) {
    let clock = Clock::real();
    for _ in 0..600 {
        if what() {
            return;
        }
        clock.sleep(POLL).await;
    }
    panic!("it did not come true");
}

fn pid_in(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.ends_with('\n').then(|| text.trim().to_owned())
}

#[tokio::test]
async fn dropping_kills_the_children_of_the_server_too() {
    let dir = temp_dir("test").unwrap();
    let note = dir.path().join("grandchild");
    let script = format!("sleep 1000 & echo $! > '{}'; wait", note.display());
    let server = Server::spawn("parent", shell(&script), &dir.path().join("log")).unwrap();
    let parent = server.pid().to_string();
    eventually(|| pid_in(&note).is_some()).await;
    let grandchild = pid_in(&note).unwrap();
    assert!(alive(&grandchild) && alive(&parent));
    drop(server);
    eventually(|| !alive(&grandchild) && !alive(&parent)).await;
}

#[tokio::test]
async fn a_closed_lifeline_kills_the_server() {
    let dir = temp_dir("test").unwrap();
    let mut server =
        Server::spawn("sleeper", shell("sleep 1000"), &dir.path().join("log")).unwrap();
    assert!(!server.has_ended());
    // What happens when the test process is killed.
    drop(server.child.stdin.take());
    let pid = server.pid().to_string();
    eventually(|| !alive(&pid)).await;
}

#[tokio::test]
async fn a_server_that_ends_early_shows_its_log() {
    let dir = temp_dir("test").unwrap();
    let log = dir.path().join("log");
    let mut server = Server::spawn("broken", shell("echo no such disk >&2; exit 3"), &log).unwrap();
    let never = Ready::Command("/bin/false".into(), vec![]);
    let error = server
        .wait_until(&never, READY_LIMIT)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("`broken` is not ready: it ended with"),
        "{error}"
    );
    assert!(error.ends_with("no such disk\n"), "{error}");
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up() {
    let dir = temp_dir("test").unwrap();
    let log = dir.path().join("log");
    let mut server = Server::spawn("mute", shell("echo hello; sleep 1000"), &log).unwrap();
    let never = Ready::Command("/bin/false".into(), vec![]);
    let error = server
        .wait_until(&never, Duration::from_millis(300))
        .await
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "`mute` is not ready: no answer within 300ms; the end of its log:\nhello\n"
    );
}

#[tokio::test]
async fn a_polite_signal_comes_first() {
    let dir = temp_dir("test").unwrap();
    let log = dir.path().join("log");
    let script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    let server = Server::spawn("polite", shell(script), &log)
        .unwrap()
        .ending_with(Signal::TERM);
    eventually(|| std::fs::read_to_string(&log).unwrap() == "up\n").await;
    drop(server);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "up\nbye\n");
}

#[tokio::test]
async fn a_failing_program_is_quoted() {
    let mut command = tokio::process::Command::new("/bin/sh");
    let error = run(command.args(["-c", "echo why >&2; exit 1"]), READY_LIMIT)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot run `/bin/sh`: exit status: 1: why\n"
    );
}
