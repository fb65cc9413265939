package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// call is one call that client-go made to the sink.
type call struct {
	Verb      string `json:"verb"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// For a create the event. For a patch the strategic merge patch, or null if client-go computed
	// none (for an event that it had not seen, with a count above 1).
	Body json.RawMessage `json:"body"`
}

// The number of times that the correlator reads its clock for one event: once to aggregate, and
// once to take a token of the spam filter.
const clockReadsPerEvent = 2

// player runs one scenario through client-go. It is both client-go's clock and its sink. Only the
// single delivery goroutine of the broadcaster calls it, so the reads of the clock show which event
// is being handled.
type player struct {
	scenario        *scenario
	clockReads      int
	resourceVersion int
	finished        chan struct{}
	err             error
}

// replay adds the calls of every step. Everything between an event and the sink is client-go's own
// code; only the times and the sink's answers come from the script.
func replay(s *scenario) error {
	p := &player{scenario: s, resourceVersion: 100, finished: make(chan struct{})}
	for i := range s.steps {
		s.steps[i].Calls = []call{}
	}
	broadcaster := record.NewBroadcaster(
		record.WithContext(klog.NewContext(context.Background(), logr.Discard())),
		record.WithSleepDuration(0),
		record.WithCorrelatorOptions(record.CorrelatorOptions{
			LRUCacheSize:         s.options.LRUCacheSize,
			BurstSize:            s.options.BurstSize,
			QPS:                  s.options.QPS,
			MaxEvents:            s.options.MaxEvents,
			MaxIntervalInSeconds: s.options.MaxIntervalInSeconds,
			Clock:                p,
		}))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(p)

	queue, ok := broadcaster.(interface {
		Action(watch.EventType, runtime.Object) error
	})
	if !ok {
		return errors.New("client-go's broadcaster takes no events but a recorder's")
	}
	for i := range s.steps {
		event := &corev1.Event{}
		if err := json.Unmarshal(s.steps[i].Event, event); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		if err := queue.Action(watch.Added, event); err != nil {
			return err
		}
	}
	// One more event follows the script. When client-go begins with it, the script is done.
	if err := queue.Action(watch.Added, &corev1.Event{}); err != nil {
		return err
	}
	select {
	case <-p.finished:
		return p.err
	case <-time.After(time.Minute):
		return errors.New("client-go did not handle every event within a minute")
	}
}

// current is the step being handled; nil once the script is done.
func (p *player) current() *step {
	index := (p.clockReads - 1) / clockReadsPerEvent
	if index >= len(p.scenario.steps) {
		return nil
	}
	return &p.scenario.steps[index]
}

// Now implements the correlator's clock.
func (p *player) Now() time.Time {
	p.clockReads++
	if step := p.current(); step != nil {
		return step.At
	}
	if p.clockReads == len(p.scenario.steps)*clockReadsPerEvent+1 {
		close(p.finished)
	}
	return p.scenario.steps[len(p.scenario.steps)-1].At
}

// Since is part of client-go's clock interface. The correlator does not use it.
func (p *player) Since(t time.Time) time.Duration { return p.Now().Sub(t) }

// Create implements the sink.
func (p *player) Create(event *corev1.Event) (*corev1.Event, error) {
	body, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	return p.answer("create", event, body)
}

// Update implements the sink. client-go's delivery never calls it.
func (p *player) Update(event *corev1.Event) (*corev1.Event, error) {
	return p.answer("update", event, nil)
}

// Patch implements the sink.
func (p *player) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return p.answer("patch", event, patch)
}

// answer records the call, and answers it with the step's next outcome.
func (p *player) answer(verb string, event *corev1.Event, body []byte) (*corev1.Event, error) {
	step := p.current()
	if step == nil {
		return event, nil
	}
	if body == nil {
		body = []byte("null")
	}
	outcome := "ok"
	if n := len(step.Calls); n < len(step.Outcomes) {
		outcome = step.Outcomes[n]
	}
	step.Calls = append(step.Calls, call{Verb: verb, Namespace: event.Namespace, Name: event.Name, Body: body})
	resource := corev1.Resource("events")
	switch outcome {
	case "ok":
		p.resourceVersion++
		stored := event.DeepCopy()
		stored.ResourceVersion = strconv.Itoa(p.resourceVersion)
		return stored, nil
	case "notFound":
		return nil, apierrors.NewNotFound(resource, event.Name)
	case "alreadyExists":
		return nil, apierrors.NewAlreadyExists(resource, event.Name)
	case "forbidden":
		return nil, apierrors.NewForbidden(resource, event.Name, errors.New("scripted"))
	case "transport":
		return nil, errors.New("connection refused")
	default:
		p.err = fmt.Errorf("unknown outcome %q", outcome)
		return event, nil
	}
}

// keysCollide reports whether client-go would confuse two different parts of the script. It joins
// the parts of a key without a separator, and keeps repeats and aggregates in one cache. Such a
// script would show a mistake and not a rule.
func keysCollide(s *scenario) bool {
	caches := [3]map[string]string{{}, {}, {}}
	clash := func(cache int, kind string, parts ...string) bool {
		joined, typed := strings.Join(parts, ""), fmt.Sprintf("%s %q", kind, parts)
		known, found := caches[cache][joined]
		caches[cache][joined] = typed
		return found && known != typed
	}
	for i := range s.steps {
		var event corev1.Event
		if err := json.Unmarshal(s.steps[i].Event, &event); err != nil {
			return true
		}
		about := event.InvolvedObject
		subject := []string{event.Source.Component, event.Source.Host, about.Kind, about.Namespace, about.Name}
		object := []string{string(about.UID), about.APIVersion, event.Type}
		group := append(append(append([]string{}, subject...), object...), event.Reason, event.ReportingController, event.ReportingInstance)
		spam := append(append([]string{}, subject...), object...)
		repeat := func(fieldPath, message string) []string {
			parts := append(append([]string{}, subject...), fieldPath)
			return append(append(parts, object...), event.Reason, message)
		}
		if clash(0, "repeat", repeat(about.FieldPath, event.Message)...) ||
			clash(0, "repeat", repeat(about.FieldPath, record.EventAggregatorByReasonMessageFunc(&event))...) ||
			clash(0, "aggregate", group...) || clash(1, "aggregate", group...) || clash(2, "spam", spam...) {
			return true
		}
	}
	return false
}
