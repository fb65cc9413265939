package clients

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// A controller-runtime manager in both API groups: its recorders write, and its cache and informers
// see existing and new events.
func TestControllerRuntimeManager(t *testing.T) {
	ctx, _, namespace := connect(t)
	ctrl.SetLogger(logr.Discard())
	manager, err := ctrl.NewManager(config(t), ctrl.Options{
		Scheme:  scheme.Scheme,
		Cache:   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	must(t, err)
	before := coreEvent(namespace, "before")
	before.Namespace = namespace
	must(t, manager.GetClient().Create(ctx, before))

	informer, err := manager.GetCache().GetInformer(ctx, &eventsv1.Event{}, cache.BlockUntilSynced(false))
	must(t, err)
	var added, updated atomic.Int64
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		UpdateFunc: func(any, any) { updated.Add(1) },
	})
	must(t, err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(running) }()
	if !manager.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache did not get ready")
	}

	recorder := manager.GetEventRecorder("example.com/controller")
	recorded := func(is func(eventsv1.Event) bool) func() bool {
		return func() bool {
			list := &eventsv1.EventList{}
			must(t, manager.GetClient().List(ctx, list, client.InNamespace(namespace)))
			for _, event := range list.Items {
				if event.Reason == "Scaled" && is(event) {
					return true
				}
			}
			return false
		}
	}
	recorder.Eventf(pod(namespace), nil, corev1.EventTypeNormal, "Scaled", "Scale", "scaled to %d", 3)
	eventually(t, ctx, "the cache has the event", recorded(func(event eventsv1.Event) bool {
		return event.Note == "scaled to 3" && event.ReportingController == "example.com/controller"
	}))
	recorder.Eventf(pod(namespace), nil, corev1.EventTypeNormal, "Scaled", "Scale", "scaled to %d", 3)
	eventually(t, ctx, "the cache has the series", recorded(func(event eventsv1.Event) bool {
		return event.Series != nil && event.Series.Count == 2
	}))

	// The same events are read through the cache of the other group, and without a cache.
	seen := &corev1.EventList{}
	eventually(t, ctx, "both events are cached as core/v1", func() bool {
		must(t, manager.GetClient().List(ctx, seen, client.InNamespace(namespace)))
		return len(seen.Items) == 2
	})
	live := &corev1.EventList{}
	must(t, manager.GetAPIReader().List(ctx, live, client.InNamespace(namespace)))
	if len(live.Items) != 2 {
		t.Fatalf("there are %d events", len(live.Items))
	}
	if added.Load() != 2 || updated.Load() == 0 {
		t.Fatalf("the informer was told of %d events and %d changes", added.Load(), updated.Load())
	}
	stop()
	must(t, <-ended)
}
