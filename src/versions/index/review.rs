//! What a REVIEW record does to the index, and what the index tells of reviews.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, params};

use super::{Marker, Reader, Result, fold};
use crate::{
    types::{Hash, Lsn, NodeId, OpId, Timestamp},
    versions::{
        Content,
        review::{Mark, Review, ReviewStep, Reviewed, Whose},
    },
};

/// Rows of `held` that belong to no operation have this number: no operation has it, and it is never forgotten.
const NO_OP: OpId = OpId(i64::MAX.cast_unsigned());

pub(super) fn apply(db: &Connection, review: &Review, lsn: i64) -> Result<()> {
    let (whose, session) = review.whose.parts();
    let nodes = review.nodes.as_deref();
    if review.step == ReviewStep::Accepted {
        supersede(db, review)?;
    }
    db.prepare_cached("INSERT OR REPLACE INTO review VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?.execute(params![
        lsn,
        review.view,
        review.step.code(),
        whose,
        session,
        nodes.is_none(),
        review.upto.op.0.cast_signed(),
        review.upto.position.0.cast_signed(),
        review.content.map(|hash| hash.0)
    ])?;
    for node in nodes.into_iter().flatten() {
        let held = match review.content {
            Some(hash) => {
                fold::hold(db, NO_OP, *node, fold::REVIEW, &Content::Blob(hash))?;
                Some(db.last_insert_rowid())
            }
            None => None,
        };
        db.prepare_cached("INSERT OR REPLACE INTO review_node VALUES(?1, ?2, ?3)")?.execute(params![
            lsn,
            node.0.cast_signed(),
            held
        ])?;
    }
    Ok(())
}

/// Rows that say no more than a record that accepts goes.
fn supersede(db: &Connection, review: &Review) -> Result<()> {
    let (whose, session) = review.whose.parts();
    let older = "SELECT lsn FROM review WHERE view = ?1 AND step IN (2, 3) AND upto <= ?2
                 AND (?3 = 0 OR (whose = ?3 AND session IS ?4))";
    let upto = review.upto.op.0.cast_signed();
    let all = params![review.view, upto, whose, session];
    match &review.nodes {
        None => {
            forget_nodes(db, &format!("lsn IN ({older})"), all)?;
            db.execute(&format!("DELETE FROM review WHERE lsn IN ({older})"), all)?;
        }
        Some(nodes) => {
            for node in nodes {
                let node = node.0.cast_signed();
                let named = params![review.view, upto, whose, session, node];
                forget_nodes(db, &format!("lsn IN ({older}) AND node = ?5"), named)?;
            }
            let empty = format!("lsn IN ({older}) AND every = 0 AND lsn NOT IN (SELECT lsn FROM review_node)");
            db.execute(&format!("DELETE FROM review WHERE {empty}"), all)?;
        }
    }
    if review.nodes.is_none() && review.whose == Whose::All {
        let over = "DELETE FROM review WHERE view = ?1 AND step IN (0, 1)
                    AND lsn <= (SELECT max(lsn) FROM review WHERE view = ?1 AND step = 1 AND upto <= ?2)";
        db.execute(over, params![review.view, upto])?;
    }
    Ok(())
}

fn forget_nodes(db: &Connection, which: &str, params: impl rusqlite::Params + Copy) -> Result<()> {
    let held = format!("DELETE FROM held WHERE id IN (SELECT held FROM review_node WHERE {which})");
    db.prepare_cached(&held)?.execute(params)?;
    db.prepare_cached(&format!("DELETE FROM review_node WHERE {which}"))?.execute(params)?;
    Ok(())
}

