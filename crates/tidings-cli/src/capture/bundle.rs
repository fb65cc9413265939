//! Reads folders, archives and compressed files, and the texts in them.
//!
//! The first bytes of a file decide what it is, never its name. Names of members are only text: no
//! file is opened, created or followed by them, and links are skipped.
//!
//! Invariants: an archive may be within an archive, but not deeper ([`ARCHIVES_MAX`]). Decompressed
//! bytes are at most [`RATIO_MAX`] times the input, or [`EXPANDED_BYTES_FREE`]. There are at most
//! [`MEMBERS_MAX`] members. All inputs are read as a stream, except a zip, which is read from its
//! end.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::GzDecoder;
use lzma_rust2::XzReader;

use super::logs::Logs;
use super::record::{Found, Place};
use super::scan::{Scanner, read_nested};
use super::sink::Sink;
use super::text::{Text, Uncoloured};

/// Maximum nesting of archives: an archive, and the archives in it.
pub const ARCHIVES_MAX: usize = 2;
/// Maximum decompressed bytes for each byte of the input.
pub const RATIO_MAX: u64 = 200;
/// Decompressed bytes up to which the ratio is not checked.
pub const EXPANDED_BYTES_FREE: u64 = 256 << 20;
/// Maximum members of all folders and archives of one input.
pub const MEMBERS_MAX: u64 = 1_000_000;
/// Maximum size of a zip within another archive, or from a pipe: it is copied to a temporary file.
pub const COPIED_ZIP_BYTES_MAX: u64 = 1 << 30;
/// Maximum nesting of compressions.
const COMPRESSIONS_MAX: usize = 2;
/// Maximum nesting of folders.
const FOLDERS_MAX: usize = 64;
/// Maximum window of zstd, as a power of two; it is zstd's own limit.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Maximum memory of xz, in KiB. `xz -9` needs 65 MiB.
const XZ_KIB_MAX: u32 = 160 << 10;
/// Maximum length of a member's name in an extended header, in bytes.
const NAME_BYTES_MAX: u64 = 64 << 10;

/// Bytes from which every file format can be recognised.
const LOOK: usize = 512;
const ZIP: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
const TAR: &[u8] = b"ustar";
const TAR_AT: usize = 257;

/// A compressed format, by the first bytes of a file.
#[derive(Clone, Copy, Debug)]
enum Compression {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

impl Compression {
    fn of(beginning: &[u8]) -> Option<Self> {
        match beginning {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            // The second one is a frame that zstd skips.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            // A block, or the end of an empty file.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, ..] => Some(Self::Bzip2),
            _ => None,
        }
    }

    /// A reader of all members or frames of an input.
    fn decoder<'r>(self, input: impl BufRead + 'r) -> io::Result<Box<dyn Read + 'r>> {
        Ok(match self {
            Self::Gzip => Box::new(Gzip(Some(GzDecoder::new(input)))),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
            Self::Xz => Box::new(XzReader::new_mem_limit(input, true, XZ_KIB_MAX)),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(input)),
        })
    }
}

/// A bound that ends the reading of an input.
#[derive(Debug, thiserror::Error)]
enum Exceeded {
    #[error("it expands to more than {RATIO_MAX} times its size: the rest is not read")]
    Ratio,
    #[error("it has more than {MEMBERS_MAX} files: the rest is not read")]
    Members,
}

fn is_exceeded(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Exceeded>)
}

/// The state of reading one input: the bounds used so far, and the consumer of its events.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each says what was seen, and none excludes another"
)]
struct Reading<'t> {
    take: &'t mut dyn FnMut(Found) -> ControlFlow<()>,
    counts: Counts<'t>,
    events: u64,
    members: u64,
    is_stopped: bool,
    is_failed: bool,
    has_empty_list: bool,
    /// Whether there are texts without events that are neither empty nor an empty list.
    has_other: bool,
    /// The input's container format; `None` for a plain text.
    container: Option<&'static str>,
    /// A description of the first text without events.
    what: String,
}

