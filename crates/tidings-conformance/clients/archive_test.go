package clients

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
	toolswatch "k8s.io/client-go/tools/watch"
)

// These tests read an archive that follows the server of $KUBECONFIG. The archive's kubeconfig is
// $ARCHIVE_KUBECONFIG, and the archive has that server as two clusters. Without the variable they
// are skipped.

// archived returns a client of each cluster of the archive.
func archived(t *testing.T) []*kubernetes.Clientset {
	t.Helper()
	path := os.Getenv("ARCHIVE_KUBECONFIG")
	if path == "" {
		t.Skip("ARCHIVE_KUBECONFIG names no archive")
	}
	file, err := clientcmd.LoadFromFile(path)
	must(t, err)
	var clients []*kubernetes.Clientset
	for name := range file.Contexts {
		overrides := &clientcmd.ConfigOverrides{CurrentContext: name}
		config, err := clientcmd.NewDefaultClientConfig(*file, overrides).ClientConfig()
		must(t, err)
		config.QPS, config.Burst = -1, 0
		client, err := kubernetes.NewForConfig(config)
		must(t, err)
		clients = append(clients, client)
	}
	return clients
}

func numbered(number int) string { return fmt.Sprintf("event-%03d", number) }

// create writes events to the source.
func create(t *testing.T, ctx context.Context, source *kubernetes.Clientset, namespace string, from, to int) {
	t.Helper()
	for number := from; number < to; number++ {
		_, err := source.CoreV1().Events(namespace).Create(ctx, coreEvent(namespace, numbered(number)), metav1.CreateOptions{})
		must(t, err)
	}
}

// An informer begins with the archive's events, follows new ones, and in the end has what the
// source has, including uids.
func TestArchiveInformer(t *testing.T) {
	archive := archived(t)[0]
	ctx, source, namespace := connect(t)
	create(t, ctx, source, namespace, 0, 20)
	eventually(t, ctx, "the archive has what was there before", func() bool {
		list, err := archive.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		must(t, err)
		return len(list.Items) == 20
	})
	factory := informers.NewSharedInformerFactoryWithOptions(archive, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Events().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer did not get ready")
	}
	create(t, ctx, source, namespace, 20, 40)
	for number := 0; number < 40; number += 2 {
		_, err := source.CoreV1().Events(namespace).Patch(ctx, numbered(number), types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
		must(t, err)
	}
	list, err := source.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	eventually(t, ctx, "the informer holds what the source holds", func() bool {
		if len(informer.GetStore().List()) != len(list.Items) {
			return false
		}
		for _, event := range list.Items {
			held, there, err := informer.GetStore().GetByKey(namespace + "/" + event.Name)
			if err != nil || !there {
				return false
			}
			if kept := held.(*corev1.Event); kept.UID != event.UID || kept.Count != event.Count {
				return false
			}
		}
		return true
	})
}

// A watch that ends every second is resumed at its position: everything comes once and in order.
func TestArchiveResumedWatch(t *testing.T) {
	archive := archived(t)[0]
	ctx, source, namespace := connect(t)
	list, err := archive.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	watches := 0
	second := int64(1)
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watches++
			options.TimeoutSeconds = &second
			return archive.CoreV1().Events(namespace).Watch(ctx, options)
		},
	})
	must(t, err)
	defer watcher.Stop()
	created := make(chan struct{})
	go func() {
		defer close(created)
		for number := range 40 {
			create(t, ctx, source, namespace, number, number+1)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	for number := range 40 {
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not come", numbered(number))
		case event := <-watcher.ResultChan():
			came, err := meta.Accessor(event.Object)
			must(t, err)
			if event.Type != watch.Added || came.GetName() != numbered(number) {
				t.Fatalf("expected %s, came %s of %s", numbered(number), event.Type, came.GetName())
			}
		}
	}
	// The last event may arrive before the answer to its creation, which the end of the test would cut
	// off.
	<-created
	if watches < 3 {
		t.Fatalf("there were %d watches, so none was resumed", watches)
	}
}

// A continue token of one archive is not valid in another: that answers 410, after which
// client-go's pager begins again.
func TestArchiveExpiredPage(t *testing.T) {
	clusters := archived(t)
	ctx, source, namespace := connect(t)
	create(t, ctx, source, namespace, 0, 10)
	for _, cluster := range clusters {
		eventually(t, ctx, "each cluster has all", func() bool {
			list, err := cluster.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
			must(t, err)
			return len(list.Items) == 10
		})
	}
	page, err := clusters[0].CoreV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 4})
	must(t, err)
	_, err = clusters[1].CoreV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 4, Continue: page.Continue})
	if !apierrors.IsResourceExpired(err) {
		t.Fatalf("expected 410, got %v", err)
	}
	expired := 0
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		cluster := clusters[0]
		if options.Continue != "" {
			cluster = clusters[1]
		}
		list, err := cluster.CoreV1().Events(namespace).List(ctx, options)
		if apierrors.IsResourceExpired(err) {
			expired++
		}
		return list, err
	})
	pages.PageSize = 4
	all, _, err := pages.List(ctx, metav1.ListOptions{})
	must(t, err)
	if items, err := meta.ExtractList(all); err != nil || len(items) != 10 || expired != 1 {
		t.Fatalf("%d events, %d pages expired, %v", len(items), expired, err)
	}
}
