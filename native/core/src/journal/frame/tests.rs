use proptest::prelude::*;

use super::*;

const HEADER: Header = Header {
    segment: 3,
    sequence: 77,
    durable_through: 76,
    run: 0x0102_0304_0506_0708,
    time_millis: 1_700_000_000_123,
};

fn slice(stream: u128, entries: &[&[u8]]) -> (Descriptor, Part) {
    let entries: Vec<(Bytes, u32)> = entries
        .iter()
        .map(|entry| (Bytes::copy_from_slice(entry), crc32c::crc32c(entry)))
        .collect();
    let descriptor = Descriptor::Slice {
        stream: StreamId::new(stream),
        incarnation: Incarnation::new(2),
        epoch: OwnerEpoch::new(3),
        start: Offset::new(40),
        count: u32::try_from(entries.len()).unwrap(),
        bytes: entries.iter().map(|(entry, _)| entry.len() as u64).sum(),
        messages: 9,
        previous: CommitId::new(5),
        id: CommitId::new(6),
        makes: CommitVersion::new(7),
    };
    (descriptor, Part::Entries(entries))
}

fn change(stream: u128, body: &[u8]) -> (Descriptor, Part) {
    let descriptor = Descriptor::Change {
        stream: StreamId::new(stream),
        makes: CommitVersion::new(8),
    };
    (descriptor, Part::Plain(Bytes::copy_from_slice(body)))
}

fn put(key: Key, onto: Option<u64>, value: Option<&[u8]>) -> (Descriptor, Part) {
    let descriptor = Descriptor::Write {
        key,
        onto: onto.map(Version),
        makes: Version(12),
        delete: value.is_none(),
    };
    (
        descriptor,
        Part::Plain(value.map(Bytes::copy_from_slice).unwrap_or_default()),
    )
}

fn sample() -> Vec<(Descriptor, Part)> {
    vec![
        slice(0xaa, &[b"first", b"", b"third entry"]),
        change(0xbb, b"claimed"),
        put(Key::stream_properties(StreamId::new(0xcc)), None, Some(b"value")),
        put(Key::ledger_grant(), Some(11), None),
    ]
}

fn encoded(deltas: &[(Descriptor, Part)], witnesses: &[Scope]) -> (Vec<u8>, Vec<Placed>) {
    let mut out = AlignedBuffer::default();
    out.extend_from_slice(&[0xff; 10]);
    let places = encode(&HEADER, deltas, witnesses, &mut out);
    (out.to_vec(), places)
}

#[test]
fn a_small_group_is_one_block() {
    let (frame, _) = encoded(&[slice(1, &[&[7; 200]])], &[Some(StreamId::new(1))]);
    assert_eq!(frame.len(), BLOCK);
    assert_eq!(encoded(&[], &[]).0.len(), BLOCK);
}

#[test]
fn everything_is_read_back_and_parts_are_where_they_are_said_to_be() {
    let deltas = sample();
    let witnesses = [None, Some(StreamId::new(4))];
    let (bytes, places) = encoded(&deltas, &witnesses);
    let frame = Frame::decode(&bytes).unwrap();
    assert_eq!(frame.header, HEADER);
    assert_eq!(frame.witnesses, witnesses);
    assert!(frame.body_is_intact(&bytes));
    assert_eq!(frame.deltas.len(), deltas.len());
    for (((descriptor, part), placed), (found, found_at)) in deltas.iter().zip(&places).zip(&frame.deltas) {
        assert_eq!((descriptor, placed), (found, found_at));
        let body = placed.part(&bytes).unwrap();
        assert_eq!(body.len(), part.body_bytes());
    }
    let rows = entries(places[0].part(&bytes).unwrap(), 3).unwrap();
    let body = places[0].part(&bytes).unwrap();
    let read: Vec<&[u8]> = rows.iter().map(|(range, _)| &body[range.clone()]).collect();
    assert_eq!(read, [&b"first"[..], b"", b"third entry"]);
    assert_eq!(
        frame.scopes(),
        [
            None,
            Some(StreamId::new(0xaa)),
            Some(StreamId::new(0xbb)),
            Some(StreamId::new(0xcc))
        ]
    );
}

#[test]
fn l12_a_flipped_byte_is_detected_wherever_it_is() {
    let (bytes, places) = encoded(&sample(), &[Some(StreamId::new(4))]);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        let accepted = match Frame::decode(&damaged) {
            Ok(frame) => frame.body_is_intact(&damaged),
            Err(_) => false,
        };
        assert!(!accepted, "byte {at} of {}", bytes.len());
    }
    let mut damaged = bytes.clone();
    damaged[places[1].position as usize] ^= 1;
    let frame = Frame::decode(&damaged).unwrap();
    let intact: Vec<bool> = frame
        .deltas
        .iter()
        .map(|(_, placed)| placed.part(&damaged).is_some())
        .collect();
    assert_eq!(intact, [true, false, true, true], "damage in the body names its delta");
}