#[derive(Clone, Copy)]
struct Counts<'t> {
    input: &'t Cell<u64>,
    expanded: &'t Cell<u64>,
    /// Decompressed bytes up to which the ratio is not checked.
    free: u64,
    progress: &'t dyn Fn(u64),
}

/// The archives and compressions around a text.
#[derive(Debug, Clone, Copy, Default)]
struct Depth {
    archives: usize,
    compressions: usize,
}

/// Reads a stream: a capture, compressed or not, or an archive. Passes every event and failure to
/// `take`, in order, until it returns [`ControlFlow::Break`].
///
/// ```
/// use std::ops::ControlFlow;
/// use tidings_cli::capture::{self, Found};
///
/// let printed = br#"{"kind":"List","items":[{"involvedObject":{"kind":"Pod","namespace":"web"},"message":"hi"}]}"#;
/// let mut namespaces = Vec::new();
/// capture::read(&printed[..], &|_| {}, &mut |found| {
///     if let Found::Record(record) = found {
///         namespaces.push(record.event.map(|event| event.namespace));
///     }
///     ControlFlow::Continue(())
/// });
/// assert_eq!(namespaces, [Ok("web".to_owned())]);
/// ```
pub fn read(
    input: impl Read,
    progress: &dyn Fn(u64),
    take: &mut dyn FnMut(Found) -> ControlFlow<()>,
) {
    read_within(EXPANDED_BYTES_FREE, input, progress, take);
}

/// Reads a stream that may expand to `free` bytes, or to [`RATIO_MAX`] times its size.
pub(super) fn read_within(
    free: u64,
    input: impl Read,
    progress: &dyn Fn(u64),
    take: &mut dyn FnMut(Found) -> ControlFlow<()>,
) {
    with_reading(free, progress, take, |reading| {
        let input = Counted {
            input,
            counts: reading.counts,
        };
        reading.stream(Box::new(input), Depth::default(), None)
    });
}

/// Reads a file or a folder, as [`read`] reads a stream.
///
/// # Errors
/// The file or folder cannot be opened. Later failures are passed to `take`.
pub fn read_path(
    path: &Path,
    progress: &dyn Fn(u64),
    take: &mut dyn FnMut(Found) -> ControlFlow<()>,
) -> io::Result<()> {
    if std::fs::metadata(path)?.is_dir() {
        let root = list(path)?;
        with_reading(EXPANDED_BYTES_FREE, progress, take, |reading| {
            reading.folder(path, root)
        });
        return Ok(());
    }
    let file = File::open(path)?;
    with_reading(EXPANDED_BYTES_FREE, progress, take, |reading| {
        reading.file(file, Depth::default(), None)
    });
    Ok(())
}

