use proptest::prelude::*;

use super::super::testing::{names, offsets, physical_ids, streams, targets, tasks, views};
use super::*;
use crate::error::ErrorCode;

fn parts() -> impl Strategy<Value = KeyParts> {
    let generations = any::<u64>().prop_map(Generation::new);
    prop_oneof![
        Just(KeyParts::Cluster),
        names().prop_map(|name| KeyParts::Binding { name }),
        Just(KeyParts::LedgerGrant),
        streams().prop_map(|stream| KeyParts::StreamHead { stream }),
        streams().prop_map(|stream| KeyParts::StreamProperties { stream }),
        (streams(), offsets()).prop_map(|(stream, first)| KeyParts::CommitPage { stream, first }),
        (streams(), offsets()).prop_map(|(stream, offset)| KeyParts::TrimMark { stream, offset }),
        (streams(), views(), offsets(), generations).prop_map(|(stream, view, end, generation)| {
            KeyParts::GenerationIndex {
                stream,
                view,
                end,
                generation,
            }
        }),
        (streams(), views()).prop_map(|(stream, view)| KeyParts::GenerationCounter { stream, view }),
        (streams(), targets()).prop_map(|(stream, target)| KeyParts::Quarantine { stream, target }),
        (streams(), names()).prop_map(|(stream, name)| KeyParts::CursorRoot { stream, name }),
        (streams(), names(), any::<u64>(), any::<u16>(), any::<u64>()).prop_map(
            |(stream, name, page, chunk, version)| KeyParts::CursorPage {
                stream,
                name,
                page,
                chunk,
                version
            }
        ),
        (streams(), names(), any::<u64>(), any::<u16>(), any::<u64>()).prop_map(
            |(stream, name, page, chunk, version)| KeyParts::CursorIndex {
                stream,
                name,
                page,
                chunk,
                version
            }
        ),
        tasks().prop_map(|task| KeyParts::Task { task }),
        physical_ids().prop_map(|root| KeyParts::PhysicalRoot { root }),
    ]
}

fn key_of(parts: &KeyParts) -> Key {
    match parts {
        KeyParts::Cluster => Key::cluster(),
        KeyParts::Binding { name } => Key::binding(name).unwrap(),
        KeyParts::LedgerGrant => Key::ledger_grant(),
        KeyParts::StreamHead { stream } => Key::stream_head(*stream),
        KeyParts::StreamProperties { stream } => Key::stream_properties(*stream),
        KeyParts::CommitPage { stream, first } => Key::commit_page(*stream, *first),
        KeyParts::TrimMark { stream, offset } => Key::trim_mark(*stream, *offset),
        KeyParts::GenerationIndex {
            stream,
            view,
            end,
            generation,
        } => Key::generation_index(*stream, *view, *end, *generation),
        KeyParts::GenerationCounter { stream, view } => Key::generation_counter(*stream, *view),
        KeyParts::Quarantine { stream, target } => Key::quarantine(*stream, target).unwrap(),
        KeyParts::CursorRoot { stream, name } => Key::cursor_root(*stream, name).unwrap(),
        KeyParts::CursorPage {
            stream,
            name,
            page,
            chunk,
            version,
        } => Key::cursor_page(*stream, name, *page, *chunk, *version).unwrap(),
        KeyParts::CursorIndex {
            stream,
            name,
            page,
            chunk,
            version,
        } => Key::cursor_index(*stream, name, *page, *chunk, *version).unwrap(),
        KeyParts::Task { task } => Key::task(*task),
        KeyParts::PhysicalRoot { root } => Key::physical_root(root).unwrap(),
    }
}

