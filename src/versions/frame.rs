//! Frames: how a segment and a record begin and end, byte by byte as `FORMAT.md` says.

/// The version of what this module writes.
pub(super) const FORMAT: u32 = 1;
/// Bytes before the first record of a segment.
pub(super) const SEGMENT_HEADER: u64 = 32;
/// Bytes before a record's payload.
pub(super) const RECORD_HEADER: usize = 36;
/// Larger is no record of ours.
pub(super) const PAYLOAD_MAX: usize = 96 << 20;
/// Set in a content's flags: the bytes were given back to the disk, and only the header is left.
pub(super) const PUNCHED: u8 = 0x80;
/// Records begin at multiples of this.
pub(super) const ALIGN: usize = 8;

const SEGMENT_MAGIC: &[u8; 8] = b"WARDFSEG";
const RECORD_MAGIC: u32 = 0x5244_5257;
const CRC: usize = 4;

/// What a record is. Numbers are never given twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordType {
    Blob,
    Op,
    Done,
    Abort,
    Open,
    Close,
    Settle,
    Answer,
    Actor,
    Source,
    Checkpoint,
    Trim,
    Begun,
    Withdrawn,
    Review,
    /// Of a later version (12, 14 and 15 are kept for undo extents, pins and deltas): skipped.
    Unknown(u8),
}

impl RecordType {
    pub fn code(self) -> u8 {
        match self {
            RecordType::Blob => 1,
            RecordType::Op => 2,
            RecordType::Done => 3,
            RecordType::Abort => 4,
            RecordType::Open => 5,
            RecordType::Close => 6,
            RecordType::Settle => 7,
            RecordType::Answer => 8,
            RecordType::Actor => 9,
            RecordType::Source => 10,
            RecordType::Checkpoint => 11,
            RecordType::Trim => 13,
            RecordType::Begun => 16,
            RecordType::Withdrawn => 17,
            RecordType::Review => 18,
            RecordType::Unknown(code) => code,
        }
    }

    pub fn of(code: u8) -> Self {
        match code {
            1 => RecordType::Blob,
            2 => RecordType::Op,
            3 => RecordType::Done,
            4 => RecordType::Abort,
            5 => RecordType::Open,
            6 => RecordType::Close,
            7 => RecordType::Settle,
            8 => RecordType::Answer,
            9 => RecordType::Actor,
            10 => RecordType::Source,
            11 => RecordType::Checkpoint,
            13 => RecordType::Trim,
            16 => RecordType::Begun,
            17 => RecordType::Withdrawn,
            18 => RecordType::Review,
            other => RecordType::Unknown(other),
        }
    }
}

/// The first bytes of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHead {
    /// Random: records of another segment, or of a file that had these blocks before, don't parse here.
    pub salt: u32,
    /// The log position of its first record.
    pub base: u64,
    /// Where in the file the table of a packed segment is; 0 in a segment whose records follow one another without gaps.
    pub table: u32,
}

/// What a segment's first bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SegmentStart {
    Good(SegmentHead),
    /// A whole header of another version.
    OtherFormat(u32),
    Bad,
}

impl SegmentHead {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        bytes.extend_from_slice(SEGMENT_MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.salt.to_le_bytes());
        bytes.extend_from_slice(&self.base.to_le_bytes());
        bytes.extend_from_slice(&self.table.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> SegmentStart {
        let parts = (word(bytes, 8), word(bytes, 12), long(bytes, 16), word(bytes, 24), word(bytes, 28));
        let (Some(format), Some(salt), Some(base), Some(table), Some(crc)) = parts else { return SegmentStart::Bad };
        if &bytes[..8] != SEGMENT_MAGIC || crc32c::crc32c(&bytes[..28]) != crc {
            return SegmentStart::Bad;
        }
        if format != FORMAT {
            return SegmentStart::OtherFormat(format);
        }
        SegmentStart::Good(SegmentHead { salt, base, table })
    }
}

/// The first bytes of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordHead {
    pub kind: RecordType,
    pub flags: u8,
    /// Bytes of payload.
    pub length: usize,
    /// So much of the log was on disk when this record was written.
    pub durable: u64,
}

