package clients

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// The cases of Kubernetes' conformance suite for Events: test/e2e/instrumentation/core_events.go
// and events.go.

var marked = metav1.ListOptions{LabelSelector: "marked=yes"}

func coreEvent(namespace, name string) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: name, Labels: map[string]string{"marked": "yes"}},
		InvolvedObject: corev1.ObjectReference{Namespace: namespace},
		Reason:         "Tested",
		Message:        "as it was created",
		Type:           corev1.EventTypeNormal,
		Count:          1,
	}
}

func newEvent(namespace, name string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: name, Labels: map[string]string{"marked": "yes"}},
		Regarding:           corev1.ObjectReference{Namespace: namespace},
		EventTime:           metav1.NewMicroTime(time.Unix(1700000000, 123456000)),
		Note:                "as it was created",
		Type:                corev1.EventTypeNormal,
		Reason:              "Tested",
		Action:              "Testing",
		ReportingController: "example-controller",
		ReportingInstance:   "node-1",
	}
}

// plain removes the fields that the server sets.
func plain(meta *metav1.ObjectMeta) {
	meta.ResourceVersion = ""
	meta.ManagedFields = nil
}

func version(t *testing.T, text string) uint64 {
	t.Helper()
	number, err := strconv.ParseUint(text, 10, 64)
	must(t, err)
	if number == 0 {
		t.Fatal("a resource version of 0")
	}
	return number
}

func TestCoreEventLifecycle(t *testing.T) {
	ctx, client, namespace := connect(t)
	events := client.CoreV1().Events(namespace)
	_, err := events.Create(ctx, coreEvent(namespace, "lifecycle"), metav1.CreateOptions{})
	must(t, err)
	listed := func() bool {
		all, err := client.CoreV1().Events("").List(ctx, marked)
		must(t, err)
		for _, event := range all.Items {
			if event.Namespace == namespace && event.Name == "lifecycle" {
				return true
			}
		}
		return false
	}
	if !listed() {
		t.Fatal("not in the list of all namespaces")
	}
	_, err = events.Patch(ctx, "lifecycle", types.StrategicMergePatchType, []byte(`{"message":"patched"}`), metav1.PatchOptions{})
	must(t, err)
	wanted, err := events.Get(ctx, "lifecycle", metav1.GetOptions{})
	must(t, err)
	if wanted.Message != "patched" {
		t.Fatalf("message %q", wanted.Message)
	}
	wanted.Series = &corev1.EventSeries{Count: 100, LastObservedTime: metav1.NewMicroTime(time.Unix(1600000000, 0))}
	plain(&wanted.ObjectMeta)
	_, err = events.Update(ctx, wanted, metav1.UpdateOptions{})
	must(t, err)
	found, err := events.Get(ctx, "lifecycle", metav1.GetOptions{})
	must(t, err)
	plain(&found.ObjectMeta)
	if !equality.Semantic.DeepEqual(wanted, found) {
		t.Fatalf("updated to %v, found %v", wanted, found)
	}
	must(t, events.Delete(ctx, "lifecycle", metav1.DeleteOptions{}))
	if listed() {
		t.Fatal("deleted, and still listed")
	}
	if _, err = events.Get(ctx, "lifecycle", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("expected not found, got %v", err)
	}
}

func TestCoreEventCollection(t *testing.T) {
	ctx, client, namespace := connect(t)
	events := client.CoreV1().Events(namespace)
	for _, name := range []string{"first", "second", "third"} {
		_, err := events.Create(ctx, coreEvent(namespace, name), metav1.CreateOptions{})
		must(t, err)
	}
	list, err := events.List(ctx, marked)
	must(t, err)
	if len(list.Items) != 3 {
		t.Fatalf("%d events", len(list.Items))
	}
	must(t, events.DeleteCollection(ctx, metav1.DeleteOptions{}, marked))
	list, err = events.List(ctx, marked)
	must(t, err)
	if len(list.Items) != 0 {
		t.Fatalf("%d events left", len(list.Items))
	}
}

func TestEventLifecycle(t *testing.T) {
	ctx, client, namespace := connect(t)
	events := client.EventsV1().Events(namespace)
	created, err := events.Create(ctx, newEvent(namespace, "lifecycle"), metav1.CreateOptions{})
	must(t, err)
	listed := func(in string) bool {
		all, err := client.EventsV1().Events(in).List(ctx, marked)
		must(t, err)
		for _, event := range all.Items {
			if event.Namespace == namespace && event.Name == "lifecycle" {
				return true
			}
		}
		return false
	}
	if !listed("") || !listed(namespace) {
		t.Fatal("not in the lists")
	}
	inCore, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "source=example-controller"})
	must(t, err)
	inEvents, err := events.List(ctx, metav1.ListOptions{FieldSelector: "reportingController=example-controller"})
	must(t, err)
	if len(inCore.Items) != 1 || len(inEvents.Items) != 1 {
		t.Fatalf("%d events of the source, %d of the controller", len(inCore.Items), len(inEvents.Items))
	}

	wanted, err := events.Get(ctx, "lifecycle", metav1.GetOptions{})
	must(t, err)
	before, err := json.Marshal(wanted)
	must(t, err)
	wanted.Series = &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(time.Unix(1600000000, 0))}
	after, err := json.Marshal(wanted)
	must(t, err)
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, eventsv1.Event{})
	must(t, err)
	_, err = events.Patch(ctx, "lifecycle", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	found, err := events.Get(ctx, "lifecycle", metav1.GetOptions{})
	must(t, err)
	if version(t, created.ResourceVersion) >= version(t, found.ResourceVersion) {
		t.Fatalf("created at %s, patched at %s", created.ResourceVersion, found.ResourceVersion)
	}
	plain(&found.ObjectMeta)
	plain(&wanted.ObjectMeta)
	if !equality.Semantic.DeepEqual(wanted, found) {
		t.Fatalf("patched to %v, found %v", wanted, found)
	}

	wanted.Series = &eventsv1.EventSeries{Count: 100, LastObservedTime: metav1.NewMicroTime(time.Unix(1600000005, 0))}
	_, err = events.Update(ctx, wanted, metav1.UpdateOptions{})
	must(t, err)
	found, err = events.Get(ctx, "lifecycle", metav1.GetOptions{})
	must(t, err)
	plain(&found.ObjectMeta)
	if !equality.Semantic.DeepEqual(wanted, found) {
		t.Fatalf("updated to %v, found %v", wanted, found)
	}
	must(t, events.Delete(ctx, "lifecycle", metav1.DeleteOptions{}))
	if listed("") || listed(namespace) {
		t.Fatal("deleted, and still listed")
	}
}

func TestEventCollection(t *testing.T) {
	ctx, client, namespace := connect(t)
	events := client.EventsV1().Events(namespace)
	for _, name := range []string{"first", "second", "third"} {
		_, err := events.Create(ctx, newEvent(namespace, name), metav1.CreateOptions{})
		must(t, err)
	}
	list, err := events.List(ctx, marked)
	must(t, err)
	if len(list.Items) != 3 {
		t.Fatalf("%d events", len(list.Items))
	}
	must(t, events.DeleteCollection(ctx, metav1.DeleteOptions{}, marked))
	list, err = events.List(ctx, marked)
	must(t, err)
	if len(list.Items) != 0 {
		t.Fatalf("%d events left", len(list.Items))
	}
}
