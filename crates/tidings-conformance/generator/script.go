package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// options are those fields of client-go's CorrelatorOptions that are data. 0 means client-go's
// default.
type options struct {
	LRUCacheSize         int     `json:"lruCacheSize"`
	BurstSize            int     `json:"burstSize"`
	QPS                  float32 `json:"qps"`
	MaxEvents            int     `json:"maxEvents"`
	MaxIntervalInSeconds int     `json:"maxIntervalInSeconds"`
}

// step is one event, with the time at which it is handled, the sink's answers and, added by replay,
// the calls that client-go made to the sink.
type step struct {
	At       time.Time       `json:"at"`
	Event    json.RawMessage `json:"event"`
	Outcomes []string        `json:"outcomes"`
	Calls    []call          `json:"calls"`
}

type scenario struct {
	theme   string
	options options
	steps   []step
}

// theme is a kind of script: the sizes of the pools from which events are drawn, and the
// probabilities of what can happen.
type theme struct {
	name     string
	options  options
	vary     bool // draw further options at random
	events   int  // between half of this and this many
	objects  int
	reasons  int
	messages int // how many there are to repeat; 0: each event has its own
	gaps     []time.Duration
	failures float64 // the part of events the sink does not simply accept
	odd      float64 // the part of events no recorder of ours would make
	text     bool    // messages that are hard to escape, cut or compare
	foreign  bool    // events in another namespace than their object's
	parts    bool    // events that differ from the usual one in one part of a key
}

const (
	second = time.Second
	window = 600 * second
)

var (
	quick = []time.Duration{0, 0, time.Millisecond, 300 * time.Millisecond, second, 7 * second}
	mixed = []time.Duration{0, second, 30 * second, 61 * second, 299 * second, 300 * second, 599 * second, 601 * second}
)

