use url::Url;

use super::*;
use crate::feed_server::{Behaviour, FeedServer};

async fn pair() -> (FeedServer, FaultProxy, Url) {
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::body("x".repeat(100_000)));
    let mut url = Url::parse(&server.url("/feed")).unwrap();
    let upstream = url.socket_addrs(|| None).unwrap()[0];
    let proxy = FaultProxy::start(upstream).await.unwrap();
    url.set_port(Some(proxy.address().port())).unwrap();
    (server, proxy, url)
}

async fn get(url: &Url, limit: Duration) -> reqwest::Result<usize> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(limit)
        .build()?;
    Ok(client.get(url.clone()).send().await?.bytes().await?.len())
}

const PATIENT: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn without_a_fault_everything_passes() {
    let (_server, proxy, url) = pair().await;
    assert_eq!(get(&url, PATIENT).await.unwrap(), 100_000);
    assert_eq!(proxy.fired(), 0);
}

#[tokio::test]
async fn a_delay_holds_the_answer_back() {
    let (server, proxy, url) = pair().await;
    proxy.set(Fault::Delay(Duration::from_secs(3_600))).await;
    assert!(get(&url, SHORT).await.unwrap_err().is_timeout());
    assert_eq!(server.requests("/feed").len(), 1);
    proxy.set(Fault::Delay(Duration::from_millis(1))).await;
    assert_eq!(get(&url, PATIENT).await.unwrap(), 100_000);
}

#[tokio::test]
async fn a_connection_is_cut_in_the_middle_of_the_answer() {
    let (server, proxy, url) = pair().await;
    proxy.set(Fault::CutAfter(50_000)).await;
    let error = get(&url, PATIENT).await.unwrap_err();
    assert!(!error.is_timeout() && !error.is_connect(), "{error:?}");
    assert_eq!((proxy.fired(), server.requests("/feed").len()), (1, 1));
}

#[tokio::test]
async fn a_swallowed_answer_is_a_timeout_after_the_server_did_its_work() {
    let (server, proxy, url) = pair().await;
    proxy.set_times(Fault::SwallowAnswer, 1).await;
    assert!(get(&url, SHORT).await.unwrap_err().is_timeout());
    assert_eq!((proxy.fired(), server.requests("/feed").len()), (1, 1));
    assert_eq!(get(&url, PATIENT).await.unwrap(), 100_000);
    assert_eq!(proxy.fired(), 1);
}

#[tokio::test]
async fn a_cut_answer_closes_at_once_after_the_server_did_its_work() {
    let (server, proxy, url) = pair().await;
    proxy.set_times(Fault::CutAnswer, 2).await;
    for _ in 0..2 {
        assert!(!get(&url, PATIENT).await.unwrap_err().is_timeout());
    }
    assert_eq!((proxy.fired(), server.requests("/feed").len()), (2, 2));
    assert_eq!(get(&url, PATIENT).await.unwrap(), 100_000);
}

#[tokio::test]
async fn refused_connections_come_back_on_the_same_port() {
    let (server, proxy, url) = pair().await;
    for _ in 0..3 {
        proxy.set(Fault::Refuse).await;
        assert!(get(&url, PATIENT).await.unwrap_err().is_connect());
        proxy.set(Fault::None).await;
        assert_eq!(get(&url, PATIENT).await.unwrap(), 100_000);
    }
    assert_eq!(server.requests("/feed").len(), 3);
}

#[tokio::test]
async fn refusing_closes_open_connections() {
    let (server, proxy, url) = pair().await;
    server.on("/feed", Behaviour::Hung);
    let waiting = tokio::spawn(async move { get(&url, PATIENT).await });
    while server.requests("/feed").is_empty() {
        tokio::task::yield_now().await;
    }
    proxy.set(Fault::Refuse).await;
    assert!(!waiting.await.unwrap().unwrap_err().is_timeout());
}
