// Command micro measures client-go's event recording and prints each figure as
// one line of JSON.
//
// No event is dropped while it is measured. client-go drops events without notice once 1,000 of
// them wait. So events are sent in batches of half that, and the next batch waits until all
// receivers have acknowledged the last one.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	goruntime "runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// Half of client-go's queue, which takes 1,000 events and drops the rest.
	batch = 500
	// More events than client-go's caches have entries (4,096), so that none is remembered when it
	// comes again.
	distinct = 16_384
	patience = time.Minute
)

var benchmarks = []struct {
	name string
	run  func(*testing.B)
}{
	{"record", recordCall},
	{"record_events_v1", recordCallEventsV1},
	{"fan_out_16", fanOut},
	{"correlate_repeat", correlateRepeat},
	{"correlate_aggregate", correlateAggregate},
	{"correlate_new", correlateNew},
	{"record_to_sink_repeat", recordToSinkRepeat},
	{"record_to_sink_new", recordToSinkNew},
}

type figure struct {
	Peer        string  `json:"peer"`
	Version     string  `json:"version"`
	Name        string  `json:"name"`
	NsPerOp     float64 `json:"ns_per_op"`
	AllocsPerOp float64 `json:"allocs_per_op"`
	BytesPerOp  float64 `json:"bytes_per_op"`
	Ops         int     `json:"ops"`
}

func main() {
	testing.Init()
	benchtime := flag.String("benchtime", "1s", "how long to measure each figure, as go test's -benchtime")
	only := flag.String("only", ".", "regular expression of the figures to measure")
	flag.Parse()
	if err := run(*benchtime, *only); err != nil {
		fmt.Fprintln(os.Stderr, "micro:", err)
		os.Exit(1)
	}
}

func run(benchtime, only string) error {
	if err := flag.Set("test.benchtime", benchtime); err != nil {
		return fmt.Errorf("-benchtime %q: %w", benchtime, err)
	}
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	// Logging must not be part of the measured time.
	klog.SetLogger(logr.Discard())
	output := json.NewEncoder(os.Stdout)
	for _, benchmark := range benchmarks {
		if !wanted.MatchString(benchmark.name) {
			continue
		}
		result := testing.Benchmark(benchmark.run)
		if result.N == 0 {
			return fmt.Errorf("%s failed: events were lost or not seen within %s", benchmark.name, patience)
		}
		operations := float64(result.N)
		err := output.Encode(figure{
			Peer:        "client-go",
			Version:     version(),
			Name:        benchmark.name,
			NsPerOp:     float64(result.T.Nanoseconds()) / operations,
			AllocsPerOp: float64(result.MemAllocs) / operations,
			BytesPerOp:  float64(result.MemBytes) / operations,
			Ops:         result.N,
		})
		if err != nil {
			return err
		}
	}
	for _, measure := range []func() (map[string]any, error){stuckSink, seriesMemory} {
		figure, err := measure()
		if err != nil {
			return err
		}
		figure["peer"], figure["version"] = "client-go", version()
		if err := output.Encode(figure); err != nil {
			return err
		}
	}
	return nil
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/client-go" {
				return module.Version
			}
		}
	}
	return "unknown"
}

// acknowledged counts events in batches: wait returns once everyone has seen
// all that were sent.
type acknowledged struct{ waiting sync.WaitGroup }

func (a *acknowledged) wait(b *testing.B) {
	done := make(chan struct{})
	go func() {
		a.waiting.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		b.Fatal("events were lost")
	}
}

// inBatches sends b.N events. Every one of the receivers acknowledges each event once. The wait for
// that is part of the time, except with callOnly.
func (a *acknowledged) inBatches(b *testing.B, receivers int, callOnly bool, send func(i int)) {
	b.ReportAllocs()
	b.ResetTimer()
	for sent := 0; sent < b.N; {
		size := min(batch, b.N-sent)
		a.waiting.Add(size * receivers)
		for range size {
			send(sent)
			sent++
		}
		if callOnly {
			b.StopTimer()
		}
		a.wait(b)
		if callOnly {
			b.StartTimer()
		}
	}
	b.StopTimer()
}

