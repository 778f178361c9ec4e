// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/extenddb/extenddb/server/api"
	"github.com/extenddb/extenddb/server/auth"
	"github.com/extenddb/extenddb/server/clock"
)

const (
	benchRequest = `{"TableName":"orders","Key":{"pk":{"S":"customer#12345"},"sk":{"S":"order#2024-01-01"}}}`
	benchAnswer  = `{"Item":{"pk":{"S":"customer#12345"},"sk":{"S":"order#2024-01-01"},"total":{"N":"12.50"}}}`
)

func benchHandler() *Handler {
	return newHandler(map[string]operation{
		target + "GetItem": op(func(_ context.Context, _ auth.Identity, _ *api.GetItemInput, out *api.Body) error {
			out.Raw(benchAnswer)
			return nil
		}),
	}, Options{Clock: clock.Real{}, Log: slog.New(slog.DiscardHandler)})
}

// nullWriter is a connection that costs nothing.
type nullWriter struct{ header http.Header }

func (w *nullWriter) Header() http.Header              { return w.header }
func (w *nullWriter) Write(b []byte) (int, error)      { return len(b), nil }
func (w *nullWriter) WriteHeader(int)                  {}
func (w *nullWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *nullWriter) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkHandler is what this package does for a call without net/http and
// the network, decoding included.
func BenchmarkHandler(b *testing.B) {
	h := benchHandler()
	body := strings.NewReader("")
	r, err := http.NewRequest(http.MethodPost, "http://x/", io.NopCloser(body))
	if err != nil {
		b.Fatal(err)
	}
	r.ContentLength = int64(len(benchRequest))
	r.Header.Set("X-Amz-Target", target+"GetItem")
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	w := &nullWriter{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		body.Reset(benchRequest)
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// BenchmarkEmpty compares an operation that does nothing with a bare handler
// that answers the same bytes: the difference is what this package costs.
func BenchmarkEmpty(b *testing.B) {
	h := benchHandler()
	bare := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, benchAnswer)
	})}
	limited := h.Server()
	limited.Handler = bare.Handler
	for name, srv := range map[string]*http.Server{"wire": h.Server(), "bare": bare, "bare with time limits": limited} {
		b.Run(name, func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- srv.Serve(l) }()
			url := "http://" + l.Addr().String()
			client := &http.Client{Transport: &http.Transport{}}
			b.ReportAllocs()
			for b.Loop() {
				req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(benchRequest))
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("X-Amz-Target", target+"GetItem")
				req.Header.Set("Content-Type", "application/x-amz-json-1.0")
				req.Header.Set("Accept-Encoding", "identity")
				res, err := client.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
					b.Fatal(res.Status, err)
				}
				_ = res.Body.Close()
			}
			client.CloseIdleConnections()
			if err := srv.Close(); err != nil {
				b.Error(err)
			}
			<-done
		})
	}
}
