//! Three replicas of the real binary and what becomes of their hours, judged by an auditor that shares no code with them.

#[cfg(feature = "real-servers")]
mod bucket;
mod ground;
mod kill;
mod replica;
mod script;
mod season;
mod truth;
mod world;

use cannery_testkit::feed_server::FeedServer;
#[cfg(feature = "real-servers")]
use cannery_testkit::long_run;
use cannery_testkit::scenario_rng;
use ground::Ground;
use season::Season;
use world::World;

/// Runs a season where it may block.
async fn run(name: &str, season: Season, ground: Ground, feeds: usize) -> String {
    let server = FeedServer::start().await.unwrap();
    let rng = scenario_rng(name);
    let play = move || {
        let mut world = World::new(ground, server, rng, feeds);
        let events = season.run(&mut world);
        format!(
            "{} rounds, {feeds} feeds, {} stored bodies and {} that were seen; {events:?}",
            season.rounds,
            world.truth.bodies(),
            world.truth.seen_count(),
        )
    };
    tokio::task::spawn_blocking(play).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_on_folders_lose_nothing() {
    let season = Season {
        rounds: 6,
        away: 1,
        month: 3,
        back: 5,
        burials: 3,
        ticks: 8,
        judged: 1,
    };
    let did = run("three replicas on folders", season, Ground::folders(), 4).await;
    println!("result: feeds, three replicas on folders: {did}: nothing lost, one archive an hour");
}

/// In seasons, each with a lake of its own: an hour is not the harder to merge for the thousands before it. Two at once, because
/// the server answers one request at a time.
#[cfg(feature = "real-servers")]
#[tokio::test(flavor = "multi_thread")]
async fn three_replicas_on_an_s3_server_lose_nothing() {
    if !long_run() {
        return on_an_s3_server(0, 8, 4).await;
    }
    for pair in 0..5 {
        let season = |number| on_an_s3_server(number, 20, 20);
        futures::future::join(season(2 * pair), season(2 * pair + 1)).await;
    }
}

#[cfg(feature = "real-servers")]
async fn on_an_s3_server(number: usize, rounds: usize, feeds: usize) {
    let season = Season {
        rounds,
        away: rounds / 4,
        month: rounds / 2,
        back: rounds * 3 / 4,
        burials: 4,
        ticks: 8,
        judged: 4,
    };
    let ground = Ground::bucket(bucket::Bucket::new().await);
    let did = run(&format!("season {number}"), season, ground, feeds).await;
    println!(
        "result: feeds, three replicas on an S3 server: {did}: nothing lost, one archive an hour"
    );
}