// The pods have their type set, like those in a controller's cache.
func pod(i int) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprintf("web-7d4b9c6f5-%05d", i),
			Namespace:       "default",
			UID:             types.UID(fmt.Sprintf("3c1f0a52-8d0e-4b1e-9f5e-%012d", i)),
			ResourceVersion: "123456",
		},
	}
}

const message = "Back-off restarting failed container web in pod web-7d4b9c6f5"

var source = corev1.EventSource{Component: "example-controller", Host: "node-1"}

// The spam filter has no limit, so that every event reaches the sink.
var unfiltered = record.CorrelatorOptions{BurstSize: 1 << 30}

// recordCall measures the time of a call, while one watcher takes the events.
func recordCall(b *testing.B) {
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	var seen acknowledged
	broadcaster.StartEventWatcher(func(*corev1.Event) { seen.waiting.Done() })
	recorder := broadcaster.NewRecorder(scheme.Scheme, source)
	object := pod(0)
	seen.inBatches(b, 1, true, func(int) { recorder.Event(object, corev1.EventTypeWarning, "BackOff", message) })
}

// recordCallEventsV1 does the same with tools/events, which starts a goroutine for each call.
func recordCallEventsV1(b *testing.B) {
	broadcaster := events.NewBroadcaster(nil)
	defer broadcaster.Shutdown()
	var seen acknowledged
	if _, err := broadcaster.StartEventWatcher(func(runtime.Object) { seen.waiting.Done() }); err != nil {
		b.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "example-controller")
	object := pod(0)
	seen.inBatches(b, 1, true, func(int) {
		recorder.Eventf(object, nil, corev1.EventTypeWarning, "BackOff", "Restarting", message)
	})
}

// fanOut measures the time until 16 watchers have an event from the broadcaster.
func fanOut(b *testing.B) {
	const watchers = 16
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	var seen acknowledged
	for range watchers {
		broadcaster.StartEventWatcher(func(*corev1.Event) { seen.waiting.Done() })
	}
	queue, ok := broadcaster.(interface {
		Action(watch.EventType, runtime.Object) error
	})
	if !ok {
		b.Fatal("client-go's broadcaster takes no events but a recorder's")
	}
	event := newEvent(0, message)
	seen.inBatches(b, watchers, false, func(int) {
		if err := queue.Action(watch.Added, event); err != nil {
			b.Error(err)
		}
	})
}

func newEvent(i int, message string) *corev1.Event {
	now := metav1.Now()
	object := pod(i)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", object.Name, now.UnixNano()), Namespace: object.Namespace},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: object.Namespace, Name: object.Name,
			UID: object.UID, ResourceVersion: object.ResourceVersion,
		},
		Reason:              "BackOff",
		Message:             message,
		Source:              source,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Type:                corev1.EventTypeWarning,
		ReportingController: source.Component,
		ReportingInstance:   source.Host,
	}
}

// correlate passes the same events repeatedly, each with the state update that follows its
// delivery.
func correlate(b *testing.B, all []*corev1.Event) {
	correlator := record.NewEventCorrelatorWithOptions(unfiltered)
	once := func(event *corev1.Event) {
		result, err := correlator.EventCorrelate(event)
		if err != nil || result.Skip {
			b.Fatalf("filtered or failed: %v", err)
		}
		correlator.UpdateState(result.Event)
	}
	// The first events are passed over, because they are not aggregated yet.
	for i := range 20 {
		once(all[i%len(all)])
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		once(all[i%len(all)])
	}
}

func correlateRepeat(b *testing.B) { correlate(b, []*corev1.Event{newEvent(0, message)}) }

func correlateAggregate(b *testing.B) {
	all := make([]*corev1.Event, distinct)
	for i := range all {
		all[i] = newEvent(0, fmt.Sprintf("%s, attempt %d", message, i))
	}
	correlate(b, all)
}

func correlateNew(b *testing.B) {
	all := make([]*corev1.Event, distinct)
	for i := range all {
		all[i] = newEvent(i, message)
	}
	correlate(b, all)
}

