// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/test/proc"
)

// limit is how long a call may take, mostly: the server waits at most
// 5 s for a connection to its database, and the machine may be busy.
const limit = 15 * time.Second

// answer is what became of a call.
type answer struct {
	status int
	kind   string // of the error
	body   []byte
	err    error // no answer
	took   time.Duration
}

func (a answer) String() string {
	if a.err != nil {
		return fmt.Sprintf("no answer after %v: %v", a.took, a.err)
	}
	return fmt.Sprintf("status %d after %v: %.500s", a.status, a.took, a.body)
}

// unsent reports whether the call never reached a server.
func (a answer) unsent() bool {
	var op *net.OpError
	return errors.As(a.err, &op) && op.Op == "dial"
}

// newClient returns a client for any number of goroutines. It repeats nothing.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 2 * time.Minute}
}

// call makes a request of an operation.
func call(client *http.Client, srv *proc.Server, operation, body string) (a answer) {
	req, err := http.NewRequest(http.MethodPost, srv.Endpoint(), strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.GetBody = nil // then the transport cannot repeat it either
	req.Header = http.Header{
		"Content-Type": {"application/x-amz-json-1.0"}, "X-Amz-Target": {"DynamoDB_20120810." + operation}, "X-Amz-Date": {"20260101T000000Z"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + strings.Repeat("0", 64)},
	}
	began := time.Now()
	defer func() { a.took = time.Since(began) }()
	resp, err := client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return answer{err: err}
	}
	a.status = resp.StatusCode
	if a.status != http.StatusOK {
		var e struct {
			Type string `json:"__type"`
		}
		_ = json.Unmarshal(a.body, &e) // no JSON: no kind
		a.kind = e.Type[strings.LastIndex(e.Type, "#")+1:]
	}
	return a
}

// must makes a call that has to succeed and decodes its answer, unless that is
// nil.
func must(t *testing.T, client *http.Client, srv *proc.Server, operation, body string, into any) {
	t.Helper()
	a := call(client, srv, operation, body)
	if a.err != nil || a.status != http.StatusOK {
		t.Fatalf("%s %s: %v\n%s", operation, body, a, srv.Logs())
	}
	if into == nil {
		return
	}
	if err := json.NewDecoder(bytes.NewReader(a.body)).Decode(into); err != nil {
		t.Fatalf("%s: %v in %s", operation, err, a.body)
	}
}

// ready asks the server whether it is ready.
func ready(client *http.Client, srv *proc.Server) (int, error) {
	resp, err := client.Get(srv.Endpoint() + "/readyz")
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
