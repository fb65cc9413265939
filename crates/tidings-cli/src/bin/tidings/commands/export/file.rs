//! The output file of an export: its format, its compression, and the continuation of an
//! interrupted export.
//!
//! Invariants: FILE is complete or does not exist. FILE.part belongs to the export that
//! FILE.part.of describes. Only regular files are replaced: pipes, devices and descriptors of this
//! process are written to directly.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use serde_json::Value;

use super::super::cluster::CommandError;
use super::super::terminal::{output, shown};

/// The format of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
    JsonLines,
}

impl std::str::FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Self::Json),
            "yaml" => Ok(Self::Yaml),
            "jsonl" => Ok(Self::JsonLines),
            _ => Err("expected json, yaml or jsonl".to_owned()),
        }
    }
}

impl Form {
    /// The format that a file's name implies; otherwise JSON Lines.
    pub(super) fn of(path: &Path) -> Self {
        let inner = if is_gzip(path) {
            path.with_extension("")
        } else {
            path.to_owned()
        };
        match inner.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Self::Json,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::JsonLines,
        }
    }
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// The parameters of an export.
#[derive(Clone, Debug)]
pub(super) struct What {
    /// Source and conditions, as on the command line.
    pub(super) words: String,
    /// The time to which relative times in `words` refer.
    pub(super) as_of: Timestamp,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nas of {}", self.words, self.as_of)
    }
}

impl What {
    /// Parses the content of a note.
    fn noted(note: &str) -> Option<Self> {
        let (words, as_of) = note.trim_end().rsplit_once("\nas of ")?;
        Some(Self {
            words: words.to_owned(),
            as_of: as_of.parse().ok()?,
        })
    }
}

/// The state of an interrupted export; empty if there is none to continue.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) count: u64,
    /// The first line of the file.
    pub(super) first: Option<Value>,
    /// The last line of the file.
    pub(super) last: Option<Value>,
    /// The time to which relative times of the export refer.
    pub(super) as_of: Timestamp,
}

impl Found {
    fn nothing(what: &What) -> Self {
        Self {
            count: 0,
            first: None,
            last: None,
            as_of: what.as_of,
        }
    }
}

/// The output stream.
enum Sink {
    Plain(BufWriter<Box<dyn Write>>),
    Gzip(Box<GzEncoder<BufWriter<Box<dyn Write>>>>),
}

impl Sink {
    fn new(file: Box<dyn Write>, gzip: bool) -> Self {
        let file = BufWriter::new(file);
        if gzip {
            Self::Gzip(Box::new(GzEncoder::new(file, Compression::default())))
        } else {
            Self::Plain(file)
        }
    }

    fn out(&mut self) -> &mut dyn Write {
        match self {
            Self::Plain(out) => out,
            Self::Gzip(out) => out,
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Gzip(out) => out.finish()?.flush(),
        }
    }
}

/// The names of the file, of the incomplete file, and of the note.
#[derive(Debug)]
struct Names {
    whole: PathBuf,
    part: PathBuf,
    note: PathBuf,
}

impl Names {
    fn new(whole: &Path) -> Self {
        Self {
            whole: whole.to_owned(),
            part: with_suffix(whole, ".part"),
            note: with_suffix(whole, ".part.of"),
        }
    }

    /// The partial file of an earlier export with the same parameters, and its start time.
    fn previous(&self, what: &What) -> Result<Option<(File, Timestamp)>, CommandError> {
        let previous = match File::open(&self.part) {
            Ok(previous) => previous,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&self.part, &error)),
        };
        let cannot = |why: String| {
            let part = self.part.display();
            CommandError::Usage(format!(
                "resume {part}: {why}; export again without --resume"
            ))
        };
        let note = self.note.display();
        let noted = std::fs::read_to_string(&self.note)
            .map_err(|error| cannot(format!("{note} cannot be read: {error}")))?;
        let noted = What::noted(&noted)
            .ok_or_else(|| cannot(format!("{note} does not name its events")))?;
        if noted.words == what.words {
            Ok(Some((previous, noted.as_of)))
        } else {
            let (noted, words) = (noted.words, &what.words);
            Err(cannot(format!(
                "it is an export of {noted}, not of {words}"
            )))
        }
    }
}

/// The output of an export.
pub(super) struct Target {
    form: Form,
    sink: Sink,
    names: Option<Names>,
    is_first: bool,
}