// sink accepts every event at once.
type sink struct{ acknowledged }

func (s *sink) take(event *corev1.Event) (*corev1.Event, error) {
	s.waiting.Done()
	return event, nil
}
func (s *sink) Create(event *corev1.Event) (*corev1.Event, error)          { return s.take(event) }
func (s *sink) Update(event *corev1.Event) (*corev1.Event, error)          { return s.take(event) }
func (s *sink) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) { return s.take(event) }

// recordToSink measures the whole way: recorder, broadcaster, correlator, sink.
func recordToSink(b *testing.B, objects []*corev1.Pod) {
	ctx := klog.NewContext(context.Background(), logr.Discard())
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(unfiltered))
	defer broadcaster.Shutdown()
	var s sink
	broadcaster.StartRecordingToSink(&s)
	recorder := broadcaster.NewRecorder(scheme.Scheme, source)
	s.inBatches(b, 1, false, func(i int) {
		recorder.Event(objects[i%len(objects)], corev1.EventTypeWarning, "BackOff", message)
	})
}

func recordToSinkRepeat(b *testing.B) { recordToSink(b, []*corev1.Pod{pod(0)}) }

func recordToSinkNew(b *testing.B) {
	objects := make([]*corev1.Pod, distinct)
	for i := range objects {
		objects[i] = pod(i)
	}
	recordToSink(b, objects)
}

// seriesSink accepts every event of events.k8s.io/v1: at once or, while it is held, when it is
// released.
type seriesSink struct {
	taken sync.WaitGroup
	held  chan struct{}
}

func (s *seriesSink) take(event *eventsv1.Event) (*eventsv1.Event, error) {
	if s.held != nil {
		<-s.held
		return event, nil
	}
	s.taken.Done()
	return event, nil
}

func (s *seriesSink) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.take(event)
}

func (s *seriesSink) Update(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	return s.take(event)
}

func (s *seriesSink) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return s.take(event)
}

// stuckSink measures 100,000 single calls of tools/events, while no write is answered.
func stuckSink() (map[string]any, error) {
	const calls, objects = 100_000, 1000
	sink := &seriesSink{held: make(chan struct{})}
	broadcaster := events.NewBroadcaster(sink)
	defer broadcaster.Shutdown()
	defer close(sink.held)
	ctx := klog.NewContext(context.Background(), logr.Discard())
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "example-controller")
	pods := make([]*corev1.Pod, objects)
	for i := range pods {
		pods[i] = pod(i)
	}
	took := make([]time.Duration, calls)
	for i := range took {
		began := time.Now()
		recorder.Eventf(pods[i%objects], nil, corev1.EventTypeWarning, "BackOff", "Restarting", "%d", i)
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return map[string]any{
		"name": "record_stuck_sink", "ops": calls,
		"p50_ns": took[calls/2].Nanoseconds(), "p99_ns": took[calls*99/100].Nanoseconds(),
	}, nil
}

// seriesMemory measures the memory of an open series in tools/events, with 100,000 of three events
// each.
func seriesMemory() (map[string]any, error) {
	const objects = 100_000
	heap := func() float64 {
		goruntime.GC()
		var stats goruntime.MemStats
		goruntime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	before := heap()
	sink := &seriesSink{}
	broadcaster := events.NewBroadcaster(sink)
	defer broadcaster.Shutdown()
	ctx := klog.NewContext(context.Background(), logr.Discard())
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, err
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "example-controller")
	// The first event is created, the second patched in, and the third only counted.
	for round := range 3 {
		for first := 0; first < objects; first += batch {
			if round < 2 {
				sink.taken.Add(batch)
			}
			for i := first; i < first+batch; i++ {
				recorder.Eventf(pod(i), nil, corev1.EventTypeWarning, "BackOff", "Restarting", message)
			}
			if round < 2 {
				sink.taken.Wait()
			}
		}
	}
	kept := heap() - before
	goruntime.KeepAlive(broadcaster)
	return map[string]any{"name": "series_memory", "series": objects, "bytes_per_series": kept / objects}, nil
}
