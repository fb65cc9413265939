// Command generator writes scenarios for the correlator: random scripts of events, each with the
// calls that client-go's own broadcaster, correlator and retry loop made to the sink. The same seed
// leads to the same files.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

func main() {
	seed := flag.Uint64("seed", 1, "seed of the random scripts")
	scenarios := flag.Int("scenarios", 60, "number of scenarios to write")
	out := flag.String("out", "", "directory to write the scenarios to (created; must hold no .jsonl file yet)")
	// A random drop that changes the calls occurs in about one run of ten. With 25 runs, seven of a
	// hundred such scripts would be kept, with 250 in practice none.
	runs := flag.Int("runs", 250, "times client-go must answer a script the same for it to be kept")
	flag.Parse()
	if *out == "" || flag.NArg() > 0 || *scenarios < 1 || *runs < 1 {
		fmt.Fprintln(os.Stderr, "usage: generator [-seed N] [-scenarios N] [-runs N] -out DIR; the numbers are at least 1")
		os.Exit(2)
	}
	if err := generate(*seed, *scenarios, *runs, *out); err != nil {
		fmt.Fprintln(os.Stderr, "generator:", err)
		os.Exit(1)
	}
}

func generate(seed uint64, scenarios, runs int, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	// Old scenarios in the folder would be replayed together with the new ones.
	old, err := filepath.Glob(filepath.Join(out, "*.jsonl"))
	if err != nil {
		return err
	}
	if len(old) > 0 {
		return fmt.Errorf("%s already holds %d scenarios; remove them first", out, len(old))
	}
	for i := range scenarios {
		s, tries, err := stableScenario(seed, i, runs)
		if err != nil {
			return err
		}
		path := filepath.Join(out, fmt.Sprintf("%s-%03d.jsonl", s.theme, i+1))
		if err := write(path, s); err != nil {
			return err
		}
		fmt.Printf("%s: %d events, script %d of its seed\n", path, len(s.steps), tries)
	}
	return nil
}

// stableScenario draws scripts until client-go makes the same calls for one in every run. It does
// not always do so: when it aggregates, it drops a random message key, so a later repeat of one of
// those messages may or may not be aggregated.
func stableScenario(seed uint64, index, runs int) (*scenario, int, error) {
	const triesMax = 10_000
	rng := rand.New(rand.NewPCG(seed, uint64(index)))
	for try := 1; try <= triesMax; try++ {
		s := newScenario(rng, themes[index%len(themes)])
		if keysCollide(s) {
			continue
		}
		if err := replay(s); err != nil {
			return nil, 0, err
		}
		first, err := encode(s)
		if err != nil {
			return nil, 0, err
		}
		stable := true
		for run := 1; stable && run < runs; run++ {
			if err := replay(s); err != nil {
				return nil, 0, err
			}
			again, err := encode(s)
			if err != nil {
				return nil, 0, err
			}
			stable = bytes.Equal(first, again)
		}
		if stable {
			return s, try, nil
		}
	}
	return nil, 0, fmt.Errorf("no stable script in %d tries for theme %q, seed %d", triesMax, themes[index%len(themes)].name, seed)
}

func write(path string, s *scenario) error {
	data, err := encode(s)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// encode returns the scenario's file: the options, then a line for each event.
func encode(s *scenario) ([]byte, error) {
	var file bytes.Buffer
	writer := bufio.NewWriter(&file)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]options{"options": s.options}); err != nil {
		return nil, err
	}
	for i := range s.steps {
		if err := encoder.Encode(&s.steps[i]); err != nil {
			return nil, err
		}
	}
	if err := writer.Flush(); err != nil {
		return nil, err
	}
	return file.Bytes(), nil
}
