package clients

import (
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// An informer begins with the existing events, follows every change, and in the end has what the
// server has.
func TestInformer(t *testing.T) {
	ctx, client, namespace := connect(t)
	events := client.CoreV1().Events(namespace)
	name := func(number int) string { return fmt.Sprintf("event-%03d", number) }
	create := func(from, to int) {
		for number := from; number < to; number++ {
			_, err := events.Create(ctx, coreEvent(namespace, name(number)), metav1.CreateOptions{})
			must(t, err)
		}
	}
	create(0, 20)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Events().Informer()
	var added, deleted atomic.Int64
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { added.Add(1) },
		DeleteFunc: func(any) { deleted.Add(1) },
	})
	must(t, err)
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer did not get ready")
	}
	create(20, 40)
	for number := 0; number < 40; number += 2 {
		_, err := events.Patch(ctx, name(number), types.StrategicMergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
		must(t, err)
	}
	for number := 0; number < 10; number++ {
		must(t, events.Delete(ctx, name(number), metav1.DeleteOptions{}))
	}
	list, err := events.List(ctx, metav1.ListOptions{})
	must(t, err)
	eventually(t, ctx, "the informer holds what the server holds", func() bool {
		if deleted.Load() != 10 || len(informer.GetStore().List()) != len(list.Items) {
			return false
		}
		for _, event := range list.Items {
			held, there, err := informer.GetStore().GetByKey(namespace + "/" + event.Name)
			if err != nil || !there || held.(*corev1.Event).ResourceVersion != event.ResourceVersion {
				return false
			}
		}
		return true
	})
	if added.Load() != 40 {
		t.Fatalf("%d events were added", added.Load())
	}
}