var themes = []theme{
	{name: "mixed", vary: true, events: 60, objects: 2, reasons: 1, messages: 4, gaps: mixed, failures: 0.1},
	{name: "distinct", events: 45, objects: 1, reasons: 1, gaps: quick},
	{name: "key-parts", options: options{BurstSize: 5, MaxEvents: 3}, events: 80, objects: 1, reasons: 1, messages: 1, gaps: quick, parts: true},
	{name: "key-parts-aggregated", options: options{BurstSize: 1000, MaxEvents: 3}, events: 80, objects: 1, reasons: 1, gaps: quick, parts: true},
	{name: "repeats", events: 60, objects: 2, reasons: 2, messages: 3, gaps: quick},
	{name: "spam", options: options{BurstSize: 3}, events: 50, objects: 2, reasons: 3, messages: 2, gaps: append(mixed, quick...)},
	{name: "window-edges", options: options{BurstSize: 1000, MaxEvents: 3}, events: 50, objects: 1, reasons: 1,
		gaps: []time.Duration{window - second, window - 1, window, window + 1, window + second, second, second, second}},
	{name: "short-window", options: options{QPS: 1, MaxEvents: 2, MaxIntervalInSeconds: 10}, events: 45, objects: 2, reasons: 1,
		gaps: []time.Duration{second, 9 * second, 10*second - 1, 10 * second, 10*second + 1, 11 * second}},
	{name: "small-caches", options: options{LRUCacheSize: 3, BurstSize: 2}, events: 60, objects: 4, reasons: 1, messages: 2, gaps: quick},
	{name: "one-entry-caches", options: options{LRUCacheSize: 1, MaxEvents: 2}, events: 30, objects: 2, reasons: 1, gaps: quick},
	{name: "failures", events: 34, objects: 2, reasons: 2, messages: 3, gaps: quick, failures: 0.6},
	{name: "failures-aggregated", options: options{BurstSize: 1000, MaxEvents: 3}, events: 34, objects: 2, reasons: 1, gaps: quick, failures: 0.4},
	{name: "odd-events", options: options{BurstSize: 1000}, events: 60, objects: 1, reasons: 2, messages: 3, gaps: quick, odd: 0.5, failures: 0.1},
	{name: "odd-events-aggregated", options: options{BurstSize: 1000, MaxEvents: 2}, events: 50, objects: 3, reasons: 3, gaps: quick, odd: 0.6},
	{name: "clock-back", vary: true, events: 50, objects: 2, reasons: 1, messages: 3,
		gaps: append([]time.Duration{-second, -61 * second, -601 * second, -3600 * second}, mixed...)},
	{name: "text", options: options{BurstSize: 1000, MaxEvents: 8}, events: 45, objects: 1, reasons: 1, messages: 7, gaps: quick, text: true},
	{name: "namespaces", options: options{MaxEvents: 2}, events: 50, objects: 9, reasons: 1, messages: 1, gaps: quick, foreign: true, failures: 0.1},
	{name: "refill", options: options{BurstSize: 2, QPS: 0.1}, events: 50, objects: 1, reasons: 1, messages: 1,
		gaps: []time.Duration{second, second, second, 5 * second, 10*second - 1, 10 * second, 10*second + 1, 25 * second}},
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// mostly returns nearly always the usual value, so that repeats stay frequent.
func mostly(rng *rand.Rand, usual string, others ...string) string {
	if chance(rng, 0.96) {
		return usual
	}
	return pick(rng, others...)
}

func chance(rng *rand.Rand, part float64) bool { return rng.Float64() < part }

func newScenario(rng *rand.Rand, t theme) *scenario {
	s := &scenario{theme: t.name, options: t.options}
	if t.vary {
		vary(rng, &s.options)
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, rng.IntN(1_000_000_000), time.UTC)
	count := t.events/2 + rng.IntN(t.events/2+1)
	// In most scripts the messages stop repeating at some point. Then aggregation begins, and what
	// client-go drops at random is not needed again.
	freshFrom := 0
	if t.messages > 0 {
		freshFrom = pick(rng, count, rng.IntN(count), rng.IntN(count))
	}
	for i := range count {
		now = now.Add(pick(rng, t.gaps...))
		s.steps = append(s.steps, step{At: now, Event: newEvent(rng, t, now, i, i >= freshFrom), Outcomes: newOutcomes(rng, t)})
	}
	return s
}

func vary(rng *rand.Rand, o *options) {
	if o.LRUCacheSize == 0 {
		o.LRUCacheSize = pick(rng, 0, 0, 0, 2, 8, 64)
	}
	o.BurstSize = pick(rng, 0, 0, 1, 2, 5, 1000)
	o.QPS = pick[float32](rng, 0, 0, 1, 0.1, 1./300, 2.5)
	o.MaxEvents = pick(rng, 0, 0, 1, 2, 3, 5)
	o.MaxIntervalInSeconds = pick(rng, 0, 0, 10, 60)
}

// object is the object of the events of one pool entry. Some objects differ only in one part of the
// reference, so that each part of a key matters somewhere.
func object(rng *rand.Rand, index int) corev1.ObjectReference {
	about := corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "shop", Name: "basket-0", UID: "6a0e-0"}
	switch index % 9 {
	case 1:
		about.Name, about.UID = "basket-1", "6a0e-1"
	case 2:
		about.UID = "6a0e-2" // basket-0, made anew
	case 3:
		about.Namespace = "billing"
	case 4:
		about = corev1.ObjectReference{Kind: "Deployment", APIVersion: "apps/v1", Namespace: "shop", Name: "basket", UID: "6a0e-4"}
	case 5:
		about = corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: "rack-7", UID: "rack-7"}
	case 6:
		about = corev1.ObjectReference{Kind: "Order", APIVersion: "shop.example.com/v1beta1", Namespace: "shop", Name: "order-81", UID: "6a0e-6"}
	case 7:
		about = corev1.ObjectReference{Kind: "Order", APIVersion: "shop.example.com/v1", Namespace: "shop", Name: "order-81", UID: "6a0e-6"}
	case 8:
		about = corev1.ObjectReference{Kind: "Namespace", APIVersion: "v1", Namespace: "shop", Name: "shop", UID: "6a0e-8"}
	}
	if about.Kind == "Pod" {
		about.FieldPath = mostly(rng, "spec.containers{web}", "", "spec.initContainers{migrate}")
	}
	if chance(rng, 0.2) {
		about.ResourceVersion = fmt.Sprint(4000 + rng.IntN(50))
	}
	return about
}

// keyParts each change one part of what makes two events the same.
var keyParts = []func(*corev1.Event){
	func(e *corev1.Event) { e.InvolvedObject.Kind = "Job" },
	func(e *corev1.Event) { e.InvolvedObject.Namespace = "billing" },
	func(e *corev1.Event) { e.InvolvedObject.Name = "basket-9" },
	func(e *corev1.Event) { e.InvolvedObject.UID = "6a0e-9" },
	func(e *corev1.Event) { e.InvolvedObject.APIVersion = "v2" },
	func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec.containers{log}" },
	func(e *corev1.Event) { e.Source.Component = "kube-scheduler" },
	func(e *corev1.Event) { e.Source.Host = "rack-9" },
	func(e *corev1.Event) { e.Type = "Other" },
	func(e *corev1.Event) { e.Reason = "Preempted" },
	func(e *corev1.Event) { e.ReportingController = "shop.example.com/watch" },
	func(e *corev1.Event) { e.ReportingInstance = "watch-0" },
}

