//! The bytes of one connection.

use std::io;

use cannery_runtime::Clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;

use super::{Fault, Shared};

/// Forwards until one side closes or a fault ends it. Both sockets are closed on return.
pub(super) async fn connection(mut client: TcpStream, mut upstream: TcpStream, shared: &Shared) {
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = upstream.split();
    let client_left = Notify::new();
    let requests = async {
        drop(tokio::io::copy(&mut from_client, &mut to_server).await);
        drop(to_server.shutdown().await);
        client_left.notify_one();
        // Only the end of the answers ends the connection.
        std::future::pending::<()>().await;
    };
    let answers = async {
        if let Ok(End::Silence) = answers(&mut from_server, &mut to_client, shared).await {
            // The server may close what it has answered: that must not reach the client.
            drop(tokio::io::copy(&mut from_server, &mut tokio::io::sink()).await);
            client_left.notified().await;
        }
    };
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}

enum End {
    Close,
    Silence,
}

async fn answers(
    from: &mut ReadHalf<'_>,
    to: &mut WriteHalf<'_>,
    shared: &Shared,
) -> io::Result<End> {
    let mut buffer = vec![0; 16 * 1024];
    let (mut plan_number, mut sent) = (0, 0);
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return Ok(End::Close);
        }
        let mut piece = &buffer[..length];
        let plan = *shared.plan.borrow();
        if plan.number != plan_number {
            (plan_number, sent) = (plan.number, 0);
        }
        match plan.fault {
            Fault::None => {}
            Fault::Delay(pause) => Clock::real().sleep(pause).await,
            Fault::CutAfter(limit) => {
                let left = limit.saturating_sub(sent);
                if piece.len() as u64 > left && shared.fire(&plan) {
                    piece = &piece[..usize::try_from(left).unwrap_or(length)];
                    to.write_all(piece).await?;
                    return Ok(End::Close);
                }
            }
            Fault::SwallowAnswer if shared.fire(&plan) => return Ok(End::Silence),
            Fault::CutAnswer if shared.fire(&plan) => return Ok(End::Close),
            // Used up by others in this moment.
            Fault::SwallowAnswer | Fault::CutAnswer => {}
            Fault::Refuse => return Ok(End::Close),
        }
        to.write_all(piece).await?;
        sent += piece.len() as u64;
    }
}