proptest! {
    #[test]
    fn keys_round_trip_and_know_kind_and_stream(parts in parts()) {
        let key = key_of(&parts);
        prop_assert!(key.as_bytes().len() <= MAX_KEY_BYTES);
        prop_assert_eq!(&key.parse().unwrap(), &parts);
        prop_assert_eq!(&Key::from_bytes(key.to_bytes()).unwrap(), &key);
        let (from, to) = Key::kind_range(key.kind().unwrap());
        prop_assert!(from <= key && key < to);
        if let Some(stream) = key.stream() {
            let (from, to) = Key::stream_range(key.kind().unwrap(), stream);
            prop_assert!(from <= key && key < to);
            prop_assert!(Key::check_range(&from, &to).is_ok());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_only_whole_keys_are_read(bytes: Vec<u8>) {
        if let Ok(key) = Key::from_bytes(bytes.clone().into()) {
            let again = key_of(&key.parse().unwrap());
            prop_assert_eq!(again.as_bytes(), &bytes[..]);
        }
        let _ = Key(bytes.into()).to_string();
    }

    #[test]
    fn cut_off_or_extended_keys_are_refused(parts in parts(), at: prop::sample::Index, more: u8) {
        let bytes = key_of(&parts).to_bytes();
        let cut = at.index(bytes.len());
        prop_assert!(Key::from_bytes(bytes.slice(..cut)).is_err());
        let longer: Vec<u8> = bytes.iter().copied().chain([more]).collect();
        prop_assert!(Key::from_bytes(longer.into()).is_err());
    }

    #[test]
    fn byte_order_is_logical_order_for_offsets(stream in streams(), a in offsets(), b in offsets()) {
        prop_assert_eq!(Key::commit_page(stream, a).cmp(&Key::commit_page(stream, b)), a.cmp(&b));
        prop_assert_eq!(Key::trim_mark(stream, a).cmp(&Key::trim_mark(stream, b)), a.cmp(&b));
    }

    #[test]
    fn byte_order_is_logical_order_for_generations(
        stream in streams(),
        a in (views(), offsets(), 0u64..300),
        b in (views(), offsets(), 0u64..300),
    ) {
        let key = |(view, end, generation): (ReadView, Offset, u64)| {
            Key::generation_index(stream, view, end, Generation::new(generation))
        };
        prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
    }

    #[test]
    fn byte_order_is_logical_order_for_cursors(
        stream in streams(),
        a in (names(), any::<u64>(), any::<u16>(), any::<u64>()),
        b in (names(), any::<u64>(), any::<u16>(), any::<u64>()),
    ) {
        let page = |(name, page, chunk, version): &(String, u64, u16, u64)| {
            Key::cursor_page(stream, name, *page, *chunk, *version).unwrap()
        };
        prop_assert_eq!(page(&a).cmp(&page(&b)), a.cmp(&b));
        let (from, to) = Key::cursor_page_range(stream, &a.0).unwrap();
        prop_assert_eq!((from..to).contains(&page(&b)), a.0 == b.0, "pages of one cursor are a range of their own");
    }

    #[test]
    fn streams_never_mix(a in streams(), b in streams(), offset in offsets()) {
        prop_assume!(a != b);
        let (from, to) = Key::stream_range(RecordType::CommitPage, a);
        prop_assert!(!(from..to).contains(&Key::commit_page(b, offset)));
    }
}

#[test]
fn last_stream_has_a_range_too() {
    let last = StreamId::new(u128::MAX);
    let (from, to) = Key::stream_range(RecordType::CommitPage, last);
    let key = Key::commit_page(last, Offset::MAX);
    assert!(from < key && key < to);
    Key::check_range(&from, &to).unwrap();
}

#[test]
fn ranges_over_two_streams_kinds_or_backwards_are_refused() {
    let page = |stream, first| Key::commit_page(StreamId::new(stream), Offset::new(first));
    for (from, to) in [
        (page(1, 0), page(2, 5)),
        (page(1, 5), page(1, 0)),
        (page(1, 0), Key::trim_mark(StreamId::new(1), Offset::new(1))),
        Key::kind_range(RecordType::CommitPage),
    ] {
        let error = Key::check_range(&from, &to).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Invalid, "{from} .. {to}");
    }
    Key::check_range(&page(1, 5), &page(1, 9)).unwrap();
    let (from, to) = Key::kind_range(RecordType::Task);
    Key::check_range(&from, &to).unwrap();
}

#[test]
fn bad_names_are_refused_by_name() {
    for name in ["", &"x".repeat(MAX_NAME_BYTES + 1)] {
        let error = Key::cursor_root(StreamId::new(1), name).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Invalid);
        assert!(error.to_string().contains("cursor name"), "{error}");
    }
    let longest = Key::cursor_page(StreamId::new(1), &"\0".repeat(MAX_NAME_BYTES), 1, 2, 3).unwrap();
    assert!(longest.as_bytes().len() <= MAX_KEY_BYTES);
    assert_eq!(
        longest.parse().unwrap(),
        Key::from_bytes(longest.to_bytes()).unwrap().parse().unwrap()
    );
}

#[test]
fn keys_show_as_paths() {
    let stream = StreamId::new(0xab);
    assert_eq!(
        Key::commit_page(stream, Offset::new(7)).to_string(),
        format!("CommitPage/{stream}/7")
    );
    assert_eq!(
        Key::binding("public/default/persistent/t").unwrap().to_string(),
        "Binding/public/default/persistent/t"
    );
    let (from, _) = Key::stream_range(RecordType::CommitPage, stream);
    assert!(from.to_string().starts_with("CommitPage?12"), "{from}");
}
