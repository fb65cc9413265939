//! Programs that run beside a test and end with it.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A started program; it is killed when this is dropped.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Starts a program.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self).map_err(|error| {
            let program = command.get_program().display();
            io::Error::new(error.kind(), format!("could not run {program}: {error}"))
        })
    }

    /// Starts a program and waits for the first line that it prints, as `tidings serve` does when
    /// it is ready. If the output ends without a complete line, the line is what there is: empty if
    /// the program ended first.
    ///
    /// # Errors
    /// The program cannot be run, or its output cannot be read.
    pub fn start_and_hear(command: &mut Command) -> io::Result<(Self, String)> {
        let mut process = Self::start(command.stdout(Stdio::piped()))?;
        let mut line = String::new();
        if let Some(output) = process.0.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        Ok((process, line.trim_end().to_owned()))
    }

    /// Starts a program and waits for the first line with this text. What the program prints after
    /// that is read and dropped. The line is empty if the program ended first.
    ///
    /// # Errors
    /// The program cannot be run, or its output cannot be read.
    pub fn start_and_hear_of(command: &mut Command, text: &str) -> io::Result<(Self, String)> {
        let mut process = Self::start(command.stdout(Stdio::piped()))?;
        let mut line = String::new();
        if let Some(output) = process.0.stdout.take() {
            let mut output = BufReader::new(output);
            while output.read_line(&mut line)? > 0 && !line.contains(text) {
                line.clear();
            }
            // The program could end if its output were closed.
            std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
        }
        Ok((process, line.trim_end().to_owned()))
    }

    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Reads the program's standard error until it ends, if that is piped.
    pub fn errors(&mut self) -> String {
        let mut said = String::new();
        if let Some(mut errors) = self.0.stderr.take() {
            errors.read_to_string(&mut said).unwrap();
        }
        said
    }

    /// Sends the program a signal, by its name without `SIG`.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let signal = format!("-{name}");
        let status = Command::new("kill")
            .args([&signal, &self.id().to_string()])
            .status();
        assert!(status.unwrap().success(), "{name}");
    }

    /// Closes the program's standard input, if that is piped, and waits until it has ended.
    pub fn close_input(&mut self) {
        drop(self.0.stdin.take());
        // Nothing can be done if the system does not tell how the program ended.
        let _ = self.0.wait();
    }

    /// Waits until the program has ended.
    ///
    /// # Panics
    /// The system does not tell how the program ended.
    pub fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Resident memory of a process in bytes, if the system has it (Linux).
pub fn resident_bytes(process: u32) -> Option<u64> {
    Some(number(process, "status", "VmRSS:")? * 1024)
}

/// Maximum resident memory of a process in bytes, if the system has it (Linux).
pub fn peak_resident_bytes(process: u32) -> Option<u64> {
    Some(number(process, "status", "VmHWM:")? * 1024)
}

/// Number of bytes that a process has written to disk, if the system has it (Linux).
pub fn bytes_written(process: u32) -> Option<u64> {
    number(process, "io", "write_bytes:")
}

/// Processor time of a process in seconds, to hundredths, if the system has it (Linux).
pub fn processor_seconds(process: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, which may have any characters, ends with the last parenthesis; user and system time
    // are the 14th and 15th field.
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u32 = ticks.filter_map(|ticks| ticks.parse::<u32>().ok()).sum();
    Some(f64::from(ticks) / 100.)
}

fn number(process: u32, file: &str, label: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
