//! Folders, archives and compressed files, and bombs: inputs made to expand without bound.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

use bzip2::write::BzEncoder;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::bundle::read_within;
use super::super::record::RECORD_BYTES_MAX;
use super::super::{Found, RATIO_MAX, read, read_path};
use super::{line, list, summary, words, yaml};

type Members<'a> = &'a [(&'a str, Vec<u8>)];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).expect("memory");
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A tar with a folder, and links that lead out of it.
pub(super) fn tar(members: Members<'_>) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    builder
        .append_data(&mut header, "bundle/", io::empty())
        .expect("memory");
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    builder
        .append_link(&mut header, "bundle/link", "/etc/passwd")
        .expect("memory");
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        // The library refuses names that lead out of the archive, so the test writes them itself.
        if name.contains("..") || name.starts_with('/') {
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, bytes.as_slice()).expect("memory");
        } else {
            builder
                .append_data(&mut header, name, bytes.as_slice())
                .expect("memory");
        }
    }
    builder.into_inner().expect("memory")
}

pub(super) fn zip(members: Members<'_>) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Deflated);
    for (name, bytes) in members {
        writer.start_file(*name, options).expect("memory");
        writer.write_all(bytes).expect("memory");
    }
    writer.finish().expect("memory").into_inner()
}

fn of_path(path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    read_path(path, &|_| {}, &mut |found| {
        all.push(words(found));
        ControlFlow::Continue(())
    })
    .expect("it can be opened");
    all
}

fn bundle() -> Vec<(&'static str, Vec<u8>)> {
    let long = "cluster-resources/events/a-namespace-with-a-long-name-as-people-give-them-to-these/and-so-on/events.yaml";
    vec![
        (
            "events/shop.json",
            list(&["a", "b"]).to_string().into_bytes(),
        ),
        (long, yaml(&list(&["c"])).into_bytes()),
        (
            "logs/web.log",
            b"{\"level\":\"info\"}\nplain {text\n".to_vec(),
        ),
        (
            "pods/shop.json",
            b"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[]}".to_vec(),
        ),
        ("more/lines.jsonl.gz", gzip(line("d").as_bytes())),
    ]
}

#[test]
fn a_bundle_is_read_as_it_was_sent() {
    let members = bundle();
    let long = members[1].0;
    let expected = |outer: &str| {
        [
            format!("{outer}events/shop.json:1: n/a"),
            format!("{outer}events/shop.json:1 event 2: n/b"),
            format!("{outer}{long}:3: n/c"),
            format!("{outer}more/lines.jsonl.gz:1: n/d"),
        ]
    };
    for packed in [
        tar(&members),
        gzip(&tar(&members)),
        zstd(&tar(&members)),
        xz(&tar(&members)),
        bzip2(&tar(&members)),
        zip(&members),
        gzip(&zip(&members)),
    ] {
        assert_eq!(summary(&packed), expected(""));
        for outer in [
            zip(&[("in.bin", packed.clone())]),
            gzip(&tar(&[("in.bin", packed)])),
        ] {
            assert_eq!(summary(&outer), expected("in.bin/"));
        }
    }

    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in &members {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, bytes).expect("a file");
    }
    // The folder's members come in the order of their names.
    let mut in_order = expected("");
    in_order.rotate_left(2);
    assert_eq!(
        of_path(folder.path()),
        [&in_order[..1], &in_order[2..], &in_order[1..2]].concat()
    );
    for (name, bytes) in [
        ("one.zip", zip(&members)),
        ("one.tgz", gzip(&tar(&members))),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        assert_eq!(of_path(&path), expected(""));
    }
    assert!(of_path(folder.path()).len() == 12);
}

#[test]
fn names_are_words() {
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::write(outside.path().join("secret.json"), line("secret")).expect("a file");
    let names = ["../../secret.json", "/etc/x.json", "a/../b.json"];
    let members: Vec<_> = names
        .iter()
        .map(|name| (*name, line("a").into_bytes()))
        .collect();
    let expected: Vec<_> = names.iter().map(|name| format!("{name}:1: n/a")).collect();
    assert_eq!(summary(&tar(&members)), expected);
    assert_eq!(summary(&zip(&members)), expected);
    #[cfg(unix)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(outside.path(), folder.path().join("link")).expect("a link");
        std::os::unix::fs::symlink(folder.path(), folder.path().join("round")).expect("a link");
        std::fs::write(folder.path().join("a.json"), line("a")).expect("a file");
        assert_eq!(of_path(folder.path()), ["a.json:1: n/a"]);
    }
}