#[test]
fn lengths_past_the_segment_are_refused_before_they_are_believed() {
    let (mut bytes, _) = encoded(&sample(), &[]);
    assert_eq!(sizes(&bytes, 4095), Err(Fault::Damaged));
    assert!(sizes(&bytes, 4096).is_ok());
    bytes[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(sizes(&bytes, 1 << 30), Err(Fault::Damaged));
    assert_eq!(Frame::decode(&bytes), Err(Fault::Damaged));
    assert_eq!(sizes(&[0; BLOCK], 1 << 30), Err(Fault::NotAFrame));
}

#[test]
fn a_newer_format_is_named_only_when_the_frame_is_sound() {
    let (mut bytes, _) = encoded(&sample(), &[]);
    bytes[9] = 2;
    assert_eq!(Frame::decode(&bytes), Err(Fault::Damaged));
    let head = sizes(&bytes, 1 << 20).unwrap().head;
    let crc = header_crc(&bytes[..head]);
    bytes[FIXED - 4..FIXED].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(Frame::decode(&bytes), Err(Fault::Newer(2)));
}

#[test]
fn a_slice_whose_table_does_not_add_up_is_refused() {
    let (bytes, places) = encoded(&[slice(1, &[b"abc", b"de"])], &[]);
    let body = places[0].part(&bytes).unwrap();
    assert!(entries(body, 2).is_ok());
    assert!(entries(body, 1).is_err());
    assert!(entries(body, 3).is_err());
    assert!(entries(body, u32::MAX).is_err());
    assert!(entries(&body[..body.len() - 1], 2).is_err());
    assert!(entries(&[body, &[0]].concat(), 2).is_err());
}

/// The bytes of format 1, for ever: a change here means that journals of released versions cannot be read any more.
#[test]
fn golden_bytes_of_format_1() {
    let (bytes, _) = encoded(
        &[slice(0xaa, &[b"hello"]), put(Key::ledger_grant(), Some(11), Some(b"v"))],
        &[None],
    );
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let hex: String = bytes[..used].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("golden_1.hex").trim());
}

fn any_delta() -> impl Strategy<Value = (Descriptor, Part)> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        (1u128.., proptest::collection::vec(bytes(), 1..5))
            .prop_map(|(stream, entries)| slice(stream, &entries.iter().map(Vec::as_slice).collect::<Vec<_>>())),
        (1u128.., bytes()).prop_map(|(stream, body)| change(stream, &body)),
        (1u128.., any::<u64>(), proptest::option::of(bytes())).prop_map(|(stream, onto, value)| put(
            Key::stream_properties(StreamId::new(stream)),
            (onto != 0).then_some(onto),
            value.as_deref()
        )),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_group_is_read_back(deltas in proptest::collection::vec(any_delta(), 0..40), witnesses in proptest::collection::vec(1u128.., 0..20)) {
        let witnesses: Vec<Scope> = witnesses.into_iter().map(|id| Some(StreamId::new(id))).collect();
        let (bytes, places) = encoded(&deltas, &witnesses);
        prop_assert_eq!(bytes.len() % BLOCK, 0);
        let frame = Frame::decode(&bytes).unwrap();
        prop_assert!(frame.body_is_intact(&bytes));
        prop_assert_eq!(&frame.witnesses, &witnesses);
        let found: Vec<(Descriptor, Placed)> = frame.deltas.clone();
        let written: Vec<(Descriptor, Placed)> = deltas.iter().map(|(descriptor, _)| descriptor.clone()).zip(places).collect();
        prop_assert_eq!(found, written);
    }

    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), magic in any::<bool>()) {
        if magic && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(MAGIC);
        }
        let _ = (sizes(&bytes, 1 << 20), Frame::decode(&bytes), entries(&bytes, 3));
    }

    #[test]
    fn a_sound_header_over_arbitrary_bytes_never_panics(table in proptest::collection::vec(any::<u8>(), 0..400), descriptors in any::<u32>(), witnesses in any::<u32>(), body in any::<u16>()) {
        let (mut bytes, _) = encoded(&[], &[]);
        bytes[12..16].copy_from_slice(&u32::try_from(table.len()).unwrap().to_be_bytes());
        bytes[56..60].copy_from_slice(&u32::from(body).to_be_bytes());
        bytes[60..64].copy_from_slice(&descriptors.to_be_bytes());
        bytes[64..68].copy_from_slice(&witnesses.to_be_bytes());
        bytes[FIXED..FIXED + table.len()].copy_from_slice(&table);
        let crc = header_crc(&bytes[..FIXED + table.len()]);
        bytes[FIXED - 4..FIXED].copy_from_slice(&crc.to_be_bytes());
        let _ = Frame::decode(&bytes);
    }
}