func newEvent(rng *rand.Rand, t theme, now time.Time, index int, fresh bool) json.RawMessage {
	about := object(rng, rng.IntN(t.objects))
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	if t.foreign && chance(rng, 0.5) {
		namespace = pick(rng, "kube-system", "events", "team-a")
	}
	component := mostly(rng, "kubelet", "shop-operator")
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", about.Name, now.UnixNano()),
			Namespace: namespace,
		},
		InvolvedObject:      about,
		Source:              corev1.EventSource{Component: component},
		FirstTimestamp:      metav1.NewTime(now),
		LastTimestamp:       metav1.NewTime(now),
		Count:               1,
		Type:                mostly(rng, corev1.EventTypeWarning, corev1.EventTypeNormal),
		ReportingController: component,
	}
	event.Reason = []string{"BackOff", "Unhealthy", "FailedMount"}[rng.IntN(t.reasons)]
	if component == "kubelet" {
		event.Source.Host = mostly(rng, "rack-7", "rack-8")
		event.ReportingInstance = event.Source.Host
	}
	switch {
	case fresh:
		event.Message = fmt.Sprintf("attempt %d failed after %d ms", index, 10+rng.IntN(990))
	case t.text:
		event.Message = hardTexts[rng.IntN(len(hardTexts))]
	default:
		event.Message = fmt.Sprintf("attempt %d failed", rng.IntN(t.messages))
	}
	if chance(rng, 0.1) {
		event.Annotations = map[string]string{"shop.example.com/try": fmt.Sprint(index)}
	}
	if chance(rng, 0.05) {
		event.Labels = map[string]string{"team": "shop"}
	}
	if t.parts && chance(rng, 0.7) {
		pick(rng, keyParts...)(event)
	}
	replaced := map[string]string{}
	if chance(rng, t.odd) {
		makeOdd(rng, event, replaced)
	}
	return marshal(event, replaced)
}

// hardTexts include two texts that differ only in how one letter is composed, and one that already
// reads like an aggregate.
var hardTexts = []string{
	`volume <data> & "logs" \ 'tmp' not mounted`,
	"caf\u00e9: no such file",
	"cafe\u0301: no such file",
	"line one\nline two\r\n\ttabbed\u2028next\u2029last\u0000",
	"\U0001F433 image \u955c\u50cf \u0635\u0648\u0631\u0629 not found",
	"(combined from similar events): already combined",
	strings.Repeat("0123456789abcde ", 70),
}

// makeOdd changes the event into one that a client may send, although client-go's recorder would
// not make it. Values that Go's types cannot hold are put into replaced, as JSON by the field's
// name.
func makeOdd(rng *rand.Rand, event *corev1.Event, replaced map[string]string) {
	for range 1 + rng.IntN(2) {
		switch rng.IntN(19) {
		case 0:
			event.Count = 0
		case 1, 17:
			event.Count = 2 + rng.Int32N(5)
		case 2:
			event.Count = pick[int32](rng, -1, math.MaxInt32)
		case 3, 18:
			event.FirstTimestamp, event.LastTimestamp = metav1.Time{}, metav1.Time{}
		case 4:
			event.LastTimestamp = metav1.NewTime(time.Unix(0, 0))
		case 5:
			replaced["firstTimestamp"] = `"2026-03-01T14:30:00.75+02:30"`
			replaced["lastTimestamp"] = `"2026-03-01T05:00:00.999999999-07:00"`
		case 6, 15, 16:
			event.Message = "" // often, that it repeats
		case 7:
			event.InvolvedObject.UID = ""
		case 8:
			event.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Name: "bare"}
		case 9:
			event.EventTime = metav1.NewMicroTime(event.FirstTimestamp.Add(1234 * time.Microsecond))
			event.Action = "Restarting"
			event.Related = &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: "rack-7"}
		case 10:
			event.ResourceVersion, event.UID = "77", types.UID("0b5e-77")
			event.CreationTimestamp = event.FirstTimestamp
		case 11:
			event.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}
		case 12:
			event.Source = corev1.EventSource{}
		case 13:
			event.Series = &corev1.EventSeries{Count: 4, LastObservedTime: metav1.NewMicroTime(event.FirstTimestamp.Time)}
		case 14:
			event.Type = pick(rng, "", "Error")
		}
	}
}

func marshal(event *corev1.Event, replaced map[string]string) json.RawMessage {
	data, err := json.Marshal(event)
	if err == nil && len(replaced) > 0 {
		var fields map[string]json.RawMessage
		if err = json.Unmarshal(data, &fields); err == nil {
			for name, value := range replaced {
				fields[name] = json.RawMessage(value)
			}
			data, err = json.Marshal(fields)
		}
	}
	if err != nil {
		panic(err) // an event of our own making always has a JSON form
	}
	return data
}

// newOutcomes returns the sink's answers, call by call. After the last one the answer is ok.
func newOutcomes(rng *rand.Rand, t theme) []string {
	outcomes := []string{}
	if !chance(rng, t.failures) {
		return outcomes
	}
	// An event is tried 12 times: it survives 11 failures, but not 12.
	for range pick(rng, 0, 0, 0, 1, 2, 11, 12) {
		outcomes = append(outcomes, "transport")
	}
	return append(outcomes, pick(rng,
		[]string{"ok"},
		[]string{"notFound"},
		[]string{"notFound", "notFound"},
		[]string{"notFound", "alreadyExists"},
		[]string{"notFound", "forbidden"},
		[]string{"notFound", "transport", "notFound", "ok"},
		[]string{"alreadyExists"},
		[]string{"forbidden"})...)
}
