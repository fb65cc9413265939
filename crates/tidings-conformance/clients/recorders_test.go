package clients

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// tools/record: a repeat is a patch. If its event no longer exists, the event is created again.
func TestRecordSink(t *testing.T) {
	ctx, client, namespace := connect(t)
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "example-controller"})
	counted := func(count int32) func() bool {
		return func() bool {
			list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=web,reason=BackOff"})
			must(t, err)
			return len(list.Items) == 1 && list.Items[0].Count == count
		}
	}
	for count := int32(1); count <= 3; count++ {
		recorder.Event(pod(namespace), corev1.EventTypeWarning, "BackOff", "restarting")
		eventually(t, ctx, "the event is counted", counted(count))
	}
	must(t, client.CoreV1().Events(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	recorder.Event(pod(namespace), corev1.EventTypeWarning, "BackOff", "restarting")
	eventually(t, ctx, "the event is created anew", counted(4))
}

// tools/events: a repeat makes the event a series.
func TestEventsSink(t *testing.T) {
	ctx, client, namespace := connect(t)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	defer broadcaster.Shutdown()
	must(t, broadcaster.StartRecordingToSinkWithContext(ctx))
	recorder := broadcaster.NewRecorder(scheme.Scheme, "example.com/controller")
	recorded := func(is func(eventsv1.Event) bool) func() bool {
		return func() bool {
			list, err := client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=web,reason=BackOff"})
			must(t, err)
			return len(list.Items) == 1 && is(list.Items[0])
		}
	}
	recorder.Eventf(pod(namespace), nil, corev1.EventTypeWarning, "BackOff", "Restart", "restarting %s", "web")
	eventually(t, ctx, "the event is there", recorded(func(event eventsv1.Event) bool {
		return event.Series == nil && event.Note == "restarting web"
	}))
	recorder.Eventf(pod(namespace), nil, corev1.EventTypeWarning, "BackOff", "Restart", "restarting %s", "web")
	eventually(t, ctx, "the event is a series", recorded(func(event eventsv1.Event) bool {
		return event.Series != nil && event.Series.Count == 2
	}))
}