#[test]
fn an_archive_without_events_says_what_it_is() {
    let members = [("a.txt", b"text".to_vec()), ("b.json", b"{}".to_vec())];
    let one = &members[..1];
    for (packed, what) in [
        (zip(&members), "a zip archive of 2 files"),
        (tar(&members), "a tar archive of 2 files"),
        (
            gzip(&tar(one)),
            "a tar archive of one file, which is text of something else",
        ),
        (zip(&[]), "a zip archive of 0 files"),
        // Neither an empty file nor an empty list speaks for its neighbours.
        (
            zip(&[("a.log", Vec::new()), one[0].clone()]),
            "a zip archive of 2 files",
        ),
        (
            zip(&[("a.json", b"{\"items\":[]}".to_vec()), one[0].clone()]),
            "a zip archive of 2 files",
        ),
        (gzip(b"text"), "text of something else"),
    ] {
        assert_eq!(summary(&packed), [format!("= {what}")]);
    }
    let folder = tempfile::tempdir().expect("a folder");
    assert_eq!(of_path(folder.path()), ["= a folder of 0 files"]);
    // An input that is no list of events differs from an empty list.
    assert_eq!(
        summary(&zip(&[(
            "a",
            b"{\"kind\":\"EventList\",\"items\":[]}".to_vec()
        )])),
        Vec::<String>::new()
    );
}

#[test]
fn what_is_damaged_keeps_nothing_else_from_being_read() {
    let members = bundle();
    let whole = gzip(&tar(&members));
    for length in [whole.len() / 3, whole.len() * 2 / 3] {
        let found = summary(&whole[..length]);
        let failed = found.iter().filter(|it| it.contains("!! ")).count();
        assert!((1..=2).contains(&failed), "{found:?}");
    }

    let mut bytes = zip(&members);
    let at = bytes
        .windows(4)
        .position(|it| it == b"shop")
        .expect("a name")
        + 20;
    bytes[at] ^= 0xff;
    let found = summary(&bytes);
    assert!(
        found
            .iter()
            .any(|it| it.starts_with("events/shop.json:") && it.contains("!! ")),
        "{found:?}"
    );
    assert_eq!(found[found.len() - 2..], summary(&whole)[2..]);
    // The end of a zip has its list of members.
    let bytes = zip(&members);
    let cut = summary(&bytes[..bytes.len() - 30]);
    assert_eq!(cut[..4], summary(&whole));
    assert!(cut.len() == 5 && cut[4].contains("!! "), "{cut:?}");

    // What is packed in another way is named.
    let packed = [
        ("a.json", line("a").into_bytes()),
        ("b.tar.lz4", b"\x04\x22\x4d\x18\0".to_vec()),
    ];
    assert_eq!(
        summary(&tar(&packed)),
        [
            "a.json:1: n/a",
            "b.tar.lz4:1!! an lz4 file: decompress it first"
        ]
    );
    // Blocks of a tape end with zeros.
    let filled = [gzip(line("a").as_bytes()), vec![0; 1000]].concat();
    assert_eq!(summary(&filled), ["1: n/a"]);
    let both = [filled, gzip(line("b").as_bytes())].concat();
    assert_eq!(summary(&both), ["1: n/a", "1 event 2: n/b"]);
    let begun = [
        b"\x50\x2a\x4d\x18\x01\0\0\0x".to_vec(),
        zstd(line("a").as_bytes()),
    ];
    assert_eq!(summary(&begun.concat()), ["1: n/a"]);
    // Several streams, as xz and bzip2 append them.
    for pack in [xz, bzip2] {
        // So long that the first is read before the cut.
        let first = line("a") + &" ".repeat(200 << 10);
        let both = [pack(first.as_bytes()), pack(line("b").as_bytes())].concat();
        assert_eq!(summary(&both), ["1: n/a", "1 event 2: n/b"]);
        let cut = summary(&both[..both.len() - 40]);
        assert!(
            cut.len() == 2 && cut[0] == "1: n/a" && cut[1].contains("!! "),
            "{cut:?}"
        );
    }
}

