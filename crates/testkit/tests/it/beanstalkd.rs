use cannery_testkit::beanstalkd::Beanstalkd;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// Sends commands and gives the first line of the answer.
async fn say(server: &Beanstalkd, commands: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(commands.as_bytes()).await.unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn beanstalkd_keeps_its_jobs_in_the_folder_it_was_given() {
    if !cannery_testkit::long_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let jobs = dir.path().join("jobs");
    let server = Beanstalkd::start(&jobs).await.unwrap();
    let put = say(&server, "put 0 0 60 5\r\nhello\r\n").await;
    assert_eq!(put, "INSERTED 1\r\n");

    let address = server.address();
    drop(server);
    TcpStream::connect(address).await.unwrap_err();

    let server = Beanstalkd::start(&jobs).await.unwrap();
    assert_eq!(say(&server, "reserve\r\n").await, "RESERVED 1 5\r\n");
}