impl Target {
    /// Opens the file for this export, and continues an interrupted one if requested.
    pub(super) fn open(
        path: &Path,
        form: Form,
        resume: bool,
        what: &What,
    ) -> Result<(Self, Found), CommandError> {
        if path.as_os_str() == "-" {
            let target = Self::started(form, Sink::new(output(), false), None)?;
            return Ok((target, Found::nothing(what)));
        }
        // The name decides about compression, as it does about the format, and not the target of a
        // link.
        let gzip = is_gzip(path);
        if let Some(stream) = stream(path)? {
            if resume {
                let why = format!("resume {}: it is not a file", path.display());
                return Err(CommandError::Usage(why));
            }
            let target = Self::started(form, Sink::new(stream, gzip), None)?;
            return Ok((target, Found::nothing(what)));
        }
        let path = &followed(path)?;
        let names = Names::new(path);
        let previous = if resume { names.previous(what)? } else { None };
        // Copies the complete lines of the interrupted export, so that the new file ends with a
        // complete line.
        let fresh = with_suffix(path, ".part.new");
        // If the file cannot be created, the error has the given name.
        let file = File::create(&fresh).map_err(|error| failed(path, &error))?;
        keep_permissions(&file, path);
        let mut target = Self::started(form, Sink::new(Box::new(file), gzip), None)?;
        let mut found = Found::nothing(what);
        if let Some((previous, as_of)) = previous {
            found.as_of = as_of;
            copy(previous, gzip, &mut found, target.sink.out())
                .map_err(|error| failed(&fresh, &error))?;
        } else {
            // The partial file of another export is removed before the note is written.
            remove(&names.part).map_err(|error| failed(&names.part, &error))?;
            std::fs::write(&names.note, what.to_string())
                .map_err(|error| failed(&names.note, &error))?;
        }
        target.flush()?;
        std::fs::rename(&fresh, &names.part).map_err(|error| failed(&names.part, &error))?;
        target.names = Some(names);
        Ok((target, found))
    }

    fn started(form: Form, mut sink: Sink, names: Option<Names>) -> Result<Self, CommandError> {
        if form == Form::Json {
            sink.out()
                .write_all(b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[")?;
        }
        Ok(Self {
            form,
            sink,
            names,
            is_first: true,
        })
    }

    /// Writes one event.
    pub(super) fn write(&mut self, event: &Value) -> io::Result<()> {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let out = self.sink.out();
        match self.form {
            Form::Json => {
                out.write_all(if is_first { b"\n" } else { b",\n" })?;
                Ok(serde_json::to_writer(out, event)?)
            }
            Form::Yaml => {
                let text = serde_saphyr::to_string(event).map_err(io::Error::other)?;
                write!(out, "---\n{text}")
            }
            Form::JsonLines => {
                serde_json::to_writer(&mut *out, event)?;
                writeln!(out)
            }
        }
    }

    /// Writes a line of JSON Lines unchanged.
    pub(super) fn write_line(&mut self, line: &str) -> io::Result<()> {
        let out = self.sink.out();
        out.write_all(line.as_bytes())?;
        out.write_all(b"\n")
    }

    /// Flushes the output.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.sink.out().flush()
    }

    /// Closes the file; returns the partial file from which a failed export can continue, if it
    /// can.
    pub(super) fn keep(self) -> Option<PathBuf> {
        let names = self.names?;
        self.sink.finish().ok()?;
        (self.form == Form::JsonLines).then_some(names.part)
    }

    /// Removes the file of an export that was refused before it began.
    pub(super) fn discard(self) {
        let Self { sink, names, .. } = self;
        drop(sink);
        if let Some(names) = names {
            // A file that remains is replaced by the next export.
            let _ = remove(&names.part);
            let _ = remove(&names.note);
        }
    }

    /// Completes the file and renames it.
    pub(super) fn finish(mut self) -> Result<(), CommandError> {
        if self.form == Form::Json {
            self.sink.out().write_all(b"\n]}\n")?;
        }
        self.sink.finish()?;
        if let Some(names) = self.names {
            File::open(&names.part)?.sync_all()?;
            std::fs::rename(names.part, names.whole)?;
            remove(&names.note)?;
        }
        Ok(())
    }
}

/// Names of standard output, which may also be a regular file.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
/// Prefixes of the names of descriptors.
const DESCRIPTORS: [&str; 3] = ["/dev/stderr", "/dev/fd", "/proc/self/fd"];

/// Opens a path that is neither free nor a regular file: a pipe or a device. A file behind a
/// descriptor is treated alike, because it may be a log that others write to as well.
///
/// # Errors
/// The path is a folder, or cannot be written to.
fn stream(path: &Path) -> Result<Option<Box<dyn Write>>, CommandError> {
    if STDOUT.iter().any(|name| path == Path::new(name)) {
        return Ok(Some(output()));
    }
    let is_descriptor = DESCRIPTORS.iter().any(|name| path.starts_with(name));
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => {
            let why = format!("write {}: it is a folder", path.display());
            Err(CommandError::Usage(why))
        }
        Ok(found) if is_descriptor || !found.is_file() => {
            // Opened in append mode, because opening it for writing would start at its beginning
            // and overwrite its content.
            let mut options = File::options();
            let opened = options.write(true).append(found.is_file()).open(path);
            let opened = opened.map_err(|error| failed(path, &error))?;
            Ok(Some(shown(opened)))
        }
        // If the file cannot be created, the error comes at its creation.
        _ => Ok(None),
    }
}

