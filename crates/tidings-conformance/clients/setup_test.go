// Package clients uses an Event API server through unmodified client-go and controller-runtime.
// What passes with kube-apiserver must also pass with our server. The server is that of
// $KUBECONFIG; without it every test is skipped.
package clients

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is the maximum time for any step, for slow machines.
const patience = 60 * time.Second

// config returns the address and credentials of the server, without a limit on requests.
func config(t *testing.T) *rest.Config {
	t.Helper()
	path := os.Getenv("KUBECONFIG")
	if path == "" {
		t.Skip("KUBECONFIG names no server")
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	must(t, err)
	config.QPS, config.Burst = -1, 0
	return config
}

// connect returns a client, a new namespace for the test, and a context that ends with the test.
func connect(t *testing.T) (context.Context, *kubernetes.Clientset, string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config(t))
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	name := fmt.Sprintf("clients-%d", time.Now().UnixNano())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	// A server on which every namespace exists cannot create any.
	if err != nil && !apierrors.IsMethodNotSupported(err) && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return ctx, client, name
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually repeats a check until it succeeds.
func eventually(t *testing.T, ctx context.Context, what string, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace, UID: "0f3c6a44-8a0b-4c1e-9f63-1d2f3a4b5c6d"},
	}
}
