// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
)

// FuzzPost sends anything to operations that never fail: nothing is answered
// with a 5xx, errors are JSON, and no bytes stay charged.
func FuzzPost(f *testing.F) {
	const amz = "application/x-amz-json-1.0"
	f.Add(target+"GetItem", amz, "", "", []byte(`{"TableName":"a","Key":{"a":{"S":"x"}}}`))
	f.Add(target+"BatchWriteItem", amz, "gzip", "gzip", []byte("\x1f\x8b\x08\x00"))
	f.Add(target+"PutItem", "application/json; charset=utf-8", "deflate", "*", []byte("\x78\x9c\x03\x00\x00\x00\x00\x01"))
	f.Add("", "", "identity", "gzip;q=0.1,br", []byte(nil))
	h := newHandler(map[string]operation{
		target + "GetItem":        op(accept[api.GetItemInput]),
		target + "PutItem":        op(accept[api.PutItemInput]),
		target + "CreateTable":    op(accept[api.CreateTableInput]),
		target + "BatchWriteItem": paged(op(accept[api.BatchWriteItemInput])),
	}, Options{Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, target, contentType, encoding, accept string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header["X-Amz-Target"] = []string{target}
		r.Header["Content-Type"] = []string{contentType}
		r.Header["Content-Encoding"] = []string{encoding}
		r.Header["Accept-Encoding"] = []string{accept}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if w.Code == 400 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("no JSON: %s", w.Body)
		}
		if in, out := h.requests.used(), h.responses.used(); in != 0 || out != 0 {
			t.Errorf("%d and %d bytes are still charged", in, out)
		}
	})
}

func accept[T any](_ context.Context, _ auth.Identity, _ *T, out *api.Body) error {
	out.Raw("{}")
	return nil
}