/// A stream of this many zeros.
fn zeros(bytes: u64) -> impl Read {
    io::repeat(0).take(bytes)
}

fn packed_zeros(bytes: u64) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    io::copy(&mut zeros(bytes), &mut encoder).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn what_expands_too_much_ends_with_an_error() {
    /// A small bound, so that the test needs little data.
    const FREE: u64 = 1 << 20;
    let summary = |input: &[u8]| {
        let mut all = Vec::new();
        read_within(FREE, input, &|_| {}, &mut |found| {
            all.push(words(found));
            ControlFlow::Continue(())
        });
        all
    };
    let too_much =
        format!("it expands to more than {RATIO_MAX} times its size: the rest is not read");
    let expected = [format!("1!! {too_much}")];
    let text = vec![0; 4 * FREE as usize];
    for bomb in [packed_zeros(4 * FREE), zstd(&text), xz(&text), bzip2(&text)] {
        assert_eq!(summary(&bomb), expected);
    }
    // An xz stream whose header asks for a window of 4 GiB.
    let mut wide = xz(line("a").as_bytes());
    let at = wide[12..]
        .iter()
        .position(|byte| *byte == 0x21)
        .expect("a filter")
        + 12;
    wide[at + 2] = 40;
    let header = 12..12 + (usize::from(wide[12]) + 1) * 4 - 4;
    let mut check = flate2::Crc::new();
    check.update(&wide[header.clone()]);
    wide[header.end..header.end + 4].copy_from_slice(&check.sum().to_le_bytes());
    let found = summary(&wide);
    assert!(
        found.len() == 1 && found[0].contains("!! needed memory too big"),
        "{found:?}"
    );
    // The bound holds however the bytes are divided.
    let quarter = packed_zeros(FREE / 4);
    let names: Vec<_> = (0..16).map(|number| number.to_string()).collect();
    let members: Vec<_> = names
        .iter()
        .map(|name| (&**name, quarter.clone()))
        .collect();
    assert_eq!(summary(&zip(&members)), expected);

    let mut deep = zip(&[("a.json", line("a").into_bytes())]);
    for _ in 0..3 {
        deep = zip(&[("in.zip", deep)]);
    }
    assert_eq!(
        summary(&deep),
        ["in.zip/in.zip:1!! an archive deeper within others than is read"]
    );
    let thrice = gzip(&gzip(&gzip(line("a").as_bytes())));
    assert_eq!(summary(&thrice), ["1!! compressed more often than is read"]);
    // The library would read the whole name into memory.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(64 << 20);
    header.set_cksum();
    let input = io::Cursor::new(header.as_bytes().to_vec()).chain(zeros(64 << 20));
    let mut found = Vec::new();
    read(input, &|_| {}, &mut |it: Found| {
        found.push(words(it));
        ControlFlow::Continue(())
    });
    assert_eq!(found, ["= a tar archive of 0 files"]);
}

/// A reader that repeats a text, and counts how far it was read.
struct Again<'a>(&'a str, &'a Cell<usize>, usize);
impl Read for Again<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.1.get() == 0 {
            return Ok(0);
        }
        let length = (&self.0.as_bytes()[self.2..]).read(buffer)?;
        self.2 += length;
        if self.2 == self.0.len() {
            self.1.set(self.1.get() - 1);
            self.2 = 0;
        }
        Ok(length)
    }
}

/// More than a record may have of something that never ends hides nothing behind it.
#[test]
fn brackets_and_lines_without_end_do_not_hide_what_follows() {
    const LENGTH: usize = RECORD_BYTES_MAX + (64 << 10);
    for piece in [
        "{\"a\":",
        "[",
        "{\"a\":[",
        "x",
        "{\"a\":\"x",
        " ",
        "\\",
        "{",
        "a: ",
    ] {
        let text = piece.repeat(64 << 10);
        let left = Cell::new(LENGTH / text.len());
        let end = format!("\n{}\n", line("a"));
        let input = Again(&text, &left, 0).chain(end.as_bytes());
        let mut events = 0;
        read(input, &|_| {}, &mut |found| {
            events += usize::from(matches!(found, Found::Record(record) if record.event.is_ok()));
            ControlFlow::Continue(())
        });
        assert_eq!(events, 1, "behind {piece:?}");
    }
}