impl RecordHead {
    /// The position after a record of this length at `lsn`.
    pub fn end(&self, lsn: u64) -> u64 {
        lsn + framed(self.length)
    }

    /// Reads the header of the record that should stand at `lsn`.
    pub fn decode(bytes: &[u8], salt: u32, lsn: u64) -> Option<RecordHead> {
        let header = bytes.get(..RECORD_HEADER)?;
        let length = usize::try_from(word(header, 8)?).ok()?;
        let good = word(header, 0)? == RECORD_MAGIC
            && word(header, 32)? == crc32c::crc32c(&header[..32])
            && long(header, 12)? == lsn
            && word(header, 20)? == salt
            && length <= PAYLOAD_MAX;
        let durable = long(header, 24)?;
        good.then(|| RecordHead { kind: RecordType::of(header[4]), flags: header[5], length, durable })
    }
}

/// Bytes that a payload of this length takes in the log.
pub(super) fn framed(length: usize) -> u64 {
    (RECORD_HEADER + length + CRC).next_multiple_of(ALIGN) as u64
}

/// A whole record. The payload's length was checked.
pub(super) fn encode(kind: RecordType, flags: u8, payload: &[u8], lsn: u64, salt: u32, durable: u64) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a payload is at most 96 MiB");
    let header_length = u16::try_from(RECORD_HEADER).expect("36 fits");
    let mut bytes = Vec::with_capacity((RECORD_HEADER + payload.len() + CRC).next_multiple_of(ALIGN));
    bytes.extend_from_slice(&RECORD_MAGIC.to_le_bytes());
    bytes.push(kind.code());
    bytes.push(flags);
    bytes.extend_from_slice(&header_length.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&lsn.to_le_bytes());
    bytes.extend_from_slice(&salt.to_le_bytes());
    bytes.extend_from_slice(&durable.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
    bytes
}

/// The payload of a record whose bytes begin at its header, with its checksum; none if it is cut off or damaged.
pub(super) fn payload(bytes: &[u8], length: usize) -> Option<(&[u8], u32)> {
    let payload = bytes.get(RECORD_HEADER..RECORD_HEADER + length)?;
    let crc = word(bytes, RECORD_HEADER + length)?;
    (crc32c::crc32c(payload) == crc).then_some((payload, crc))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flipped_byte_of_a_frame_is_noticed() {
        let whole = encode(RecordType::Op, 3, b"payload", 64, 7, 48);
        let read = |bytes: &[u8], salt, lsn| {
            let head = RecordHead::decode(bytes, salt, lsn)?;
            payload(bytes, head.length).map(|(payload, _)| (head, payload.to_vec()))
        };
        let (head, body) = read(&whole, 7, 64).expect("it is whole");
        assert_eq!((head.kind, head.flags, head.durable, &body[..]), (RecordType::Op, 3, 48, &b"payload"[..]));
        assert_eq!(head.end(64), 64 + whole.len() as u64);
        assert_eq!(read(&whole, 8, 64), None, "another segment's salt");
        assert_eq!(read(&whole, 7, 72), None, "another position");
        for at in 0..RECORD_HEADER + 7 + CRC {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            assert_eq!(read(&bytes, 7, 64), None, "byte {at}");
        }
        let start = SegmentHead { salt: 5, base: 640, table: 0 };
        assert_eq!(SegmentHead::decode(&start.encode()), SegmentStart::Good(start));
        for at in 0..32 {
            let mut bytes = start.encode();
            bytes[at] ^= 0x10;
            assert_eq!(SegmentHead::decode(&bytes), SegmentStart::Bad, "byte {at}");
        }
    }

    #[test]
    fn numbers_of_records_go_both_ways() {
        for code in 0..=255 {
            assert_eq!(RecordType::of(code).code(), code);
        }
    }
}
