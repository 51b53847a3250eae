//! The table of a packed segment: which of its records were kept, where each is, and how far the segment reaches.

use std::{fs::File, io};

use super::{
    frame::{long, word},
    segment::read_up_to,
};

const HEAD: usize = 28;
const ROW: usize = 12;

/// A packed segment holds only the records that were needed when it was packed, under the positions they always had.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Table {
    /// The log position behind all that the segment stands for.
    pub end: u64,
    /// What was dead at this log position is not in it.
    pub packed: u64,
    /// Position and place in the file, rising in both.
    pub rows: Vec<(u64, u32)>,
}

impl Table {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.rows.len() * ROW);
        bytes.extend_from_slice(&self.end.to_le_bytes());
        bytes.extend_from_slice(&self.packed.to_le_bytes());
        bytes.extend_from_slice(&(self.rows.len() as u64).to_le_bytes());
        let mut rows = Vec::with_capacity(self.rows.len() * ROW);
        for (position, offset) in &self.rows {
            rows.extend_from_slice(&position.to_le_bytes());
            rows.extend_from_slice(&offset.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), &rows);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&rows);
        bytes
    }

    /// The table at an offset of a file; none if it is damaged.
    pub fn read(file: &File, offset: u64) -> io::Result<Option<Table>> {
        let mut head = [0; HEAD];
        let got = read_up_to(file, &mut head, offset)?;
        let parts = (long(&head[..got], 0), long(&head[..got], 8), long(&head[..got], 16), word(&head[..got], 24));
        let (Some(end), Some(packed), Some(count), Some(crc)) = parts else { return Ok(None) };
        let length = file.metadata()?.len().saturating_sub(offset + HEAD as u64);
        let Some(size) = usize::try_from(count).ok().and_then(|count| count.checked_mul(ROW)) else { return Ok(None) };
        if size as u64 > length {
            return Ok(None);
        }
        let mut rows = vec![0; size];
        if read_up_to(file, &mut rows, offset + HEAD as u64)? != size
            || crc32c::crc32c_append(crc32c::crc32c(&head[..24]), &rows) != crc
        {
            return Ok(None);
        }
        let rows = rows.chunks_exact(ROW).map(|row| Some((long(row, 0)?, word(row, 8)?))).collect::<Option<_>>();
        Ok(rows.map(|rows| Table { end, packed, rows }))
    }

    /// Where the record at a position is in the file.
    pub fn find(&self, position: u64) -> Option<u64> {
        let at = self.rows.binary_search_by_key(&position, |(position, _)| *position).ok()?;
        Some(u64::from(self.rows[at].1))
    }

    /// The first record at or behind a position.
    pub fn next(&self, position: u64) -> Option<u64> {
        let at = self.rows.partition_point(|(at, _)| *at < position);
        self.rows.get(at).map(|(position, _)| *position)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_table_comes_back_or_is_known_to_be_damaged() {
        for rows in [vec![], vec![(8, 32)], vec![(8, 32), (640, 96), (1 << 40, 4000)]] {
            let table = Table { end: 1 << 41, packed: 77, rows };
            let bytes = table.encode();
            let read = |bytes: &[u8]| {
                let mut file = tempfile::tempfile().expect("a file");
                file.write_all(&[0; 32]).and_then(|()| file.write_all(bytes)).expect("written");
                Table::read(&file, 32).expect("read")
            };
            assert_eq!(read(&bytes), Some(table.clone()));
            for at in 0..bytes.len() {
                let mut other = bytes.clone();
                other[at] ^= 4;
                assert_eq!(read(&other), None, "byte {at}");
                assert_eq!(read(&bytes[..at]), None, "cut at {at}");
            }
            for (position, offset) in &table.rows {
                assert_eq!(table.find(*position), Some(u64::from(*offset)));
                assert_eq!(table.find(position + 1), None);
                assert_eq!(table.next(position - 7), Some(*position));
            }
            assert_eq!(table.next((1 << 40) + 1), None);
        }
    }
}
