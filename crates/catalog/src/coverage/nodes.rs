//! What came of nodes, from the reports that the catalog has: nobody has to look into the lake for it.

use std::collections::BTreeSet;

use cannery_database::Session;

use super::{Coverage, CoverageState, fill, remove, write};
use crate::error::Error;
use crate::load::Sent;

const SUBJECT: &str = "node";

/// What nodes sent of the touched files.
pub(crate) async fn sent(session: &mut dyn Session, p: &str) -> Result<BTreeSet<Sent>, Error> {
    let sql = format!(
        "select distinct node, hour from report \
         where file in (select file from {p}touched) and node is not null"
    );
    let rows = session.query(&sql, Vec::new()).await?;
    let sent = rows.iter().map(|row| {
        Ok(Sent {
            node: row.text(0)?,
            hour: row.text(1)?,
        })
    });
    sent.collect()
}

/// Makes the rows of these hours as the reports have them.
pub(crate) async fn cover(session: &mut dyn Session, sent: &BTreeSet<Sent>) -> Result<(), Error> {
    for one in sent {
        let Sent { node, hour } = one;
        let Some(bytes) = bytes(session, one).await? else {
            remove(session, (SUBJECT, node), hour).await?;
            continue;
        };
        // How often a node sends something is its own affair; that it does is not.
        let covered = Coverage {
            subject: SUBJECT.to_owned(),
            name: node.clone(),
            hour: hour.clone(),
            expected: 1,
            present: 1,
            bytes,
            state: CoverageState::Known,
        };
        write(session, &covered).await?;
        fill::around(session, (SUBJECT, node), hour).await?;
    }
    Ok(())
}

/// How much a node sent in an hour; nothing when there is no report. While a bucket is sealed, a report is in two files.
async fn bytes(session: &mut dyn Session, sent: &Sent) -> Result<Option<u64>, Error> {
    let sql = "select count(*), cast(coalesce(sum(t.size), 0) as bigint) from \
               (select max(src_size) as size from report where node = $1 and hour = $2 \
                group by textname) t";
    let params = vec![sent.node.as_str().into(), sent.hour.as_str().into()];
    let rows = session.query(sql, params).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok((row.int(0)? > 0).then_some(row.size(1)?))
}
