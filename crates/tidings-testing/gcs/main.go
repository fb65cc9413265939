// Program gcs is an emulator of Google's object storage in memory, for tests: fake-gcs-server, with
// the parts of the XML API that it lacks.
//
// fake-gcs-server answers reads, lists and deletes of the XML API, except for the parameter
// start-after, and writes only through the JSON API. So this program passes a PUT on as a write of
// the JSON API, with the generation that must match, and converts the answer to the XML API.
// fake-gcs-server decides whether anything is written.
package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// front passes requests on to a fake-gcs-server.
type front struct {
	storage http.Handler
}

func (f front) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	after := request.URL.Query().Get("start-after")
	switch {
	case request.Method == http.MethodPut:
		f.put(answer, request)
	case request.Method == http.MethodGet && after != "":
		f.listAfter(after, answer, request)
	default:
		f.storage.ServeHTTP(answer, request)
	}
}

func (f front) put(answer http.ResponseWriter, request *http.Request) {
	bucket, object, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	query := url.Values{"uploadType": {"media"}, "name": {object}}
	if generation := request.Header.Get("X-Goog-If-Generation-Match"); generation != "" {
		query.Set("ifGenerationMatch", generation)
	}
	upload := request.Clone(request.Context())
	upload.Method = http.MethodPost
	upload.URL = &url.URL{Path: "/upload/storage/v1/b/" + bucket + "/o", RawQuery: query.Encode()}
	told := httptest.NewRecorder()
	f.storage.ServeHTTP(told, upload)
	var written struct{ Etag, Generation string }
	if told.Code == http.StatusOK {
		if err := json.Unmarshal(told.Body.Bytes(), &written); err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		answer.Header().Set("ETag", fmt.Sprintf("%q", written.Etag))
		answer.Header().Set("X-Goog-Generation", written.Generation)
	}
	answer.WriteHeader(told.Code)
}

func (f front) listAfter(after string, answer http.ResponseWriter, request *http.Request) {
	told := httptest.NewRecorder()
	f.storage.ServeHTTP(told, request)
	var listed fakestorage.ListBucketResult
	if err := xml.Unmarshal(told.Body.Bytes(), &listed); told.Code != http.StatusOK || err != nil {
		http.Error(answer, "cannot be listed", http.StatusInternalServerError)
		return
	}
	all := listed.Contents
	listed.Contents = nil
	for _, object := range all {
		if object.Key > after {
			listed.Contents = append(listed.Contents, object)
		}
	}
	listed.KeyCount = len(listed.Contents)
	_ = xml.NewEncoder(answer).Encode(listed)
}

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := listener.Addr().String()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{PublicHost: address, NoListener: true})
	if err != nil {
		return err
	}
	fmt.Println("http://" + address)
	return http.Serve(listener, front{server.HTTPHandler()})
}

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