/// Where the reviews of all views stand, or of one.
fn standing(db: &Connection, view: Option<&str>) -> Result<BTreeMap<String, Reviewed>> {
    let mut steps = db.prepare_cached(
        "SELECT lsn, view, step, whose, session, every, upto, position, content FROM review
         WHERE ?1 IS NULL OR view = ?1 ORDER BY lsn",
    )?;
    let mut nodes = db.prepare_cached("SELECT node FROM review_node WHERE lsn = ?1 ORDER BY node")?;
    let mut rows = steps.query(params![view])?;
    let mut all: BTreeMap<String, Reviewed> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let every: bool = row.get(5)?;
        let nodes = if every {
            None
        } else {
            let found = nodes.query_map(params![row.get::<_, i64>(0)?], |row| row.get::<_, i64>(0))?;
            let found: Vec<i64> = found.collect::<rusqlite::Result<_>>()?;
            Some(found.into_iter().map(|node| NodeId(node.cast_unsigned())).collect())
        };
        let view: String = row.get(1)?;
        let review = Review {
            view: view.clone(),
            step: ReviewStep::of(row.get(2)?)?,
            whose: Whose::from_parts(row.get(3)?, row.get(4)?)?,
            nodes,
            upto: Mark {
                op: OpId(row.get::<_, i64>(6)?.cast_unsigned()),
                position: Lsn(row.get::<_, i64>(7)?.cast_unsigned()),
            },
            content: row.get::<_, Option<[u8; 32]>>(8)?.map(Hash),
            time: Timestamp::default(),
        };
        all.entry(view).or_default().take(review);
    }
    Ok(all)
}

impl Reader {
    /// Where a view's review stands.
    pub fn reviewed(&self, view: &str) -> Result<Reviewed> {
        Ok(standing(self.connection(), Some(view))?.remove(view).unwrap_or_default())
    }

    /// Operations recorded at or after a position, and where.
    pub fn recorded_from(&self, position: Lsn) -> Result<Vec<(OpId, Lsn)>> {
        let mut statement = self.connection().prepare_cached("SELECT op, lsn FROM op WHERE lsn >= ?1 ORDER BY op")?;
        let rows = statement.query_map(params![position.0.cast_signed()], |row| {
            Ok((OpId(row.get::<_, i64>(0)?.cast_unsigned()), Lsn(row.get::<_, i64>(1)?.cast_unsigned())))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Does a record of a review still say something?
    pub fn knows_review(&self, lsn: Lsn) -> Result<bool> {
        let sql = "SELECT 1 FROM review WHERE lsn = ?1";
        Ok(self.connection().prepare_cached(sql)?.exists(params![lsn.0.cast_signed()])?)
    }
}

/// What is pending, for those who decide what is kept.
#[derive(Default)]
pub(in crate::versions) struct Reviewing {
    views: BTreeMap<String, Reviewed>,
    /// Actors of those views: which, and whose their changes are.
    actors: HashMap<u32, (String, Whose)>,
}

impl Reviewing {
    /// Whose pending change of which view an operation of an actor made to a file; none if it is not pending.
    pub fn pending(&self, actor: u32, node: NodeId, op: OpId, lsn: Lsn) -> Option<&(String, Whose)> {
        let of = self.actors.get(&actor)?;
        let reviewed = self.views.get(&of.0)?;
        (reviewed.rejected(op).is_none() && reviewed.is_pending(&of.1, node, op, lsn)).then_some(of)
    }
}

impl Marker {
    /// What is pending.
    pub fn reviewing(&self) -> Result<Reviewing> {
        let mut views = standing(&self.db, None)?;
        views.retain(|_, reviewed| reviewed.is_any());
        let mut statement = self.db.prepare("SELECT id, view, session FROM actor WHERE view IS NOT NULL")?;
        let rows = statement.query_map([], |row| {
            let session: Option<String> = row.get(2)?;
            Ok((row.get::<_, u32>(0)?, (row.get::<_, String>(1)?, session.map_or(Whose::Shells, Whose::Session))))
        })?;
        let all: HashMap<u32, (String, Whose)> = rows.collect::<rusqlite::Result<_>>()?;
        let actors = all.into_iter().filter(|(_, (view, _))| views.contains_key(view)).collect();
        Ok(Reviewing { views, actors })
    }
}
