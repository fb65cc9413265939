// Command record-load records a burst of events, as fast as it can, through client-go's default
// broadcaster into a cluster, and prints their outcome as one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

const (
	// Delivery counts as ended after this time without calls. client-go sleeps up to 10 s before it
	// tries a failed call again.
	settledAfterSuccess = 2 * time.Second
	settledAfterFailure = 12 * time.Second

	namespace = metav1.NamespaceDefault
	listLimit = 500
)

func main() {
	var options options
	flag.StringVar(&options.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster")
	flag.IntVar(&options.events, "events", 20_000, "events to record")
	flag.IntVar(&options.objects, "objects", 20_000, "objects they are about, in turn")
	flag.Float64Var(&options.clientQPS, "client-qps", -1, "requests a second the client allows itself; -1: no limit, 0: client-go's default of 5")
	flag.Parse()
	if options.kubeconfig == "" || options.events < 1 || options.objects < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: record-load --kubeconfig FILE [--events N] [--objects N] [--client-qps N]; the numbers of events and objects are at least 1")
		os.Exit(2)
	}
	if err := run(options); err != nil {
		fmt.Fprintln(os.Stderr, "record-load:", err)
		os.Exit(1)
	}
}

type options struct {
	kubeconfig      string
	events, objects int
	clientQPS       float64
}

type summary struct {
	Peer            string  `json:"peer"`
	Version         string  `json:"version"`
	Name            string  `json:"name"`
	Offered         int     `json:"offered"`
	OfferSeconds    float64 `json:"offer_seconds"`
	Delivered       int     `json:"delivered"`
	Created         int     `json:"created"`
	Patched         int     `json:"patched"`
	Lost            int     `json:"lost"`
	FailedCalls     int     `json:"failed_calls"`
	FirstError      string  `json:"first_error,omitempty"`
	Seconds         float64 `json:"seconds"`
	EventsPerSecond float64 `json:"events_per_second"`
	Found           int     `json:"found"`
	PeakRSSBytes    int64   `json:"peak_rss_bytes"`
}

func run(options options) error {
	// client-go logs each event that it drops, which would take most of the measured time.
	klog.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", options.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = float32(options.clientQPS)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	// If the cluster does not answer at all, that is an error, and not the loss of every event.
	events := client.CoreV1().Events(namespace)
	if _, err := events.List(context.Background(), metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("the cluster does not list events in namespace %q: %w", namespace, err)
	}

	prefix := fmt.Sprintf("record-load-%x", time.Now().UnixNano())
	pods := make([]*corev1.Pod, options.objects)
	for i := range pods {
		pods[i] = &corev1.Pod{
			TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{
				Name:      fmt.Sprintf("%s-%d", prefix, i),
				Namespace: namespace,
				UID:       types.UID(fmt.Sprintf("3c1f0a52-8d0e-4b1e-9f5e-%012d", i)),
			},
		}
	}
	sink := &countingSink{sink: &typedcorev1.EventSinkImpl{Interface: events}}
	broadcaster := record.NewBroadcaster(record.WithContext(klog.NewContext(context.Background(), logr.Discard())))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(sink)
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "record-load"})

	started := time.Now()
	for i := range options.events {
		recorder.Event(pods[i%len(pods)], corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container web")
	}
	offered := time.Since(started)
	report, last := sink.settle(started)

	report.Peer, report.Version, report.Name = "client-go", version(), "record_load"
	report.Offered, report.OfferSeconds = options.events, offered.Seconds()
	report.Delivered = report.Created + report.Patched
	report.Lost = report.Offered - report.Delivered
	report.Seconds = last.Sub(started).Seconds()
	if report.Seconds > 0 {
		report.EventsPerSecond = float64(report.Delivered) / report.Seconds
	}
	if report.Found, err = found(events, prefix); err != nil {
		return fmt.Errorf("counting the events in the cluster: %w", err)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	report.PeakRSSBytes = usage.Maxrss * 1024
	fmt.Fprintf(os.Stderr, "%d offered in %.3f s, %d delivered in %.3f s (%.0f events/s), %d lost, %d found in the cluster\n",
		report.Offered, report.OfferSeconds, report.Delivered, report.Seconds, report.EventsPerSecond, report.Lost, report.Found)
	return json.NewEncoder(os.Stdout).Encode(report)
}

// found counts this run's events in the cluster.
func found(events typedcorev1.EventInterface, prefix string) (int, error) {
	total := 0
	for next := ""; ; {
		list, err := events.List(context.Background(), metav1.ListOptions{Limit: listLimit, Continue: next})
		if err != nil {
			return 0, err
		}
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].InvolvedObject.Name, prefix) {
				total++
			}
		}
		if next = list.Continue; next == "" {
			return total, nil
		}
	}
}

// countingSink counts the cluster's answers.
type countingSink struct {
	sink record.EventSink

	mutex    sync.Mutex
	counts   summary
	inFlight int
	answered time.Time // the last answer of any kind
	accepted time.Time // the last call that succeeded
	failed   bool      // whether the last answer was no success
}

func (c *countingSink) count(successes *int, call func() (*corev1.Event, error)) (*corev1.Event, error) {
	c.mutex.Lock()
	c.inFlight++
	c.mutex.Unlock()
	event, err := call()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.inFlight--
	c.answered, c.failed = time.Now(), err != nil
	if err == nil {
		*successes++
		c.accepted = c.answered
		return event, nil
	}
	c.counts.FailedCalls++
	if c.counts.FirstError == "" {
		c.counts.FirstError = fmt.Sprintf("%v (%s)", err, apierrors.ReasonForError(err))
	}
	return event, err
}

func (c *countingSink) Create(event *corev1.Event) (*corev1.Event, error) {
	return c.count(&c.counts.Created, func() (*corev1.Event, error) { return c.sink.Create(event) })
}

func (c *countingSink) Update(event *corev1.Event) (*corev1.Event, error) {
	return c.sink.Update(event)
}

func (c *countingSink) Patch(event *corev1.Event, patch []byte) (*corev1.Event, error) {
	return c.count(&c.counts.Patched, func() (*corev1.Event, error) { return c.sink.Patch(event, patch) })
}

// settle waits until the sink has had no calls for long enough. It returns the counts and the time
// of the last success. client-go does not tell how many events are still in its queue.
func (c *countingSink) settle(started time.Time) (summary, time.Time) {
	for {
		c.mutex.Lock()
		quiet, needed := time.Since(c.answered), settledAfterSuccess
		if c.answered.IsZero() {
			quiet = time.Since(started)
		}
		if c.failed {
			needed = settledAfterFailure
		}
		counts, accepted, settled := c.counts, c.accepted, c.inFlight == 0 && quiet >= needed
		c.mutex.Unlock()
		if settled {
			if accepted.IsZero() {
				accepted = started
			}
			return counts, accepted
		}
		time.Sleep(50 * time.Millisecond)
	}
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
