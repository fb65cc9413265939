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
