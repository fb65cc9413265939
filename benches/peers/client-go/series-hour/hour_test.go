// Package hour runs an hour of a controller's events through client-go's tools/events in compressed
// time, and counts the writes. The same script, with these counts, is in
// crates/tidings-testing/src/hours.rs.
package hour

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// counting is a sink that accepts everything.
type counting struct {
	mutex            sync.Mutex
	created, patched int
}

func (c *counting) Create(_ context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.created++
	return event.DeepCopy(), nil
}

func (c *counting) Update(context.Context, *eventsv1.Event) (*eventsv1.Event, error) {
	panic("client-go does not update events")
}

func (c *counting) Patch(_ context.Context, event *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.patched++
	return event.DeepCopy(), nil
}

// seen returns whether an event is recorded in a second of the hour, about which object, and at
// which resourceVersion.
type pattern struct {
	name string
	seen func(second int) (object, resourceVersion string, seen bool)
}

func every(seconds int) func(int) (string, string, bool) {
	return func(second int) (string, string, bool) {
		return "web-0", "1", second%seconds == 0
	}
}

var patterns = []pattern{
	// A retry loop without back-off.
	{"every second", every(1)},
	{"every 10 seconds", every(10)},
	{"every 5 minutes", every(300)},
	{"every 7 minutes", every(420)},
	{"every 13 minutes", every(780)},
	// Every back-off of a kubelet: after 10 s, and then after twice the time up to 5 min.
	{"back-off", func(second int) (string, string, bool) {
		at, wait := 0, 10
		for at < second {
			at += wait
			wait = min(2*wait, 300)
		}
		return "web-0", "1", at == second
	}},
	// A rollout: ten pods, three times each, every quarter of an hour.
	{"rollouts", func(second int) (string, string, bool) {
		phase := second % 900
		return fmt.Sprintf("web-%d", phase/3), "1", phase < 30
	}},
	// A status that every reconcile updates and reports.
	{"updated objects", func(second int) (string, string, bool) {
		return "web-0", fmt.Sprint(second), second%30 == 0
	}},
}

func TestHour(t *testing.T) {
	klog.SetLogger(logr.Discard())
	for _, pattern := range patterns {
		synctest.Test(t, func(t *testing.T) {
			sink := &counting{}
			broadcaster := events.NewBroadcaster(sink)
			ctx, cancel := context.WithCancel(context.Background())
			if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
				t.Fatal(err)
			}
			recorder := broadcaster.NewRecorder(scheme.Scheme, "hour")
			for second := range 3600 {
				if object, version, seen := pattern.seen(second); seen {
					pod := &corev1.Pod{}
					pod.Kind, pod.APIVersion = "Pod", "v1"
					pod.Namespace, pod.Name, pod.ResourceVersion = "default", object, version
					recorder.Eventf(pod, nil, corev1.EventTypeWarning, "BackOff", "Restarting", "restarting failed container")
				}
				// This runs between two events, as client-go's own passes run between two ticks.
				time.Sleep(time.Second)
				synctest.Wait()
			}
			// The loop goes on until client-go has ended every series.
			time.Sleep(13 * time.Minute)
			synctest.Wait()
			line, err := json.Marshal(map[string]any{
				"pattern": pattern.name, "created": sink.created, "patched": sink.patched,
			})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(string(line))
			cancel()
			broadcaster.Shutdown()
			synctest.Wait()
		})
	}
}
