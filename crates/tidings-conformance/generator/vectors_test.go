package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

var vectors = flag.String("vectors", "../vectors/correlator", "directory of the scenarios that must still be client-go's")

// The scenarios have client-go's calls and not ours. Replaying each must give the same calls again.
func TestVectorsAreClientGosAnswers(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(*vectors, "*.jsonl"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios in %s (%v)", *vectors, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := decode(t, data)
			var expected []any
			for i := range s.steps {
				expected = append(expected, plain(t, s.steps[i].Calls))
			}
			if err := replay(s); err != nil {
				t.Fatal(err)
			}
			for i := range s.steps {
				if got := plain(t, s.steps[i].Calls); !reflect.DeepEqual(got, expected[i]) {
					t.Fatalf("event %d:\n got %v\nwant %v", i+1, got, expected[i])
				}
			}
		})
	}
}

func TestSameSeedSameScript(t *testing.T) {
	for _, theme := range themes {
		var files [2][]byte
		for i := range files {
			var err error
			if files[i], err = encode(newScenario(rand.New(rand.NewPCG(7, 7)), theme)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Errorf("theme %q: two scripts for one seed", theme.name)
		}
	}
}

func decode(t *testing.T, data []byte) *scenario {
	t.Helper()
	s := &scenario{}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	var first map[string]options
	if err := json.Unmarshal(lines[0], &first); err != nil {
		t.Fatal(err)
	}
	s.options = first["options"]
	for _, line := range lines[1:] {
		var next step
		if err := json.Unmarshal(line, &next); err != nil {
			t.Fatal(err)
		}
		s.steps = append(s.steps, next)
	}
	return s
}

// plain returns the value as JSON has it, so that the order of its fields does not matter.
func plain(t *testing.T, value any) any {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}