/// The file that a link leads to, which is replaced instead of the link.
fn followed(path: &Path) -> Result<PathBuf, CommandError> {
    if !path.is_symlink() {
        return Ok(path.to_owned());
    }
    path.canonicalize().map_err(|error| failed(path, &error))
}

/// Copies the permissions of the replaced file, so that no one else can read the new one. On a file
/// system without permissions there is nothing to copy.
#[cfg(unix)]
fn keep_permissions(file: &File, replaced: &Path) {
    use std::os::unix::fs::PermissionsExt;

    /// The owner must be able to read the partial file.
    const OWNER: u32 = 0o600;
    if let Ok(found) = std::fs::metadata(replaced) {
        let mut permissions = found.permissions();
        permissions.set_mode((permissions.mode() & 0o777) | OWNER);
        let _ = file.set_permissions(permissions);
    }
}

#[cfg(not(unix))]
fn keep_permissions(_: &File, _: &Path) {}

fn failed(path: &Path, error: &io::Error) -> CommandError {
    CommandError::Usage(format!("write {}: {error}", path.display()))
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Copies complete lines up to the end of the file, a cut-off line, or a damaged compressed block.
fn copy(previous: File, gzip: bool, found: &mut Found, out: &mut dyn Write) -> io::Result<()> {
    let previous: Box<dyn Read> = if gzip {
        Box::new(MultiGzDecoder::new(previous))
    } else {
        Box::new(previous)
    };
    let mut reader = BufReader::new(previous);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {}
            _ => return Ok(()),
        }
        let Ok(value) = serde_json::from_slice::<Value>(&line) else {
            return Ok(());
        };
        out.write_all(&line)?;
        found.count += 1;
        if found.first.is_none() {
            found.first = Some(value.clone());
        }
        found.last = Some(value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use tidings_cli::event::Event;

    use super::*;

    fn event(name: &str) -> Value {
        json!({"kind": "Event", "metadata": {"namespace": "n", "name": name}})
    }

    fn all() -> What {
        What {
            words: "all".to_owned(),
            as_of: Timestamp::UNIX_EPOCH,
        }
    }

    fn read(path: &Path) -> String {
        let bytes = std::fs::read(path).unwrap();
        let mut text = String::new();
        if is_gzip(path) {
            MultiGzDecoder::new(bytes.as_slice())
                .read_to_string(&mut text)
                .unwrap();
        } else {
            text = String::from_utf8(bytes).unwrap();
        }
        text
    }

    #[test]
    fn the_form_is_in_the_name() {
        for (name, form) in [
            ("-", Form::JsonLines),
            ("a", Form::JsonLines),
            ("a.jsonl", Form::JsonLines),
            ("a.json", Form::Json),
            ("a.json.gz", Form::Json),
            ("a.yaml", Form::Yaml),
            ("b/a.yml.gz", Form::Yaml),
            ("a.gz", Form::JsonLines),
        ] {
            assert_eq!(Form::of(Path::new(name)), form, "{name}");
        }
    }

    #[test]
    fn the_file_has_its_name_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.json", "a.json.gz", "a.yaml", "a.jsonl.gz"] {
            let path = folder.path().join(name);
            let (mut target, found) = Target::open(&path, Form::of(&path), false, &all()).unwrap();
            assert_eq!(found.count, 0);
            target.write(&event("a")).unwrap();
            target.write(&event("b")).unwrap();
            assert!(!path.exists());
            target.finish().unwrap();
            let mut names = Vec::new();
            tidings_cli::capture::read_path(&path, &|_| {}, &mut |found| {
                if let tidings_cli::capture::Found::Record(record) = found {
                    names.push(record.event.unwrap().name);
                }
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(names, ["a", "b"], "{name}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_folder_is_told_before_anything_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let opened = Target::open(folder.path(), Form::JsonLines, false, &all());
        let error = opened.err().unwrap();
        assert!(matches!(error, CommandError::Usage(_)), "{error}");
        assert!(error.to_string().ends_with("it is a folder"), "{error}");
        assert!(!with_suffix(folder.path(), ".part").exists());
    }

    #[test]
    fn what_cannot_be_written_is_told_by_the_name_that_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing/a.jsonl");
        let opened = Target::open(&path, Form::JsonLines, false, &all());
        let error = opened.err().unwrap();
        assert!(matches!(error, CommandError::Usage(_)), "{error}");
        let said = format!("write {}: ", path.display());
        assert!(error.to_string().starts_with(&said), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_written_to_and_not_replaced() {
        use std::os::fd::AsRawFd;

        let (mut reader, writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/dev/fd/{}", writer.as_raw_fd()));
        let resumed = Target::open(&path, Form::JsonLines, true, &all());
        assert!(matches!(resumed, Err(CommandError::Usage(_))));
        let (mut target, found) = Target::open(&path, Form::JsonLines, false, &all()).unwrap();
        assert_eq!(found.count, 0);
        target.write(&event("a")).unwrap();
        target.finish().unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, format!("{}\n", event("a")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_behind_a_descriptor_is_written_to_and_not_replaced() {
        use std::os::fd::AsRawFd;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "before\n").unwrap();
        let file = File::options().append(true).open(&path).unwrap();
        for descriptors in ["/dev/fd", "/proc/self/fd"] {
            let descriptor = Path::new(descriptors).join(file.as_raw_fd().to_string());
            let opened = Target::open(&descriptor, Form::JsonLines, false, &all());
            let (mut target, _) = opened.unwrap();
            target.write(&event("a")).unwrap();
            target.finish().unwrap();
        }
        let line = event("a");
        assert_eq!(read(&path), format!("before\n{line}\n{line}\n"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_is_read_by_those_who_could_before() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        for (before, after) in [(0o600, 0o600), (0o640, 0o640), (0o444, 0o644)] {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            let (target, _) = Target::open(&path, Form::JsonLines, false, &all()).unwrap();
            target.finish().unwrap();
            let found = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(found & 0o777, after, "{before:o}");
            assert_eq!(read(&path), "");
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_file_behind_a_link_is_replaced_and_the_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["a.gz", "link", "dangling"];
        let [file, link, dangling] = names.map(|name| folder.path().join(name));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
        let (mut target, _) = Target::open(&link, Form::JsonLines, false, &all()).unwrap();
        target.write(&event("a")).unwrap();
        target.finish().unwrap();
        assert!(link.is_symlink());
        // The file is compressed only if the given name says so.
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, format!("{}\n", event("a")));
        assert!(Target::open(&dangling, Form::JsonLines, false, &all()).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    proptest! {
        #[test]
        fn what_was_cut_off_anywhere_goes_on(cut in 0_usize..2_000, gzip: bool) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(if gzip { "a.jsonl.gz" } else { "a.jsonl" });
            let names: Vec<String> = (0..20).map(|number| format!("e{number:02}")).collect();
            let (mut target, _) = Target::open(&path, Form::JsonLines, false, &all()).unwrap();
            for name in &names {
                target.write(&event(name)).unwrap();
                target.flush().unwrap();
            }
            let part = target.keep().unwrap();
            let mut bytes = std::fs::read(&part).unwrap();
            bytes.truncate(cut);
            std::fs::write(&part, bytes).unwrap();

            let (mut target, found) = Target::open(&path, Form::JsonLines, true, &all()).unwrap();
            let left = usize::try_from(found.count).unwrap();
            let last_key = found.last.map(|last| Event::new(last).key());
            prop_assert_eq!(last_key, left.checked_sub(1).map(|last| format!("n/{}", names[last])));
            for name in names.iter().skip(left) {
                target.write(&event(name)).unwrap();
            }
            target.finish().unwrap();
            let expected: Vec<String> = names.iter().map(|name| event(name).to_string()).collect();
            prop_assert_eq!(read(&path), expected.join("\n") + "\n");
        }
    }
}