fn with_reading(
    free: u64,
    progress: &dyn Fn(u64),
    take: &mut dyn FnMut(Found) -> ControlFlow<()>,
    read: impl FnOnce(&mut Reading<'_>) -> io::Result<()>,
) {
    let (input, expanded) = (Cell::new(0), Cell::new(0));
    let mut reading = Reading {
        take,
        counts: Counts {
            input: &input,
            expanded: &expanded,
            free,
            progress,
        },
        events: 0,
        members: 0,
        is_stopped: false,
        is_failed: false,
        has_empty_list: false,
        has_other: false,
        container: None,
        what: String::new(),
    };
    if let Err(error) = read(&mut reading) {
        reading.failed(None, &error);
    }
    reading.finish();
}

impl Reading<'_> {
    fn hand_over(&mut self, found: Found) {
        if !self.is_stopped {
            self.is_stopped = (self.take)(found).is_break();
        }
    }

    fn failed(&mut self, member: Option<Arc<str>>, error: &io::Error) {
        self.is_failed = true;
        self.hand_over(Found::Failed {
            place: Place {
                member,
                line: 1,
                nth: 1,
            },
            why: error.to_string(),
        });
    }

    fn finish(mut self) {
        let is_empty = !self.has_other && (self.has_empty_list || self.container.is_none());
        if self.events > 0 || self.is_failed || is_empty {
            return;
        }
        let what = match (self.container, self.members) {
            (None, _) => std::mem::take(&mut self.what),
            (Some(container), 1) => format!("{container} of one file, which is {}", self.what),
            (Some(container), members) => format!("{container} of {members} files"),
        };
        self.hand_over(Found::Nothing { what });
    }

    /// Counts a member, and fails beyond the maximum.
    fn member(&mut self) -> io::Result<()> {
        self.members += 1;
        if self.members > MEMBERS_MAX {
            return Err(io::Error::other(Exceeded::Members));
        }
        Ok(())
    }

    /// Reads the files of a folder and of its subfolders, in the order of their names.
    fn folder(&mut self, root: &Path, entries: Vec<PathBuf>) -> io::Result<()> {
        self.container = Some("a folder");
        let mut open = vec![entries];
        while let Some(entries) = open.last_mut() {
            if self.is_stopped {
                break;
            }
            let Some(path) = entries.pop() else {
                open.pop();
                continue;
            };
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
            let name: Arc<str> = name.into();
            let read = std::fs::symlink_metadata(&path).and_then(|metadata| {
                if metadata.is_dir() {
                    if open.len() >= FOLDERS_MAX {
                        return Err(io::Error::other(
                            "more folders within each other than are read",
                        ));
                    }
                    open.push(list(&path)?);
                } else if metadata.is_file() {
                    self.member()?;
                    self.file(File::open(&path)?, Depth::default(), Some(&name))?;
                }
                Ok(())
            });
            match read {
                Err(error) if is_exceeded(&error) => return Err(error),
                Err(error) => self.failed(Some(name), &error),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Reads a file. A zip is read in place.
    fn file(&mut self, mut file: File, depth: Depth, member: Option<&Arc<str>>) -> io::Result<()> {
        let mut beginning = Vec::new();
        if file.metadata()?.is_file() {
            (&mut file).take(LOOK as u64).read_to_end(&mut beginning)?;
            file.rewind()?;
        }
        if is_zip(&beginning) {
            let length = file.metadata()?.len();
            let counts = self.counts;
            counts.input.set(counts.input.get() + length);
            let result = self.zip(file, depth, member);
            (counts.progress)(length);
            return result;
        }
        let input = Counted {
            input: file,
            counts: self.counts,
        };
        self.stream(Box::new(input), depth, member)
    }

    /// Reads an input as a stream.
    fn stream(
        &mut self,
        input: Box<dyn Read + '_>,
        depth: Depth,
        member: Option<&Arc<str>>,
    ) -> io::Result<()> {
        let mut input = BufReader::with_capacity(64 << 10, input);
        let mut beginning = Vec::new();
        (&mut input).take(LOOK as u64).read_to_end(&mut beginning)?;
        let compression = Compression::of(&beginning);
        let is_tar = beginning
            .get(TAR_AT..)
            .is_some_and(|it| it.starts_with(TAR));
        let whole = io::Cursor::new(beginning.clone()).chain(input);
        if let Some(compression) = compression {
            let mut depth = depth;
            depth.compressions += 1;
            if depth.compressions > COMPRESSIONS_MAX {
                return Err(io::Error::other("compressed more often than is read"));
            }
            let input = compression.decoder(whole)?;
            let input = Expanded {
                input,
                counts: self.counts,
            };
            return self.stream(Box::new(input), depth, member);
        }
        if is_tar {
            return self.tar(whole, depth, member);
        }
        if is_zip(&beginning) {
            let copy = copied(whole)?;
            return self.zip(copy, depth, member);
        }
        self.text(whole, member)
    }

    fn text(&mut self, input: impl Read, member: Option<&Arc<str>>) -> io::Result<()> {
        let mut sink = Sink::new(member.cloned(), self.take, read_nested);
        // Docker's lines have the escape sequences within JSON.
        let lines = Uncoloured::new(Logs::new(Uncoloured::new(Text::new(input))));
        let mut scanner = Scanner::new(lines, &mut sink);
        let result = scanner.run();
        let line = scanner.at.line;
        let result = match result {
            Err(error) if !is_exceeded(&error) && !sink.is_stopped() => {
                sink.failed(line, error.to_string());
                Ok(())
            }
            result => result,
        };
        sink.finish();
        self.is_stopped |= sink.is_stopped();
        let seen = sink.seen;
        self.events += seen.events;
        self.is_failed |= seen.is_failed;
        if seen.events == 0 {
            if self.what.is_empty() {
                self.what = seen.what();
            }
            self.has_empty_list |= seen.is_empty_list();
            self.has_other |= !(seen.is_empty() || seen.is_empty_list());
        }
        // A container's other members do not hide what is packed in it.
        if let Some(words) = seen.packed()
            && self.container.is_some()
        {
            self.failed(member.cloned(), &io::Error::other(words));
        }
        result
    }

    /// Begins an archive; fails if it is nested too deeply.
    fn archive(&mut self, depth: Depth, kind: &'static str) -> io::Result<Depth> {
        let archives = depth.archives + 1;
        if archives > ARCHIVES_MAX {
            return Err(io::Error::other(
                "an archive deeper within others than is read",
            ));
        }
        self.container.get_or_insert(kind);
        Ok(Depth {
            archives,
            compressions: 0,
        })
    }

    /// Reads the members of a tar. Extended headers are read here, within a bound, because the
    /// library reads them whole.
    fn tar(&mut self, input: impl Read, depth: Depth, outer: Option<&Arc<str>>) -> io::Result<()> {
        let depth = self.archive(depth, "a tar archive")?;
        let mut archive = tar::Archive::new(input);
        let mut name: Option<String> = None;
        for entry in archive.entries()?.raw(true) {
            if self.is_stopped {
                break;
            }
            let mut entry = entry?;
            let kind = entry.header().entry_type();
            if kind.is_gnu_longname() || kind.is_pax_local_extensions() {
                let mut bytes = Vec::new();
                (&mut entry).take(NAME_BYTES_MAX).read_to_end(&mut bytes)?;
                name = if kind.is_gnu_longname() {
                    Some(lossy(without_zeros(&bytes)))
                } else {
                    pax_path(&bytes).or(name)
                };
                continue;
            }
            if !(kind.is_file() || kind.is_contiguous()) {
                // The member after a global header, a link or a folder has its own name.
                if !kind.is_pax_global_extensions() && !kind.is_gnu_longlink() {
                    name = None;
                }
                continue;
            }
            self.member()?;
            let name = name.take().unwrap_or_else(|| lossy(&entry.path_bytes()));
            let name = within(outer, &name);
            self.take_member(Box::new(entry), depth, name)?;
        }
        Ok(())
    }

    /// Reads the members of a zip.
    fn zip(
        &mut self,
        file: impl Read + Seek,
        depth: Depth,
        outer: Option<&Arc<str>>,
    ) -> io::Result<()> {
        let depth = self.archive(depth, "a zip archive")?;
        let mut file = BufReader::new(file);
        let mut archive = match zip::ZipArchive::new(&mut file) {
            Ok(archive) => archive,
            Err(error) => {
                file.rewind()?;
                self.cut_zip(file, depth, outer)?;
                return Err(io::Error::other(error));
            }
        };
        for index in 0..archive.len() {
            if self.is_stopped {
                break;
            }
            let name = archive.name_for_index(index).and_then(Result::ok);
            let name = within(outer, &name.unwrap_or_default());
            let member = match archive.by_index(index) {
                Ok(member) if !member.is_file() => continue,
                Ok(member) => member,
                Err(error) => {
                    self.failed(Some(name), &io::Error::other(error));
                    continue;
                }
            };
            self.member()?;
            let member = Expanded {
                input: member,
                counts: self.counts,
            };
            self.take_member(Box::new(member), depth, name)?;
        }
        Ok(())
    }

    /// Reads the members of a zip whose end is missing, and with it the list of its members.
    fn cut_zip(
        &mut self,
        mut file: impl Read,
        depth: Depth,
        outer: Option<&Arc<str>>,
    ) -> io::Result<()> {
        while !self.is_stopped
            && let Ok(Some(member)) = zip::read::read_zipfile_from_stream(&mut file)
        {
            if member.is_file() {
                self.member()?;
                let name = within(outer, &member.name().unwrap_or_default());
                let member = Expanded {
                    input: member,
                    counts: self.counts,
                };
                self.take_member(Box::new(member), depth, name)?;
            }
        }
        Ok(())
    }

    /// Reads a member. If it cannot be read, the other members still are.
    fn take_member(
        &mut self,
        input: Box<dyn Read + '_>,
        depth: Depth,
        name: Arc<str>,
    ) -> io::Result<()> {
        match self.stream(input, depth, Some(&name)) {
            Err(error) if !is_exceeded(&error) => {
                self.failed(Some(name), &error);
                Ok(())
            }
            result => result,
        }
    }
}

/// Copies a zip to a temporary file, because a zip is read from its end.
fn copied(input: impl Read) -> io::Result<File> {
    let mut copy = tempfile::tempfile()?;
    let mut input = input.take(COPIED_ZIP_BYTES_MAX + 1);
    let length = io::copy(&mut input, &mut copy)?;
    if length > COPIED_ZIP_BYTES_MAX {
        let why = format!(
            "a zip of more than {COPIED_ZIP_BYTES_MAX} bytes within something else: take it out first"
        );
        return Err(io::Error::other(why));
    }
    copy.flush()?;
    copy.rewind()?;
    Ok(copy)
}

fn is_zip(beginning: &[u8]) -> bool {
    ZIP.iter().any(|magic| beginning.starts_with(magic))
}

/// The paths in a folder, in reverse order.
fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<io::Result<_>>()?;
    paths.sort_unstable_by(|one, other| other.cmp(one));
    Ok(paths)
}

fn within(outer: Option<&Arc<str>>, name: &str) -> Arc<str> {
    outer.map_or_else(|| name.into(), |outer| format!("{outer}/{name}").into())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The path that an extended header contains.
fn pax_path(bytes: &[u8]) -> Option<String> {
    let records = tar::PaxExtensions::new(bytes).flatten();
    let mut paths = records.filter(|record| record.key_bytes() == b"path");
    paths.next().map(|path| lossy(path.value_bytes()))
}

/// A name without the zeros after it.
fn without_zeros(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|byte| *byte != 0);
    name.get(..end.map_or(0, |end| end + 1)).unwrap_or_default()
}

/// A reader of gzip: of all its members, and without the zeros that fill the last block of a tape.
struct Gzip<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Gzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let length = member.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            let input = self.0.take().map(GzDecoder::into_inner);
            self.0 = input
                .map(behind_zeros)
                .transpose()?
                .flatten()
                .map(GzDecoder::new);
        }
        Ok(0)
    }
}

/// The input from its first byte that is not zero, if there is one.
fn behind_zeros<R: BufRead>(mut input: R) -> io::Result<Option<R>> {
    loop {
        let bytes = input.fill_buf()?;
        let length = bytes.len();
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        if zeros < length {
            input.consume(zeros);
            return Ok(Some(input));
        }
        if length == 0 {
            return Ok(None);
        }
        input.consume(zeros);
    }
}

/// A reader that counts the bytes of the input.
struct Counted<'t, R> {
    input: R,
    counts: Counts<'t>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        let count = self.counts.input;
        count.set(count.get() + length as u64);
        (self.counts.progress)(length as u64);
        Ok(length)
    }
}

/// A reader that counts decompressed bytes, and fails beyond the bound.
struct Expanded<'t, R> {
    input: R,
    counts: Counts<'t>,
}

impl<R: Read> Read for Expanded<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        let Counts {
            input,
            expanded,
            free,
            ..
        } = self.counts;
        expanded.set(expanded.get() + length as u64);
        if expanded.get() > free.max(input.get().saturating_mul(RATIO_MAX)) {
            return Err(io::Error::other(Exceeded::Ratio));
        }
        Ok(length)
    }
}
